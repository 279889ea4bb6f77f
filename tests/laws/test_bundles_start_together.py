"""Bundles: groups that start together or not at all, across namespaces, and what requeues them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Event,
    GroupRejected,
    GroupScheduled,
    MatchPolicy,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Release,
    SchedulingUnit,
    explain,
    presets,
)
from support.bundles import AB, CD, end, key, pods, running, spec, specs, why
from support.driver import Driver, Fate
from support.examples import one_in
from support.gangs import node
from support.histories import (
    Policy,
    policies,
    steady_policies,
)

gangs = policies.filter(lambda policy: policy.gangs)


def started_in_one_call(driver: Driver) -> list[set[str]]:
    """Return which groups started in the same call, call by call."""
    calls = ([e for e in told.effects if isinstance(e, GroupScheduled)] for told in driver.log)
    return [{effect.group for effect in call} for call in calls if call]


# Two bundles and capacity for one -------------------------------------------------------------


@pytest.mark.parametrize("order", ["acbd", "abcd", "dbca", "cbad"])
def test_two_bundles_in_any_order_run_one_after_the_other(order: str) -> None:
    """F2: A C B D on a cluster that fits one bundle; the other runs when the first has ended."""
    driver = Driver()
    driver.tell(node("n", 4), *specs(*AB), *specs(*CD))
    for name in order:
        driver.add(*pods(f"{'one' if name in 'ac' else 'two'}/{name}"))
        driver.drain()
    driver.settle()
    first = running(driver)
    assert first in (dict.fromkeys(AB, 2), dict.fromkeys(CD, 2))
    end(driver)
    driver.settle()
    assert running(driver) == dict.fromkeys(CD if set(first) == set(AB) else AB, 2)
    assert started_in_one_call(driver) in ([set(AB), set(CD)], [set(CD), set(AB)])


FACTS = [*specs(*AB), *specs(*CD), *(PodAdded(p) for group in (*AB, *CD) for p in pods(group))]


@one_in(2)
@given(gangs, st.permutations(FACTS), st.lists(st.booleans(), min_size=12, max_size=12))
def test_bundle_starts_whole_in_any_order_of_members_and_specifications(
    policy: Policy, facts: list[PodAdded | PodGroupAdded], deciding: list[bool]
) -> None:
    """F2: with decisions between them."""
    driver = policy.world().driver
    driver.tell(node("n", 4))
    for fact, then_decide in zip(facts, deciding, strict=True):
        driver.tell(fact)
        if then_decide:
            driver.drain()
    driver.settle()
    first = running(driver)
    assert first in (dict.fromkeys(AB, 2), dict.fromkeys(CD, 2))
    end(driver)
    driver.settle()
    assert running(driver) == dict.fromkeys(CD if set(first) == set(AB) else AB, 2)


# All or nothing -------------------------------------------------------------------------------


@one_in(2)
@given(
    steady_policies.filter(lambda policy: policy.gangs),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 9),
)
def test_bundle_starts_exactly_where_all_its_minima_fit(
    policy: Policy, one: int, two: int, spare: int, room: int
) -> None:
    """Elastic members of one bundle never take the capacity of the other."""
    driver = policy.world().driver
    driver.tell(node("n", room))
    driver.tell(*(PodGroupAdded(spec(g, n, AB)) for g, n in zip(AB, (one, two), strict=True)))
    driver.add(*pods("one/a", one + spare), *pods("two/b", two))
    driver.settle()
    found = running(driver)
    assert sum(found.values()) == (min(room, one + two + spare) if room >= one + two else 0)
    if found:
        assert (found["one/a"] >= one, found["two/b"]) == (True, two)


def test_bundle_is_released_in_one_call_with_one_release_per_group() -> None:
    driver = Driver()
    driver.tell(node("n", 9), *specs(*AB))
    driver.add(*pods("two/b"), *pods("one/a"))
    assert driver.drain() == 1
    (told,) = (t for t in driver.log if any(isinstance(e, Bind) for e in t.effects))
    assert [e.group for e in told.effects if isinstance(e, Release)] == list(AB)
    starts = [e for e in told.effects if isinstance(e, GroupScheduled)]
    assert [(e.group, e.attempt, e.scheduled) for e in starts] == [(g, 1, 2) for g in AB]


def test_three_groups_start_together_and_a_bundle_of_itself_is_a_group() -> None:
    driver = Driver()
    driver.tell(node("n", 7), *specs("x/a", "y/a", "z/a"), *specs("x/alone", minimum=1))
    driver.add(*pods("z/a"), *pods("y/a"), *pods("x/alone", 1))
    driver.settle()
    assert running(driver) == {"x/alone": 1}
    driver.add(*pods("x/a"))
    driver.settle()
    assert running(driver) == {"x/alone": 1, **dict.fromkeys(("x/a", "y/a", "z/a"), 2)}


# With others, in other units ---------------------------------------------------------------------


@pytest.mark.pod_by_pod("members hold nodes while others are tried")
def test_waiting_group_is_unassumed_when_it_joins_a_bundle() -> None:
    """Law 1: its own quorum, which it has by then, lets it go alone no more."""
    driver = Driver()
    driver.tell(node("n", 2), PodGroupAdded(spec("one/a", 3)), PodGroupAdded(spec("two/b", 2, AB)))
    driver.add(*pods("one/a", 3), *pods("two/b"))
    driver.drain()
    assert len(driver.scheduler.waiting.of(key("one/a"))) == 2
    driver.tell(PodGroupUpdated(spec("one/a", 2, AB)))
    assert len(driver.scheduler.waiting) == 0
    driver.settle()
    assert running(driver) == {}
    driver.tell(node("m", 2))
    driver.settle()
    assert running(driver).keys() == set(AB)


@pytest.mark.once("it decides by both units")
def test_both_units_start_the_same_bundles() -> None:
    found = []
    for unit in SchedulingUnit:
        driver = Driver(partial(presets.coscheduling, unit=unit))
        driver.tell(*(node(f"n{n}", 2) for n in range(4)), *specs(*AB), *specs(*CD, minimum=1))
        driver.add(*(p for group in ("one/c", *AB, "two/d") for p in pods(group, cpu=2)))
        driver.settle()
        found.append(running(driver))
    assert found[0] == found[1]
    assert sum(found[0].values()) == 4


@pytest.mark.parametrize("last", [0, 1, 2, 3, 4])
def test_last_event_is_itself_the_wake_up(last: int) -> None:
    """Law 4: whichever group of the bundle it is about; the first by key is tried for all."""
    facts = [node("n", 4), *specs(*AB), *(PodAdded(pods(group)[1]) for group in AB)]
    late = facts.pop(last)
    driver = Driver()
    driver.add(*(pods(group)[0] for group in AB))
    driver.tell(*facts)
    driver.settle()
    driver.advance(60.0)
    assert running(driver) == {}
    driver.tell(late)
    driver.drain()
    assert (driver.now, running(driver)) == (60.0, dict.fromkeys(AB, 2))


@pytest.mark.parametrize("place", ["a node for the lead", "a node for the other"])
def test_capacity_that_helps_any_group_of_a_bundle_requeues_its_leader(place: str) -> None:
    """Law 4: and no other is asked for."""
    driver = Driver()
    driver.tell(node("cpu", 2 * (place == "a node for the other")), *specs(*AB))
    driver.tell(node("gpu", 0, 2 * (place == "a node for the lead")))
    driver.add(*pods("one/a"), *pods("two/b", cpu=0, gpu=1))
    driver.settle()
    driver.advance(60.0)  # its backoff has ended
    assert running(driver) == {}
    driver.tell(node("cpu", 2), node("gpu", 0, 2))
    driver.drain()
    assert running(driver) == dict.fromkeys(AB, 2)


@one_in(2)
@given(gangs, st.integers(0, 2))
def test_bundle_that_can_never_start_blocks_no_other_entity(policy: Policy, first: int) -> None:
    """Law 5: whether it is tried before the others or after them."""
    driver = policy.world().driver
    driver.tell(node("n", 4), *specs(*AB), *specs(*CD, minimum=1))
    arrivals = [[*pods("one/a"), *pods("two/b", cpu=9)], pods("one/c", 1), pods("two/d", 1)]
    for batch in arrivals[first:] + arrivals[:first]:
        driver.add(*batch)
    driver.settle()
    assert running(driver) == {"one/c": 1, "two/d": 1}
    assert driver.scheduler.next_deadline() is None


def test_bundle_requests_the_sum_of_the_min_resources_of_its_groups() -> None:
    """Each alone would find enough."""
    driver = Driver()
    driver.tell(node("n", 5), *specs(*AB, min_resources={"cpu": 3}))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert "resource gap" in str(why(driver, "one/a"))
    driver.tell(node("m", 1))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)


def test_second_bundle_of_one_equivalence_class_is_not_tried_in_vain() -> None:
    driver = Driver()
    driver.tell(node("n", 1), *specs(*AB), *specs(*CD))
    driver.add(*(p for group in (*AB, *CD) for p in pods(group)))
    for cpu in (2, 3):
        driver.settle()
        driver.tell(node("n", cpu))
    driver.settle()
    falls = [e.group for t in driver.log for e in t.effects if isinstance(e, GroupRejected)]
    assert len(falls) == len(set(falls)), "each fails once; one for all, or each group"
    assert falls[0] == "one/a"
    assert "one/c" in falls
    driver.tell(node("n", 4))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)
    assert isinstance(why(driver, "one/c"), explain.NoNodeFits)


def test_bundles_of_equal_size_with_other_groups_do_not_fail_alike() -> None:
    """Law 4: of each two of one kind and two of another, of which not the same are needed."""
    driver = Driver()
    driver.tell(node("cpu", 1), node("gpu", 0, 1))
    for (one, two), minima in ((AB, (2, 1)), (CD, (1, 2))):
        for group, least in zip((one, two), minima, strict=True):
            driver.tell(PodGroupAdded(spec(group, least, (one, two))))
        driver.add(*pods(one), *pods(two, cpu=0, gpu=1))
        driver.settle()
    assert running(driver) == {}
    driver.advance(60.0)
    driver.tell(node("gpu", 0, 2))
    driver.settle()
    assert running(driver) == {"one/c": 1, "two/d": 2}


BOTH = dict.fromkeys(AB, 2)


def begun(cpu: int = 9, **sizes: int) -> Driver:
    """Return a driver of a bundle, one/a and two/b, of which so many members have come."""
    driver = Driver()
    driver.tell(node("n", cpu), *specs(*AB))
    driver.add(*pods("one/a", sizes.get("a", 2)), *pods("two/b", sizes.get("b", 2)))
    return driver


def settled(driver: Driver) -> dict[str, int]:
    driver.settle()
    return running(driver)


# Bundles that are not whole -------------------------------------------------------------------

NOT_WHOLE = {
    "it does not exist": None,
    "names another bundle": ("one/a", "two/b", "two/c"),
    "names another bundle ": (),
    "names another bundle  ": ("two/c",),
}


@pytest.mark.parametrize("problem", NOT_WHOLE)
def test_group_waits_until_every_group_of_its_bundle_names_the_same(problem: str) -> None:
    """One-sided naming is no bundle: a group that names no other group starts alone."""
    driver, named = Driver(), NOT_WHOLE[problem]
    driver.tell(node("n", 9), PodGroupAdded(spec("one/a", 2, AB)))
    if named is not None:
        driver.tell(PodGroupAdded(spec("two/b", 2, named)))
    driver.add(*pods("one/a"), *pods("two/b"))
    assert settled(driver) == ({"two/b": 2} if named == () else {})
    reason = str(why(driver, "one/a"))
    assert problem.strip() in reason
    assert "pod group two/b" in reason
    driver.tell(PodGroupAdded(spec("two/b", 2, ["one/a"])))
    assert settled(driver) == BOTH


@pytest.mark.parametrize(("a", "b"), [(1, 2), (2, 1), (2, 0), (0, 2)])
def test_incomplete_group_keeps_the_others_and_says_so(a: int, b: int) -> None:
    driver = begun(a=a, b=b)
    assert settled(driver) == {}
    assert driver.decisions == 1, "nobody was tried"
    missing, waiting = AB if a < 2 else AB[::-1]
    assert f"waiting for pod group {missing} of its bundle" in str(why(driver, waiting))
    driver.add(*pods(missing, 2 - min(a, b), first=5))
    assert settled(driver) == BOTH


# While it waits for capacity -------------------------------------------------------------------


def waits(cpu: int = 3) -> Driver:
    """Return a bundle that was tried and did not fit."""
    driver = begun(cpu)
    assert settled(driver) == {}
    return driver


def _recreated(group: str) -> tuple[list[Event], list[Event]]:
    gone = [PodDeleted(member.uid) for member in pods(group)]
    return [*gone, node("n", 9)], [PodAdded(member) for member in pods(group, first=7)]


def _without_specification(group: str) -> tuple[list[Event], list[Event]]:
    return [PodGroupDeleted(key(group)), node("n", 9)], [PodGroupAdded(spec(group, 2, AB))]


def _with_a_higher_minimum(group: str) -> tuple[list[Event], list[Event]]:
    higher, third = spec(group, 3, AB), pods(group, 1, first=2)
    return [PodGroupUpdated(higher), node("n", 9)], [PodAdded(pod) for pod in third]


def _with_a_gated_member(group: str) -> tuple[list[Event], list[Event]]:
    member = pods(group)[1]
    gated = evolve(member, scheduling_gates=("quota",))
    return [PodUpdated(gated), node("n", 9)], [PodUpdated(member)]


CHANGES = [_recreated, _without_specification, _with_a_higher_minimum, _with_a_gated_member]


@pytest.mark.parametrize("group", AB)
@pytest.mark.parametrize("change", CHANGES)
def test_bundle_waits_for_the_last_of_its_groups(
    change: Callable[[str], tuple[list[Event], list[Event]]], group: str
) -> None:
    driver = waits()
    first, then = change(group)
    driver.tell(*first)
    assert settled(driver) == {}
    driver.tell(*then)
    more = {group: 3} if change is _with_a_higher_minimum else {}
    assert settled(driver) == {**BOTH, **more}


@pytest.mark.parametrize("group", AB)
def test_group_that_leaves_starts_alone_and_the_other_when_it_leaves_too(group: str) -> None:
    driver = waits()
    driver.tell(PodGroupUpdated(spec(group, 2)))
    assert settled(driver) == {group: 2}
    (other,) = {*AB} - {group}
    driver.tell(PodGroupUpdated(spec(other, 1)))
    assert settled(driver) == {group: 2, other: 1}


@pytest.mark.parametrize("group", AB)
def test_change_that_makes_the_bundle_fit_requeues_it(group: str) -> None:
    driver = waits()
    driver.tell(PodGroupUpdated(spec(group, 1, AB)))
    assert sum(settled(driver).values()) == 3
    driver = waits()
    driver.tell(PodUpdated(evolve(pods(group)[0], requests={})))
    assert settled(driver) == BOTH


def test_group_that_joins_a_bundle_that_waits_is_waited_for() -> None:
    driver = waits()
    three = (*AB, "zoo/c")
    driver.tell(*specs(*three), node("n", 9))
    assert settled(driver) == {}
    driver.add(*pods("zoo/c"))
    assert settled(driver) == dict.fromkeys(three, 2)


# Once it has started --------------------------------------------------------------------------


@pytest.mark.parametrize("group", AB)
def test_started_group_grows_while_another_has_lost_its_members(group: str) -> None:
    """Law 5: the late member needs no quorum."""
    (other,) = {*AB} - {group}
    driver = Driver()
    driver.tell(node("n", 4), *specs(*AB))
    driver.add(*pods(group), *pods(other))
    driver.settle()
    driver.delete(*(pod.uid for pod in pods(other)))
    driver.add(*pods(other, 1, first=2), *pods(group, 1, first=2))
    driver.settle()
    assert running(driver) == {group: 3}


@one_in(2)
@given(gangs, st.lists(st.sampled_from(Fate), min_size=2, max_size=5), st.integers(4, 6))
def test_failed_binds_leave_no_pod_behind(policy: Policy, fates: list[Fate], cpu: int) -> None:
    """Where all binds of a group fail it starts again, with those that have not started."""
    policy = evolve(policy, match_policy=MatchPolicy.ONCE_SATISFIED)
    world = policy.world()
    driver = world.driver
    driver.tell(node("n", cpu), *specs(*AB))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.fate = Fate.PENDING
    driver.drain()
    for number, fate in enumerate(fates):
        if driver.under_way and fate is not Fate.PENDING:
            driver.report(driver.under_way[number % len(driver.under_way)], fate)
            driver.settle()
    world.finish()
    evicted = 4 - sum(1 for _pod in driver.cluster.pods())
    assert evicted or running(driver) == BOTH


def test_group_whose_binds_all_failed_keeps_its_bundle_waiting() -> None:
    """All binds of both fail, and one has lost a member meanwhile: neither starts without it."""
    driver = begun()
    driver.fate = Fate.PENDING
    driver.drain()
    driver.tell(PodDeleted(PodUID("two/b-1")))
    for bind in [b for b in driver.under_way if b.uid != "two/b-1"]:
        driver.report(bind, Fate.FAILED)
    driver.fate = Fate.DONE
    before = driver.decisions
    assert settled(driver) == {}
    assert driver.decisions == before + 1, "nobody was tried"
    driver.add(*pods("two/b", 1, first=5))
    assert settled(driver) == BOTH


# Restart --------------------------------------------------------------------------------------


@one_in(2)
@given(gangs, st.integers(1, 5), st.integers(4, 9), st.booleans())
def test_restart_during_binds_starts_no_pod_twice_and_the_others_join(
    policy: Policy, every: int, cpu: int, backwards: bool
) -> None:
    """F42: of the binds under way every n-th has happened."""
    policy = evolve(policy, match_policy=MatchPolicy.ONCE_SATISFIED)
    driver = policy.world().driver
    driver.tell(node("n", cpu), *specs(*AB))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.fate = Fate.PENDING
    driver.drain()
    if backwards:
        driver.under_way.reverse()
    happened = {bind.uid for bind in driver.under_way[::every]}
    driver.restart(lambda bind: bind.uid in happened)
    driver.fate = Fate.DONE
    driver.log.clear()
    assert settled(driver) == BOTH
    bound = [e.uid for t in driver.log for e in t.effects if isinstance(e, Bind)]
    assert sorted([*bound, *happened]) == sorted(p.uid for g in AB for p in pods(g))
