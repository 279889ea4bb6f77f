"""Bundles whose groups come, change and go while they wait, or while they start."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    GroupIncomplete,
    GroupScheduled,
    MatchPolicy,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodUID,
    PodUpdated,
)
from support.bundles import AB, key, pods, running, spec, specs, why
from support.driver import Driver, Fate
from support.examples import one_in
from support.gangs import node
from support.histories import Policy, policies

gangs = policies.filter(lambda policy: policy.gangs)
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


@pytest.mark.core_lacks("has other words, and a notice for each group")
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


@pytest.mark.core_lacks("has other words, and a notice for each group")
def test_group_that_names_another_bundle_is_reported() -> None:
    driver = Driver()
    driver.tell(node("n", 9), PodGroupAdded(spec("one/a", 2, AB)))
    driver.tell(PodGroupAdded(spec("two/b", 2, ["one/a", "two/c"])))
    driver.add(*pods("one/a"), *pods("two/b"))
    assert settled(driver) == {}
    assert "pod group one/a names another bundle" in str(why(driver, "two/b"))


@pytest.mark.core_lacks("has other words, and a notice for each group")
@pytest.mark.parametrize(("a", "b"), [(1, 2), (2, 1), (2, 0), (0, 2)])
def test_incomplete_group_keeps_the_others_and_says_so(a: int, b: int) -> None:
    driver = begun(a=a, b=b)
    assert settled(driver) == {}
    assert driver.decisions == 1, "nobody was tried"
    missing, waiting = AB if a < 2 else AB[::-1]
    assert f"waiting for pod group {missing} of its bundle" in str(why(driver, waiting))
    driver.add(*pods(missing, 2 - min(a, b), first=5))
    assert settled(driver) == BOTH


@pytest.mark.core_lacks("has other words, and a notice for each group")
def test_complete_group_is_not_reported_as_incomplete_with_another() -> None:
    driver = begun(a=2, b=1)
    told = [
        e for t in driver.log for e in t.effects if isinstance(e, GroupIncomplete | PodNotAdmitted)
    ]
    assert {e.group for e in told[-2:] if isinstance(e, GroupIncomplete)} == {"two/b"}
    (held,) = (e for e in told[-2:] if isinstance(e, PodNotAdmitted))
    assert held.uid == "one/a-0"
    assert held.reason == (
        "waiting for pod group two/b of its bundle: waiting for 1 more member: 1 of 2 exist"
    )


@pytest.mark.core_lacks("has other words, and a notice for each group")
def test_leader_states_the_failure_and_the_others_state_their_leader() -> None:
    driver = begun(cpu=3)
    assert settled(driver) == {}
    told = "at most 1 of 2 members of pod group two/b fit beside the other groups: cpu is short"
    assert told in str(why(driver, AB[0]))
    assert str(why(driver, AB[1])) == "not admitted: starts with pod group one/a"


# While it waits for capacity -------------------------------------------------------------------


def waits(cpu: int = 3) -> Driver:
    """Return a bundle that was tried and did not fit."""
    driver = begun(cpu)
    assert settled(driver) == {}
    return driver


@pytest.mark.parametrize("group", AB)
def test_deleted_specification_keeps_the_bundle_waiting(group: str) -> None:
    driver = waits()
    driver.tell(PodGroupDeleted(key(group)), node("n", 9))
    assert settled(driver) == {}
    driver.tell(PodGroupAdded(spec(group, 2, AB)))
    assert settled(driver) == BOTH


@pytest.mark.parametrize("group", AB)
def test_group_that_leaves_starts_alone_and_the_other_when_it_leaves_too(group: str) -> None:
    driver = waits()
    driver.tell(PodGroupUpdated(spec(group, 2)))
    assert settled(driver) == {group: 2}
    (other,) = {*AB} - {group}
    driver.tell(PodGroupUpdated(spec(other, 1)))
    assert settled(driver) == {group: 2, other: 1}


@pytest.mark.parametrize("group", AB)
def test_lowered_minimum_releases_the_bundle(group: str) -> None:
    driver = waits()
    driver.tell(PodGroupUpdated(spec(group, 1, AB)))
    assert sum(settled(driver).values()) == 3


@pytest.mark.parametrize("group", AB)
def test_minimum_that_is_raised_keeps_it(group: str) -> None:
    driver = waits()
    driver.tell(PodGroupUpdated(spec(group, 3, AB)), node("n", 9))
    assert settled(driver) == {}
    driver.add(*pods(group, 1, first=2))
    assert settled(driver) == {**BOTH, group: 3}


@pytest.mark.parametrize("how", ["deleted", "gated", "held by a gate that is lifted"])
@pytest.mark.parametrize("group", AB)
def test_member_that_does_not_count_any_more_keeps_both(group: str, how: str) -> None:
    driver = waits()
    member = pods(group)[1]
    if how == "deleted":
        driver.tell(PodDeleted(member.uid))
    else:
        driver.tell(PodUpdated(evolve(member, scheduling_gates=("quota",))))
    driver.tell(node("n", 9))
    assert settled(driver) == {}
    if how == "deleted":
        driver.add(*pods(group, 1, first=7))
    else:
        driver.tell(PodUpdated(member))
    assert settled(driver) == BOTH


@pytest.mark.parametrize("group", AB)
def test_group_waits_for_recreated_members_of_its_bundle(group: str) -> None:
    driver = waits()
    for member in pods(group):
        driver.tell(PodDeleted(member.uid))
    driver.tell(node("n", 9))
    assert settled(driver) == {}
    driver.add(*pods(group, first=7))
    assert settled(driver) == BOTH


@pytest.mark.parametrize("group", AB)
def test_smaller_member_requeues_its_bundle(group: str) -> None:
    driver = waits()
    smaller = evolve(pods(group)[0], requests={})
    driver.tell(PodUpdated(smaller))
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
def test_started_group_is_not_waited_for_and_waits_for_none(group: str) -> None:
    """A group that is recreated as a whole starts alone, and a recreated member joins alone."""
    driver = begun()
    assert settled(driver) == BOTH
    (other,) = {*AB} - {group}
    for member in pods(group):
        driver.tell(PodDeleted(member.uid))
    driver.add(*pods(other, 1, first=2))
    assert settled(driver) == {other: 3}
    driver.add(*pods(group, 1, first=3))
    assert settled(driver) == {other: 3}
    driver.add(*pods(group, 1, first=4))
    assert settled(driver) == {group: 2, other: 3}


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


def test_running_group_is_not_waited_for_after_a_restart() -> None:
    driver = begun()
    driver.fate = Fate.PENDING
    driver.drain()
    driver.restart(lambda bind: bind.uid.startswith("one/"))
    driver.fate = Fate.DONE
    driver.log.clear()
    assert settled(driver) == BOTH
    starts = [e for t in driver.log for e in t.effects if isinstance(e, GroupScheduled)]
    assert [start.group for start in starts] == ["two/b"]
