"""Decisions that wait for kube-scheduler: arrival, release, withdrawal."""

from __future__ import annotations

import pytest

from gangsched.events import Bind
from gangsched.kubernetes.extender._plans import Nominate, NotDecided, Plans, Release, Withdraw
from gangsched.model import GroupKey, NodeName, PodUID

G, H = GroupKey("default/g"), GroupKey("default/h")


def bind(name: str, node: str = "n", attempt: int = 1) -> Bind:
    return Bind(PodUID(name), NodeName(node), attempt)


def uid(name: str) -> PodUID:
    return PodUID(name)


def decided(*binds: Bind, now: float = 0.0, group: GroupKey = G) -> Plans:
    plans = Plans(timeout=10.0)
    assert plans.decided({group: binds}, now) == []
    plans._check()
    return plans


def test_last_member_releases_all_at_once() -> None:
    a, b = bind("a"), bind("b", "m")
    plans = decided(a, b)
    assert plans.arrive(uid("a"), "n", 1.0) == []
    assert plans.held == 1
    assert plans.arrive(uid("b"), "m", 2.0) == [Release((a, b))]
    assert (len(plans), plans.held, plans.next_deadline()) == (0, 0, None)
    plans._check()


def test_member_without_a_decision_may_not_be_bound() -> None:
    with pytest.raises(NotDecided, match="nothing is decided about pod a"):
        Plans(timeout=10.0).arrive(uid("a"), "n", 0.0)


def test_member_may_not_be_bound_to_another_node() -> None:
    plans = decided(bind("a"))
    with pytest.raises(NotDecided, match="pod a was decided to be on node n, not on m"):
        plans.arrive(uid("a"), "m", 0.0)
    assert plans.held == 0


def test_member_of_which_the_client_left_long_ago_is_awaited_again() -> None:
    a, b = bind("a"), bind("b")
    plans = decided(a, b)
    plans.arrive(uid("a"), "n", 0.0)
    plans.leave(uid("a"), 0.0)
    assert plans.arrive(uid("b"), "n", 10.0) == []
    assert plans.arrive(uid("a"), "n", 10.0) == [Release((a, b))]


def test_released_member_stays_released_when_its_client_leaves() -> None:
    a = bind("a")
    plans = decided(a)
    plans.arrive(uid("a"), "n", 0.0)
    plans.leave(uid("a"), 0.0)
    assert plans.bind_of(uid("a")) == a
    assert plans.withdraw(uid("a"), "too late") == []
    assert plans.arrive(uid("a"), "n", 0.0) == []  # the end of the first request is its end
    plans.ended(a, 0.0, is_bound=True)
    assert plans.bind_of(uid("a")) is None


def test_first_arrivals_prolong_the_wait_and_repeated_ones_do_not() -> None:
    plans = decided(bind("a"), bind("b"), bind("c"))
    plans.arrive(uid("a"), "n", 8.0)
    assert plans.next_deadline() == 18.0
    plans.leave(uid("a"), 8.0)
    plans.arrive(uid("a"), "n", 17.0)
    assert plans.next_deadline() == 18.0
    assert plans.advance(17.9) == []
    (withdrawn,) = plans.advance(18.0)
    assert isinstance(withdrawn, Withdraw)
    assert {each.uid for each in withdrawn.binds} == {"a", "b", "c"}
    assert withdrawn.reason == "1 of 3 members came to be bound; no other in 10 s"
    assert len(plans) == 0
    plans._check()


def test_refused_member_is_nominated_when_it_is_decided() -> None:
    plans = Plans(timeout=10.0)
    plans.refuse(uid("a"))
    a, b = bind("a", "m"), bind("b")
    assert plans.decided({G: [a, b]}, 0.0) == [Nominate(uid("a"), NodeName("m"))]
    plans._check()


def test_withdrawn_member_that_is_not_here_is_woken_by_the_next_decision() -> None:
    plans = decided(bind("a"), bind("b"))
    plans.arrive(uid("a"), "n", 0.0)
    plans.advance(10.0)
    again = [bind("a", attempt=2), bind("b", attempt=2)]
    assert plans.decided({G: again}, 11.0) == [Nominate(uid("b"), NodeName("n"))]


