"""Bundles: groups that start together or not at all, across namespaces."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    GroupRejected,
    GroupScheduled,
    NodeAdded,
    PodAdded,
    PodGroupAdded,
    PodGroupUpdated,
    PodUnschedulable,
    Release,
    SchedulingUnit,
    presets,
)
from support.bundles import AB, CD, end, key, pods, running, spec, specs
from support.driver import Driver
from support.examples import one_in
from support.final_checks import (
    listing_changes_nothing,
    no_startable_pod_is_parked,
    no_state_is_left,
    repeated_history_gives_the_same_effects,
    restart_moves_no_pod,
)
from support.gangs import node
from support.histories import (
    Policy,
    bundle_deeds,
    decisions,
    histories,
    pod_deeds,
    policies,
    steady_policies,
    steps,
)
from support.history_steps import HistoryStep
from support.levels import every_entity_is_in_place
from support.shown import nothing_is_assumed

mixed = histories(st.one_of(bundle_deeds, pod_deeds, pod_deeds, steps, steps, decisions))
gangs = policies.filter(lambda policy: policy.gangs)


def started_in_one_call(driver: Driver) -> list[set[str]]:
    """Return which groups started in the same call, call by call."""
    calls = ([e for e in told.effects if isinstance(e, GroupScheduled)] for told in driver.log)
    return [{effect.group for effect in call} for call in calls if call]


# Two bundles and capacity for one -------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations("acbd")))
def test_two_bundles_in_any_order_run_one_after_the_other(order: tuple[str, ...]) -> None:
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
@given(gangs, mixed)
def test_group_never_starts_without_its_bundle_in_any_history(
    policy: Policy, story: list[HistoryStep]
) -> None:
    """Laws 1 to 10: the oracle looks at every effect, and the end at what needs an end."""
    world = policy.world()
    for step in story:
        world.do(step)
        if not (world.late or world.driver.untold):
            every_entity_is_in_place(world)
    again = repeated_history_gives_the_same_effects(world, policy, story)
    world.finish()
    no_startable_pod_is_parked(world, policy)
    listing_changes_nothing(world)
    restart_moves_no_pod(world)
    again.clear()
    no_state_is_left(again.driver.scheduler)


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


@pytest.mark.core_lacks("has other words, and a notice for each group")
def test_bundle_that_does_not_fit_has_one_reason_and_one_backoff() -> None:
    driver = Driver()
    driver.tell(node("n", 3), *specs(*AB))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    effects = [e for t in driver.log for e in t.effects]
    told = {e.reason for e in effects if isinstance(e, PodUnschedulable)}
    (reason,) = (each for each in told if "incomplete" not in each and "waits for" not in each)
    (fall,) = (e for e in effects if isinstance(e, GroupRejected))
    assert fall.group == "one/a"
    assert "of pod group two/b fit" in reason
    assert nothing_is_assumed(driver.scheduler)


def test_late_members_join_alone() -> None:
    driver = Driver()
    driver.tell(node("n", 5), *specs(*AB))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    driver.add(*pods("two/b", 1, first=2))
    driver.settle()
    assert running(driver) == {"one/a": 2, "two/b": 3}


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


def test_bundle_is_placed_on_unlike_nodes() -> None:
    """Only one arrangement fits, over the borders of the groups."""
    driver = Driver()
    driver.tell(node("wide", 2), node("small", 1, 1), *specs(*AB, minimum=1))
    flexible = pods("one/a", 1)
    driver.add(*flexible, *pods("two/b", 1, cpu=1, gpu=1))
    driver.tell(NodeAdded(evolve(node("other", 0).node, labels={})))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 1)
