"""Snapshots, quotas and restarts of the core, under histories in which it is restored at random."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from attrs import evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    Bound,
    ClusterState,
    Effect,
    GroupRejected,
    InMemoryCluster,
    NodeAdded,
    NodeUpdated,
    NominationLapsed,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodPhase,
    PodScheduled,
    PodUpdated,
    Preemption,
    PriorityOverruled,
    Quota,
    Resources,
    RestartPolicy,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way

# Quotas and restarts ------------------------------------------------------------------------------

LIMIT = 6
TEAM = Quota(name="team", namespaces=["default"], hard={"cpu": LIMIT})
MOST_RESTARTS = 2
SECONDS = "example.com/seconds"


@frozen
class Seen:
    """What an oracle remembers: it counts from the cluster and from effects alone.

    Attributes:
        restarts: How often each group was restarted.
        until: When a group may start again at the earliest.
    """

    restarts: dict[str, int] = field(factory=dict[str, int])
    until: dict[str, float] = field(factory=dict[str, float])


def limited(unit: SchedulingUnit) -> Any:
    """Return what makes a scheduler of the core with a quota."""

    def make(cluster: ClusterState) -> Scheduler:
        return presets.coscheduling(cluster, unit=unit, quotas=[TEAM], can_evict=True)

    return make


def check(story: Story, seen: Seen, since: int) -> None:
    """Check the effects since a point: no quota is exceeded, and restarts keep their rules."""
    binding = {bind.uid for bind in story.binds}
    held = [p for p in story.cluster.pods() if p.node_name or p.uid in binding]
    used = sum(int(p.requests.amount("cpu")) for p in held if not p.is_finished) // 1000
    assert used <= LIMIT, f"{used} of {LIMIT}"
    for effect in story.effects[since:]:
        if type(effect).__name__ == "GroupRestarted":
            told: Any = effect
            assert told.restarts == seen.restarts.get(told.group, 0) + 1
            assert told.restarts <= MOST_RESTARTS
            seen.restarts[told.group] = told.restarts
            seen.until[told.group] = told.until
        elif isinstance(effect, Bind):
            pod = story.cluster.pod(effect.uid)
            group = f"default/{effect.uid.partition('/')[2].partition('-')[0]}"
            until = seen.until.get(group)
            assert until is None or story.now >= until, f"{pod} starts before its backoff ends"


@pytest.mark.parametrize("unit", SchedulingUnit)
@one_in(8)
@given(st.integers(0, 1 << 32))
def test_quotas_and_restarts_hold_in_any_history(unit: SchedulingUnit, seed: int) -> None:
    draw, seen = random.Random(seed), Seen()
    story = Story(limited(unit), Way.RESTORED)
    for number in range(3):
        story.tell(NodeAdded(make_node(f"n{number}", cpu=4)))
    for number in range(3):
        least, policy = draw.randint(1, 3), RestartPolicy(max_restarts=MOST_RESTARTS, backoff=5.0)
        given_policy = policy if draw.random() < 0.7 else None
        spec = PodGroup(name=f"g{number}", min_available=least, restart=given_policy)
        story.tell(PodGroupAdded(spec))
    for number in range(25):
        since = len(story.effects)
        step = draw.choice(["add", "add", "add", "fail", "delete", "die", "run", "run", "restore"])
        pods = sorted(story.cluster.pods(), key=lambda pod: pod.name)
        picked = draw.choice(pods) if pods else None
        if step == "add":
            group = f"g{draw.randrange(3)}"
            story.add(make_pod(f"{group}-{number}", group=group, cpu=draw.randint(1, 2)))
        elif step == "run":
            story.run(story.now + draw.choice([0.5, 2.0, 30.0]))
        elif step == "restore":
            story.interrupt()
        elif picked is not None and step == "delete":
            story.delete(picked.name)
        elif picked is not None and step == "die":
            story.update(picked.name, deleted_at=story.now)
        elif picked is not None and picked.node_name is not None:
            story.update(picked.name, phase=PodPhase.FAILED)
        story.decide()
        check(story, seen, since)
        story.scheduler._check()
    for pod in list(story.cluster.pods()):
        story.delete(pod.name)
    story.run(story.now + 1_000.0)
    assert story.scheduler.pending() == ()
    assert story.scheduler.running() == ()


def restored(story: Story) -> Scheduler:
    """Return a scheduler that is restored from a snapshot of a story's one."""
    again = story.make(story.cluster)
    again.restore(json.loads(json.dumps(story.scheduler.snapshot())))
    return again


