"""A snapshot in which one place was changed is refused, or restored to a scheduler that works.

Only what a scheduler remembers may make a difference (``REMEMBERED``), and then the scheduler still
works: it passes its own checks after every call, and raises nothing.
"""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import InvalidValueError, PluginError
from support.examples import one_in
from support.mutations import generic, mutations, paths
from support.snapshot_cases import CASES, Case, continued, copied

REMEMBERED = (
    *("now", "listed", "step", "gains", "attempt_floor", "labels"),
    *("groups", "restarts", "charges", "over_quota", "gangs", "pods", "waiting"),
    *("nominations", "overdue", "no_plans", "held", "backfill"),
    *("effects", "errors", "plugin_states"),
)
"""The beginnings of the paths that a scheduler remembers: what a listing does not show."""

_EVERY = 97


@cache
def case_of(name: str) -> tuple[Case, list[str]]:
    case = CASES[name]()
    own = copied(case.cluster)
    scheduler = case.make(own)
    scheduler.restore(case.data)
    return case, continued(case, own, scheduler)


@pytest.mark.parametrize("name", CASES)
@one_in(16, at_least=8)
@given(st.integers(0, _EVERY - 1))
def test_changed_snapshot_is_refused_or_restored_to_a_working_scheduler(
    name: str, part: int
) -> None:
    case, plain = case_of(name)
    for path, kind, data in mutations(case.data, places=2, every=_EVERY, part=part):
        own = copied(case.cluster)
        scheduler = case.make(own)
        empty = scheduler.snapshot()
        refused = ""
        try:
            scheduler.restore(data)
        except InvalidValueError as error:
            refused = error.field or "no field"
        except PluginError as error:
            # what a plugin remembers is checked by the plugin itself, and the error names it
            refused = error.plugin if error.point == "restore" else "no field"
        if refused:
            assert refused != "no field", (path, kind)
            assert scheduler.snapshot() == empty, (path, kind)
            continue
        log = continued(case, own, scheduler)
        if not path.startswith(REMEMBERED):
            assert log == plain, (path, kind)


def test_cases_have_nearly_all_fields_of_the_format() -> None:
    found = {generic(path) for make in CASES.values() for path in paths(make().data)}
    assert len(found) > 100
    for name in ("nominations", "backfill.reservation", "waiting", "gangs", "pods[*].pod"):
        assert any(path.startswith(name) for path in found), name


@pytest.mark.parametrize("name", CASES)
def test_rows_of_gangs_may_be_in_any_order(name: str) -> None:
    case, plain = case_of(name)
    data = json.loads(json.dumps(case.data))
    data["gangs"].reverse()
    own = copied(case.cluster)
    scheduler = case.make(own)
    scheduler.restore(data)
    assert continued(case, own, scheduler) == plain
