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
    SKIP,
    SUCCESS,
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


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_decision_is_a_frozen_final_value(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        value.reason = "other"
    assert getattr(type(value), "__final__", False)
    fields = [getattr(value, name) for name in type(value).__match_args__]
    assert value == type(value)(*fields)
    assert hash(value) == hash(type(value)(*fields))


def test_every_decision_is_tried_above() -> None:
    assert {type(value) for value in VALUES} == {
        *typing.get_args(Outcome),
        *typing.get_args(Verdict),
    }


@pytest.mark.parametrize("timeout", [-1, -1e-9, float("nan"), float("inf"), -float("inf")])
def test_wait_is_finite_and_not_negative(timeout: float) -> None:
    """F28: what a bad timeout means is never guessed."""
    with pytest.raises(InvalidValueError) as caught:
        Wait(timeout)
    assert caught.value.field == "timeout"
    assert repr(timeout) == repr(caught.value.value)


@pytest.mark.parametrize("timeout", [0, 0.0, 1e-9, 3600, 1e300])
def test_every_other_wait_is_accepted(timeout: float) -> None:
    assert timeout == Wait(timeout).timeout


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


@pytest.mark.parametrize("reasons", [3, None, "", (), [""], ["a", 3], [None], {"a": 1}.values()])
def test_reasons_that_are_no_strings_are_refused(reasons: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Unschedulable(reasons)
    assert caught.value.field == "reasons"


@pytest.mark.parametrize("resolvable", [None, 0, "yes", 1.0])
def test_resolvable_is_a_bool(resolvable: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Unschedulable("full", resolvable)
    assert caught.value.field == "resolvable"


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup, EvictGroup])
@pytest.mark.parametrize("bad", [None, 5, "", b"x"])
@pytest.mark.parametrize("field", ["group", "reason"])
def test_verdict_names_a_group_and_a_reason(verdict: Any, bad: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        verdict(**{"group": KEY, "reason": "why", field: bad})
    assert caught.value.field == field


def test_two_constants_are_what_they_are_called() -> None:
    assert Success() == SUCCESS
    assert Skip() == SKIP
    assert len({SUCCESS, SKIP}) == 2
