"""kube-scheduler 1.37 and the extender, one of which pauses, gives up, is killed or is there twice.

A gang that is bound while a program is paused may be partial for that time; afterwards each is
whole.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import ControlPlane
from support.extended import Extended

pytestmark = pytest.mark.once("the gangs are placed through kube-scheduler")


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Extended]:
    control_plane.admin.delete("/api/v1/nodes")
    found = Extended(control_plane, namespace, tmp_path)
    try:
        yield found
    finally:
        found.stop()


def test_gang_is_bound_whole_although_kube_scheduler_gave_up_waiting_for_it(
    cluster: Extended,
) -> None:
    """The default of ``httpTimeout`` is 5 s, and the extender stands still for longer than that."""
    cluster.start_extender()
    cluster.start_scheduler(timeout="5s")
    cluster.add_node("n", cpu="16")
    cluster.add_gang("g", 4)
    cluster.add_pod("solo")
    cluster.extender.pause()
    time.sleep(6.0)
    cluster.extender.resume()
    cluster.until_bound()
    assert cluster.nodes() == ["n"] * 5


def test_gang_whose_members_are_created_slower_than_the_timeout_starts_whole(
    cluster: Extended,
) -> None:
    """The default of ``httpTimeout`` is 5 s; the members of a gang arrive over 8 s."""
    cluster.start_extender()
    cluster.start_scheduler(timeout="5s")
    cluster.add_node("n", cpu="16")
    cluster.add_group("g", 8)
    for number in range(8):
        cluster.add_pod(f"g-{number}", "g")
        time.sleep(1.0)
        if number < 7:
            assert not any(cluster.nodes("g"))
    cluster.until_bound("g")


def test_gangs_are_whole_with_two_kube_schedulers_of_which_the_leader_is_killed(
    cluster: Extended,
) -> None:
    cluster.start_extender()
    election = {
        "leaderElect": True,
        "leaseDuration": "3s",
        "renewDeadline": "2s",
        "retryPeriod": "500ms",
        "resourceNamespace": cluster.namespace,
    }
    cluster.start_scheduler(election=election)
    leader = cluster.scheduler
    cluster.add_node("n", cpu="3")
    cluster.add_gang("g", 4)
    cluster.until_refused("g-3", "cpu is short")
    cluster.start_scheduler(election=election)
    leader.pause()  # its binds and its connections are open
    cluster.add_node("m", cpu="3")
    cluster.add_gang("h", 2)
    cluster.until_bound()
    leader.kill()
    assert Counter(cluster.nodes()) == {"m": 3, "n": 3}


def test_gangs_are_whole_with_two_kube_schedulers_that_both_decide(cluster: Extended) -> None:
    """They must not, but do for a moment if a clock stands still: each member is bound once."""
    cluster.start_extender()
    cluster.start_scheduler()
    one = cluster.scheduler
    cluster.start_scheduler()
    try:
        for name in "mn":
            cluster.add_node(name, cpu="8")
        for number in range(4):
            cluster.add_gang(f"g{number}", 4)
        cluster.until_bound()
        counts = [cluster.nodes().count(name) for name in "mn"]
        assert counts == [8, 8]
    finally:
        one.stop()


def test_gang_is_completed_after_the_extender_was_killed_while_it_bound(
    cluster: Extended,
) -> None:
    """kube-scheduler lost the answers, and the next process knows only what is bound."""
    cluster.start()
    cluster.add_node("n", cpu="64")
    cluster.add_gang("g", 40)
    cluster.until("some are bound", lambda: any(cluster.nodes("g")))
    cluster.extender.kill()
    was = sum(1 for node in cluster.nodes("g") if node)
    cluster.scheduler.stop()
    cluster.start()
    cluster.until_bound("g")
    assert 0 < was <= 40
