"""What holds or is being given nodes counts against a quota, in any order of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    NodeAdded,
    Pod,
    PodGroup,
    PodGroupAdded,
    Quota,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way, each_way
from support.story_presets import Preset, each_of

pytestmark = pytest.mark.once("the stories choose the unit themselves")

LIMIT = 8
TEAM = Quota(name="team", namespaces=["default"], hard={"cpu": LIMIT})
each_preset = each_of({"gang": presets.gang, "coscheduling": presets.coscheduling})


def limited(preset: Preset) -> Callable[[ClusterState], Scheduler]:
    """Return a preset with the quota."""
    return lambda cluster: preset(cluster, quotas=[TEAM])


def large_cluster(preset: Preset, way: Way = Way.LIVE, **host: Any) -> Story:
    """Return a story with nodes for everything that the quota refuses, too."""
    story = Story(limited(preset), way, **host)
    for number in range(4):
        story.tell(NodeAdded(make_node(f"n{number}", cpu=32)))
    return story


def used(story: Story) -> int:
    """Return how many CPUs pods of groups hold, or are being given.

    The bind of a pod that has been deleted meanwhile fails.
    """
    binding = {bind.uid for bind in story.binds}
    pods = story.cluster.pods()
    pods = [p for p in pods if p.node_name or (p.uid in binding and p.deleted_at is None)]
    held = [pod for pod in pods if not pod.is_finished]
    return sum(int(pod.requests.amount("cpu")) for pod in held) // 1000


def workers(name: str, size: int, cpu: int = 2) -> list[Pod]:
    """Return pods of a group whose object states the minimum."""
    return [make_pod(f"{name}-{number}", group=name, cpu=cpu) for number in range(size)]


@each_preset
@each_way
@pytest.mark.parametrize("order", ["group first", "pods first", "group in between"])
def test_elastic_gang_gets_its_quota_in_any_order(preset: Preset, way: Way, order: str) -> None:
    story = large_cluster(preset, way)
    group = PodGroupAdded(PodGroup(name="g", min_available=2))
    first = {"group first": 0, "pods first": 8, "group in between": 4}[order]
    pods = workers("g", 8)
    story.add(*pods[:first])
    story.tell(group)
    story.add(*pods[first:])
    story.run(5.0)
    story.interrupt()
    story.run(60.0)
    assert used(story) == LIMIT


@each_preset
def test_elastic_members_that_come_after_the_start_stay_within_the_quota(preset: Preset) -> None:
    story = large_cluster(preset)
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    for pod in workers("g", 8):
        story.add(pod)
        story.run(story.now + 1.0)
    assert used(story) == LIMIT
    waiting = str(story.scheduler.why(story.uid("g-7")))
    assert "exceeded quota team" in waiting


@each_preset
@each_way
def test_elastic_member_starts_once_its_quota_is_returned(preset: Preset, way: Way) -> None:
    story = large_cluster(preset, way)
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    story.add(*workers("g", 5))
    story.run(5.0)
    assert sorted(story.bound) == ["g-0", "g-1", "g-2", "g-3"]
    story.interrupt()
    story.delete("g-0")
    story.run(60.0)
    assert sorted(story.bound) == ["g-1", "g-2", "g-3", "g-4"]


@each_preset
def test_gang_waits_for_what_elastic_members_of_another_hold(preset: Preset) -> None:
    story = large_cluster(preset)
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    story.add(*workers("g", 4))
    story.run(5.0)
    story.gang("other", 2, cpu=1)
    story.run(10.0)
    assert used(story) == LIMIT
    story.delete("g-0")
    story.run(60.0)
    assert used(story) == LIMIT
    assert {"other-0", "other-1"} <= story.bound.keys()


def delete(story: Story) -> None:
    story.delete("g-4")


def terminate(story: Story) -> None:
    story.update("g-4", deleted_at=story.now)


def gate(story: Story) -> None:
    story.update("g-4", scheduling_gates=("held",))


@each_preset
@each_way
@pytest.mark.parametrize("loss", [delete, terminate, gate])
def test_gang_that_waits_for_its_quota_waits_on_when_it_loses_a_pod(
    preset: Preset, way: Way, loss: Callable[[Story], None]
) -> None:
    story = large_cluster(preset, way)
    story.gang("runs", 2, cpu=1)
    story.run(1.0)
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=4)))
    story.add(*workers("g", 5))
    story.run(2.0)
    assert sorted(story.bound) == ["runs-0", "runs-1"]
    loss(story)
    story.interrupt()
    story.run(60.0)
    assert sorted(story.bound) == ["runs-0", "runs-1"]
    story.delete("runs-0", "runs-1")
    story.run(120.0)
    assert used(story) == LIMIT


@each_preset
def test_member_that_terminates_on_its_node_counts_until_it_is_gone(preset: Preset) -> None:
    story = large_cluster(preset, holds_evictions=True)
    story.gang("a", 4, cpu=2)
    story.run(1.0)
    for name in list(story.bound):
        story.update(name, deleted_at=story.now)
    story.gang("b", 4, cpu=2)
    story.run(60.0)
    assert used(story) == LIMIT
    assert not [name for name in story.bound if name.startswith("b")]
    story.delete(*list(story.bound))
    story.run(120.0)
    assert len(story.bound) == 4


@each_preset
@each_way
@pytest.mark.parametrize("memory", ["0", "1Mi"], ids=["alike", "unlike"])
def test_gangs_that_fit_nowhere_take_the_quota_from_each_other_only_once(
    preset: Preset, memory: str, way: Way
) -> None:
    """Whenever one held it with members that waited, the other forgot why it had failed."""
    small = Quota(name="team", namespaces=["default"], hard={"cpu": 3})
    story = Story(lambda cluster: preset(cluster, quotas=[small]), way)
    story.tell(NodeAdded(make_node("n", cpu=2, allocatable={"memory": "1Gi"})))
    story.gang("a", 3)
    story.gang("b", 3, requests={"cpu": 1, "memory": memory})
    story.interrupt()
    story.add(make_pod("behind", cpu=1, created_at=5.0))
    story.decide()
    assert story.bound == {"behind": "n"}
    assert "quota" not in str(story.scheduler.why(story.uid("a-0")))
    story.tell(NodeAdded(make_node("m", cpu=2, allocatable={"memory": "1Gi"})))
    story.decide()
    assert len(story.bound) == 4
    story.delete(*(name for name in list(story.bound) if name != "behind"))
    story.run(60.0)
    assert len(story.bound) == 4


# Any history --------------------------------------------------------------------------------


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["group", "late", "worker", "worker", "gone", "dying", "gate", "run", "new", "bind"]
        ),
        st.integers(0, 5),
    ),
    min_size=3,
    max_size=16,
)


def perform(story: Story, step: tuple[str, int], number: int) -> None:
    """Perform a step; *number* makes its names unique."""
    kind, value = step
    pods = sorted(story.cluster.pods(), key=lambda pod: pod.name)
    picked = pods[value % len(pods)] if pods else None
    if kind == "group":
        story.tell(PodGroupAdded(PodGroup(name=f"g{value % 2}", min_available=1 + value % 3)))
    elif kind == "worker":
        story.add(make_pod(f"w{number}", group=f"g{value % 2}", cpu=1 + value % 3))
    elif kind == "late":
        story.gang(f"late{number}", 1 + value % 3)
    elif kind == "gone" and picked is not None:
        story.delete(picked.name)
    elif kind == "dying" and picked is not None:
        story.update(picked.name, deleted_at=story.now)
    elif kind == "gate" and picked is not None and picked.node_name is None:
        story.update(picked.name, scheduling_gates=("held",))
    elif kind == "run":
        story.run(story.now + value)
    elif kind == "bind":
        story.finish_binds()
    elif kind == "new":
        story.interrupt()


@each_preset
@each_way
@one_in(2)
@given(STEPS)
def test_quota_is_never_exceeded(
    preset: Preset, way: Way, steps: Sequence[tuple[str, int]]
) -> None:
    story = large_cluster(preset, way, holds_binds=True)
    for number, step in enumerate(steps):
        perform(story, step, number)
        story.decide()
        assert used(story) <= LIMIT, f"{used(story)} of {LIMIT} after {step}"
    for _ in range(4):
        story.run(story.now + 100.0)
        story.finish_binds()
        assert used(story) <= LIMIT
