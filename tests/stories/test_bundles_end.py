"""Groups of a bundle end together, and a group that is named by one side only ends alone.

Groups are a bundle only if each names all the others. The names can differ while the
specifications of a bundle change one by one, or because a stranger names a gang of another team.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    GroupBound,
    GroupKey,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    NodeAdded,
    NodeUpdated,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    Preemption,
    Quota,
    RestartPolicy,
    SchedulingUnit,
    WhenBindFails,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of

FEEDER: Final = GroupKey("default/feeder")
TRAINER: Final = GroupKey("default/trainer")
BUNDLE: Final = (FEEDER, TRAINER)
QUOTA_PRESETS: Final[Mapping[str, Preset]] = {
    "gang": presets.gang,
    "coscheduling": presets.coscheduling,
}


def group_of(name: str, **spec: Any) -> PodGroup:
    return PodGroup(name=name, min_available=1, **spec)


def after_the_trainer_left(story: Story, **spec: Any) -> None:
    """Start both as a bundle, and then let the trainer name no groups."""
    for name in ("feeder", "trainer"):
        story.tell(PodGroupAdded(group_of(name, bundle=BUNDLE, **spec)))
    add_the_members(story)
    story.tell(PodGroupUpdated(group_of("trainer", **spec)))


def after_the_feeder_named_the_trainer(story: Story, **spec: Any) -> None:
    """Start both alone, and then let the feeder name both."""
    for name in ("feeder", "trainer"):
        story.tell(PodGroupAdded(group_of(name, **spec)))
    add_the_members(story)
    story.tell(PodGroupUpdated(group_of("feeder", bundle=BUNDLE, **spec)))


def add_the_members(story: Story) -> None:
    story.add(make_pod("feeder-0", group="feeder", cpu=1))
    story.add(make_pod("trainer-0", group="trainer", cpu=1, priority=1))
    story.decide()
    story.finish_binds()


@each_way
@each_of(GANG_PRESETS)
def test_preempted_bundle_fails_once(preset: Preset, way: Way) -> None:
    story = Story(partial(preset, preemption=Preemption()), way)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    for name in ("feeder", "trainer"):
        story.tell(PodGroupAdded(group_of(name, bundle=BUNDLE)))
    add_the_members(story)
    story.interrupt()
    story.effects.clear()
    story.add(*(make_pod(f"{name}-1", group=name, cpu=1) for name in ("feeder", "trainer")))
    story.add(make_pod("urgent", cpu=2, priority=2))
    story.decide()
    assert sorted(story.evicted) == ["feeder-0", "trainer-0"]
    rejected = story.of(GroupRejected)
    assert sorted(each.group for each in rejected) == [FEEDER, TRAINER]
    assert {each.retry_after for each in rejected} == {story.now + 1.0}, "the first backoff"


each_history = pytest.mark.parametrize(
    "begin", [after_the_trainer_left, after_the_feeder_named_the_trainer]
)

Begin = Callable[..., None]


def running(preset: Preset, way: Way, begin: Begin, spec: Any = None, **how: Any) -> Story:
    """Return a story with one node of 2 CPUs, on which both gangs run."""
    story = Story(partial(preset, **how), way)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    begin(story, **(spec or {}))
    assert sorted(story.bound) == ["feeder-0", "trainer-0"]
    return story


@each_way
@each_of(GANG_PRESETS)
@each_history
def test_preemption_evicts_no_gang_that_does_not_name_the_victim(
    preset: Preset, way: Way, begin: Begin
) -> None:
    story = running(preset, way, begin, preemption=Preemption())
    story.interrupt()
    story.add(make_pod("urgent", cpu=1, priority=1))
    story.run(until=60)
    assert story.evicted == ["feeder-0"]
    assert sorted(story.bound) == ["trainer-0", "urgent"]


@each_way
@each_of(GANG_PRESETS)
@each_history
def test_restart_takes_no_gang_along_that_does_not_name_the_restarted_one(
    preset: Preset, way: Way, begin: Begin
) -> None:
    spec = {"restart": RestartPolicy(max_restarts=3, backoff=10.0)}
    story = running(preset, way, begin, spec, preemption=Preemption())
    story.interrupt()
    story.update("feeder-0", phase=PodPhase.FAILED)
    story.run(until=60)
    assert [each.group for each in story.of(GroupRestarted)] == [FEEDER]
    assert story.evicted == []
    assert story.pod("trainer-0").node_name == "n"


@each_way
@each_of(QUOTA_PRESETS)
def test_incomplete_gang_returns_no_quota_of_a_gang_that_does_not_name_it(
    preset: Preset, way: Way
) -> None:
    quota = Quota(name="team", namespaces=["default"], hard={"cpu": 2})
    story = Story(partial(preset, quotas=[quota]), way)
    story.tell(PodGroupAdded(group_of("trainer")))
    story.add(make_pod("trainer-0", group="trainer", cpu=2))
    story.interrupt()
    story.tell(PodGroupAdded(evolve(group_of("feeder", bundle=BUNDLE), min_available=2)))
    story.add(make_pod("feeder-0", group="feeder", cpu=1))
    story.gang("other", 1, cpu=2)
    story.run(until=5)
    story.tell(NodeAdded(make_node("n", cpu=8)))
    story.run(until=60)
    assert story.bound == {"trainer-0": "n"}, "it came first, and the quota is for one"


def waiting(preset: Preset, way: Way) -> Story:
    """Return a story in which both gangs have failed as a bundle, and the trainer lost its pod."""
    story = Story(preset, way)
    story.tell(NodeAdded(make_node("n", cpu=1)))
    for name in ("feeder", "trainer"):
        story.tell(PodGroupAdded(group_of(name, bundle=BUNDLE)))
    add_the_members(story)
    story.run(until=1)
    story.delete("trainer-0")
    story.run(until=100)
    return story


@each_way
@each_of(GANG_PRESETS)
def test_group_that_is_forgotten_and_comes_back_starts_with_its_bundle(
    preset: Preset, way: Way
) -> None:
    story = waiting(preset, way)
    story.tell(PodGroupDeleted(TRAINER))
    assert [notice.group for notice in story.of(GroupRemoved)] == [TRAINER]
    story.interrupt()
    story.tell(PodGroupAdded(group_of("trainer", bundle=BUNDLE)))
    story.add(make_pod("trainer-0", group="trainer", cpu=1))
    story.run(until=200)
    assert story.bound == {}, "one of a bundle does not start alone"
    story.tell(NodeUpdated(make_node("n", cpu=2)))
    story.run(until=300)
    assert sorted(story.bound) == ["feeder-0", "trainer-0"]


@each_of(GANG_PRESETS)
@pytest.mark.parametrize("lists", [False, True])
def test_restored_scheduler_tells_of_a_group_without_members_what_the_live_one_tells(
    preset: Preset, lists: bool
) -> None:
    told: list[list[str]] = []
    for way in (Way.LIVE, Way.RESTORED):
        story = waiting(preset, way)
        before = len(story.effects)
        story.interrupt()
        if lists:
            assert story.scheduler.rebuild(now=story.now) == ()
        story.run(until=200)
        assert len(story.effects) == before, "nothing has changed"
        story.add(make_pod("trainer-1", group="trainer", cpu=1))
        story.run(until=300)
        story.delete("trainer-1")
        story.run(until=400)
        told.append([str(effect) for effect in story.effects[before:]])
    assert told[0] == told[1]


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("fits", [True, False])
def test_group_that_joins_a_bundle_ends_and_runs_as_the_attempt_that_started_it(
    fits: bool, unit: SchedulingUnit, way: Way
) -> None:
    """The bundle was tried since, for its other group."""
    policy = partial(presets.coscheduling, unit=unit, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    for fails in (True, False):
        story = Story(policy, way, holds_binds=True)
        story.tell(NodeAdded(make_node("n", cpu=2 if fits else 1)))
        story.tell(PodGroupAdded(group_of("feeder")))
        story.add(make_pod("feeder-0", group="feeder", cpu=1))
        story.decide()
        story.tell(PodGroupUpdated(group_of("feeder", bundle=BUNDLE)))
        story.tell(PodGroupAdded(group_of("trainer", bundle=BUNDLE)))
        story.add(make_pod("trainer-0", group="trainer", cpu=1))
        story.decide()
        story.interrupt()
        (started,) = (each for each in story.of(GroupScheduled) if each.group == FEEDER)
        story.effects.clear()
        if fails:
            story.fail_bind("feeder-0")
        else:
            story.finish_binds()
        ends: list[GroupRejected | GroupBound] = [*story.of(GroupRejected), *story.of(GroupBound)]
        assert [each.attempt for each in ends if each.group == FEEDER] == [started.attempt]


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("joins", [True, False])
def test_gang_that_is_given_up_binds_nothing_first(
    joins: bool, unit: SchedulingUnit, way: Way
) -> None:
    """Of a member whose bind failed the node is taken; a sibling, or the other group, would fit."""
    policy = partial(
        presets.coscheduling,
        unit=unit,
        when_bind_fails=WhenBindFails.RELEASE_AFTER_RETRIES,
        can_evict=True,
    )
    story = Story(policy, way, holds_binds=True)
    story.tell(*(NodeAdded(make_node(f"n{number}", cpu=2)) for number in range(3)))
    story.tell(PodGroupAdded(evolve(group_of("feeder"), min_available=3)))
    story.add(*(make_pod(f"feeder-{n}", group="feeder", cpu=2) for n in range(3)))
    story.decide()
    for name in ("feeder-0",) if joins else ("feeder-0", "feeder-1"):
        story.fail_bind(name)
    story.finish_binds()
    story.interrupt()
    story.add(make_pod("urgent", cpu=1, priority=1))
    story.decide()
    story.finish_binds()
    if joins:
        bundle = evolve(group_of("feeder", bundle=BUNDLE), min_available=3)
        story.tell(PodGroupAdded(group_of("trainer", bundle=BUNDLE)), PodGroupUpdated(bundle))
        story.add(make_pod("trainer-0", group="trainer", cpu=1))
    story.effects.clear()
    story.run(until=2.0)
    assert not story.of(Bind)
    assert set(story.bound) == {"urgent"}
