"""Nominations: ``schedule_one`` ends, and a nominated pod goes where its gang may run."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve, frozen

from gangsched import (
    NodeAdded,
    NodeName,
    Nominated,
    NominationLapsed,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    Preemption,
    Resources,
    Topology,
    Wait,
)
from gangsched.protocols import CycleView
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of

holding = pytest.mark.parametrize("holds_evictions", [False, True], ids=["at_once", "slowly"])


@frozen
class Slow:
    """Lets every pod wait for a second answer."""

    name: str = "Slow"

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Wait(3.0)


@each_way
@each_of(GANG_PRESETS)
def test_gang_whose_minimum_waits_on_permit_makes_no_room_for_more(
    preset: Preset, way: Way
) -> None:
    """It gave its nodes back to preempt as a whole, again and again at one instant."""
    story = Story(partial(preset, preemption=Preemption(), plugins=[Slow()]), way)
    story.tell(NodeAdded(make_node("a", cpu=2)), NodeAdded(make_node("v", cpu=1)))
    story.add(evolve(make_pod("low", cpu=1, priority=-1), node_name="v"))
    never, *others = (make_pod(f"g-{n}", group="g", min_available=1, cpu=1) for n in range(3))
    story.add(evolve(never, node_selector={"zone": "x"}), *others)
    story.decide()


@each_way
@each_of(GANG_PRESETS)
@holding
def test_gang_that_requests_more_than_its_members_comes_to_rest(
    preset: Preset, holds_evictions: bool, way: Way
) -> None:
    story = Story(partial(preset, preemption=Preemption()), way, holds_evictions=holds_evictions)
    story.tell(NodeAdded(make_node("n0", cpu=2)), NodeAdded(make_node("n1", cpu=1)))
    story.add(evolve(make_pod("low", cpu=1), node_name="n1"))
    asked = Resources({"cpu": 3})
    group = PodGroup(name="g", min_available=2, priority=9, min_resources=asked)
    story.tell(PodGroupAdded(group))
    story.gang("g", 2, min_available=None, priority=9)
    story.decide()
    assert story.evicted == ["low"]
    if holds_evictions:
        assert story.bound == {"low": "n1"}
        story.interrupt()
        story.decide()
        story.delete("low")
    story.run(until=600)
    assert story.evicted == ["low"]
    assert story.bound == {"g-0": "n0", "g-1": "n0"}


@each_way
@each_of(GANG_PRESETS)
def test_gang_of_unlike_priorities_comes_to_rest(preset: Preset, way: Way) -> None:
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n1", cpu=1)), NodeAdded(make_node("n4", cpu=4)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=3, priority=5)))
    story.add(
        make_pod("a", group="g", cpu=1),
        make_pod("b", group="g", cpu=2, priority=5),
        make_pod("c", group="g", cpu=2, priority=5),
    )
    story.decide()
    story.interrupt()
    story.run(until=600)
    # placed pod by pod, a may take the node that b and c need; then none of them starts
    assert story.bound.keys() in ({"a", "b", "c"}, set[str]())


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("ends", ["deleted", "succeeded"])
def test_nominated_member_does_not_leave_the_rack_of_its_gang(
    preset: Preset, ends: str, way: Way
) -> None:
    preemption = Preemption(elastic_members=True)  # big is beyond the minimum
    story = Story(partial(preset, preemption=preemption), way, holds_evictions=True)
    story.tell(
        NodeAdded(make_node("a", cpu=1, labels={"rack": "a"})),
        NodeAdded(make_node("b", cpu=4, labels={"rack": "b"})),
        PodGroupAdded(PodGroup(name="g", min_available=1, priority=9, topology=Topology("rack"))),
    )
    story.add(
        evolve(make_pod("low", cpu=3), node_name="b"),
        evolve(make_pod("first", group="g", cpu=1, priority=9), node_name="b"),
    )
    story.add(make_pod("big", group="g", cpu=3, priority=9))
    story.decide()
    assert story.evicted == ["low"]
    if ends == "deleted":
        story.delete("first")
    else:
        story.update("first", phase=PodPhase.SUCCEEDED)
    # another scheduler, or one before a restart, has started it there
    small = make_pod("small", group="g", cpu=1, priority=9)
    story.add(evolve(small, node_name="a"))
    story.decide()
    story.interrupt()
    story.decide()
    story.delete("low")
    story.run(until=600)
    assert story.bound["small"] == "a"
    assert "big" not in story.bound


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("when", ["binding", "bound"])
@pytest.mark.parametrize("leaving", ["g-0", "g-3"])
def test_gang_with_a_terminating_member_keeps_its_minimum(
    preset: Preset, leaving: str, when: str, way: Way
) -> None:
    story = Story(partial(preset, preemption=Preemption()), way, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=4)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    story.gang("g", 4, min_available=None)
    story.decide()
    assert len(story.binds) == 4
    if when == "bound":
        story.finish_binds()
    story.update(leaving, deleted_at=10.0)
    story.interrupt()
    story.add(make_pod("urgent", cpu=1, priority=9))
    story.decide()
    assert [victim for notice in story.of(Nominated) for victim in notice.victims] == []
    story.finish_binds()
    story.delete(leaving)
    story.run(until=600)
    story.finish_binds()
    assert story.evicted == []
    assert len(story.bound) == 4
    assert "urgent" in story.bound


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("priority", [5, 0, -1])
def test_nominated_pod_whose_priority_changes_starts(
    preset: Preset, priority: int, way: Way
) -> None:
    """It is read as another pod: of that name there are two for the rest of the call."""
    story = Story(partial(preset, preemption=Preemption()), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("low", cpu=1))
    story.run(until=1)
    story.add(make_pod("high", cpu=1, priority=9))
    story.run(until=2)
    assert story.evicted == ["low"]
    story.interrupt()
    story.update("high", priority=priority)
    story.run(until=3)
    story.delete("low")
    story.run(until=100)
    assert story.bound == {"high": "n"}
    assert story.scheduler.pending() == ()


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
@each_of(GANG_PRESETS)
def test_nomination_counts_the_victims_that_are_still_there(preset: Preset, way: Way) -> None:
    story = Story(partial(preset, preemption=Preemption(grace=20)), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.add(*(make_pod(f"low-{number}", cpu=1) for number in range(3)))
    story.run(until=1)
    story.gang("g", 3, priority=9)
    story.run(until=2)
    story.interrupt()
    for name, left in (("low-2", "2 pods"), ("low-0", "1 pod")):
        story.delete(name)
        assert f"waiting for {left} to terminate" in str(story.scheduler.why("default/g"))
    story.run(until=100)
    assert story.of(NominationLapsed)[0].reason == "1 pod did not terminate in time"