def test_bind_of_a_pod_whose_requests_have_grown_keeps_its_node_if_it_fits() -> None:
    story = Story(limited(SchedulingUnit.GROUP), Way.RESTORED, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.add(make_pod("p", cpu=1))
    story.decide()
    (bind,) = story.binds
    story.update("p", requests=Resources({"cpu": 2}))
    story.interrupt()
    assert story.binds == [bind]
    story.add(make_pod("q", cpu=2))
    story.decide()
    assert story.binds == [bind], "the capacity is taken"
    story.finish_binds()
    assert story.bound == {"p": "n"}


@pytest.mark.parametrize("times", [1, 2])
def test_bind_of_a_pod_that_its_node_takes_no_longer_counts_as_failed(times: int) -> None:
    story = Story(limited(SchedulingUnit.GROUP), Way.RESTORED, holds_binds=True)
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.add(make_pod("p", cpu=1))
    story.decide()
    story.update("p", node_selector={"zone": "a"})
    for _time in range(times):
        story.scheduler = restored(story)
    effects = story.scheduler.advance(now=story.now)
    assert not any(isinstance(effect, Bind) for effect in effects)
    assert "binding rejected" in str(story.scheduler.why("default/p", budget=0))


def core_with(**options: Any) -> Any:
    """Return what makes a scheduler of the core."""

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, **options)

    return make


