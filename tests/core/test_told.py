"""Every pod that waits is told why, also if a gang that asks for the same has failed for it.

An autoscaler adds nodes only for pods that it sees as unschedulable.
"""

from __future__ import annotations

import pytest

from gangsched import (
    Effect,
    Event,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    PodUnschedulable,
    SchedulingUnit,
)
from gangsched.core.scheduler import Scheduler
from gangsched.explain import NoNodeFits
from gangsched.presets import coscheduling_profile
from gangsched.testing import make_pod

UNITS = pytest.mark.parametrize("unit", SchedulingUnit)
FULL = Node(name=NodeName("n"), allocatable={"cpu": 1})


class Host:
    """A scheduler on one node that is too small for what the tests add."""

    def __init__(self, unit: SchedulingUnit) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = Scheduler(self.cluster, coscheduling_profile(), unit=unit)
        self.effects: list[Effect] = []
        self.tell(NodeAdded(FULL))

    def tell(self, *events: Event) -> None:
        """Handle events, then run cycles until none is left."""
        for event in events:
            self.effects += self.scheduler.handle(self.cluster.apply(event), now=0.0)
        while (effects := self.scheduler.schedule_one(now=0.0)) is not None:
            self.effects += effects

    def last_told(self) -> dict[PodUID, str]:
        """Return what each pod was told last."""
        return {e.uid: e.reason for e in self.effects if isinstance(e, PodUnschedulable)}


def member(group: str, number: int, priority: int = 0) -> PodAdded:
    """Return the event of a member that needs more than the node has."""
    name = f"{group}-{number}"
    return PodAdded(make_pod(name, group=group, min_available=2, cpu=2, priority=priority))


@UNITS
def test_pods_of_gangs_that_ask_for_the_same_are_all_told(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(*(member(group, n) for group in ("a", "b", "c") for n in range(2)))
    told = host.last_told()
    assert len(told) == 6
    assert all("Insufficient cpu" in reason for reason in told.values())
    rejected = [e.group for e in host.effects if isinstance(e, GroupRejected)]
    assert sorted(rejected) == ["default/a", "default/b", "default/c"]
    assert all(isinstance(r.why, NoNodeFits) and str(r.why) for r in host.scheduler.pending())


@UNITS
def test_pods_that_arrive_behind_one_that_failed_are_told(unit: SchedulingUnit) -> None:
    host = Host(unit)
    for number in range(3):
        host.tell(PodAdded(make_pod(f"p{number}", cpu=2)))
    assert len(host.last_told()) == 3
    assert all("Insufficient cpu" in reason for reason in host.last_told().values())


@UNITS
def test_gang_that_was_incomplete_for_a_while_is_told_again(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(*(member(group, n) for group in ("a", "b") for n in range(2)))
    host.tell(PodGroupAdded(PodGroup(name="b", min_available=3)))
    assert "incomplete" in host.last_told()[PodUID("default/b-0")]
    host.tell(PodGroupUpdated(PodGroup(name="b", min_available=2)))
    told = host.last_told()
    assert "Insufficient cpu" in told[PodUID("default/b-0")]
    assert "Insufficient cpu" in told[PodUID("default/b-1")]


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(
            SchedulingUnit.POD,
            marks=pytest.mark.xfail(
                strict=True, reason="pod by pod, it is told when its gang is tried again"
            ),
        ),
        SchedulingUnit.GROUP,
    ],
)
def test_elastic_member_that_arrives_later_is_told(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(*(member(group, n) for group in ("a", "b") for n in range(2)))
    host.tell(member("b", 2))
    assert "Insufficient cpu" in host.last_told()[PodUID("default/b-2")]
    count = len(host.effects)
    host.tell()
    assert len(host.effects) == count
