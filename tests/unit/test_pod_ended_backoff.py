"""A plugin that may accept more ends the backoff of what it refused whatever the node."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    EvictGroup,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    gang,
    presets,
)
from gangsched._core._entity import REFUSED_BY_PLUGIN, QueuedEntity
from gangsched.events import Effect, Event
from gangsched.model import PodUID

POINTS = ("pre_filter", "reserve", "permit")
EACH_POINT = pytest.mark.parametrize("point", POINTS)


class Licences:
    """Lets a number of pods run at once, and refuses others at one extension point."""

    name = "Licences"

    def __init__(self, most: int, point: str, *, wakes: bool = True) -> None:
        self.most, self.wakes = most, wakes
        self.held: set[PodUID] = set()
        self.asked: list[str] = []
        if point != "reserve":
            setattr(self, point, self._refuse_above)
        self._point = point

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: object) -> Hashable:
        return None

    def _refuse_above(self, state: object, pod: Pod, *node: object, now: float) -> Outcome:
        self.asked.append(pod.name)
        others = self.held - {pod.uid}
        return Success() if len(others) < self.most else Unschedulable("no licence is free")

    def reserve(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        if self._point == "reserve":
            outcome = self._refuse_above(state, pod, now=now)
            if isinstance(outcome, Unschedulable):
                return outcome
        self.held.add(pod.uid)
        return Success()

    def unreserve(self, state: object, pod: Pod, node: NodeName, *, cause: str, now: float) -> None:
        self.held.discard(pod.uid)

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        self.held.discard(pod.uid)
        return self.wakes

    def snapshot(self) -> list[str]:
        return sorted(self.held)

    def restore(self, data: Any) -> None:
        self.held = set(data)


class Run:
    """A scheduler whose binds succeed at once, unless they are to fail."""

    def __init__(self, *plugins: object, unit: SchedulingUnit = SchedulingUnit.GROUP) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.coscheduling(self.cluster, unit=unit, plugins=plugins)
        self.now = 0.0
        self.failing: set[str] = set()
        self.tell(NodeAdded(Node(name="small", labels={"size": "small"}, allocatable={"cpu": 1})))
        self.tell(NodeAdded(Node(name="large", allocatable={"cpu": 8})))

    def tell(self, *events: Event) -> list[str]:
        for event in events:
            self._perform(self.scheduler.handle(self.cluster.apply(event), now=self.now))
        return self.decide()

    def decide(self) -> list[str]:
        """Decide until there is nothing to decide; return the pods that were bound."""
        found: list[str] = []
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            found += self._perform(effects)
            self.scheduler._check()
        return found

    def _perform(self, effects: tuple[Effect, ...]) -> list[str]:
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        for bind in binds:
            answer: Event = BindFailed(bind.uid, bind.attempt, "as the test says")
            if bind.uid not in self.failing:
                answer = Bound(bind.uid, bind.node, bind.attempt)
            self._perform(self.scheduler.handle(self.cluster.apply(answer), now=self.now))
        return [bind.uid for bind in binds if bind.uid not in self.failing]


def first() -> Pod:
    """Return a pod for the small node, so that its end frees a node that fits no other."""
    return Pod(name="first", requests={"cpu": 1}, node_selector={"size": "small"})


def end_of_first() -> Event:
    return PodDeleted(PodUID("default/first"))


@EACH_POINT
def test_pod_that_was_refused_is_tried_when_another_ends(point: str) -> None:
    run = Run(Licences(1, point))
    assert run.tell(PodAdded(first())) == ["default/first"]
    assert run.tell(PodAdded(Pod(name="second", requests={"cpu": 4}))) == []
    run.now = 0.5  # before the backoff ends
    assert run.tell(end_of_first()) == ["default/second"]


@EACH_POINT
@pytest.mark.parametrize("unit", list(SchedulingUnit))
def test_gang_that_was_refused_is_tried_when_a_pod_ends(point: str, unit: SchedulingUnit) -> None:
    # a whole gang is asked about at pre_filter before any of it is reserved
    most = 1 if unit is SchedulingUnit.GROUP and point == "pre_filter" else 2
    run = Run(Licences(most, point), unit=unit)
    run.tell(PodAdded(first()))
    assert run.tell(*gang("second", workers=2, cpu=3).events()) == []
    if unit is SchedulingUnit.POD:
        run.now = 10.0  # where its members are tried one by one, one waited on permit until now
        run.decide()
    run.now += 0.5
    assert run.tell(end_of_first()) == ["default/second-0", "default/second-1"]


@EACH_POINT
def test_backoff_goes_on_if_the_plugin_accepts_no_more_than_before(point: str) -> None:
    run = Run(Licences(1, point, wakes=False))
    run.tell(PodAdded(first()))
    run.tell(PodAdded(Pod(name="second", requests={"cpu": 4})))
    run.now = 0.5
    assert run.tell(end_of_first()) == []
    assert run.scheduler.next_deadline() == 1.0


@EACH_POINT
def test_node_ends_no_backoff_of_what_a_plugin_refused(point: str) -> None:
    plugin = Licences(1, point)
    run = Run(plugin)
    run.tell(PodAdded(first()))
    run.tell(PodAdded(Pod(name="second", requests={"cpu": 4})))
    before = len(plugin.asked)
    run.now = 0.5
    run.tell(NodeAdded(Node(name="more", allocatable={"cpu": 8})))
    assert len(plugin.asked) == before


@EACH_POINT
def test_end_of_a_pod_costs_one_failed_try_for_each_class(point: str) -> None:
    plugin = Licences(1, point)
    run = Run(plugin)
    run.tell(PodAdded(first()))
    for number in range(5):
        run.tell(PodAdded(Pod(name=f"p-{number}", requests={"cpu": 1})))
    run.now = 0.5
    plugin.asked.clear()
    assert run.tell(end_of_first()) == ["default/p-0"]
    assert plugin.asked == ["p-0", "p-1"]


@EACH_POINT
def test_as_many_return_as_the_plugin_accepts(point: str) -> None:
    plugin = Licences(1, point)
    run = Run(plugin)
    run.tell(PodAdded(first()))
    for number in range(5):
        run.tell(PodAdded(Pod(name=f"p-{number}", requests={"cpu": 1})))
    run.now, plugin.most = 0.5, 3
    assert run.tell(end_of_first()) == ["default/p-0", "default/p-1", "default/p-2"]


@EACH_POINT
def test_pod_whose_bind_failed_stays_in_backoff(point: str) -> None:
    run = Run(Licences(2, point))
    run.tell(PodAdded(first()))
    run.failing = {"default/second"}
    run.tell(PodAdded(Pod(name="second", requests={"cpu": 4})))
    run.failing = set()
    run.now = 0.5
    assert run.tell(end_of_first()) == []
    assert run.scheduler.next_deadline() == 1.0


def test_gang_that_changed_in_backoff_returns_early_too() -> None:
    run = Run(Licences(1, "pre_filter"))
    run.tell(PodAdded(first()))
    *both, late = gang("second", workers=3, min_available=2, cpu=2).events()
    run.tell(*both)
    run.now = 0.5
    run.tell(late)
    assert run.scheduler.next_deadline() == 1.0
    names = [f"default/second-{number}" for number in range(3)]
    assert run.tell(end_of_first()) == names


def test_refusal_by_a_plugin_does_not_hide_that_every_node_refused_a_member() -> None:
    entity = QueuedEntity(1, 0.0)
    entity.note_refusal_by_plugin()
    assert entity.failed_step == REFUSED_BY_PLUGIN
    entity.failed_step = 3
    entity.note_refusal_by_plugin()
    entity.forget_refusal_by_plugin()
    assert entity.failed_step == 3


def test_late_member_whose_bind_failed_stays_in_backoff_with_one_that_was_refused() -> None:
    class Chosen(Licences):
        def pre_filter(self, state: object, pod: Pod, *, now: float) -> Outcome:
            refused = pod.name.startswith("refused")
            return Unschedulable("not this one") if refused else Success()

    def member(name: str) -> PodAdded:
        key = "pod-group.scheduling.sigs.k8s.io/"
        labels = {key + "name": "g", key + "min-available": "1"}
        return PodAdded(Pod(name=name, labels=labels, requests={"cpu": 1}))

    run = Run(Chosen(9, "reserve"))
    run.tell(PodAdded(first()), member("started"))
    run.failing = {"default/fails"}
    for event in (member("refused"), member("fails"), member("last")):
        run.scheduler.handle(run.cluster.apply(event), now=run.now)
    assert run.scheduler.schedule_one(now=run.now) is not None  # refused
    effects = run.scheduler.schedule_one(now=run.now)
    assert effects is not None
    (bind,) = [effect for effect in effects if isinstance(effect, Bind)]
    failed = BindFailed(bind.uid, bind.attempt, "as the test says")
    run.scheduler.handle(run.cluster.apply(failed), now=run.now)
    assert run.scheduler.next_deadline() == 1.0
    run.failing.clear()
    run.now = 0.5
    assert "default/fails" not in run.tell(end_of_first())


def test_evicted_gang_stays_in_backoff() -> None:
    class Evicts(Licences):
        def post_filter(self, state: object, pod: Pod, reason: str, *, now: float) -> object:
            if pod.name == "first":
                return Success()
            return EvictGroup(GroupKey("default/second"), reason)

    run = Run(Evicts(1, "pre_filter"))
    run.tell(PodAdded(first()))
    run.tell(*gang("second", workers=2, cpu=3).events())
    assert run.scheduler.next_deadline() == 1.0
    run.now = 0.5
    assert run.tell(end_of_first()) == []


@EACH_POINT
def test_backoff_ends_early_after_a_snapshot_too(point: str) -> None:
    run = Run(Licences(1, point))
    run.tell(PodAdded(first()))
    run.tell(PodAdded(Pod(name="second", requests={"cpu": 4})))
    kept = json.loads(json.dumps(run.scheduler.snapshot()))
    run.scheduler = presets.coscheduling(
        run.cluster, unit=SchedulingUnit.GROUP, plugins=[Licences(1, point)]
    )
    run.scheduler.restore(kept)
    run.now = 0.5
    assert run.tell(end_of_first()) == ["default/second"]
