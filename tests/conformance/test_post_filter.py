"""Rows 46 to 55: what becomes of those that hold a node when a sibling finds none."""

from __future__ import annotations

from functools import partial

import pytest

from gangsched import (
    Backoff,
    Coscheduling,
    CycleState,
    GroupKey,
    GroupRejected,
    MemberState,
    NodeAdded,
    Outcome,
    PodGroupAdded,
    PodGroupInfo,
    PodGroupRegistry,
    PodScheduled,
    RejectGroup,
    Skip,
    Unschedulable,
    Verdict,
    WhenBlocked,
    membership,
    presets,
)
from support.conformance import gang, machine, row, rows, worker
from support.driver import Driver

KEY = GroupKey("lab/cedar")
FULL = "0/5 nodes are available"


def group_with(minimum: int, holding: int, *, others: int) -> PodGroupInfo:
    """Return a group of which some members hold a node, and all others were tried."""
    registry = PodGroupRegistry()
    info = registry.set_spec(gang("cedar", minimum))
    for number in range(holding + others):
        pod = worker(f"cedar-{number}", "cedar")
        claim = membership(pod)
        assert claim is not None
        state = MemberState.WAITING if number < holding else MemberState.UNSCHEDULED
        registry.join(pod, claim, state)
    info.tried = others  # each of them found no node
    return info


def post_filter(group: PodGroupInfo | None, *, percentage: int = 0) -> Outcome | Verdict:
    """Return what the policy says when the last pod that was tried found no node."""
    policy = Coscheduling(when_blocked=WhenBlocked.AT_ONCE, reject_percentage=percentage)
    pod = worker("cedar-9", "cedar")
    return policy.post_filter(CycleState(group, {}), pod, FULL, now=0.0)


@rows(46, ours=True)
def test_no_third_member_is_tried_after_a_rejection_before_the_backoff_ends() -> None:
    """F6, F25: unless an event in the meantime may help it, and no other entity is active."""
    at_once = partial(
        presets.coscheduling, when_blocked=WhenBlocked.AT_ONCE, backoff=Backoff(1.5, 6)
    )
    driver = Driver(at_once)
    driver.tell(NodeAdded(machine("n1", cpu=1)), PodGroupAdded(gang("cedar", 3)))
    driver.add(*(worker(f"cedar-{number}", "cedar", requests={"cpu": 1}) for number in range(3)))
    assert driver.drain() == 2

    (fall,) = (e for told in driver.log for e in told.effects if isinstance(e, GroupRejected))
    assert fall.group == KEY
    # without a backoff it is tried when it may fit, which is not before an event
    assert fall.retry_after in (0.0, 1.5)
    driver.tell(NodeAdded(machine("n2", cpu=1)))
    driver.advance(1.25)
    assert driver.drain() == 0
    assert driver.scheduler.next_deadline() is None, "one CPU is missing"
    driver.tell(NodeAdded(machine("n3", cpu=1)))
    assert driver.drain() == 3
    scheduled = [e for told in driver.log for e in told.effects if isinstance(e, PodScheduled)]
    assert len(scheduled) == 3


@rows(47, ours=True)
def test_regular_pod_is_none_of_its_business() -> None:
    assert post_filter(None) == Skip()


@rows(48, ours=True)
def test_failed_member_beside_a_quorum_keeps_its_reason_and_rejects_no_other() -> None:
    assert post_filter(group_with(1, 1, others=1)) == Unschedulable(FULL)


@rows(49, ours=True)
def test_group_that_cannot_be_completed_is_rejected_with_the_unschedulable_member() -> None:
    """F59: with the reason that it had."""
    outcome = post_filter(group_with(2, 1, others=1), percentage=10)
    assert outcome == RejectGroup(KEY, f"pod cedar-9 cannot be placed: {FULL}")


@pytest.mark.parametrize(
    ("percentage", "minimum", "holding", "falls"),
    [
        row(50, 10, 20, 18, False),
        row(51, 10, 20, 17, True),
        row(52, 0, 20, 19, True),
        row(53, 100, 20, 0, False),
        row(54, 50, 20, 12, False),
        row(55, 50, 20, 8, True),
    ],
)
def test_group_that_lacks_few_enough_of_its_members_keeps_what_it_holds(
    percentage: int, minimum: int, holding: int, falls: bool
) -> None:
    """Rows 50 to 55; the boundary is inclusive."""
    group = group_with(minimum, holding, others=minimum - holding)
    assert isinstance(post_filter(group, percentage=percentage), RejectGroup) is falls


def test_boundary_is_exact_for_every_percentage() -> None:
    """Beside rows 50 to 55: whole numbers, so no rounding moves it."""
    for percentage in range(100):
        keeps = group_with(100, 100 - percentage, others=percentage)
        falls = group_with(100, 99 - percentage, others=percentage + 1)
        assert not isinstance(post_filter(keeps, percentage=percentage), RejectGroup)
        assert isinstance(post_filter(falls, percentage=percentage), RejectGroup)
