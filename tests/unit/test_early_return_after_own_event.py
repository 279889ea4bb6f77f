"""An entity in backoff that changes itself still returns early when a node helps it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodUpdated,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched._core._entity import Place
from gangsched.errors import InternalError
from gangsched.framework.queueing import equivalence
from gangsched.testing import make_node, make_pod

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))


class Host:
    """A cluster with one small node, and a scheduler."""

    def __init__(self, unit: SchedulingUnit, *pods: Pod) -> None:
        self.cluster = InMemoryCluster()
        self.cluster.apply(NodeAdded(make_node("small", cpu=4)))
        self.scheduler: Scheduler = presets.coscheduling(self.cluster, unit=unit)
        self.bound: set[str] = set()
        for pod in pods:
            self.cluster.apply(PodAdded(pod))
        self.decide(now=0.0)

    def tell(self, event: Event, *, now: float) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=now)
        self.decide(now=now)

    def decide(self, *, now: float) -> int:
        """Decide until nothing is active; return the number of decisions."""
        count = 0
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            count += 1
            for effect in effects:
                if isinstance(effect, Bind):
                    report = Bound(effect.uid, effect.node, effect.attempt)
                    self.scheduler.handle(self.cluster.apply(report), now=now)
                    self.bound.add(effect.uid)
        self.scheduler._check()
        return count

    def restored(self, unit: SchedulingUnit) -> Scheduler:
        """Return a scheduler that was restored from a snapshot of this one."""
        scheduler = presets.coscheduling(self.cluster, unit=unit)
        scheduler.restore(self.scheduler.snapshot())
        scheduler._check()
        return scheduler


def large(name: str, **more: Any) -> Pod:
    return make_pod(name, group="g", min_available=2, cpu=8, **more)


def gang(number: int = 3) -> list[Pod]:
    return [large(f"g-{n}") for n in range(number)]


@EACH_UNIT
@pytest.mark.parametrize(
    "event",
    [
        pytest.param(PodDeleted(gang()[2].uid), id="a member leaves"),
        pytest.param(PodAdded(large("g-3")), id="a member arrives"),
        pytest.param(PodUpdated(evolve(gang()[2], requests={"cpu": 9})), id="a member changes"),
    ],
)
def test_group_in_backoff_whose_member_changes_returns_when_a_node_helps(
    unit: SchedulingUnit, event: Event
) -> None:
    host = Host(unit, *gang())
    host.tell(event, now=0.1)
    assert [entity.place for entity in host.scheduler._state.queue.backoff] == [Place.BACKOFF]
    host.tell(NodeAdded(make_node("large", cpu=64)), now=0.2)
    assert host.bound >= {"default/g-0", "default/g-1"}


@EACH_UNIT
def test_group_in_backoff_whose_member_leaves_returns_after_a_restore(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit, *gang())
    host.tell(PodDeleted(gang()[2].uid), now=0.1)
    host.scheduler = host.restored(unit)
    host.tell(NodeAdded(make_node("large", cpu=64)), now=0.2)
    assert host.bound == {"default/g-0", "default/g-1"}


def test_pod_in_backoff_that_changes_returns_when_a_node_helps() -> None:
    host = Host(SchedulingUnit.POD, make_pod("p", cpu=8))
    host.tell(PodUpdated(make_pod("p", cpu=9)), now=0.1)
    host.tell(NodeUpdated(make_node("small", cpu=64)), now=0.2)
    assert host.bound == {"default/p"}


@EACH_UNIT
def test_group_in_backoff_whose_member_leaves_is_not_helped_by_a_node_that_takes_none(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit, *gang())
    host.tell(PodDeleted(gang()[2].uid), now=0.1)
    host.scheduler.handle(host.cluster.apply(NodeAdded(make_node("tiny", cpu=1))), now=0.2)
    assert host.decide(now=0.2) == 0
    assert host.scheduler._state.queue.backoff or host.scheduler._state.queue.unschedulable


@EACH_UNIT
def test_classes_of_changed_entities_are_asked_for_once_a_helping_event(
    unit: SchedulingUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at each change: members may leave one by one."""
    host = Host(unit, *gang(40))
    asked: list[object] = []
    original = equivalence.class_of

    def count(*args: Any) -> object:
        asked.append(args)
        return original(*args)

    monkeypatch.setattr(equivalence, "class_of", count)
    for pod in gang(40)[10:]:
        host.tell(PodDeleted(pod.uid), now=0.1)
    assert not asked
    host.tell(NodeAdded(make_node("tiny", cpu=1)), now=0.2)
    assert len(asked) <= 2


def test_check_sees_an_entity_in_backoff_that_is_not_kept_as_changed() -> None:
    host = Host(SchedulingUnit.GROUP, *gang())
    host.tell(PodDeleted(gang()[2].uid), now=0.1)
    host.scheduler._state.queue._early._unclassed.clear()
    with pytest.raises(InternalError, match="without a class"):
        host.scheduler._check()
