"""The gang policy alone: what it answers to a group whose counts the test decides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.coscheduling import Coscheduling, WhenBlocked
from gangsched.model import NodeName, Pod
from gangsched.outcomes import (
    SUCCESS,
    EvictGroup,
    HoldGroup,
    Outcome,
    RejectGroup,
    Unschedulable,
    Verdict,
    Wait,
)
from gangsched.primitives.counters import RoleCounts
from gangsched.primitives.quorum import MatchPolicy
from gangsched.profile import POINTS
from support.refusals import NO_SECONDS, check_rows, each
from support.views import KEY, FakeGroup, cycle

POD = Pod(name="p", namespace="ns")
NODE = NodeName("n1")
CAUSES = ["timeout", "deleted", "changed", "rejected", "refused", "bind_failed", "node_gone"]


def permit(group: FakeGroup | None, *, now: float = 0.0, **policy: Any) -> Outcome:
    return Coscheduling(**policy).permit(cycle(group), POD, NODE, now=now)


def post_filter(
    group: FakeGroup | None, when: WhenBlocked = WhenBlocked.AT_ONCE
) -> Outcome | Verdict:
    return Coscheduling(when_blocked=when).post_filter(cycle(group), POD, "full", now=0.0)


def unreserve(group: FakeGroup | None, cause: str) -> RejectGroup | EvictGroup | None:
    return Coscheduling().unreserve(cycle(group), POD, NODE, cause=cause, now=0.0)


def test_plugin_has_the_extension_points_of_the_published_one() -> None:
    policy = Coscheduling()
    assert policy.name == "Coscheduling"
    assert policy.when_blocked is WhenBlocked.UNTIL_OTHERS_TURN
    assert policy.group_wide == ("pre_filter", "reserve", "permit")
    assert policy.reserve(cycle(FakeGroup()), POD, NODE, now=0.0) == SUCCESS
    assert [point for point in POINTS if hasattr(policy, point)] == [
        "pre_enqueue",
        "queue_sort",
        "pre_filter",
        "post_filter",
        "reserve",
        "unreserve",
        "permit",
    ]


@pytest.mark.parametrize("bad", [-1, -0.001, *NO_SECONDS], ids=str)
def test_malformed_permit_timeout_is_refused(bad: Any) -> None:
    """F28, row 61."""
    check_rows(each(lambda x: Coscheduling(permit_timeout=x), "permit_timeout", bad))


# Before any node is looked at -----------------------------------------------------------------


@pytest.mark.parametrize(
    "group",
    [
        FakeGroup(unscheduled=1, waiting=1, assigned=1),
        FakeGroup(unscheduled=1, was_scheduled=True),
    ],
    ids=["members-with-nodes-count", "F30-a-member-of-a-running-gang-passes"],
)
def test_complete_group_is_admitted(group: FakeGroup) -> None:
    """Beside rows 21 to 29."""
    policy = Coscheduling()
    assert policy.pre_enqueue(POD, group, now=0.0) == SUCCESS
    assert policy.pre_filter(cycle(group), POD, now=0.0) == SUCCESS


@pytest.mark.parametrize(
    ("of_ps", "expected"),
    [
        (
            RoleCounts(unscheduled=1),
            Unschedulable("waiting for 1 more ps: 1 of 2 exist", resolvable=False),
        ),
        (RoleCounts(unscheduled=1, scheduled=1), SUCCESS),
    ],
)
def test_group_that_lacks_members_of_a_role_is_not_admitted(
    of_ps: RoleCounts, expected: Outcome
) -> None:
    group = FakeGroup(unscheduled=2, assigned=1, roles={"ps": 2}, of_role={"ps": of_ps})
    assert Coscheduling().pre_enqueue(POD, group, now=0.0) == expected


# The last gate --------------------------------------------------------------------------------


def test_late_members_of_a_scheduled_group_are_released() -> None:
    """F30: what replaces a lost member does not wait for a quorum of its own."""
    assert permit(FakeGroup(waiting=1, was_scheduled=True)) == SUCCESS


def test_late_members_are_released_after_the_group_object_is_deleted() -> None:
    late = FakeGroup(min_available=None, assigned=2, waiting=1, was_scheduled=True)
    assert permit(late) == SUCCESS
    outcome = permit(late, match_policy="waiting_and_running")
    assert outcome == Unschedulable("pod group ns/g does not exist", resolvable=False)


def test_bound_and_binding_members_count_for_the_quorum() -> None:
    """F16, row 37."""
    assert permit(FakeGroup(waiting=1, binding=1, assigned=1)) == SUCCESS


@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)
)
def test_no_member_is_released_without_a_quorum(
    minimum: int, waiting: int, binding: int, assigned: int, unscheduled: int
) -> None:
    """Law 1, F15."""
    group = FakeGroup(
        min_available=minimum,
        waiting=waiting,
        binding=binding,
        assigned=assigned,
        unscheduled=unscheduled,
    )
    held = waiting + binding + assigned
    if held >= minimum:
        assert permit(group) == SUCCESS
    elif held + unscheduled >= minimum:
        assert permit(group) == Wait(10.0)
    else:
        assert isinstance(permit(group), Unschedulable)


@pytest.mark.parametrize(
    ("own", "started_at", "now", "expected"),
    [
        (None, None, 5.0, 10.0),
        (4.0, None, 5.0, 4.0),
        (0.0, None, 5.0, 0.0),
        (None, 3.0, 5.0, 8.0),
        (4.0, 3.0, 5.0, 2.0),
        (4.0, 3.0, 7.0, 0.0),
        (4.0, 3.0, 99.0, 0.0),
    ],
)
def test_every_member_waits_until_one_deadline_of_the_attempt(
    own: float | None, started_at: float | None, now: float, expected: float
) -> None:
    """F26, F28: the group's own timeout before the policy's, 0 included."""
    group = FakeGroup(waiting=1, unscheduled=2, schedule_timeout=own, attempt_started_at=started_at)
    assert permit(group, now=now) == Wait(expected)


# When no node can be had ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "group",
    [
        FakeGroup(waiting=1, untried=2),
        FakeGroup(waiting=3, untried=0),
        FakeGroup(assigned=3, was_scheduled=True),
        FakeGroup(waiting=1, untried=0, was_scheduled=True),
        FakeGroup(min_available=None, waiting=1),
    ],
    ids=["quorum-possible", "quorum-there", "running", "scheduled-once", "unknown"],
)
@pytest.mark.parametrize("when", WhenBlocked)
def test_failed_member_rejects_nothing_while_a_quorum_is_possible(
    group: FakeGroup, when: WhenBlocked
) -> None:
    """Row 48, F57: elastic members exist."""
    assert post_filter(group, when) == Unschedulable("full")


WHY = "pod p cannot be placed: full"


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (WhenBlocked.AT_ONCE, RejectGroup(KEY, WHY)),
        (WhenBlocked.UNTIL_OTHERS_TURN, HoldGroup(KEY, WHY)),
        (WhenBlocked.UNTIL_TIMEOUT, Unschedulable(WHY)),
    ],
)
def test_group_that_cannot_be_completed_follows_when_blocked(
    when: WhenBlocked, expected: Outcome | Verdict
) -> None:
    """Row 49, F5, F59: the culprit and the reason are named."""
    assert post_filter(FakeGroup(waiting=1, untried=1), when) == expected


@given(st.integers(1, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_only_untried_members_can_complete_the_quorum(
    minimum: int, waiting: int, untried: int, unscheduled: int
) -> None:
    """Members that failed in this round do not count."""
    group = FakeGroup(
        min_available=minimum, waiting=waiting, untried=untried, unscheduled=unscheduled
    )
    hopeless = waiting + untried < minimum
    assert isinstance(post_filter(group), RejectGroup) is hopeless


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (FakeGroup(waiting=1, assigned=3), "1 of 3 members"),
        (
            FakeGroup(waiting=3, assigned=1, roles={"ps": 1}, of_role={"ps": RoleCounts(0, 0, 1)}),
            "0 of 1 ps",
        ),
    ],
    ids=["in-all", "of-a-role"],
)
def test_running_members_do_not_count_under_only_waiting(group: FakeGroup, says: str) -> None:
    policy = Coscheduling(match_policy=MatchPolicy.ONLY_WAITING, when_blocked=WhenBlocked.AT_ONCE)
    answer = policy.post_filter(cycle(group), POD, "full", now=0.0)
    assert answer == RejectGroup(KEY, WHY)
    outcome = policy.permit(cycle(group), POD, NODE, now=0.0)
    assert outcome == Unschedulable(f"{says} have a node, at most 0 more can get one")


# When a node is given back --------------------------------------------------------------------


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize(
    "group",
    [None, FakeGroup(was_scheduled=True), FakeGroup(min_available=None)],
    ids=["regular", "scheduled-once", "unknown"],
)
def test_member_without_a_quorum_to_lose_rejects_nothing(
    group: FakeGroup | None, cause: str
) -> None:
    """F18: a group that was scheduled once is not torn down."""
    assert unreserve(group, cause) is None


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        ("timeout", "timed out waiting on permit: 2 of 3 members held a node"),
        ("deleted", "pod p was deleted: 1 of 3 members hold a node"),
        ("changed", "pod p has changed: 1 of 3 members hold a node"),
        ("node_gone", "node n1 of pod p is gone: 1 of 3 members hold a node"),
        ("refused", "pod p was refused: 2 of 3 members held a node"),
    ],
)
def test_member_that_loses_its_node_rejects_its_group(cause: str, why: str) -> None:
    """Law 2, F59. The counts are those after it left its node."""
    assert unreserve(FakeGroup(waiting=1, unscheduled=1), cause) == RejectGroup(KEY, why)


def test_rejection_states_the_members_and_the_missing_roles() -> None:
    group = FakeGroup(
        waiting=1,
        assigned=5,
        roles={"ps": 3, "worker": 2, "evaluator": 1},
        of_role={
            "ps": RoleCounts(waiting=1, scheduled=3),
            "worker": RoleCounts(waiting=0, scheduled=2),
            "evaluator": RoleCounts(waiting=1, scheduled=1),
        },
    )
    policy = Coscheduling(match_policy=MatchPolicy.ONLY_WAITING)
    answer = policy.unreserve(cycle(group), POD, NODE, cause="timeout", now=0.0)
    held = "2 of 3 members held a node; missing: 2 ps, 2 worker"
    assert answer == RejectGroup(KEY, f"timed out waiting on permit: {held}")


@pytest.mark.parametrize("cause", ["deleted", "changed"])
@pytest.mark.parametrize(("spare", "falls"), [(1, True), (2, False)])
def test_deleted_member_rejects_its_group_unless_a_quorum_is_left(
    spare: int, falls: bool, cause: str
) -> None:
    """F57."""
    group = FakeGroup(waiting=1, unscheduled=spare)
    assert (unreserve(group, cause) is not None) is falls


@pytest.mark.parametrize("cause", ["timeout", "refused", "node_gone"])
def test_elastic_members_do_not_prevent_rejection_for_other_causes(cause: str) -> None:
    assert unreserve(FakeGroup(waiting=1, unscheduled=9), cause) is not None


def test_member_of_a_group_that_is_being_rejected_says_nothing() -> None:
    assert unreserve(FakeGroup(waiting=1, unscheduled=1), "rejected") is None
