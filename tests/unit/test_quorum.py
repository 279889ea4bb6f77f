"""The gang rule, for all small counts."""

from __future__ import annotations

import itertools

import pytest

from gangsched.errors import InvalidValueError
from gangsched.outcomes import SUCCESS, Outcome, Success, Unschedulable
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.quorum import complete, decide
from gangsched.primitives.standing import Counts, Standing, standing

COUNTS = list(itertools.product(range(1, 9), range(10), range(10)))


def kind(outcome: Outcome) -> str:
    return type(outcome).__name__


def stands(minimum: int, scheduled: int, remaining: int) -> Standing:
    return standing(SubGroup("", minimum), lambda _sub: Counts(scheduled, remaining))


def test_exactly_one_branch_applies() -> None:
    """F15, rows 36 to 41: success with a quorum, wait while one is possible, else unschedulable."""
    for minimum, scheduled, remaining in COUNTS:
        quorum = len(range(scheduled)) >= minimum
        possible = len([*range(scheduled), *range(remaining)]) >= minimum
        branches = {
            "Success": quorum,
            "Wait": possible and not quorum,
            "Unschedulable": not possible,
        }
        assert sum(branches.values()) == 1
        outcome = decide(stands(minimum, scheduled, remaining))
        assert branches[kind(outcome)], (minimum, scheduled, remaining)


def test_one_more_member_never_worsens_the_outcome() -> None:
    order = ["Unschedulable", "Wait", "Success"]
    for minimum, scheduled, remaining in COUNTS:
        here = decide(stands(minimum, scheduled, remaining))
        more = decide(stands(minimum, scheduled, remaining + 1))
        placed = decide(stands(minimum, scheduled + 1, remaining))
        assert order.index(kind(here)) <= order.index(kind(more))
        assert order.index(kind(more)) <= order.index(kind(placed))


def test_invalid_timeout_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        decide(stands(2, 1, 1), timeout=-1)


def test_unschedulable_reason_has_the_counts() -> None:
    """F59."""
    outcome = decide(stands(5, 2, 1))
    assert Unschedulable("2 of 5 members have a node, at most 1 more can get one") == outcome


def test_group_is_complete_from_its_minimum() -> None:
    """Rows 23 to 26."""
    for minimum, present in itertools.product(range(1, 9), range(10)):
        outcome = complete(stands(minimum, 0, present))
        assert isinstance(outcome, Success) is (present >= minimum)
        assert isinstance(outcome, Unschedulable) is (present < minimum)


def test_incomplete_group_names_missing_members_as_unresolvable() -> None:
    """F12, F59."""
    expected = Unschedulable("waiting for 2 more members: 1 of 3 exist", resolvable=False)
    assert expected == complete(stands(3, 0, 1))
    assert complete(stands(3, 0, 3)) == SUCCESS
