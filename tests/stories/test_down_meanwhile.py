"""The cluster changes while no scheduler runs; the next one restores, and calls ``rebuild``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from attrs import evolve

from gangsched import (
    ClusterState,
    Event,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Outcome,
    Pod,
    PodDeleted,
    PodUpdated,
    Scheduler,
    Unschedulable,
    presets,
)
from gangsched.outcomes import SUCCESS
from gangsched.protocols import CycleView
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of


def equal_jobs(make: Callable[[ClusterState], Scheduler], way: Way) -> Story:
    """Return a story in which three equal gangs wait behind a pod that has the node."""
    story = Story(make, way)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.add(make_pod("runs", cpu=1, priority=9))
    story.run(until=1)
    for name in ("a", "b", "c"):
        story.gang(name, 2)
        story.run(until=story.now + 1)
    story.run(until=60)
    assert story.bound == {"runs": "n"}
    return story


Change: TypeAlias = Callable[[Pod], Event]


def cancel(pod: Pod) -> PodDeleted:
    return PodDeleted(pod.uid)


def gate(pod: Pod) -> PodUpdated:
    return PodUpdated(evolve(pod, scheduling_gates=["held"]))


def grow(pod: Pod) -> PodUpdated:
    return PodUpdated(evolve(pod, requests={"cpu": 9}))


def lower(pod: Pod) -> PodUpdated:
    return PodUpdated(evolve(pod, priority=-1))


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
@pytest.mark.parametrize("change", [cancel, gate, grow, lower])
@pytest.mark.parametrize("has_room", [False, True])
def test_equal_jobs_that_change_meanwhile_leave_the_others_their_turn(
    preset: Preset, way: Way, change: Change, has_room: bool
) -> None:
    """The first of the others leads them, whatever removes those before it."""
    for changed in ("ab", "bc", "abc"):
        story = equal_jobs(preset, way)
        if has_room:  # one of them is active, and the others wait behind it
            story.tell(NodeUpdated(make_node("n", cpu=3)))
        for name in changed:
            for number in (0, 1):
                story.cluster.apply(change(story.pod(f"{name}-{number}")))
        story.interrupt(lists=True)
        story.scheduler._check()
        story.tell(NodeUpdated(make_node("n", cpu=7)))
        story.run(until=story.now + 100)
        stay = {*"abc"} - (set() if change is lower else {*changed})
        assert {*story.bound} == {"runs", *(f"{name}-{n}" for name in stay for n in (0, 1))}


class Refusing:
    """Refuses pods at Reserve, until the end of another pod helps."""

    name = "Refusing"

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return SUCCESS if pod.priority else Unschedulable("too many")

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        return

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        return True


@each_way
@each_of(GANG_PRESETS)
def test_refused_pods_are_cancelled_together_with_one_that_runs(preset: Preset, way: Way) -> None:
    """The end of the one lets the others be tried again, which are gone."""
    story = Story(lambda cluster: preset(cluster, plugins=[Refusing()]), way)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.add(make_pod("runs", cpu=1, priority=1))
    story.run(until=1)
    story.add(*(make_pod(name, cpu=1) for name in "ab"))
    story.decide()
    assert story.bound == {"runs": "n"}
    for name in ("runs", "a", "b"):
        story.cluster.apply(PodDeleted(story.uid(name)))
    story.interrupt(lists=True)
    story.run(until=60)
    assert story.scheduler.pending() == ()
