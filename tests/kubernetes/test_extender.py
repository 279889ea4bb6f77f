"""A stock kube-scheduler with the extender: gangs that are whole, and pods without a gang beside.

The demonstration of the seeds is in ``test_demonstrations``; here is what may go wrong beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import ControlPlane
from support.control_plane.client import Client
from support.extended import SCHEDULER, Extended

pytestmark = pytest.mark.once("the gangs are placed through kube-scheduler")


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Extended]:
    control_plane.admin.delete("/api/v1/nodes")
    found = Extended(control_plane, namespace, tmp_path)
    try:
        yield found
    finally:
        found.stop()


def test_two_gangs_that_exclude_each_other_do_not_share_the_nodes(cluster: Extended) -> None:
    """Pod by pod each would get a part, and none would start."""
    cluster.start()
    cluster.add_group("a", 4)
    cluster.add_group("b", 4)
    for number in range(4):  # interleaved, as controllers create them
        cluster.add_pod(f"a-{number}", "a")
        cluster.add_pod(f"b-{number}", "b")
    for name in "mn":
        cluster.add_node(name, cpu="3")
    cluster.until(lambda: any(None not in cluster.nodes(name) for name in "ab"))
    time.sleep(1.0)
    counts = sorted(sum(1 for node in cluster.nodes(name) if node) for name in "ab")
    assert counts == [0, 4]
    for name in "op":
        cluster.add_node(name, cpu="3")
    cluster.until_bound()


def test_last_member_wakes_those_that_were_refused(cluster: Extended) -> None:
    cluster.start()
    cluster.add_node("n")
    cluster.add_group("g", 3)
    for number in range(2):
        cluster.add_pod(f"g-{number}", "g")
    cluster.until_refused("g-1", "incomplete")
    time.sleep(3.0)  # nothing else happens in the cluster by now
    cluster.add_pod("g-2", "g")
    cluster.until_bound("g")  # kube-scheduler alone would wake them after 5 minutes, see HANG


def test_ordinary_pods_and_gangs_share_nodes_without_oversubscription(cluster: Extended) -> None:
    cluster.start()
    for number in range(4):
        cluster.add_node(f"n{number}", cpu="8")
    for number in range(4):
        cluster.add_gang(f"g{number}", 4)
        for solo in range(4):
            cluster.add_pod(f"solo-{number}-{solo}")
    cluster.until_bound()
    found = [node for node in cluster.nodes() if node is not None]
    assert len(found) == 32
    assert all(found.count(f"n{number}") == 8 for number in range(4))


def test_gang_goes_elsewhere_when_kube_scheduler_refuses_the_decided_node(
    cluster: Extended,
) -> None:
    """The filter is one of kube-scheduler's own configuration, which the extender does not know."""
    term = {"matchExpressions": [{"key": "usable", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    cluster.start(NodeAffinity={"addedAffinity": required})
    cluster.add_node("refused", cpu="16")
    cluster.add_node("taken", {"usable": ""}, cpu="4")
    cluster.add_gang("g", 2)
    cluster.until_bound("g")
    assert set(cluster.nodes("g")) == {"taken"}


def test_gangs_start_after_the_extender_and_kube_scheduler_were_killed(
    cluster: Extended,
) -> None:
    cluster.start()
    cluster.add_node("n", cpu="2")
    cluster.add_gang("g", 3)
    cluster.until_refused("g-2", "cpu is short")
    cluster.extender.kill()
    cluster.scheduler.kill()
    cluster.start()
    cluster.add_node("m", cpu="2")
    cluster.until_bound("g")


def test_extender_that_is_away_lets_no_pod_be_bound(cluster: Extended) -> None:
    cluster.start()
    cluster.extender.kill()
    cluster.add_node("n")
    cluster.add_gang("g", 2)
    cluster.add_pod("solo")
    cluster.until_refused("solo", "connection refused")
    time.sleep(1.0)
    assert not any(cluster.nodes())


def test_large_gang_is_bound_whole_on_more_nodes_than_kube_scheduler_looks_at(
    cluster: Extended,
) -> None:
    """With 300 nodes, kube-scheduler sends a sample: the decided node may be missing in it."""
    cluster.start()
    for number in range(300):
        cluster.add_node(f"n{number}", cpu="1")
    cluster.add_gang("g", 60)
    cluster.until_bound("g")
    assert len(set(cluster.nodes("g"))) == 60


def test_bind_refuses_pods_that_are_not_its_own(cluster: Extended) -> None:
    """A stranger that reaches the verbs must not place the pods of other schedulers."""
    cluster.start_extender()
    cluster.add_node("n")
    cluster.add_pod("theirs", schedulerName="another")
    cluster.add_pod("ours")
    cluster.add_gang("g", 2)
    admin, path = cluster.plane.admin, f"/api/v1/namespaces/{cluster.namespace}/pods"
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in admin.items(path)}

    def bind(name: str) -> str:
        body = {"PodName": name, "PodNamespace": cluster.namespace, "PodUID": uids[name]}
        with Client(cluster.url) as stranger:
            problem: str = stranger.create("/bind", {**body, "Node": "n"})["Error"]
        return problem

    assert "has the schedulerName 'another'" in bind("theirs")
    # the pod that says whose it is need not be the one that is bound
    forged = admin.get(f"{path}/theirs")
    forged["spec"]["schedulerName"] = SCHEDULER
    with Client(cluster.url) as stranger:
        assert stranger.create("/filter", {"Pod": forged, "NodeNames": ["n"]})["NodeNames"]
    assert "has the schedulerName 'another'" in bind("theirs")
    assert bind("ours") == ""
    assert cluster.nodes("theirs") == [None]
    assert cluster.nodes("ours") == ["n"]
    uids["g-0"] = "another-uid"
    assert bind("g-0") != ""
    assert cluster.nodes("g-0") == [None]
