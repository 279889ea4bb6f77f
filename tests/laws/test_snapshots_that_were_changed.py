"""A snapshot in which one place was changed is refused, or restored to a scheduler that works.

What follows from other parts of a snapshot is not believed: a change of it is refused, or makes no
difference. Only what a scheduler remembers may make one (``REMEMBERED``), and then the scheduler
still works: it passes its own checks after every call, and raises nothing.
"""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import InvalidValueError, PluginError
from support.cores import current_core
from support.examples import one_in
from support.mutations import generic, mutations, paths
from support.snapshot_cases import CASES, Case, continued, copied

REMEMBERED = (
    *("now", "giving_way", "waiting", "waiting_since", "nominations", "backfill"),
    *("departed", "unread", "overdue", "effects", "errors", "listed", "plugin_states"),
    # nodes, pods and specifications as the cluster state last showed them
    *("nodes", "members[*].pod.", "groups[*].spec"),
    *("members[*].attempt", "members[*].reason", "members[*].bind_failures"),
    *("members[*].told", "groups[*].is_binding"),
    *("members[*].started_at", "groups[*].attempt", "groups[*].complete_at"),
    *("groups[*].failures", "groups[*].last_failure_at", "groups[*].backoff_until"),
    *("groups[*].was_scheduled", "groups[*].claims", "groups_left", "attempt_floor"),
    *("entities[*].backoff_until", "entities[*].queued_at", "entities[*].failures"),
    *("entities[*].failed_step", "entities[*].tried", "entities[*].refused_at"),
    *("entities[*].event_step", "entities[*].round_step", "entities[*].reason"),
    *("entities[*].unschedulable_member", "queues[*].helped_at", "queues[*].blocked"),
    *("queues[*].opened_at", "step"),
    # of a leader that is being tried, what it asked for before
    "queues[*].asked",
)
"""The beginnings of the paths that a scheduler remembers and cannot compute."""

_EVERY = 97


def case_of(name: str) -> tuple[Case, list[str]]:
    return _case_of(name, current_core())


@cache
def _case_of(name: str, _core: str) -> tuple[Case, list[str]]:
    case = CASES[name]()
    own = copied(case.cluster)
    scheduler = case.make(own)
    scheduler.restore(case.data)
    return case, continued(case, own, scheduler)


@pytest.mark.parametrize("name", CASES)
@one_in(16)
@given(st.integers(0, _EVERY - 1))
def test_changed_snapshot_is_refused_or_restored_to_a_working_scheduler(
    name: str, part: int
) -> None:
    case, plain = case_of(name)
    for number, (path, kind, data) in enumerate(mutations(case.data, places=2)):
        if number % _EVERY != part:
            continue
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


@pytest.mark.of_framework("names fields of format 2")
def test_cases_have_nearly_all_fields_of_the_format() -> None:
    found = {generic(path) for make in CASES.values() for path in paths(make().data)}
    assert len(found) > 150
    for name in ("nominations", "backfill.reservation", "waiting", "queues", "assumed"):
        assert any(path.startswith(name) for path in found), name


@pytest.mark.of_framework("swaps rows of format 2")
@pytest.mark.parametrize("name", CASES)
def test_swapped_items_of_a_queue_are_put_in_order(name: str) -> None:
    case, plain = case_of(name)
    data = json.loads(json.dumps(case.data))
    for part in ("active", "backoff", "gated", "queues"):
        data[part] = data.get(part, [])[::-1]
    for queue in data["queues"]:
        queue["entities"] = queue.get("entities", [])[::-1]
    own = copied(case.cluster)
    scheduler = case.make(own)
    scheduler.restore(data)
    assert continued(case, own, scheduler) == plain