def preempting(way: Way) -> Story:
    """Return a story in which the nodes of a gang of two are nominated."""
    story = Story(core_with(preemption=Preemption()), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.add(*(evolve(make_pod(f"low-{n}", cpu=1), node_name="n") for n in range(2)))
    story.gang("high", 2, priority=5)
    story.decide()
    assert story.evicted == ["low-0", "low-1"]
    return story


def test_notice_of_a_nomination_names_a_pod_that_has_changed_by_the_time_of_a_restore() -> None:
    live, other = preempting(Way.LIVE), preempting(Way.RESTORED)
    live.update("high-1", requests=Resources({"cpu": 2}))
    (expected,) = live.of(NominationLapsed)
    assert expected.pods == (live.uid("high-0"), live.uid("high-1"))
    data = other.scheduler.snapshot()
    changed = evolve(other.pod("high-1"), requests=Resources({"cpu": 2}))
    other.cluster.apply(PodUpdated(changed))  # no event tells of it
    other.scheduler = other.make(other.cluster)
    other.scheduler.restore(data)
    assert other.scheduler.snapshot()["nominations"]
    other.run(other.now)
    assert other.of(NominationLapsed) == [expected]


def reserving(way: Way) -> Story:
    """Return a story in which capacity is reserved, and an exempt gang failed and was deleted."""
    story = Story(core_with(backfill=Backfill(AnnotatedRunTimes(SECONDS))), way)
    for name in ("a", "b"):
        story.tell(NodeAdded(make_node(name, cpu=2)))
    story.add(evolve(make_pod("old", cpu=1), annotations={SECONDS: "100"}))
    story.decide()
    group(story, "big", (1, 1, 1, 1), 10)
    assert story.scheduler.reservation is not None
    group(story, "short", UNLIKE, 10)
    story.delete(*(f"short-{number}" for number in range(3)))
    return story


UNLIKE = (2, 1, 1)
"""The CPUs of members of which as many fit as are needed, each class counted by itself."""


def group(story: Story, name: str, cpus: tuple[int, ...], seconds: int) -> None:
    """Add a gang of members with some CPUs and a run time, and decide."""
    for number, cpu in enumerate(cpus):
        pod = make_pod(f"{name}-{number}", group=name, min_available=len(cpus), cpu=cpu)
        story.add(evolve(pod, annotations={SECONDS: str(seconds)}))
    story.decide()


def test_failure_of_an_exempt_gang_that_is_gone_counts_no_more_restored_or_not() -> None:
    told: dict[Way, list[Effect]] = {}
    for way in (Way.LIVE, Way.RESTORED):
        story = reserving(way)
        story.interrupt()
        since = len(story.effects)
        group(story, "long", UNLIKE, 1000)
        story.interrupt()
        group(story, "shorter", UNLIKE, 5)
        told[way] = story.effects[since:]
    assert told[Way.RESTORED] == told[Way.LIVE]
    tried = [e for e in told[Way.LIVE] if isinstance(e, GroupRejected)]
    assert [e.group for e in tried if e.group != "default/big"] == [
        "default/long",
        "default/shorter",  # as the one before, which was not exempt
        "default/shorter",
    ]


def unlike_story(way: Way) -> Story:
    """Return a story in which a gang failed of which enough members seem to fit one by one."""
    story = Story(core_with(), way)
    story.tell(*(NodeAdded(make_node(name, cpu=2)) for name in ("a", "b")))
    story.add(make_pod("old", cpu=1))
    story.decide()
    group(story, "g", UNLIKE, 10)
    assert sorted(story.bound) == ["old"]
    return story


@pytest.mark.parametrize("way", [Way.LIVE, Way.RESTORED])
def test_listing_of_nodes_that_have_not_changed_wakes_no_gang(way: Way) -> None:
    story = unlike_story(way)
    story.interrupt()
    assert story.scheduler.rebuild(now=story.now) == ()
    assert story.scheduler.schedule_one(now=story.now) is None


@pytest.mark.parametrize("listed", [True, False])
def test_node_that_grew_before_a_restore_wakes_a_gang_when_it_is_read(listed: bool) -> None:
    story = unlike_story(Way.RESTORED)
    data = story.scheduler.snapshot()
    event = story.cluster.apply(NodeUpdated(make_node("a", cpu=3)))
    for _again in range(2):  # and so it is after a second restore before the node was read
        story.scheduler = story.make(story.cluster)
        story.scheduler.restore(data)
        data = story.scheduler.snapshot()
    if listed:
        story.scheduler.rebuild(now=story.now)
    else:
        story.scheduler.handle(event, now=story.now)
    story.decide()
    assert sorted(story.bound) == ["g-0", "g-1", "g-2", "old"]


def test_pod_that_joined_another_group_before_a_restore_is_read_as_a_new_one() -> None:
    told: dict[Way, tuple[Effect, ...]] = {}
    for way in (Way.LIVE, Way.RESTORED):
        story = Story(limited(SchedulingUnit.GROUP), way)
        story.tell(PodGroupAdded(PodGroup(name="h", min_available=2, priority=5)))
        story.gang("g", 2)
        changed = evolve(story.pod("g-1"), labels=make_pod("x", group="h").labels)
        event = story.cluster.apply(PodUpdated(changed))
        story.scheduler = restored(story) if way is Way.RESTORED else story.scheduler
        told[way] = story.scheduler.handle(event, now=story.now)
    assert told[Way.RESTORED] == told[Way.LIVE]
    assert any(isinstance(effect, PriorityOverruled) for effect in told[Way.LIVE])


def test_queue_entry_and_group_say_what_an_attempt_has_not_tried_yet() -> None:
    story = Story(limited(SchedulingUnit.POD), Way.RESTORED)
    story.tell(NodeAdded(make_node("n", cpu=2)))
    story.gang("g", 3, priority=4)
    seen: list[tuple[int, int]] = []
    for _cycle in range(2):
        (entry,) = story.scheduler.queue.active
        assert entry.group is not None
        seen.append((entry.priority, entry.group.untried))
        story.cycle()
        story.interrupt()
    assert seen == [(4, 3), (4, 2)]


@pytest.mark.parametrize("is_bound", [True, False])
def test_pod_is_read_anew_after_a_call_that_read_what_a_snapshot_leaves_open(
    is_bound: bool,
) -> None:
    """Its group changed while the scheduler was away, and the first call is about no event."""
    cluster = InMemoryCluster()
    before = presets.gang(cluster)
    pod = make_pod("a", group="g", cpu=1)
    group = PodGroup(name="g", min_available=1)
    for event in (NodeAdded(make_node("n", cpu=1)), PodGroupAdded(group), PodAdded(pod)):
        before.handle(cluster.apply(event), now=0.0)
    cluster.apply(PodGroupUpdated(evolve(group, schedule_timeout=5.0)))
    scheduler = presets.gang(cluster)
    scheduler.restore(before.snapshot())
    scheduler.advance(now=0.0)
    if is_bound:
        decided = scheduler.schedule_one(now=0.0) or ()
        (bind,) = [effect for effect in decided if isinstance(effect, Bind)]
        bound = cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        assert PodScheduled(pod.uid, bind.node) in scheduler.handle(bound, now=0.0)
    else:
        scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=0.0)
        assert scheduler.schedule_one(now=0.0) is None