def test_deleted_member_withdraws_its_gang_and_no_other() -> None:
    plans = decided(bind("a"), bind("b"))
    plans.decided({H: [bind("c")]}, 0.0)
    (withdrawn,) = plans.pod_is_gone(uid("a"))
    assert isinstance(withdrawn, Withdraw)
    assert {each.uid for each in withdrawn.binds} == {"a", "b"}
    assert plans.bind_of(uid("c")) is not None
    plans._check()


def test_deleted_node_withdraws_the_gangs_that_need_it() -> None:
    plans = decided(bind("a", "n"), bind("b", "m"))
    plans.decided({H: [bind("c", "o")]}, 0.0)
    (withdrawn,) = plans.node_is_gone("m")
    assert isinstance(withdrawn, Withdraw)
    assert withdrawn.reason == "node m is gone"
    assert plans.bind_of(uid("c")) is not None


def test_late_member_joins_the_gang_that_is_held_back() -> None:
    a, b, late = bind("a"), bind("b"), bind("late")
    plans = decided(a, b)
    plans.arrive(uid("a"), "n", 0.0)
    plans.decided({G: [late]}, 5.0)
    assert plans.arrive(uid("late"), "n", 5.0) == []
    assert plans.arrive(uid("b"), "n", 6.0) == [Release((a, b, late))]


def test_groups_of_one_decision_are_released_together() -> None:
    a, b = bind("a"), bind("b")
    plans = Plans(timeout=10.0)
    plans.decided({G: [a], H: [b]}, 0.0)
    plans._check()
    assert plans.arrive(uid("a"), "n", 0.0) == []
    assert plans.arrive(uid("b"), "n", 0.0) == [Release((a, b))]
    plans._check()


def test_decision_about_two_groups_joins_what_is_held_back_of_both() -> None:
    plans = Plans(timeout=10.0)
    plans.decided({G: [bind("a")]}, 0.0)
    plans.decided({H: [bind("b")]}, 0.0)
    plans.decided({G: [bind("c")], H: [bind("d")]}, 0.0)
    plans._check()
    for name in "abc":
        assert plans.arrive(uid(name), "n", 0.0) == []
    (released,) = plans.arrive(uid("d"), "n", 0.0)
    assert isinstance(released, Release)
    assert {each.uid for each in released.binds} == set("abcd")
    plans._check()


def test_late_member_of_a_joined_group_is_waited_for_by_all() -> None:
    third = GroupKey("default/k")
    plans = Plans(timeout=10.0)
    plans.decided({G: [bind("a")]}, 0.0)
    plans.decided({H: [bind("b")], third: [bind("c")]}, 0.0)
    plans.decided({G: [bind("d")], H: [bind("e")]}, 0.0)
    plans.decided({third: [bind("f")]}, 0.0)
    plans._check()
    for name in "abcde":
        assert plans.arrive(uid(name), "n", 0.0) == []
    (released,) = plans.arrive(uid("f"), "n", 0.0)
    assert isinstance(released, Release)
    assert len(released.binds) == 6


def test_late_member_of_a_released_gang_waits_for_no_other() -> None:
    a, late = bind("a"), bind("late")
    plans = decided(a)
    plans.arrive(uid("a"), "n", 0.0)
    plans.decided({G: [late]}, 5.0)
    assert plans.arrive(uid("late"), "n", 5.0) == [Release((late,))]


def test_end_of_an_earlier_attempt_changes_nothing() -> None:
    first, second = bind("a", attempt=1), bind("a", attempt=2)
    plans = decided(first)
    plans.arrive(uid("a"), "n", 0.0)
    plans.decided({G: [second]}, 1.0)
    plans.ended(first, 0.0, is_bound=True)
    assert plans.bind_of(uid("a")) == second
    plans._check()


def test_node_is_reserved_until_its_member_arrives() -> None:
    plans = decided(bind("a", "n"), bind("b", "m"))
    assert plans.reserved() == {"n", "m"}
    plans.arrive(uid("a"), "n", 0.0)
    assert plans.reserved() == {"m"}
    assert list(plans.pods_for("n")) == ["a"]
