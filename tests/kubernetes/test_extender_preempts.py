"""Preemption with kube-scheduler 1.37 and the extender: its verb ``preempt`` is really asked.

kube-scheduler looks for victims of one pod. For a member of a gang that would be in vain, unless
victims are found for all of them, so the extender leaves it no node; it preempts for whole gangs by
itself, if that is configured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from support.control_plane import ControlPlane
from support.extended import Extended

pytestmark = pytest.mark.once("the gangs are placed through kube-scheduler")

PREEMPTION: Final[Mapping[str, Any]] = {"DefaultPreemption": {"graceSeconds": 0}}


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Extended]:
    control_plane.admin.delete("/api/v1/nodes")
    found = Extended(control_plane, namespace, tmp_path)
    found.add_class("high", 1000)
    found.add_class("low", 1)
    try:
        yield found
    finally:
        found.stop()


def full(cluster: Extended, nodes: int, **more: Any) -> None:
    """Add nodes of one CPU each, and a pod of low priority on each."""
    for number in range(nodes):
        cluster.add_node(f"n{number}", cpu="1")
    for number in range(nodes):
        cluster.add_pod(
            f"low-{number}",
            nodeName=f"n{number}",
            priorityClassName="low",
            terminationGracePeriodSeconds=0,
        )


def until_asked(cluster: Extended, count: int) -> None:
    """Wait until kube-scheduler has asked for victims so often."""
    cluster.until(
        f"{count} requests of preempt", lambda: cluster.requests().get(("preempt", 200), 0) >= count
    )


def test_member_evicts_nothing_if_its_gang_does_not_fit_with_all_victims_gone(
    cluster: Extended,
) -> None:
    """Three members, two nodes: pod by pod, two would evict and start."""
    cluster.start_extender(plugins=PREEMPTION)
    cluster.start_scheduler()
    full(cluster, 2)
    cluster.add_gang("g", 3, priorityClassName="high")
    until_asked(cluster, 3)
    time.sleep(2.0)
    assert set(cluster.nodes("low")) == {"n0", "n1"}
    assert not any(cluster.nodes("g"))
    cluster.until_refused("g-0", "no candidate node for preemption")


def test_members_evict_nothing_while_preemption_of_the_extender_is_not_configured(
    cluster: Extended,
) -> None:
    """The gang would fit with the victims gone, but kube-scheduler would evict one at a time."""
    cluster.start()
    full(cluster, 2)
    cluster.add_gang("g", 2, priorityClassName="high")
    until_asked(cluster, 2)
    time.sleep(2.0)
    assert set(cluster.nodes("low")) == {"n0", "n1"}
    assert not any(cluster.nodes("g"))


def test_victims_are_evicted_once_the_whole_gang_can_start(cluster: Extended) -> None:
    cluster.start_extender(plugins=PREEMPTION)
    cluster.start_scheduler()
    full(cluster, 3)
    cluster.add_gang("g", 4, priorityClassName="high")
    until_asked(cluster, 4)
    time.sleep(1.0)
    assert len(cluster.nodes("low")) == 3
    cluster.add_node("n3", cpu="1")
    cluster.until_bound("g")
    assert set(cluster.nodes("g")) == {"n0", "n1", "n2", "n3"}
    assert cluster.nodes("low") == []


def test_gang_without_its_last_member_evicts_nothing(cluster: Extended) -> None:
    cluster.start_extender(plugins=PREEMPTION)
    cluster.start_scheduler()
    full(cluster, 2)
    cluster.add_group("g", 2, priorityClassName="high")
    cluster.add_pod("g-0", "g", priorityClassName="high")
    until_asked(cluster, 1)
    time.sleep(1.0)
    assert len(cluster.nodes("low")) == 2
    cluster.add_pod("g-1", "g", priorityClassName="high")
    cluster.until_bound("g")
    assert cluster.nodes("low") == []


def test_ordinary_pod_evicts_where_no_gang_runs(cluster: Extended) -> None:
    """kube-scheduler alone would evict the member, which has the lowest priority."""
    cluster.start()
    cluster.add_class("lowest", 0)
    cluster.add_node("of-the-gang", cpu="1")
    cluster.add_gang("g", 1, priorityClassName="lowest", terminationGracePeriodSeconds=0)
    cluster.until_bound("g")
    cluster.add_node("other", cpu="1")
    cluster.add_pod(
        "low", nodeName="other", priorityClassName="low", terminationGracePeriodSeconds=0
    )
    cluster.add_pod("strong", priorityClassName="high")
    cluster.until_bound("strong")
    assert cluster.nodes("strong") == ["other"]
    assert cluster.nodes("g") == ["of-the-gang"]
    assert cluster.nodes("low") == []
    assert cluster.requests()["preempt", 200] >= 1
