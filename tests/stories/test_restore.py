"""What was under way at a snapshot is repeated; at rest, live and restored decide alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    Bind,
    ClusterState,
    Effect,
    Evict,
    GroupKey,
    HostPort,
    LabelSelector,
    NodeAdded,
    NodeUpdated,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUpdated,
    Preemption,
    PreemptionPolicy,
    Resources,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.restored import posted, restored
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of

pytestmark = pytest.mark.once("the stories choose the unit themselves")


def preempting(preset: Preset) -> Callable[[ClusterState], Scheduler]:
    """Return a preset with preemption."""
    return lambda cluster: preset(cluster, preemption=Preemption())


def assert_nothing_is_stranded(story: Story) -> None:
    """Check that each pod is pending, running, being bound, or on its way out."""
    scheduler, known = story.scheduler, story.cluster.pods()
    alive = [pod for pod in known if not pod.is_finished and pod.deleted_at is None]
    counted = sum(row.pods for row in scheduler.pending()) + len(scheduler.binding())
    counted += sum(row.pods for row in scheduler.running())
    assert counted == len(alive), f"{len(alive)} pods, {counted} are pending, running or bound"


def crash(story: Story) -> None:
    """Replace the scheduler as ``interrupt`` does; binds under way and their answers are lost."""
    if story.way is not Way.LIVE:
        story.binds.clear()
    story.interrupt()


def accepted(story: Story) -> None:
    """Check that a snapshot of this instant is accepted."""
    data = json.loads(json.dumps(story.scheduler.snapshot()))
    story.make(story.cluster).restore(data)


@each_of(GANG_PRESETS)
@each_way
def test_bind_that_a_crash_swallows_is_repeated(preset: Preset, way: Way) -> None:
    story = Story(preempting(preset), way, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.gang("g", 2)
    story.decide()
    assert len(story.binds) == 2
    crash(story)
    story.run(30.0)
    story.finish_binds()
    assert story.bound == {"g-0": "n", "g-1": "n"}
    assert story.scheduler.pending() == ()


@each_of(GANG_PRESETS)
def test_bind_that_was_done_before_the_crash_is_not_repeated(preset: Preset) -> None:
    story = Story(preempting(preset), Way.RESTORED, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.gang("g", 2)
    story.decide()
    data = story.scheduler.snapshot()
    story.finish_binds()
    story.scheduler = story.make(story.cluster)
    story.scheduler.restore(data)
    before = len(story.of(Bind))
    story.run(30.0)
    assert len(story.of(Bind)) == before
    assert [row.name for row in story.scheduler.running()] == ["default/g"]


OUTGROWN: Mapping[str, dict[str, Any]] = {
    "requests": {"requests": {"cpu": 2}},
    "node_selector": {"node_selector": {"rack": "b"}},
    "scheduling_gates": {"scheduling_gates": ["kueue"]},
    "deleted_at": {"deleted_at": 0.0},
}


@pytest.mark.parametrize("change", list(OUTGROWN))
@each_of(GANG_PRESETS)
def test_bind_of_a_pod_that_may_not_go_there_by_now_is_not_repeated(
    preset: Preset, change: str
) -> None:
    story = Story(preempting(preset), Way.RESTORED, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("alone", cpu=1))
    story.decide()
    story.update("alone", **OUTGROWN[change])
    crash(story)
    story.run(30.0)
    assert len(story.of(Bind)) == 1
    assert not story.scheduler.binding()
    if change != "deleted_at":
        assert_nothing_is_stranded(story)
        story.tell(NodeAdded(make_node("b", cpu=2, labels={"rack": "b"})))
        story.update("alone", scheduling_gates=[])
        story.run(100.0)
        assert [bind.uid for bind in story.binds] == [story.uid("alone")]
    else:  # its node is free
        story.add(make_pod("next", cpu=1))
        story.decide()
        assert [bind.uid for bind in story.binds] == [story.uid("next")]


@each_of(GANG_PRESETS)
@each_way
def test_eviction_that_a_crash_swallows_is_repeated(preset: Preset, way: Way) -> None:
    story = Story(preempting(preset), way)
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("low", cpu=1))
    story.run(1.0)
    story.add(make_pod("high", cpu=1, priority=9))
    effects = story.scheduler.schedule_one(now=story.now)
    assert effects is not None
    assert [each.uid for each in effects if isinstance(each, Evict)] == [story.uid("low")]
    if way is Way.LIVE:
        story.delete("low")
    crash(story)
    story.run(100.0)
    assert story.bound == {"high": "n"}
    assert story.scheduler.pending() == ()


def reserved() -> Story:
    """Return a story in which the only member of a gang has a reservation."""
    story = Story(lambda cluster: presets.gang(cluster, backfill=Backfill(least_members=1)))
    story.tell(NodeAdded(make_node("n", cpu=4)))
    story.tell(PodGroupAdded(PodGroup(name="big", min_available=1, priority=1)))
    story.add(make_pod("runs", cpu=3, priority=5))
    story.run(1.0)
    story.add(make_pod("big-0", group="big", cpu=4, priority=1))
    story.run(2.0)
    assert story.scheduler.reservation is not None
    return story


def test_snapshot_is_accepted_after_the_only_member_with_a_reservation_is_updated() -> None:
    story = reserved()
    story.update("big-0", labels={**story.pod("big-0").labels, "a": "b"}, priority=2)
    accepted(story)
    story.decide()
    accepted(story)


@pytest.mark.parametrize("policy", list(PreemptionPolicy))
@each_of(GANG_PRESETS)
def test_snapshot_is_accepted_after_the_preemption_policy_of_a_parked_pod_changes(
    preset: Preset, policy: PreemptionPolicy
) -> None:
    story = Story(preempting(preset))
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("runs", cpu=1, priority=9))
    story.run(1.0)
    other = next(each for each in PreemptionPolicy if each is not policy)
    story.add(evolve(make_pod("parked", cpu=1), preemption_policy=other))
    story.run(2.0)
    story.update("parked", preemption_policy=policy)
    accepted(story)
    story.run(3.0)
    accepted(story)


def test_member_that_is_deleted_while_a_bind_is_lost_strands_no_other() -> None:
    story = Story(presets.gang, Way.RESTORED, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.gang("g", 2)
    story.decide()
    story.delete("g-0")
    crash(story)
    story.run(30.0)
    story.finish_binds()
    story.run(60.0)
    assert_nothing_is_stranded(story)


APART = PodAffinityTerm(
    topology_key="kubernetes.io/hostname", label_selector=LabelSelector(match_labels={"app": "a"})
)
CHANGES: Mapping[str, dict[str, Any]] = {
    "host_ports": {"host_ports": [HostPort(80)]},
    "pod_anti_affinity": {"pod_anti_affinity": [APART]},
    "node_selector": {"node_selector": {"rack": "b"}},
}


@pytest.mark.parametrize("change", list(CHANGES))
@each_of(GANG_PRESETS)
def test_restored_scheduler_decides_alike_after_a_pending_pod_was_updated(
    preset: Preset, change: str
) -> None:
    found: list[dict[str, str]] = []
    for way in Way:
        story = Story(preempting(preset), way)
        labels = {"kubernetes.io/hostname": "n", "rack": "a"}
        story.tell(NodeAdded(make_node("n", cpu=1, allocatable={"pods": 9}, labels=labels)))
        first = make_pod("first", cpu=1)
        story.add(evolve(first, labels={"app": "a"}, host_ports=[HostPort(80)]))
        story.run(1.0)
        story.add(make_pod("later", cpu=1))
        story.run(2.0)
        story.update("later", **CHANGES[change])
        story.run(3.0)
        story.interrupt()
        story.tell(NodeUpdated(make_node("n", cpu=2, allocatable={"pods": 9}, labels=labels)))
        story.run(100.0)
        assert_nothing_is_stranded(story)
        found.append(story.bound)
    assert found == [{"first": "n"}] * 3


@each_of(GANG_PRESETS)
def test_pod_that_is_updated_while_the_scheduler_is_down_is_tried_again(preset: Preset) -> None:
    story = Story(preset, Way.RESTORED)
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("runs", cpu=1))
    story.decide()
    story.gang("g", 2)
    story.run(60.0)
    for name in ("g-0", "g-1"):
        changed = evolve(story.pod(name), requests=Resources({}))
        story.cluster.apply(PodUpdated(changed))
    story.interrupt()
    story.run(120.0)
    assert story.bound == {"runs": "n", "g-0": "n", "g-1": "n"}


@each_of(GANG_PRESETS)
def test_pod_that_gets_a_gate_while_the_scheduler_is_down_is_not_placed(preset: Preset) -> None:
    story = Story(preset, Way.RESTORED)
    story.add(make_pod("p", cpu=1))
    story.decide()
    story.cluster.apply(PodUpdated(evolve(story.pod("p"), scheduling_gates=("later",))))
    story.interrupt()
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.run(60.0)
    assert story.bound == {}


def effects_of_a_deletion(preset: Preset, *, size: int, restores: bool) -> list[Effect]:
    """Return the effects after a gang that may preempt loses a member beyond its minimum."""
    story = Story(preempting(preset), Way.RESTORED, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=size)))
    story.gang("low", 2)
    story.run(1.0)
    story.gang("high", 4, min_available=3, priority=9)
    story.run(60.0)
    gone = story.cluster.apply(PodDeleted(story.pod("high-0").uid))
    if restores:
        story.scheduler = restored(story.make(story.cluster), posted(story.scheduler.snapshot()))
    story.effects.clear()
    story.effects += story.scheduler.handle(gone, now=story.now)
    story.run(120.0)
    return story.effects


@pytest.mark.parametrize("size", [2, 3], ids=["does not fit", "is nominated"])
@each_of(GANG_PRESETS)
def test_restored_scheduler_expects_nothing_of_a_pod_that_is_gone(
    preset: Preset, size: int
) -> None:
    live = effects_of_a_deletion(preset, size=size, restores=False)
    assert effects_of_a_deletion(preset, size=size, restores=True) == live


# Any history --------------------------------------------------------------------------------

Step = tuple[str, int]

SMALL = st.integers(0, 5)
STEPS = st.lists(
    st.tuples(st.sampled_from(["gang", "pod", "node", "delete", "update", "bind", "fail"]), SMALL)
    | st.tuples(st.sampled_from(["decide", "run", "crash"]), SMALL),
    min_size=3,
    max_size=14,
)


def perform(story: Story, step: Step, number: int) -> None:
    """Perform a step; *number* makes its names unique."""
    kind, value = step
    pods = sorted(story.cluster.pods(), key=lambda pod: pod.name)
    picked = pods[value % len(pods)] if pods else None
    if kind == "gang":
        story.gang(f"g{number}", 1 + value % 3, priority=value)
    elif kind == "pod":
        story.add(make_pod(f"p{number}", cpu=1 + value % 2, priority=value))
    elif kind == "node":
        story.tell(NodeAdded(make_node(f"n{number}", cpu=1 + value % 4)))
    elif kind == "delete" and picked is not None:
        story.delete(picked.name)
    elif kind == "update" and picked is not None and picked.node_name is None:
        change = [*CHANGES.values(), {"preemption_policy": PreemptionPolicy.NEVER}][value % 4]
        story.update(picked.name, **change)
    elif kind == "bind":
        story.finish_binds()
    elif kind == "fail" and story.binds:
        story.fail_bind(story.binds[0].uid.partition("/")[2])
    elif kind == "decide":
        story.decide()
    elif kind == "run":
        story.run(story.now + value)
    elif kind == "crash":
        if story.way is not Way.LIVE:
            story.scheduler.schedule_one(now=story.now)  # and its effects are lost
        crash(story)


def come_to_rest(story: Story) -> None:
    """Let all binds succeed and time pass."""
    for _ in range(8):
        story.run(story.now + 400.0)
        story.finish_binds()
    story.run(story.now + 400.0)
    assert not story.binds, "binds without an end"


@each_of(GANG_PRESETS)
@each_way
@one_in(2)
@given(STEPS)
def test_no_crash_strands_a_pod(preset: Preset, way: Way, steps: Sequence[Step]) -> None:
    story = Story(preempting(preset), way, holds_binds=True)
    for number, step in enumerate(steps):
        perform(story, step, number)
        accepted(story)
    come_to_rest(story)
    accepted(story)
    assert_nothing_is_stranded(story)
    assert not story.scheduler.binding()


@each_of(GANG_PRESETS)
@one_in(2)
@given(STEPS)
def test_restored_scheduler_ends_like_the_live_one(preset: Preset, steps: Sequence[Step]) -> None:
    """Nothing is under way: each effect is performed at once."""
    ends: list[dict[str, str]] = []
    for way in (Way.LIVE, Way.RESTORED):
        story = Story(preempting(preset), way)
        for number, step in enumerate(steps):
            if step[0] == "crash":
                story.decide()
                story.interrupt()
            else:
                perform(story, step, number)
        come_to_rest(story)
        ends.append(story.bound)
    assert ends[0] == ends[1]


def test_snapshot_is_accepted_after_the_group_that_states_the_priority_lost_its_pods() -> None:
    """The pods of the other group of the bundle were counted under another priority."""
    story = Story(presets.gang)
    bundle = (GroupKey("default/a"), GroupKey("default/b"))
    story.tell(NodeAdded(make_node("n", cpu=2)))
    for name, priority in (("a", 3), ("b", None)):
        group = PodGroup(name=name, min_available=1, priority=priority, bundle=bundle)
        story.tell(PodGroupAdded(group))
        story.add(make_pod(f"{name}-0", group=name, cpu=1))
    story.decide()
    assert sorted(story.bound) == ["a-0", "b-0"]
    story.delete("a-0")
    presets.gang(story.cluster).restore(story.scheduler.snapshot())
