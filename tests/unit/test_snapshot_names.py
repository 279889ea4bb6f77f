"""What a snapshot names is in it, and what is there once it names once: else it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

import pytest

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    InMemoryCluster,
    InvalidValueError,
    Scheduler,
    presets,
)
from gangsched.options import Preemption
from support.busy import busy_scheduler
from support.fingerprint import fingerprint
from support.restored import posted
from support.snapshots import another, nominating_scheduler, reserving_scheduler

Data: TypeAlias = dict[str, Any]


def busy() -> tuple[Data, Callable[[], Scheduler]]:
    cluster, scheduler = busy_scheduler()
    return posted(scheduler.snapshot()), lambda: another(cluster)


def nominating() -> tuple[Data, Callable[[], Scheduler]]:
    scheduler = nominating_scheduler()
    cluster = cast("InMemoryCluster", scheduler._state.settings.cluster)
    data = posted(scheduler.snapshot())
    return data, lambda: presets.coscheduling(cluster, preemption=Preemption())


def reserving() -> tuple[Data, Callable[[], Scheduler]]:
    scheduler = reserving_scheduler()
    cluster = cast("InMemoryCluster", scheduler._state.settings.cluster)
    policy = Backfill(AnnotatedRunTimes("seconds"))
    return posted(scheduler.snapshot()), lambda: presets.gang(cluster, backfill=policy)


Made: TypeAlias = Callable[[], tuple[Data, Callable[[], Scheduler]]]


def steps(path: str) -> list[Any]:
    found = re.findall(r"[^.\[\]]+", path)
    return [int(each) if each.isdigit() else each for each in found]


def put(data: Data, path: str, value: object) -> None:
    """Say something else at a place in plain data."""
    *way, last = steps(path)
    spot: Any = data
    for step in way:
        spot = spot[step]
    spot[last] = value


def first_with(data: Data, rows: str, field: str) -> int:
    """Return the number of the first row that says something in a field."""
    return next(n for n, row in enumerate(data[rows]) if row.get(field) is not None)


def refusal(make: Callable[[], Scheduler], data: Data) -> InvalidValueError:
    scheduler = make()
    before = fingerprint(scheduler)
    with pytest.raises(InvalidValueError) as caught:
        scheduler.restore(data)
    assert fingerprint(scheduler) == before
    return caught.value


ODD_CLASS = {"needed": 1, "runs": [["default/x", 1]]}
NOWHERE: list[tuple[Made, str, object, str, object]] = [
    (busy, "entities[0].group", "default/x", "entities[0].group", "default/x"),
    (busy, "members[{cycle}].cycle", [["x", 1]], "members[{cycle}].cycle", "x"),
    (busy, "nodes[0].pods[0]", "default/x", "nodes[0].pods[0]", "default/x"),
    (busy, "assumed[1].uid", "default/x", "assumed[1].uid", "default/x"),
    (busy, "evicted", ["default/x"], "evicted[0]", "default/x"),
    (busy, "groups_left", [["default/x", 3.0]], "groups_left[0]", "default/x"),
    (busy, "active[1]", 999, "active[1]", 999),
    (busy, "backoff[0]", 999, "backoff[0]", 999),
    (busy, "gated[1]", 999, "gated[1]", 999),
    (busy, "queues[1].entities", [999], "queues[1].entities[0]", 999),
    (busy, "queues[1].leader", 999, "queues[1].leader", 999),
    (busy, "queues[1].asked.runs[0][0]", "default/x", "queues[1].asked.runs[0]", "default/x"),
    (
        busy,
        "queues[1].asked.parts",
        [ODD_CLASS],
        "queues[1].asked.parts[0].runs[0]",
        "default/x",
    ),
    (busy, "waiting[1].uid", "default/x", "waiting[1].uid", "default/x"),
    (nominating, "nominations[0].entity", 999, "nominations[0].entity", 999),
    (reserving, "backfill.reservation.entity", 999, "backfill.reservation.entity", 999),
    (reserving, "backfill.failed", [[ODD_CLASS, 3]], "backfill.failed[0].runs[0]", "default/x"),
    (reserving, "backfill.qualified", ["default/x"], "backfill.qualified[0]", "default/x"),
]
ROWS_OF = {"cycle": "members"}


@pytest.mark.parametrize(
    ("made", "path", "given", "field", "value"), NOWHERE, ids=[row[1] for row in NOWHERE]
)
def test_unknown_object_is_refused_by_the_field_that_names_it(
    made: Made, path: str, given: object, field: str, value: object
) -> None:
    data, make = made()
    for name in re.findall(r"{(\w+)}", path):
        number = str(first_with(data, ROWS_OF[name], name))
        path, field = (text.replace("{" + name + "}", number) for text in (path, field))
    put(data, path, given)
    error = refusal(make, data)
    assert (error.field, error.value) == (field, value)
    assert error.expected == "listed in the snapshot"


TWICE: list[tuple[Made, str, Data, str]] = [
    (busy, "groups", {}, ".key"),
    (busy, "entities", {}, ".seq"),
    (busy, "members", {}, ".pod.uid"),
    (busy, "nodes", {}, ".node.name"),
    (busy, "assumed", {}, ".uid"),
    (busy, "queues", {"entities": [], "leader": None}, ".asked"),
    (busy, "waiting", {}, ".uid"),
    (nominating, "nominations", {}, ".entity"),
]


@pytest.mark.parametrize(
    ("made", "rows", "changes", "at"), TWICE, ids=[f"{row[1]}{row[3]}" for row in TWICE]
)
def test_duplicate_is_refused_by_its_field(made: Made, rows: str, changes: Data, at: str) -> None:
    data, make = made()
    number = len(data[rows])
    data[rows].append(data[rows][0] | changes)
    error = refusal(make, data)
    assert error.field == f"{rows}[{number}]{at}"
    assert error.expected == "listed once in the snapshot"


@pytest.mark.parametrize("place", ["backoff", "gated"])
def test_entity_is_in_one_place(place: str) -> None:
    data, make = busy()
    number, seq = len(data[place]), data["active"][0]
    data[place].append(seq)
    error = refusal(make, data)
    assert (error.field, error.value) == (f"{place}[{number}]", seq)
    assert error.expected == "an entity that is listed once"


@pytest.mark.parametrize(
    ("counter", "most"),
    [("arrivals", 29), ("group_arrivals", 4), ("node_arrivals", 3)],
)
def test_number_that_was_given_out_is_not_given_out_again(counter: str, most: int) -> None:
    data, make = busy()
    make().restore(data | {counter: most})
    error = refusal(make, data | {counter: most - 1})
    assert (error.field, error.value) == (counter, most - 1)
    assert error.expected == f"an int >= {most}, the largest number in use"


def test_numbers_begin_at_none_where_none_was_given_out() -> None:
    make = partial(another, InMemoryCluster())
    make().restore(make().snapshot() | {"arrivals": 0})
    error = refusal(make, make().snapshot() | {"arrivals": -1})
    assert (error.field, error.expected) == ("arrivals", "an int from 0 to 2**62")


# The whole of it --------------------------------------------------------------------------------


def test_wrong_value_of_a_field_is_refused_by_its_name() -> None:
    data, make = busy()
    error = refusal(make, data | {"now": "soon"})
    assert (error.field, error.value) == ("now", "soon")


def endless(shape: Data) -> Data:
    """Return a shape with a part, which has a part, and so on."""
    found = shape
    for _part in range(20_000):
        found = shape | {"parts": [found]}
    return found


CONTRARY: list[tuple[Callable[[Data], object], str]] = [
    (lambda data: data.update(waiting=[]), "default/w-0 is WAITING"),
    (
        lambda data: put(data, "queues[0].asked", endless(data["queues"][0]["asked"])),
        "RecursionErr",
    ),
]


@pytest.mark.parametrize(("change", "because"), CONTRARY, ids=["invariant", "depth"])
def test_inconsistent_snapshot_is_refused_as_a_whole(
    change: Callable[[Data], object], because: str
) -> None:
    data, make = busy()
    change(data)
    error = refusal(make, data)
    assert (error.field, error.value) == ("snapshot", "a snapshot")
    assert error.expected.startswith(f"consistent: {because}")


ELSEWHERE: list[tuple[Made, Data, tuple[str, object, str]]] = [
    (busy, {"unit": "group"}, ("unit", "group", "pod, the unit of this scheduler")),
    (
        busy,
        {"plugins": ["Coscheduling"]},
        (
            "plugins",
            ("Coscheduling",),
            "('Coscheduling', 'NodeResourcesFit', 'DefaultBinder'), the plugins of this scheduler",
        ),
    ),
    (nominating, {}, ("nominations", 1, "0, because preemption is off")),
]


@pytest.mark.parametrize(
    ("made", "changes", "told"), ELSEWHERE, ids=[row[2][0] for row in ELSEWHERE]
)
def test_state_of_a_scheduler_with_other_settings_is_refused(
    made: Made, changes: Data, told: tuple[str, object, str]
) -> None:
    data, make = made()
    if not changes:
        make = partial(presets.coscheduling, InMemoryCluster())
    error = refusal(make, data | changes)
    assert (error.field, error.value, error.expected) == told
