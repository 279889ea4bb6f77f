"""A gang within one value of a node label: late members, lost labels, members that never fit."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    LabelSelector,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
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


# Bundles, and labels that change ----------------------------------------------------------------

TWO_PRESETS = {name: GANG_PRESETS[name] for name in ("gang", "coscheduling")}
FEEDER, TRAINER = GroupKey("default/feeder"), GroupKey("default/trainer")
BUNDLE = (FEEDER, TRAINER)


def in_rack(name: str, cpu: int, rack: str) -> NodeAdded:
    return NodeAdded(make_node(name, cpu=cpu, labels={"rack": rack}))


def trainer(**spec: Any) -> PodGroup:
    """Return the group of a bundle that belongs within one rack."""
    return PodGroup(name="trainer", min_available=1, topology=Topology("rack"), **spec)


def bundle_with_the_trainer_in_full_rack_a(preset: Preset, way: Way, **spec: Any) -> Story:
    """Return a story in which the feeder and the trainer run, and only rack b has capacity."""
    story = Story(preset, way)
    feeder = PodGroup(name="feeder", min_available=1, bundle=BUNDLE, **spec)
    story.tell(in_rack("a", 2, "a"), PodGroupAdded(feeder))
    story.tell(PodGroupAdded(trainer(bundle=BUNDLE, **spec)))
    story.add(*(make_pod(f"{name}-0", group=name, cpu=1) for name in ("feeder", "trainer")))
    story.decide()
    assert story.bound == {"feeder-0": "a", "trainer-0": "a"}
    story.tell(in_rack("b", 3, "b"))
    return story


@each_way
@each_of(TWO_PRESETS)
@pytest.mark.parametrize("end", ["deleted", "names no group"])
def test_late_member_stays_in_its_rack_when_the_bundle_of_its_gang_is_broken(
    preset: Preset, end: str, way: Way
) -> None:
    story = bundle_with_the_trainer_in_full_rack_a(preset, way)
    story.tell(
        PodGroupUpdated(PodGroup(name="feeder", min_available=1))
        if end == "names no group"
        else PodGroupDeleted(FEEDER)
    )
    story.interrupt()
    story.add(make_pod("late", group="trainer", cpu=1))
    story.run(until=60)
    assert "late" not in story.bound
    assert "1 node(s) not within rack=a" in story.of(PodUnschedulable)[-1].reason
    story.interrupt()
    story.tell(in_rack("more", 1, "a"))
    story.run(until=120)
    assert story.bound["late"] == "more"


@each_way
@each_of(TWO_PRESETS)
def test_late_member_stays_in_its_rack_when_its_gang_names_a_group_that_never_was(
    preset: Preset, way: Way
) -> None:
    story = Story(preset, way)
    story.tell(in_rack("a", 1, "a"), PodGroupAdded(trainer()))
    story.add(make_pod("trainer-0", group="trainer", cpu=1))
    story.decide()
    story.tell(in_rack("b", 3, "b"), PodGroupUpdated(trainer(bundle=BUNDLE)))
    story.interrupt()
    story.add(make_pod("late", group="trainer", cpu=1))
    story.run(until=60)
    assert story.bound == {"trainer-0": "a"}
    story.tell(in_rack("more", 1, "a"))
    story.run(until=120)
    assert story.bound["late"] == "more"


@each_way
@each_of(TWO_PRESETS)
def test_late_member_stays_in_its_rack_when_another_group_uses_its_nomination(
    preset: Preset, way: Way
) -> None:
    preset = partial(preset, preemption=Preemption(elastic_members=True))
    story = bundle_with_the_trainer_in_full_rack_a(preset, way, priority=5)
    story.holds_evictions = True
    story.add(make_pod("low", cpu=3))
    story.decide()
    story.add(
        make_pod("feeder-late", group="feeder", cpu=2, priority=5),
        make_pod("trainer-late", group="trainer", cpu=1, priority=5),
    )
    story.decide()
    assert story.evicted == ["low"]
    story.interrupt()
    story.delete("low")
    story.run(until=60)
    assert story.bound["feeder-late"] == "b"
    assert "trainer-late" not in story.bound
    story.tell(in_rack("more", 1, "a"))
    story.run(until=120)
    assert story.bound["trainer-late"] == "more"


@each_way
@each_of(TWO_PRESETS)
@pytest.mark.parametrize("how", ["relabelled", "deleted and added again"])
def test_late_member_starts_once_the_node_of_its_gang_is_in_a_rack_with_capacity(
    preset: Preset, how: str, way: Way
) -> None:
    story = gang_in_rack_a(preset, way)
    story.tell(in_rack("b", 9, "b"))
    story.add(make_pod("late", group="g", cpu=1))
    story.run(until=60)
    assert "late" not in story.bound
    story.interrupt()
    moved = make_node("a", cpu=2, labels={"rack": "b"})
    if how == "relabelled":
        story.tell(NodeUpdated(moved))
    else:
        story.tell(NodeDeleted("a"), NodeAdded(moved))
    story.run(until=120)
    assert story.bound["late"] == "b"
