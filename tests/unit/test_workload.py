"""Workloads: order, merging, and how long a pod runs."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidValueError
from gangsched.events import PodDeleted
from gangsched.model import Pod, PodUID
from gangsched.simulation.workload import (
    RUN_SECONDS,
    Arrival,
    Workload,
    parse_seconds,
    run_seconds,
)


def _arrival(at: float, name: str) -> Arrival:
    return Arrival(at, PodDeleted(PodUID(name)))


def _names(workload: Workload) -> list[str]:
    return [
        arrival.event.uid for arrival in workload.arrivals if isinstance(arrival.event, PodDeleted)
    ]


def _pod(run: str | None) -> Pod:
    return Pod(name="p", annotations={} if run is None else {RUN_SECONDS: run})


def test_arrivals_are_in_time_order_and_those_of_one_instant_as_given() -> None:
    given = (_arrival(2, "c"), _arrival(1, "b"), _arrival(2, "a"), _arrival(0.5, "d"))
    assert _names(Workload(given)) == ["d", "b", "c", "a"]


def test_merging_keeps_the_order_of_the_workloads_within_an_instant() -> None:
    one = Workload((_arrival(1, "a"), _arrival(3, "b")), ("first",))
    two = Workload((_arrival(1, "c"), _arrival(2, "d")), ("second",))
    three = Workload((_arrival(1, "e"), _arrival(0, "f")), ("third",))
    merged = one.merge(two, three)
    assert _names(merged) == ["f", "a", "c", "e", "d", "b"]
    assert merged.skipped == ("first", "second", "third")
    assert merged == one + two + three
    assert one == one.merge()


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=4))
def test_merging_is_associative_and_loses_nothing(instants: list[list[int]]) -> None:
    parts = [
        Workload(tuple(_arrival(at, f"{n}.{i}") for i, at in enumerate(each)))
        for n, each in enumerate(instants)
    ]
    together = parts[0].merge(*parts[1:])
    one_by_one = Workload()
    for part in parts:
        one_by_one += part
    assert together == one_by_one
    assert sum(map(len, instants)) == len(together.arrivals)
    keys = [
        (arrival.at, *(int(part) for part in name.split(".")))
        for arrival, name in zip(together.arrivals, _names(together), strict=True)
    ]
    assert sorted(keys) == keys


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, True, "1", None])
def test_arrival_has_a_finite_instant(at: Any) -> None:
    with pytest.raises(InvalidValueError, match="at must be a finite number of seconds"):
        Arrival(at, PodDeleted(PodUID("p")))


def test_workload_can_be_pickled() -> None:
    workload = Workload((_arrival(1, "a"),), ("sentence",))
    assert workload == pickle.loads(pickle.dumps(workload))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600.0), ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("007", 7.0), ("0.001", 0.001)],
)
def test_pod_runs_for_as_long_as_its_annotation_says(text: str, seconds: float) -> None:
    assert seconds == run_seconds(_pod(text))


def test_pod_without_the_annotation_runs_until_the_end() -> None:
    assert run_seconds(_pod(None)) is None


MALFORMED = (
    *(
        "",
        "0",
        "0.0",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1s",
        "1e3",
        "1_0",
        "0x1",
        ".",
        "1.2.3",
        "inf",
    ),
    *("inf", "nan", "\u0661", "9" * 400, "0." + "0" * 400 + "1"),
)


@pytest.mark.parametrize(
    "text",
    MALFORMED,
    ids=range(len(MALFORMED)),
)
def test_malformed_run_time_is_refused_by_its_annotation(text: str) -> None:
    expected = re.escape("a number of seconds > 0 in digits, such as 90 or 0.5")
    with pytest.raises(InvalidValueError, match=expected) as caught:
        run_seconds(_pod(text))
    assert caught.value.field == RUN_SECONDS
    assert text == caught.value.value


@given(st.text(max_size=10) | st.text("0123456789.-+eE", max_size=10))
def test_no_text_raises_anything_but_the_documented_error(text: str) -> None:
    try:
        seconds = parse_seconds(text, field="seconds")
    except InvalidValueError:
        return
    assert 0 < seconds < math.inf
