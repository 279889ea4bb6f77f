"""Decisions: closed, frozen, validated."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from gangsched import outcomes
from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey
from gangsched.outcomes import (
    EvictGroup,
    HoldGroup,
    Outcome,
    RejectGroup,
    Skip,
    Success,
    Unschedulable,
    Verdict,
    Wait,
)
from support.refusals import NO_SECONDS, check_rows, each

KEY = GroupKey("ns/g")
VALUES: list[Any] = [
    Success(),
    Skip(),
    Wait(1.5),
    Unschedulable("why"),
    RejectGroup(KEY, "why"),
    HoldGroup(KEY, "why"),
    EvictGroup(KEY, "why"),
]


def test_every_decision_is_in_one_of_the_two_unions() -> None:
    defined = {
        cls
        for _name, cls in inspect.getmembers(outcomes, inspect.isclass)
        if cls.__module__ == outcomes.__name__
    }
    assert defined == {*typing.get_args(Outcome), *typing.get_args(Verdict)}
    assert not {*typing.get_args(Outcome)} & {*typing.get_args(Verdict)}
    assert {type(value) for value in VALUES} == defined


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_decision_is_a_frozen_final_value(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        value.reason = "other"
    assert getattr(type(value), "__final__", False)
    fields = [getattr(value, name) for name in type(value).__match_args__]
    assert value == type(value)(*fields)
    assert hash(value) == hash(type(value)(*fields))


def test_unschedulable_is_resolvable_by_default() -> None:
    """F12: an incomplete group and a full cluster are two things."""
    assert Unschedulable("full").resolvable
    assert not Unschedulable("incomplete", resolvable=False).resolvable
    assert Unschedulable("a") != Unschedulable("a", resolvable=False)


def test_reasons_are_kept_apart_whatever_they_contain() -> None:
    """A reason with a comma in it is one reason."""
    one = Unschedulable("needs an A100, not an H100")
    assert one.reasons == ("needs an A100, not an H100",)
    both = Unschedulable(["Insufficient cpu", "Too many pods"], resolvable=False)
    assert both.reasons == ("Insufficient cpu", "Too many pods")
    assert both.reason == "Insufficient cpu, Too many pods"
    assert Unschedulable(part for part in both.reasons).reasons == both.reasons
    assert evolve(both, resolvable=True) == Unschedulable(both.reasons)
    assert eval(repr(both)) == both


def test_malformed_decision_is_refused() -> None:
    """F28: what a bad timeout means is never guessed."""
    check_rows(each(Wait, "timeout", -1, -1e-9, *NO_SECONDS))
    check_rows(each(lambda x: Unschedulable("full", x), "resolvable", None, 0, "yes", 1.0))
    for verdict in (RejectGroup, HoldGroup, EvictGroup):
        check_rows(each(lambda x, of: of(KEY, x), "reason", None, 5, "", b"x"), verdict)
        check_rows(each(lambda x, of: of(x, "why"), "group", None, 5, "", b"x"), verdict)
    no_reasons: list[Any] = [3, None, "", (), [""], ["a", 3], [None]]
    for reasons in no_reasons:
        with pytest.raises(InvalidValueError, match="reasons"):
            Unschedulable(reasons)
