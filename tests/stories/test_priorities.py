"""A gang has one priority: in the queue, as preemptor and as victim, however its pods differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    NodeAdded,
    Nominated,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodRefused,
    PodUpdated,
    Preemption,
    PriorityOverruled,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of

pytestmark = pytest.mark.once("the stories choose the unit themselves")


def full_node(preset: Preset, way: Way = Way.LIVE, **pods: int) -> Story:
    """Return a story with a node of 2 CPUs that pods of given priorities fill, of 1 CPU each."""
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.add(*(evolve(make_pod(n, cpu=1, priority=p), node_name="n") for n, p in pods.items()))
    return story


@each_way
@each_of(GANG_PRESETS)
def test_gang_preempts_with_the_priority_of_its_group(preset: Preset, way: Way) -> None:
    story = full_node(preset, way, low=10, middle=20)
    story.interrupt()
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2, priority=1000)))
    story.gang("g", 2, min_available=None)
    story.run(60.0)
    assert sorted(story.evicted) == ["low", "middle"]
    assert story.bound == {"g-0": "n", "g-1": "n"}


@each_way
@each_of(GANG_PRESETS)
def test_gang_preempts_with_the_highest_priority_of_its_members(preset: Preset, way: Way) -> None:
    story = full_node(preset, way, low=10, middle=20)
    story.add(make_pod("g-0", group="g", min_available=2, cpu=1))
    story.interrupt()
    story.add(make_pod("g-1", group="g", min_available=2, cpu=1, priority=30))
    story.run(60.0)
    assert sorted(story.evicted) == ["low", "middle"]
    assert story.of(Nominated)[0].priority == 30


@each_way
@each_of(GANG_PRESETS)
def test_gang_preempts_once_the_priority_of_its_group_is_raised(preset: Preset, way: Way) -> None:
    story = full_node(preset, way, low=10, middle=20)
    group = PodGroup(name="g", min_available=2, priority=0)
    story.tell(PodGroupAdded(group))
    story.gang("g", 2, min_available=None)
    story.run(1.0)
    assert story.evicted == []
    story.interrupt()
    story.tell(PodGroupUpdated(evolve(group, priority=21)))
    story.run(60.0)
    assert sorted(story.evicted) == ["low", "middle"]


@each_way
@each_of(GANG_PRESETS)
def test_running_gang_goes_once_the_priority_of_its_group_is_lowered(
    preset: Preset, way: Way
) -> None:
    """Its pods of a higher priority do not protect it, and the waiting pod is tried at once."""
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    group = PodGroup(name="g", min_available=2, priority=1000)
    story.tell(PodGroupAdded(group))
    story.gang("g", 2, min_available=None, priority=1000)
    story.run(1.0)
    story.add(make_pod("urgent", cpu=1, priority=10))
    story.run(2.0)
    assert story.evicted == []
    story.interrupt()
    story.tell(PodGroupUpdated(evolve(group, priority=5)))
    story.run(60.0)
    assert sorted(story.evicted) == ["g-0", "g-1"]
    assert story.bound == {"urgent": "n"}


@each_way
@each_of(GANG_PRESETS)
def test_group_protects_members_of_a_lower_priority(preset: Preset, way: Way) -> None:
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2, priority=1000)))
    story.gang("g", 2, min_available=None)
    story.run(1.0)
    story.interrupt()
    story.add(make_pod("urgent", cpu=1, priority=10))
    story.run(60.0)
    assert story.evicted == []


@each_of(GANG_PRESETS)
def test_member_that_raises_the_priority_of_its_group_overrules_the_others(preset: Preset) -> None:
    story = Story(preset)
    story.add(make_pod("a", group="g", min_available=9, priority=1))
    story.add(make_pod("b", group="g", min_available=9, priority=3))
    story.delete("b")
    story.add(make_pod("c", group="g", min_available=9, priority=0))
    told = [(notice.uid, notice.priority, notice.used) for notice in story.of(PriorityOverruled)]
    assert told == [("default/a", 1, 3), ("default/c", 0, 1)]


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
@each_of(GANG_PRESETS)
def test_member_is_told_once_that_it_is_overruled(preset: Preset, way: Way) -> None:
    story = Story(preset, way)
    story.add(*(make_pod(f"w-{n}", group="g", min_available=9) for n in range(3)))
    for _again in range(3):
        story.add(make_pod("launcher", group="g", min_available=9, priority=5))
        story.interrupt()
        story.delete("launcher")
        story.interrupt()
    told = [(notice.uid, notice.priority, notice.used) for notice in story.of(PriorityOverruled)]
    assert told == [(f"default/w-{n}", 0, 5) for n in range(3)]


@each_of(GANG_PRESETS)
def test_members_of_ascending_priorities_are_each_overruled_once(preset: Preset) -> None:
    story = Story(preset)
    for n in range(20):
        story.add(make_pod(f"g-{n}", group="g", min_available=30, priority=n))
    told = [(notice.uid, notice.used) for notice in story.of(PriorityOverruled)]
    assert told == [(f"default/g-{n}", n + 1) for n in range(19)]


@each_of(GANG_PRESETS)
def test_member_that_is_no_longer_refused_overrules_the_others(preset: Preset) -> None:
    story = Story(preset)
    story.add(make_pod("a", group="g", min_available=2, priority=1))
    story.add(make_pod("b", group="g", min_available=3, priority=7))
    assert [notice.uid for notice in story.of(PodRefused)] == ["default/b"]
    assert not story.of(PriorityOverruled)
    story.tell(PodUpdated(make_pod("b", group="g", min_available=2, priority=7)))
    told = [(notice.uid, notice.priority, notice.used) for notice in story.of(PriorityOverruled)]
    assert told == [("default/a", 1, 7)]


_priorities = st.integers(0, 3)


@each_of(GANG_PRESETS)
@one_in(5, at_least=10)
@given(
    _priorities | st.none(),
    st.lists(_priorities, min_size=1, max_size=3),
    _priorities | st.none(),
    st.lists(_priorities, min_size=1, max_size=3),
    _priorities | st.none(),
)
def test_gang_goes_for_another_exactly_if_its_one_priority_is_lower(
    preset: Preset,
    stated: int | None,
    members: Sequence[int],
    stated_urgent: int | None,
    urgent: Sequence[int],
    later: int | None,
) -> None:
    story = Story(partial(preset, preemption=Preemption()))
    story.tell(NodeAdded(make_node("n", cpu=3)))
    for name, priority, own in (("g", stated, members), ("u", stated_urgent, urgent)):
        group = PodGroup(name=name, min_available=len(own), priority=priority)
        story.tell(PodGroupAdded(group))
        for number, each in enumerate(own):
            cpu = 3 if not number else 0
            story.add(make_pod(f"{name}-{number}", group=name, cpu=cpu, priority=each))
        story.run(story.now + 1.0)
    ranks = [max(members) if stated is None else stated]
    ranks.append(max(urgent) if stated_urgent is None else stated_urgent)
    assert bool(story.evicted) is (ranks[0] < ranks[1])
    if not story.evicted and later is not None:
        story.tell(PodGroupUpdated(PodGroup(name="u", min_available=len(urgent), priority=later)))
        story.run(story.now + 1.0)
        assert bool(story.evicted) is (ranks[0] < later)
