"""A gang on nodes is charged for what it holds and lacks, whoever started it, and for no more."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    ClusterState,
    MatchPolicy,
    NodeAdded,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    Preemption,
    Quota,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import Preset, each_of

pytestmark = pytest.mark.once("the stories choose the unit themselves")

each_preset = each_of({"gang": presets.gang, "coscheduling": presets.coscheduling})
member = partial(make_pod, group="g", min_available=2)


def limited(preset: Preset, way: Way, limit: int, *nodes: int) -> Story:
    """Return a story with a quota, and nodes of so many CPUs."""
    team = Quota(name="team", namespaces=["default"], hard={"cpu": limit})

    def make(cluster: ClusterState) -> Scheduler:
        return preset(cluster, quotas=[team])

    story = Story(make, way)
    story.tell(*(NodeAdded(make_node(f"n{number}", cpu=cpu)) for number, cpu in enumerate(nodes)))
    return story


def used(story: Story) -> int:
    """Return how many CPUs are in use."""
    return sum(story.pod(name).requests.amount("cpu") for name in story.bound) // 1000


def static(cpu: int) -> Pod:
    """Return a member that another scheduler has put on a node."""
    return evolve(member("static", cpu=cpu), node_name=NodeName("n0"))


@each_preset
@each_way
def test_gang_that_fills_its_quota_takes_no_more_for_the_large_members_that_wait(
    preset: Preset, way: Way
) -> None:
    """It was charged for these when the scheduler was replaced: 5 of 4 CPUs."""
    story = limited(preset, way, 4, 32)
    story.add(*(member(f"small-{number}", cpu=1) for number in range(4)))
    story.run(1.0)
    story.add(*(member(f"large-{number}", cpu=3) for number in range(2)), member("late", cpu=1))
    story.run(60.0)
    story.interrupt()
    story.run(600.0)
    assert used(story) == 4
    assert "exceeded quota team" in str(story.scheduler.why(story.uid("late")))


@each_preset
@each_way
def test_large_members_that_wait_keep_the_quota_from_no_other_gang(
    preset: Preset, way: Way
) -> None:
    story = limited(preset, way, 8, 8)
    story.gang("g", 2)
    story.run(1.0)
    story.add(*(member(f"large-{number}", cpu=7) for number in range(2)))
    story.run(60.0)
    story.interrupt()
    story.gang("other", 2, cpu=2)
    story.run(600.0)
    assert sorted(story.bound) == ["g-0", "g-1", "other-0", "other-1"]


@each_preset
@each_way
def test_larger_member_that_found_no_node_is_not_charged(preset: Preset, way: Way) -> None:
    """Without it, or with another scheduler, less was charged."""
    story = limited(preset, way, 5, 2, 2, 2)
    story.add(member("small", min_available=1, cpu=1), member("large", min_available=1, cpu=3))
    story.run(1.0)
    story.interrupt()
    story.gang("other", 2, cpu=2)
    story.run(60.0)
    assert sorted(story.bound) == ["other-0", "other-1", "small"]


@each_preset
@each_way
@pytest.mark.parametrize("first", [True, False], ids=["static first", "static last"])
def test_gang_with_a_member_of_another_scheduler_starts_within_its_quota(
    preset: Preset, way: Way, first: bool
) -> None:
    """It holds 1 CPU and lacks 3. It was charged 6, and took 5."""
    story = limited(preset, way, 4, 32)
    pods = [member(f"g-{number}", cpu=3) for number in range(3)]
    story.add(*([static(1), *pods] if first else [*pods, static(1)]))
    story.add(member("late", cpu=1))
    story.interrupt()
    story.run(100.0)
    assert len(story.bound) == 2, "any other one meets the minimum"
    assert used(story) <= 4


@each_preset
@each_way
def test_gang_that_lacks_more_than_is_left_reserves_nothing_beside_what_it_holds(
    preset: Preset, way: Way
) -> None:
    """It was charged 5 of 4 CPUs, so that it started, and another one did not."""
    story = limited(preset, way, 4, 32)
    story.add(*(member(f"g-{number}", cpu=4) for number in range(2)), static(1))
    story.interrupt()
    story.gang("other", 3, cpu=1)
    story.run(100.0)
    assert sorted(story.bound) == ["other-0", "other-1", "other-2", "static"]
    story.delete("other-0", "other-1", "other-2")
    story.run(200.0)
    assert sorted(story.bound) == ["static"]
    assert "exceeded quota team" in str(story.scheduler.why("default/g"))


@each_preset
@each_way
def test_gang_reserves_what_it_lacks_once_that_fits(preset: Preset, way: Way) -> None:
    story = limited(preset, way, 4, 1, 2)
    story.gang("other", 2)
    story.run(1.0)
    story.add(member("g-0", cpu=3), static(1))
    story.interrupt()
    story.run(10.0)
    assert sorted(story.bound) == ["other-0", "other-1", "static"]
    story.delete("other-0", "other-1")
    story.run(60.0)
    story.gang("third", 1)
    story.tell(NodeAdded(make_node("large", cpu=3)))
    story.run(120.0)
    assert sorted(story.bound) == ["g-0", "static"]


@each_preset
@each_way
def test_member_that_has_succeeded_is_not_taken_for_one_that_starts(
    preset: Preset, way: Way
) -> None:
    """It counts only while the others are too few, and both were started: 10 of 8 CPUs."""
    story = limited(preset, way, 8, 32)
    story.add(static(1))
    story.update("static", phase=PodPhase.SUCCEEDED)
    story.interrupt()
    story.add(*(member(f"g-{number}", cpu=5) for number in range(2)))
    story.run(60.0)
    bound = [name for name in story.bound if name != "static"]
    assert len(bound) <= 1, "8 CPUs are too few for both"


@each_preset
@each_way
def test_member_on_a_node_is_not_taken_for_one_that_starts_if_only_waiting_ones_count(
    preset: Preset, way: Way
) -> None:
    policy = MatchPolicy.ONLY_WAITING
    story = limited(partial(preset, match_policy=policy), way, 8, 32)
    story.add(static(1), *(member(f"g-{number}", cpu=4) for number in range(2)))
    story.interrupt()
    story.run(60.0)
    assert sorted(story.bound) == ["static"], "both start, or none, and 8 CPUs are too few for all"


def test_gang_over_its_quota_that_a_reservation_exempts_is_passed_over() -> None:
    """It stayed parked and was chosen again, so that ``schedule_one`` never returned."""
    team = Quota(name="team", namespaces=["default"], hard={"cpu": 4})
    story = Story(
        partial(
            presets.gang, quotas=[team], backfill=Backfill(None), preemption=Preemption(grace=60.0)
        )
    )
    story.tell(PodGroupAdded(PodGroup(name="a", min_available=2, priority=3)))
    nowhere = evolve(make_pod("a-1", group="a", cpu="999m"), node_selector={"pool": "none"})
    story.add(make_pod("a-0", group="a", cpu="999m"), nowhere)
    story.add(make_pod("b-0", group="b", min_available=1))
    story.decide()
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.tell(PodGroupAdded(PodGroup(name="d", min_available=1, priority=2)))
    story.add(
        *(
            make_pod(f"d-{number}", group="d", cpu=cpu)
            for number, cpu in enumerate(("667m", "1", "1"))
        )
    )
    story.decide()
    assert sorted(story.bound) == ["b-0", "d-0", "d-1", "d-2"]
