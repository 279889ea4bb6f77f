"""What if: it says what really comes, and nothing has been asked afterwards."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import GroupKey, Node, NodeAdded, NodeName, Scheduler
from gangsched.errors import UnknownPodError
from gangsched.protocols import GroupView, RoleView
from support.examples import one_in
from support.fingerprint import fingerprint, without
from support.histories import Policy, all_policies, histories, steps
from support.history_steps import HistoryStep
from support.questions import PerformedEffects, asked, events_of, explanations

SECONDS = st.sampled_from([0, 0, 1, 30])


@one_in(4)
@given(all_policies, histories(), asked, SECONDS, SECONDS)
def test_predicted_effects_are_the_real_effects(
    policy: Policy, history: list[HistoryStep], question: list[HistoryStep], later: int, ahead: int
) -> None:
    events = events_of(policy, history, question)
    world, twin = (policy.world().live(*history) for _turn in range(2))
    cluster, scheduler = world.driver.cluster, world.driver.scheduler
    now = world.driver.now + later
    before = fingerprint(cluster, scheduler)
    told = scheduler.what_if(*events, now=now, until=now + ahead)
    assert fingerprint(cluster, scheduler) == before

    really = PerformedEffects.of(twin)
    really.now = now
    for event in events:
        really.tell(event)
    really.run(now + ahead, policy.backfill if policy.reserves else None)
    assert list(told.timed) == really.timed
    assert dict(told.why) == explanations(really.scheduler)
    assert told.until == now + ahead
    assert told.effects == tuple(effect for _at, effect in really.timed)


@one_in(8)
@given(all_policies, histories(chapters=3), asked, st.lists(steps, max_size=12))
def test_scheduler_that_answered_questions_decides_as_one_that_did_not(
    policy: Policy, history: list[HistoryStep], question: list[HistoryStep], rest: list[HistoryStep]
) -> None:
    events = events_of(policy, history, question)
    asked_world, other = (policy.world().live(*history) for _turn in range(2))
    now = asked_world.driver.now
    asked_world.driver.scheduler.what_if(*events, now=now, until=now + 30.0)
    for step in rest:
        asked_world.do(step)
        other.do(step)
    asked_world.finish()
    other.finish()
    assert asked_world.driver.log == other.driver.log
    one, another = (
        without(fingerprint(world.driver.cluster, world.driver.scheduler))
        for world in (asked_world, other)
    )
    assert one == another


@one_in(4)
@given(
    all_policies,
    histories(chapters=3),
    st.integers(1, 4),
    st.sampled_from("ab"),
    st.integers(0, 3),
    SECONDS,
)
def test_smallest_change_is_the_least_number_that_really_starts_the_group(
    policy: Policy, history: list[HistoryStep], cpu: int, zone: str, group: int, ahead: int
) -> None:
    """Against schedulers with the same history that are really given so many nodes."""
    key, most = GroupKey(f"default/g{group}"), 4
    shape = Node(name=NodeName("n"), allocatable={"cpu": cpu, "gpu": 1}, labels={"zone": zone})
    world = policy.world().live(*history)
    scheduler, now = world.driver.scheduler, world.driver.now
    before = fingerprint(world.driver.cluster, scheduler)
    until = now + ahead
    try:
        found = scheduler.smallest_change(key, shape, most=most, now=now, until=until)
    except UnknownPodError:
        assert fingerprint(world.driver.cluster, scheduler) == before
        assert _least(policy, history, key, shape, until, most) == "unknown"
        return
    assert fingerprint(world.driver.cluster, scheduler) == before
    least = _least(policy, history, key, shape, until, most)
    assert (found.nodes if hasattr(found, "nodes") else None) == least


def _least(
    policy: Policy, history: list[HistoryStep], key: GroupKey, shape: Node, until: float, most: int
) -> int | str | None:
    for number in range(most + 1):
        really = PerformedEffects.of(policy.world().live(*history))
        if _runs_whole(really.scheduler, key):
            return 0
        names = (NodeName(f"n-{suffix}") for suffix in range(number))
        for name in names:
            really.tell(NodeAdded(evolve(shape, name=name)))
        really.run(until, policy.backfill if policy.reserves else None)
        if really.scheduler.registry.get(key) is None:
            return "unknown"
        if _runs_whole(really.scheduler, key):
            return number
    return None


def _runs_whole(scheduler: Scheduler, key: GroupKey) -> bool:
    """Return whether a group has started, and has its minimum; succeeded members may count."""
    group = scheduler.registry.get(key)
    if group is None or not group.was_scheduled:
        return False
    minima: list[tuple[int, GroupView | RoleView]] = [(group.min_available or 0, group)]
    minima += [(least, group.role(role)) for role, least in group.roles.items()]
    for least, view in minima:
        has = view.scheduled
        if has < least and has + view.unscheduled < least:
            has += view.succeeded
        if has < least:
            return False
    return True
