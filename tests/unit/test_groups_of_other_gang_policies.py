"""Gangs of a policy of one's own that says nothing about rejections, and that may change."""

from __future__ import annotations

import pytest

from gangsched import (
    GroupRejected,
    NodeAdded,
    Outcome,
    Pod,
    PodAdded,
    PodUID,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Wait,
)
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.protocols import GroupView
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost
from support.shown import shown


class AtOnce:
    """So many members of a group start together, whatever their labels say.

    Attributes:
        least: The number of members.
        waits: For how long members wait on permit, by name.
    """

    name = "AtOnce"

    def __init__(self, least: int, **waits: float) -> None:
        self.least = least
        self.waits = waits

    def members_needed(self, group: GroupView) -> int:
        return self.least - group.scheduled

    def permit(self, state: object, pod: Pod, node: object, *, now: float) -> Outcome:
        wait = self.waits.get(pod.name)
        return Success() if wait is None else Wait(wait)


def host_of(plugin: AtOnce, unit: SchedulingUnit, cpu: int) -> ImmediateHost:
    host = ImmediateHost()
    profile = Profile(PrioritySort(), plugin, NodeResources(), DefaultBinder())
    host.scheduler = Scheduler(host.cluster, profile, unit=unit, preemption=Preemption())
    host.tell(NodeAdded(make_node("n", cpu=cpu)))
    return host


def waiting(host: ImmediateHost) -> set[str]:
    return {entry.uid.partition("/")[2] for entry in host.scheduler.waiting}


GROUP, POD = SchedulingUnit.GROUP, SchedulingUnit.POD
BOTH = {"g-0": 5.0, "g-1": 50.0}


@pytest.mark.parametrize(
    ("unit", "waits", "at_first", "left"),
    [
        (GROUP, BOTH, {"g-0", "g-1"}, set[str]()),
        (POD, BOTH, {"g-0", "g-1"}, set[str]()),
        # with the unit ``group``, all members wait as long
        (POD, {**BOTH, "g-2": 50.0}, {"g-0", "g-1", "g-2"}, {"g-1", "g-2"}),
        (POD, {"g-2": 5.0}, {"g-2"}, set[str]()),
    ],
    ids=["loses its quorum", "loses its quorum (pod)", "keeps its quorum", "late member"],
)
def test_timeout_rejects_the_gang_only_if_it_loses_its_quorum(
    unit: SchedulingUnit, waits: dict[str, float], at_first: set[str], left: set[str]
) -> None:
    host = host_of(AtOnce(2, **waits), unit, 4)
    for name in sorted({*BOTH, *waits}):
        host.tell(PodAdded(make_pod(name, group="g", cpu=1)))
        if "g-0" not in waits:
            host.decide()
    host.decide()
    assert waiting(host) == at_first
    known = len(host.effects)
    host._take(host.scheduler.advance(now=5.0))
    assert waiting(host) == left
    rejected = [each.reason for each in host.effects[known:] if isinstance(each, GroupRejected)]
    assert rejected == ["timed out after waiting 5s on permit"] * (waits == BOTH)


def test_nominated_gang_that_needs_more_members_now_does_not_start_on_its_nodes() -> None:
    """Only a policy can ask for more without an event that ends the nomination."""
    plugin = AtOnce(1)
    host = host_of(plugin, SchedulingUnit.GROUP, 2)
    for number in range(2):
        host.tell(PodAdded(make_pod(f"low-{number}", cpu=1)))
        host.decide()
    plugin.least = 2
    for number in range(3):
        host.tell(PodAdded(make_pod(f"high-{number}", group="high", cpu=1, priority=5)))
    host.decide()
    assert len(shown(host.scheduler).nominations) == 1
    plugin.least = 3
    host.end("low-0", "low-1")
    assert host.decide() == []
    plugin.least = 2
    host.tell(NodeAdded(make_node("other", cpu=1)))
    assert PodUID("default/high-0") not in host.scheduler.waiting
    assert set(host.decide()) == {"high-0", "high-1", "high-2"}
