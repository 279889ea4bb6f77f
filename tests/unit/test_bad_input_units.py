"""Bad input to what one decision is about: the unit, the layout, the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    Backoff,
    InMemoryCluster,
    PlacementStrategy,
    Scheduler,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.errors import GangschedError, InvalidPodGroupError, InvalidValueError
from support.gangs import specify
from support.refusals import check_refusal, row


def bad(name: str, call: Callable[[], object], field: str, value: object) -> Any:
    return row(name, call, InvalidValueError, field=field, value=value)


def scheduler(**given: Any) -> Callable[[], Scheduler]:
    return lambda: Scheduler(InMemoryCluster(), presets.coscheduling_profile(), **given)


def gang(**given: Any) -> Callable[[], Scheduler]:
    return lambda: presets.gang(InMemoryCluster(), **given)


def coscheduling(**given: Any) -> Callable[[], Scheduler]:
    return lambda: presets.coscheduling(InMemoryCluster(), **given)


RACK: Any = "rack"
NO_WORDS: list[Any] = ["never", "", "GROUP", None, 0, []]
NO_COUNTS: list[Any] = [-1, None, "1", 1.0, 1.5, True, float("nan"), float("inf")]
NO_FLAG: Any = "no"
ROWS = [
    *[bad(f"unit {x!r}", scheduler(unit=x), "unit", x) for x in NO_WORDS],
    *[bad(f"layout {x!r}", scheduler(placement=x), "placement", x) for x in NO_WORDS],
    *[bad(f"budget {x!r}", scheduler(search_budget=x), "search_budget", x) for x in NO_COUNTS],
    bad("preset's unit", coscheduling(unit="all"), "unit", "all"),
    bad("preset's layout", gang(placement="tight"), "placement", "tight"),
    bad("preset's budget", gang(search_budget=-5), "search_budget", -5),
    bad("the word of a unit", lambda: SchedulingUnit("gang"), "unit", "gang"),
    bad("the word of a layout", lambda: PlacementStrategy("packed"), "placement", "packed"),
    row("a topology in words", lambda: specify("g", 1, RACK), InvalidPodGroupError),
    bad("a topology without a label", lambda: Topology(""), "key", ""),
    bad("a topology that may be", lambda: Topology("rack", required=NO_FLAG), "required", "no"),
]


@pytest.mark.parametrize(("call", "error", "fields"), ROWS)
def test_bad_value_is_refused_by_its_constructor(
    call: Callable[[], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    check_refusal(call, error, fields)


def test_scheduler_may_search_not_at_all_and_forget_at_once() -> None:
    rest = Backoff(5.0)
    state = scheduler(search_budget=0, group_grace=0, backoff=rest)()._state
    assert (state.settings.search_budget, state.settings.backoff) == (0, rest)


def test_search_has_ten_thousand_steps_by_default() -> None:
    assert scheduler()()._state.settings.search_budget == 10_000
    assert scheduler(search_budget=5)()._state.settings.search_budget == 5


@pytest.mark.parametrize("unit", [*SchedulingUnit, "pod", "group"])
def test_unit_may_be_given_by_its_word(unit: Any) -> None:
    assert scheduler(unit=unit)()._state.settings.unit is SchedulingUnit(unit)
