"""Decisions that wait for kube-scheduler: arrival, release, withdrawal, clients that leave."""

from __future__ import annotations

import pytest

from gangsched.events import Bind
from gangsched.kubernetes.extender._plans import Nominate, NotDecided, Plans, Release, Withdraw
from gangsched.model import GroupKey, NodeName, PodUID

G, H, K = (GroupKey(f"default/{name}") for name in "ghk")


def bind(name: str, node: str = "n", attempt: int = 1) -> Bind:
    return Bind(PodUID(name), NodeName(node), attempt)


def uid(name: str) -> PodUID:
    return PodUID(name)


def decided(*binds: Bind) -> Plans:
    plans = Plans(timeout=10.0)
    assert plans.decided({G: binds}, 0.0) == []
    return plans


A, B = bind("a", "na"), bind("b", "nb")


def half_arrived(*, left_at: float | None = None) -> Plans:
    """Return a gang of which A has come, and its client has left, if that is said."""
    plans = decided(A, B)
    assert plans.arrive(A.uid, A.node, 0.0) == []
    if left_at is not None:
        plans.leave(A.uid, left_at)
    return plans


def test_last_member_releases_all_at_once() -> None:
    plans = half_arrived()
    assert plans.held == 1
    assert plans.arrive(B.uid, B.node, 2.0) == [Release((A, B))]
    assert (len(plans), plans.held, plans.next_deadline()) == (0, 0, None)


def test_member_is_bound_to_its_decided_node_alone() -> None:
    with pytest.raises(NotDecided, match="nothing is decided about pod a"):
        Plans(timeout=10.0).arrive(A.uid, A.node, 0.0)
    plans = decided(A)
    with pytest.raises(NotDecided, match="pod a was decided to be on node na, not on m"):
        plans.arrive(A.uid, "m", 0.0)
    assert plans.held == 0


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


def test_member_that_sleeps_in_kube_scheduler_is_nominated_by_the_next_decision() -> None:
    plans = Plans(timeout=10.0)
    plans.refuse(A.uid)
    assert plans.decided({G: [A, B]}, 0.0) == [Nominate(A.uid, A.node)]
    plans = half_arrived()
    plans.advance(10.0)  # B has not come
    again = [bind("a", "na", attempt=2), bind("b", "nb", attempt=2)]
    assert plans.decided({G: again}, 11.0) == [Nominate(B.uid, B.node)]


def test_deleted_member_or_node_withdraws_its_gang_and_no_other() -> None:
    for is_node, reason in ((False, "deleted"), (True, "node nb is gone")):
        plans = decided(A, B)
        plans.decided({H: [bind("c")]}, 0.0)
        (withdrawn,) = plans.node_is_gone(B.node) if is_node else plans.pod_is_gone(A.uid)
        assert isinstance(withdrawn, Withdraw)
        assert withdrawn.binds == (A, B)
        assert reason in withdrawn.reason
        assert plans.bind_of(uid("c")) is not None


def test_late_member_joins_a_gang_that_is_held_back_and_waits_for_no_released_one() -> None:
    plans, late = half_arrived(), bind("late")
    plans.decided({G: [late]}, 5.0)
    assert plans.arrive(late.uid, "n", 5.0) == []
    assert plans.arrive(B.uid, B.node, 6.0) == [Release((A, B, late))]
    later = bind("later")
    plans.decided({G: [later]}, 7.0)
    assert plans.arrive(later.uid, "n", 7.0) == [Release((later,))]


def test_groups_of_one_decision_are_released_together_with_what_is_held_back_of_them() -> None:
    plans = Plans(timeout=10.0)
    plans.decided({G: [bind("a")]}, 0.0)
    plans.decided({H: [bind("b")], K: [bind("c")]}, 0.0)
    plans.decided({G: [bind("d")], H: [bind("e")]}, 0.0)
    plans.decided({K: [bind("f")]}, 0.0)
    for name in "abcde":
        assert plans.arrive(uid(name), "n", 0.0) == []
    (released,) = plans.arrive(uid("f"), "n", 0.0)
    assert isinstance(released, Release)
    assert len(released.binds) == 6


def test_end_of_an_earlier_attempt_changes_nothing() -> None:
    first, second = bind("a", attempt=1), bind("a", attempt=2)
    plans = decided(first)
    plans.arrive(uid("a"), "n", 0.0)
    plans.decided({G: [second]}, 1.0)
    plans.ended(first, 0.0, is_bound=True)
    assert plans.bind_of(uid("a")) == second


# Members whose client has left: kube-scheduler waits no longer than ``httpTimeout``


@pytest.mark.parametrize(("at", "is_released"), [(10.9, True), (11.0, False)])
def test_member_counts_as_arrived_for_the_timeout_after_its_client_left(
    at: float, is_released: bool
) -> None:
    plans = half_arrived(left_at=1.0)
    assert plans.arrive(B.uid, B.node, at) == ([Release((A, B))] if is_released else [])
    if not is_released:
        assert plans.arrive(A.uid, A.node, at) == [Release((A, B))]


def test_gang_of_which_all_clients_have_left_is_not_released_by_time() -> None:
    assert half_arrived(left_at=1.0).advance(9.9) == []


def test_released_member_stays_released_when_its_client_leaves() -> None:
    plans = decided(A)
    plans.arrive(A.uid, A.node, 0.0)
    plans.leave(A.uid, 0.0)
    assert plans.reserved() == {A.node}
    assert plans.bind_of(A.uid) == A
    assert plans.withdraw(A.uid, "too late") == []
    assert plans.arrive(A.uid, A.node, 0.0) == []  # the end of the first request is its end
    plans.ended(A, 0.0, is_bound=True)
    assert plans.bind_of(A.uid) is None


def test_capacity_is_reserved_until_kube_scheduler_counts_the_member() -> None:
    plans = decided(A, B)
    assert plans.reserved() == {A.node, B.node}
    assert list(plans.pods_for(A.node)) == ["a"]
    plans.arrive(A.uid, A.node, 0.0)
    assert plans.reserved() == {B.node}  # kube-scheduler assumes A to be on its node
    plans.leave(A.uid, 1.0)
    assert plans.reserved() == {A.node, B.node}
    plans.arrive(B.uid, B.node, 2.0)
    assert plans.reserved() == {A.node}
    plans.ended(A, 3.0, is_bound=True)
    plans.ended(B, 3.0, is_bound=True)
    assert (plans.reserved(), plans.next_deadline()) == ({A.node}, 4.0)
    plans.advance(4.0)
    assert (plans.reserved(), plans.next_deadline()) == (set(), None)


def test_member_that_failed_or_is_gone_or_decided_anew_reserves_nothing_of_before() -> None:
    def released() -> Plans:
        plans = half_arrived(left_at=1.0)
        plans.arrive(B.uid, B.node, 9.0)
        return plans

    plans = released()
    plans.ended(A, 9.5, is_bound=False)
    assert (plans.reserved(), plans.next_deadline()) == (set(), None)
    plans = released()
    plans.pod_is_gone(A.uid)
    assert plans.reserved() == set()
    plans = released()
    plans.decided({G: [bind("a", "other", attempt=2)]}, 9.5)
    assert plans.reserved() == {"other"}
