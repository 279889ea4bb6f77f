"""What holds or is being given nodes counts against a quota, in any order of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    NodeAdded,
    PlacementStrategy,
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
    small = Quota(name="team", namespaces=["default"], hard={"cpu": 4})
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


@each_way
@pytest.mark.parametrize("placement", [PlacementStrategy.PACK, PlacementStrategy.SPREAD])
def test_gang_of_unlike_members_starts_with_what_its_quota_allows(
    way: Way, placement: PlacementStrategy
) -> None:
    """All of its members were placed as its minimum, which is not asked again: 6 of 5 CPUs."""
    five = Quota(name="team", namespaces=["default"], hard={"cpu": 5})
    make = partial(presets.gang, placement=placement, quotas=[five])
    story = Story(make, way)
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=1)))
    story.add(*(make_pod(f"g-{cpu}", group="g", cpu=cpu) for cpu in (1, 2, 3)))
    story.interrupt()
    story.tell(NodeAdded(make_node("n", cpu=32)))
    story.run(60.0)
    assert used(story) == 5


@each_preset
@each_way
def test_bundle_starts_with_what_its_stated_resources_leave(preset: Preset, way: Way) -> None:
    """An elastic member took what the other group of the bundle reserves when it starts."""
    story = Story(limited(preset), way)
    for name, other, least, stated in (("a", "b", 2, 5), ("b", "a", 1, 0)):
        group = PodGroup(
            name=name,
            min_available=least,
            bundle=[f"default/{other}"],
            min_resources={"cpu": stated} if stated else {},
        )
        story.tell(PodGroupAdded(group))
    story.add(*(make_pod(f"a-{number}", group="a", cpu=1) for number in range(2)))
    story.add(*(make_pod(f"b-{number}", group="b", cpu=1) for number in range(5)))
    story.interrupt()
    story.tell(NodeAdded(make_node("n", cpu=32)))
    story.run(60.0)
    bound = sorted(story.bound)
    assert bound == ["a-0", "a-1", "b-0", "b-1", "b-2"], "5 CPUs are reserved for a, 3 are left"


@each_preset
@each_way
def test_late_member_starts_beside_one_that_is_too_large_for_the_quota(
    preset: Preset, way: Way
) -> None:
    """The large one took the node and was left out, and the other was not tried on it."""
    story = Story(limited(preset), way)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.gang("g", 2)
    story.run(1.0)
    story.interrupt()
    for name, cpu in (("large", 7), ("small", 6)):
        story.add(make_pod(name, group="g", min_available=2, cpu=cpu))
    story.run(60.0)
    assert "small" in story.bound
    assert "quota team" in str(story.scheduler.why(story.uid("large")))


@each_preset
@each_way
def test_gang_that_lost_members_takes_no_more_than_its_quota(preset: Preset, way: Way) -> None:
    """Each of two that came for them fits, but not both, and it needs both."""
    story = large_cluster(preset, way)
    story.gang("g", 3, cpu=2)
    story.run(1.0)
    story.delete("g-0", "g-1")
    story.interrupt()
    story.add(*(make_pod(f"new-{n}", group="g", min_available=3, cpu=4) for n in range(2)))
    story.run(60.0)
    assert used(story) <= LIMIT
    story.add(make_pod("small", group="g", min_available=3, cpu=2))
    story.delete("new-0")
    story.run(120.0)
    assert used(story) == LIMIT


@each_preset
@one_in(5, at_least=10)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.booleans(),
)
@example([8, 7], [9], True)
def test_member_that_is_left_out_keeps_no_other_one_waiting(
    preset: Preset, late: Sequence[int], nodes: Sequence[int], together: bool
) -> None:
    story = Story(limited(preset))
    story.tell(NodeAdded(make_node("first", cpu=1)))
    story.gang("g", 1)
    story.run(1.0)
    free = dict(zip(map("n{}".format, range(len(nodes))), nodes, strict=True))
    for number, cpu in enumerate(late):
        story.add(make_pod(f"late-{number}", group="g", min_available=1, cpu=cpu))
        if not together:
            story.run(story.now + 1.0)
    story.tell(*(NodeAdded(make_node(name, cpu=cpu)) for name, cpu in free.items()))
    story.run(60.0)
    assert used(story) <= LIMIT
    for pod in story.cluster.pods():
        if pod.node_name in free:
            free[pod.node_name] -= pod.requests.amount("cpu") // 1000
    least = min((cpu for n, cpu in enumerate(late) if f"late-{n}" not in story.bound), default=99)
    assert used(story) + least > LIMIT or max(free.values()) < least


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
