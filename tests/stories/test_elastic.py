"""Elastic members, beyond the minimum of their gang: what they may take, and from whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from attrs import evolve, frozen

from gangsched import (
    ClusterState,
    Coscheduling,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    Preemption,
    Scheduler,
    Success,
    Unschedulable,
    presets,
)
from gangsched.protocols import CycleView
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of

MakeScheduler = Callable[[ClusterState], Scheduler]


def makers(preemption: Preemption) -> dict[str, MakeScheduler]:
    return {
        "gang": partial(presets.gang, preemption=preemption),
        "coscheduling": partial(presets.coscheduling, preemption=preemption),
        "kube_default": partial(presets.kube_default, policy=Coscheduling(), preemption=preemption),
    }


each_preset = pytest.mark.parametrize("preset", makers(Preemption()))


def with_nodes(count: int, preset: str, way: Way = Way.LIVE, *, elastic: bool = False) -> Story:
    """A cluster of nodes that take one pod each."""
    story = Story(makers(Preemption(elastic_members=elastic))[preset], way)
    story.tell(*(NodeAdded(node(number)) for number in range(count)))
    return story


def node(number: int) -> Node:
    return Node(name=NodeName(f"n{number}"), allocatable={"cpu": 1, "pods": 10})


def urgent(story: Story, members: int, minimum: int) -> None:
    story.add(
        *(
            make_pod(f"u-{n}", group="u", min_available=minimum, cpu=1, priority=9)
            for n in range(members)
        )
    )


@each_way
@each_preset
def test_elastic_members_of_an_urgent_gang_evict_no_gang(way: Way, preset: str) -> None:
    story = with_nodes(8, preset, way)
    for name in ("a", "b", "c"):
        story.gang(name, 2)
    story.run(until=10.0)
    urgent(story, members=8, minimum=2)
    story.run(until=20.0)
    story.interrupt()
    story.run(until=1000.0)
    assert story.evicted == []
    assert sorted(story.bound) == ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1", "u-0", "u-1"]


@each_way
@each_preset
def test_minimum_of_an_urgent_gang_evicts_one_gang(way: Way, preset: str) -> None:
    story = with_nodes(6, preset, way)
    for name in ("a", "b", "c"):
        story.gang(name, 2)
    story.run(until=10.0)
    urgent(story, members=8, minimum=2)
    story.interrupt()
    story.run(until=1000.0)
    assert len(story.evicted) == 2
    assert len({name.partition("-")[0] for name in story.evicted}) == 1
    assert len([name for name in story.bound if name.startswith("u-")]) == 2


@each_preset
def test_elastic_members_evict_if_they_are_let(preset: str) -> None:
    story = with_nodes(8, preset, elastic=True)
    for name in ("a", "b", "c"):
        story.gang(name, 2)
    story.run(until=10.0)
    urgent(story, members=8, minimum=2)
    story.run(until=1000.0)
    assert len(story.evicted) == 6
    assert len(story.bound) == 8


@each_way
@each_preset
def test_elastic_members_take_what_is_free(way: Way, preset: str) -> None:
    story = with_nodes(4, preset, way)
    story.gang("a", 2)
    story.run(until=10.0)
    urgent(story, members=4, minimum=2)
    story.run(until=20.0)
    story.interrupt()
    story.delete("a-0", "a-1")
    story.run(until=1000.0)
    assert sorted(story.bound) == ["u-0", "u-1", "u-2", "u-3"]


@each_way
@each_preset
def test_elastic_member_evicts_once_it_is_needed(way: Way, preset: str) -> None:
    story = with_nodes(4, preset, way)
    story.gang("a", 2)
    story.run(until=10.0)
    urgent(story, members=3, minimum=2)
    story.run(until=20.0)
    assert story.evicted == []
    story.interrupt()
    lost = story.bound["u-0"]
    story.tell(NodeDeleted(NodeName(lost)))
    story.delete("u-0")
    story.run(until=1000.0)
    assert sorted(story.evicted) == ["a-0", "a-1"]
    assert "u-2" in story.bound


# Roles -------------------------------------------------------------------------------------------


def with_roles(preset: str, way: Way) -> Story:
    """A started gang of a parameter server and two workers that lacks its parameter server.

    An elastic worker arrived before the new parameter server, and no node is free.
    """
    story = with_nodes(4, preset, way)
    spec = PodGroup(name="u", min_available=3, roles={"ps": 1, "worker": 2}, priority=9)
    story.tell(PodGroupAdded(spec))
    story.gang("low", 1)
    story.decide()
    roles = {"ps-0": "ps", "w-0": "worker", "w-1": "worker"}
    pods = [make_pod(n, group="u", role=r, cpu=1, priority=9) for n, r in roles.items()]
    story.add(*pods)
    story.run(until=10.0)
    assert sorted(story.bound) == ["low-0", "ps-0", "w-0", "w-1"]
    story.add(make_pod("w-2", group="u", role="worker", cpu=1, priority=9))
    story.run(until=20.0)
    story.tell(NodeDeleted(NodeName(story.bound["ps-0"])))
    story.delete("ps-0")
    story.run(until=30.0)
    return story


@each_way
@each_preset
def test_gang_gives_a_free_node_to_the_member_that_it_needs(way: Way, preset: str) -> None:
    story = with_roles(preset, way)
    story.interrupt()
    low = evolve(story.pod("low-0"), priority=9)
    story.update("low-0", priority=low.priority)
    story.add(make_pod("ps-1", group="u", role="ps", cpu=1, priority=9))
    story.run(until=40.0)
    story.tell(NodeAdded(node(9)))
    story.run(until=1000.0)
    assert "ps-1" in story.bound
    assert "w-2" not in story.bound


@each_way
@each_preset
def test_gang_evicts_for_the_member_that_it_needs(way: Way, preset: str) -> None:
    story = with_roles(preset, way)
    assert story.evicted == []
    story.interrupt()
    story.add(make_pod("ps-1", group="u", role="ps", cpu=1, priority=9))
    story.run(until=1000.0)
    assert story.evicted == ["low-0"]
    assert "ps-1" in story.bound
    assert "w-2" not in story.bound


@frozen
class Refuses:
    """Refuses the pod ``bad`` at one point."""

    point: str
    name: str = "Refuses"

    def _answer(self, pod: Pod, point: str) -> Outcome:
        is_refused = point == self.point and pod.name == "bad"
        return Unschedulable("never") if is_refused else Success()

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return self._answer(pod, "reserve")

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        pass

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return self._answer(pod, "permit")


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_late_member_that_a_plugin_refuses_keeps_no_other_one_waiting(
    preset: Preset, point: str, way: Way
) -> None:
    """All of them gave their nodes back, and were refused together again, for ever."""
    story = Story(partial(preset, plugins=[Refuses(point)]), way)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.gang("g", 2)
    story.run(1.0)
    story.interrupt()
    story.add(*(make_pod(name, group="g", min_available=2, cpu=1) for name in ("bad", "good")))
    story.run(60.0)
    assert sorted(story.bound) == ["g-0", "g-1", "good"]
    assert "never" in str(story.scheduler.why(story.uid("bad")))
