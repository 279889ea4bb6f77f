"""A plugin that counts is notified when a bound pod ends, and wakes what it refused."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from gangsched import (
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    PluginError,
    Pod,
    PodPhase,
    SchedulingUnit,
    Success,
    Unschedulable,
    gang,
    presets,
)
from gangsched.model import PodUID
from support.story import Story

EACH_POINT = pytest.mark.parametrize(
    "point", ["pre_enqueue", "pre_filter", "filter", "reserve", "permit"]
)
AFTER_A_CYCLE = pytest.mark.parametrize("point", ["pre_filter", "reserve", "permit"])


class Licences:
    """Lets a number of pods run at once, and refuses others at one extension point."""

    name = "Licences"

    def __init__(self, most: int, point: str, *, wakes: bool = True) -> None:
        self.most, self.wakes, self.point = most, wakes, point
        self.held: set[PodUID] = set()
        self.asked: list[str] = []
        self.ended: list[tuple[str, str]] = []
        if point != "reserve":
            setattr(self, point, self.refuse_above)

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: object) -> Hashable:
        return None

    def refuse_above(self, *args: Any, **_now: Any) -> Outcome:
        pod = next(arg for arg in args if isinstance(arg, Pod))
        self.asked.append(pod.name)
        is_free = len(self.held - {pod.uid}) < self.most
        return Success() if is_free else Unschedulable("no licence is free")

    def reserve(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        outcome = self.refuse_above(pod) if self.point == "reserve" else Success()
        if isinstance(outcome, Success):
            self.held.add(pod.uid)
        return outcome

    def unreserve(self, state: object, pod: Pod, node: NodeName, *, cause: str, now: float) -> None:
        self.held.discard(pod.uid)

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        self.ended.append((pod.name, node))
        self.held.discard(pod.uid)
        return self.wakes


def running(*plugins: object, unit: SchedulingUnit = SchedulingUnit.GROUP) -> Story:
    """Return a story in which a pod runs on a node that is too small for others."""
    story = Story(lambda cluster: presets.coscheduling(cluster, unit=unit, plugins=plugins))
    story.tell(NodeAdded(Node(name="small", labels={"size": "small"}, allocatable={"cpu": 1})))
    story.tell(NodeAdded(Node(name="large", allocatable={"cpu": 8})))
    story.add(Pod(name="first", requests={"cpu": 1}, node_selector={"size": "small"}))
    story.decide()
    assert story.bound == {"first": "small"}
    return story


def second(story: Story, cpu: int = 4, count: int = 1) -> None:
    """Add pods that are not bound now, and go on before their backoff ends."""
    for number in range(count):
        story.add(Pod(name=f"second-{number}", requests={"cpu": cpu}))
        story.decide()
    assert story.bound == {"first": "small"}
    story.now += 0.5


@EACH_POINT
@pytest.mark.parametrize("how", [PodPhase.SUCCEEDED, PodPhase.FAILED, None])
def test_end_of_a_bound_pod_wakes_what_the_plugin_refused(point: str, how: PodPhase | None) -> None:
    plugin = Licences(1, point)
    story = running(plugin)
    second(story)
    if how is None:
        story.delete("first")
    else:
        story.update("first", phase=how)
    story.decide()
    assert story.bound["second-0"] == "large"
    assert plugin.ended == [("first", "small")]


@EACH_POINT
def test_plugin_that_returns_false_wakes_nothing_and_ends_no_backoff(point: str) -> None:
    story = running(Licences(1, point, wakes=False))
    second(story)
    story.delete("first")
    story.decide()
    assert story.bound == {}
    if point in ("pre_filter", "reserve", "permit"):
        assert story.scheduler.next_deadline() == 1.0


def test_pod_is_reported_once_when_it_ends_and_not_while_it_terminates() -> None:
    plugin = Licences(9, "pre_filter")
    story = running(plugin)
    story.update("first", deleted_at=1.0)
    assert plugin.ended == []
    for _again in range(2):
        story.update("first", phase=PodPhase.SUCCEEDED)
    story.delete("first")
    assert plugin.ended == [("first", "small")]


def test_pod_that_was_never_bound_is_not_reported() -> None:
    plugin = Licences(1, "pre_filter")
    story = running(plugin)
    second(story)
    story.delete("second-0")
    assert plugin.ended == []


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_answer_of_a_wrong_type_is_named_and_the_event_is_taken_in(answer: Any) -> None:
    wrong, plugin = Licences(9, "permit", wakes=answer), Licences(1, "pre_enqueue")
    wrong.name = "Wrong"
    story = running(wrong, plugin)
    second(story)
    with pytest.raises(PluginError, match=r"Wrong.*pod_ended.*expected True or False"):
        story.delete("first")
    assert plugin.ended == [("first", "small")]
    story.decide()
    assert story.bound["second-0"] == "large"


@pytest.mark.parametrize("says_so_first", [True, False])
def test_one_plugin_that_may_accept_more_is_enough(says_so_first: bool) -> None:
    plugins = [Licences(1, "pre_filter"), Licences(9, "permit", wakes=False)]
    plugins[1].name = "Unconcerned"
    story = running(*(plugins if says_so_first else reversed(plugins)))
    second(story)
    story.delete("first")
    story.decide()
    assert story.bound == {"second-0": "large"}


@AFTER_A_CYCLE
@pytest.mark.parametrize("unit", list(SchedulingUnit))
def test_gang_that_was_refused_is_tried_when_a_pod_ends(point: str, unit: SchedulingUnit) -> None:
    # a whole gang is asked about at pre_filter before any of it is reserved
    most = 1 if unit is SchedulingUnit.GROUP and point == "pre_filter" else 2
    story = running(Licences(most, point), unit=unit)
    story.tell(*gang("second", workers=2, cpu=3).events())
    story.run(until=10.0 if unit is SchedulingUnit.POD else 0.0)  # while one waits on permit
    assert story.bound == {"first": "small"}
    story.now += 0.5
    story.delete("first")
    story.decide()
    assert story.bound == {"second-0": "large", "second-1": "large"}


@AFTER_A_CYCLE
def test_end_of_a_pod_costs_one_failed_try_for_each_class_and_a_node_costs_none(point: str) -> None:
    plugin = Licences(1, point)
    story = running(plugin)
    second(story, cpu=2, count=5)
    plugin.asked.clear()
    story.tell(NodeAdded(Node(name="more", allocatable={"cpu": 8})))
    story.decide()
    assert plugin.asked == []
    story.delete("first")
    story.decide()
    assert set(story.bound) == {"second-0"}
    assert plugin.asked == ["second-0", "second-1"]


@AFTER_A_CYCLE
def test_pod_whose_bind_failed_stays_in_backoff(point: str) -> None:
    story = running(Licences(2, point))
    story.holds_binds = True
    second(story)
    story.now = 0.0
    story.fail_bind("second-0")
    story.now = 0.5
    story.delete("first")
    story.decide()
    assert story.bound == {}
    assert story.scheduler.next_deadline() == 1.0
