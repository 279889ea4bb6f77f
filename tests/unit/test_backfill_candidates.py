"""Candidates for a reservation: gangs that still have to start, and can."""

from __future__ import annotations

import pytest

from gangsched import (
    Backfill,
    Node,
    NodeAdded,
    NodeName,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    group_key,
)
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import GroupView
from support.backfill_host import BIG, EXACT, Host, plans


class TwoByTwo:
    """A gang policy of one's own: two of a group start together, whatever its members say."""

    name = "TwoByTwo"

    def members_needed(self, group: GroupView) -> int:
        return 2 - group.scheduled

    def permit(self, *_args: object, **_options: object) -> Success:
        return Success()


class OwnPolicy(Host):
    """A host of a gang policy that does not read what members say."""

    def make(self) -> Scheduler:
        profile = Profile(PrioritySort(), TwoByTwo(), NodeResources(), DefaultBinder())
        return Scheduler(self.cluster, profile, unit=SchedulingUnit.GROUP, backfill=self.policy)


def asked_by_one_of_two(seconds: float) -> Host:
    """Return a node of 2, half full until 100, and two that are a gang by a policy of one's own."""
    host = OwnPolicy(Backfill(EXACT, after_seconds=seconds), a=2)
    host.pod("old", 100)
    host.decide()
    for n in range(2):
        host.pod(f"big-{n}", 10, group="big")
    assert host.decide() == []
    return host


def test_gang_without_minimum_of_its_own_may_preempt() -> None:
    assert asked_by_one_of_two(0.0).reservation.starts_at == 100.0


def test_gang_without_minimum_waits_since_its_first_member_arrived() -> None:
    host = asked_by_one_of_two(10.0)
    assert host.at(9.0) == []
    assert host.scheduler.reservation is None
    assert host.at(10.0) == []
    assert host.reservation.starts_at == 100.0


def test_late_member_of_a_started_gang_respects_the_next_reservation() -> None:
    host = Host(Backfill(), a=3)
    host.pod("old", cpu=2)
    host.decide()
    for n in range(4):
        host.pod(f"big-{n}", group="big", min_available=2)
    host.gang("next", 4, None)
    host.decide()
    assert host.reservation.group == BIG
    host.end("old")
    host._take(host.scheduler.schedule_one(now=0.0) or ())
    started = [pod.name for pod in host.cluster.pods_on(NodeName("a"))]
    assert started == ["big-0", "big-1", "big-2"]
    host.tell(NodeAdded(Node(name=NodeName("b"), allocatable={"cpu": 1})))
    assert host.decide() == []
    assert host.reservation.group == group_key("default", "next")


def test_gang_without_its_last_member_preempts_nothing() -> None:
    host = Host(Backfill(EXACT, least_members=1), a=2)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 1, cpu=2)
    host.decide()
    assert host.reservation.group == BIG
    host.end("big-0")
    host.pod("long")
    assert host.decide() == ["long"]
    assert host.scheduler.reservation is None


def test_gang_that_fits_no_empty_cluster_is_evaluated_again_when_a_node_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = plans(monkeypatch)
    host = Host(a=2)
    host.gang("huge", 3)
    host.decide()
    for n in range(3):
        host.pod(f"short-{n}", 10)
        host.decide()
        host.end(f"short-{n}")
        host.at(host.now + 100.0)
    huge = group_key("default", "huge")
    assert planned == [huge]
    host.tell(NodeAdded(Node(name=NodeName("b"))))
    host.at(host.now + 100.0)
    assert planned == [huge] * 2
