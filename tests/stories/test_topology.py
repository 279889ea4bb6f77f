"""A gang within one value of a node label: late members, lost labels, members that never fit."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve

from gangsched import (
    LabelSelector,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
    Preemption,
    Topology,
)
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of


def gang_in_rack_a(preset: Preset, way: Way) -> Story:
    """Return a story in which two members run on the only node of rack a."""
    story = Story(preset, way)
    group = PodGroup(name="g", min_available=2, topology=Topology("rack"))
    story.tell(NodeAdded(make_node("a", cpu=2, labels={"rack": "a"})), PodGroupAdded(group))
    story.gang("g", 2, min_available=None)
    story.decide()
    assert story.bound == {"g-0": "a", "g-1": "a"}
    return story


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("lost", ["node", "label"])
def test_new_member_is_held_while_the_rack_of_its_gang_is_unknown(
    preset: Preset, lost: str, way: Way
) -> None:
    story = gang_in_rack_a(preset, way)
    story.tell(NodeAdded(make_node("plain", cpu=9)))
    story.tell(NodeAdded(make_node("b", cpu=9, labels={"rack": "b"})))
    story.tell(NodeDeleted("a") if lost == "node" else NodeUpdated(make_node("a", cpu=2)))
    story.interrupt()
    story.add(make_pod("late", group="g", cpu=1))
    story.run(until=60)
    assert "late" not in story.bound
    reason = story.of(PodUnschedulable)[-1].reason
    assert "within the rack of its members, whose nodes have no such label" in reason
    story.delete("g-0", "g-1")
    story.add(make_pod("later", group="g", cpu=1))
    story.run(until=120)
    assert story.bound == {"late": "b", "later": "b"}


@each_way
@each_of(GANG_PRESETS)
def test_new_member_joins_the_rack_again_once_the_label_is_back(preset: Preset, way: Way) -> None:
    story = gang_in_rack_a(preset, way)
    story.tell(NodeUpdated(make_node("a", cpu=3)))
    story.add(make_pod("late", group="g", cpu=1))
    story.run(until=60)
    assert "late" not in story.bound
    story.interrupt()
    story.tell(NodeUpdated(make_node("a", cpu=3, labels={"rack": "a"})))
    story.run(until=120)
    assert story.bound["late"] == "a"


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("beside", [False, True])
def test_late_member_is_told_that_its_rack_refuses_it(
    preset: Preset, beside: bool, way: Way
) -> None:
    story = gang_in_rack_a(preset, way)
    story.tell(
        NodeAdded(make_node("b", cpu=9, labels={"rack": "b"})),
        NodeAdded(make_node("c", cpu=9, labels={"rack": "c"})),
        NodeAdded(make_node("full", labels={"rack": "c"})),
    )
    story.interrupt()
    late = make_pod("late", group="g", cpu=1)
    if beside:  # plugins read the pods on nodes for it
        term = PodAffinityTerm(
            topology_key="kubernetes.io/hostname",
            label_selector=LabelSelector(match_labels={"app": "other"}),
        )
        late = evolve(late, pod_anti_affinity=[term])
    story.add(late)
    story.run(until=60)
    expected = "0/4 nodes are available: 2 Insufficient cpu, 2 node(s) not within rack=a."
    assert story.of(PodUnschedulable)[-1].reason == expected
    assert expected[:-1] in str(story.scheduler.why(story.uid("late")))


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("within", [None, Topology("rack")], ids=["anywhere", "within_a_rack"])
@pytest.mark.parametrize("is_full", [False, True], ids=["free", "full"])
@pytest.mark.parametrize("huge", [50, 3], ids=["never_fits", "takes_a_node"])
def test_minimum_starts_beside_members_that_never_fit_with_preemption(
    preset: Preset, huge: int, is_full: bool, within: Topology | None, way: Way
) -> None:
    story = Story(partial(preset, preemption=Preemption()), way)
    group = PodGroup(name="g", min_available=3, priority=5, topology=within)
    story.tell(
        NodeAdded(make_node("a", cpu=3, labels={"rack": "a"})),
        NodeAdded(make_node("b", cpu=3, labels={"rack": "b"})),
        PodGroupAdded(group),
    )
    story.add(*(make_pod(f"low-{n}", cpu=1) for n in range(6 if is_full else 1)))
    story.decide()
    story.interrupt()
    others = [make_pod(f"huge-{n}", group="g", cpu=huge, priority=5) for n in range(2)]
    small = [make_pod(f"small-{n}", group="g", cpu=1, priority=5) for n in range(3)]
    story.add(*others, *small)
    story.run(until=600)
    assert len(story.bound.keys() & {pod.name for pod in (*others, *small)}) >= 3
    if huge == 50:
        assert len(story.evicted) == (3 if is_full else 0)
