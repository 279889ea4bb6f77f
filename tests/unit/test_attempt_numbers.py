"""Attempt numbers are never reused, so a late report cannot concern another pod of the same UID."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodUID,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.explain import Running
from gangsched.testing import make_node, make_pod

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))
P = PodUID("default/p")


class Host:
    """A cluster of one node with one CPU, and a scheduler whose binds stay in flight."""

    def __init__(self, unit: SchedulingUnit) -> None:
        self.unit = unit
        self.cluster = InMemoryCluster()
        self.scheduler = self.make()
        self.tell(NodeAdded(make_node("n", cpu=1)))

    def make(self) -> Scheduler:
        return presets.coscheduling(self.cluster, unit=self.unit)

    def tell(self, *events: Event) -> list[Effect]:
        """Apply and handle events, then decide until nothing is left; return the effects."""
        found: list[Effect] = []
        for event in events:
            found += self.scheduler.handle(self.cluster.apply(event), now=0.0)
        while (effects := self.scheduler.schedule_one(now=0.0)) is not None:
            found += effects
        self.scheduler._check()
        return found

    def report(self, event: Event) -> list[Effect]:
        """Handle a report without a change of the cluster."""
        found = list(self.scheduler.handle(event, now=0.0))
        return found + self.tell()


def bind_of(effects: list[Effect]) -> Bind:
    (bind,) = (effect for effect in effects if isinstance(effect, Bind))
    return bind


@EACH_UNIT
@pytest.mark.parametrize("group", [None, "g"])
def test_late_failure_of_a_recreated_pod_does_not_take_its_new_bind_back(
    unit: SchedulingUnit, group: str | None
) -> None:
    host = Host(unit)
    pod = make_pod("p", cpu=1, group=group, min_available=None if group is None else 1)
    first = bind_of(host.tell(PodAdded(pod)))
    host.tell(PodDeleted(P))
    second = bind_of(host.tell(PodAdded(evolve(pod, created_at=1.0))))
    assert second.attempt > first.attempt
    assert host.report(BindFailed(P, first.attempt, "late")) == []
    assert host.tell(PodAdded(make_pod("q", cpu=1))) != []
    assert not any(isinstance(e, Bind) for e in host.tell()), "the node is full"
    host.tell(Bound(P, second.node, second.attempt))
    assert isinstance(host.scheduler.why(P), Running)


@EACH_UNIT
@pytest.mark.parametrize("how", ["snapshot", "rebuild"])
def test_attempt_numbers_go_on_after_a_restore_and_a_rebuild(
    unit: SchedulingUnit, how: str
) -> None:
    host = Host(unit)
    pod = make_pod("p", cpu=1)
    first = bind_of(host.tell(PodAdded(pod)))
    if how == "snapshot":
        host.tell(PodDeleted(P))
        data = json.loads(json.dumps(host.scheduler.snapshot()))
        host.scheduler = host.make()
        host.scheduler.restore(data)
    else:
        host.cluster.apply(PodDeleted(P))
        host.scheduler.rebuild(now=0.0)
    assert bind_of(host.tell(PodAdded(pod))).attempt > first.attempt


def test_snapshot_with_a_negative_attempt_floor_is_refused() -> None:
    host = Host(SchedulingUnit.POD)
    data = json.loads(json.dumps(host.scheduler.snapshot()))
    data["attempt_floor"] = -1
    with pytest.raises(InvalidValueError, match="attempt_floor"):
        host.make().restore(data)
