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
from gangsched.framework import Preemption
from support.busy import busy_scheduler
from support.fingerprint import fingerprint
from support.restored import posted
from support.snapshots import Fitting, another, nominating_scheduler, reserving_scheduler

Data: TypeAlias = dict[str, Any]


def busy() -> tuple[Data, Callable[[], Scheduler]]:
    cluster, scheduler = busy_scheduler()
    return posted(scheduler.snapshot()), lambda: another(cluster)


def unsigned() -> tuple[Data, Callable[[], Scheduler]]:
    """Where a plugin does not say what it reads of a node, each stands alone."""
    cluster, scheduler = busy_scheduler(Fitting(signs=False))
    return posted(scheduler.snapshot()), lambda: another(cluster, Fitting(signs=False))


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


ODD_SHAPE = {"needed": 1, "runs": [[99, 1]]}
NOWHERE: list[tuple[Made, str, object, str, object]] = [
    (busy, "tried[0]", 999, "tried", 999),
    (busy, "groups[0].members[0]", "default/x", "groups[0].members", "default/x"),
    (busy, "entities[0].group", "default/x", "entities[0].group", "default/x"),
    (busy, "entities[0].pending[0]", "default/x", "entities[0].pending", "default/x"),
    (busy, "members[1].entity", 999, "members[1].entity", 999),
    (busy, "members[1].pod_class", 99, "members[1].pod_class", 99),
    (busy, "members[{cycle}].cycle", [["x", 1]], "members[{cycle}].cycle", "x"),
    (busy, "assumed[1].uid", "default/x", "assumed[1].uid", "default/x"),
    (busy, "occupied[1]", 999, "occupied[1]", 999),
    (busy, "node_classes[{nodes}].nodes[0]", 999, "node_classes[{nodes}].nodes", 999),
    (busy, "active[1]", 999, "active[1]", 999),
    (busy, "backoff[0]", 999, "backoff[0]", 999),
    (busy, "gated[1]", 999, "gated[1]", 999),
    (busy, "lines[1].standing", [999], "lines[1].standing", 999),
    (busy, "lines[1].resting", [999], "lines[1].resting", 999),
    (busy, "lines[1].leader", 999, "lines[1].leader", 999),
    (busy, "lines[1].shape.runs[0][0]", 99, "lines[1].shape.runs", 99),
    (busy, "lines[1].shape.parts", [ODD_SHAPE], "lines[1].shape.parts.runs", 99),
    (busy, "waiting[1].uid", "default/x", "waiting[1].uid", "default/x"),
    (nominating, "nominations[0].entity", 999, "nominations[0].entity", 999),
    (reserving, "reserving.reservation.entity", 999, "reserving.reservation.entity", 999),
    (reserving, "reserving.failed", [[ODD_SHAPE, 3]], "reserving.failed[0].runs", 99),
    (unsigned, "node_classes[{after}].after[0][1]", 999, "node_classes[{after}].after", 999),
    (unsigned, "node_classes[{before}].before[0][1]", 999, "node_classes[{before}].before", 999),
]
ROWS_OF = {"cycle": "members", "nodes": "node_classes", "after": "node_classes"}
ROWS_OF["before"] = "node_classes"


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
    (busy, "entities", {"seq": 999}, ".group"),
    (busy, "members", {}, ".pod.uid"),
    (busy, "nodes", {}, ".node.name"),
    (busy, "nodes", {"node": {"name": "n9"}}, ".index"),
    (busy, "pod_classes", {}, ".sample"),
    (busy, "node_classes", {}, ".number"),
    (busy, "node_classes", {"number": 999, "nodes": []}, ""),
    (busy, "lines", {"standing": [], "resting": [], "leader": None}, ".shape"),
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


def test_label_is_counted_once() -> None:
    data, make = busy()
    error = refusal(make, data | {"labels": [["zone", 1], ["rack", 2], ["zone", 3]]})
    assert (error.field, error.value) == ("labels[2]", "zone")
    assert error.expected == "listed once in the snapshot"


def test_node_is_in_one_class() -> None:
    data, make = busy()
    number = first_with(data, "node_classes", "nodes")
    (index, *_others) = data["node_classes"][number]["nodes"]
    data["node_classes"][-1]["nodes"] = [*data["node_classes"][-1].get("nodes", []), index]
    error = refusal(make, data)
    assert error.value == index
    assert error.field.startswith("node_classes[")
    assert error.field.endswith("].nodes")
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
    [("numbers", 29), ("group_numbers", 4), ("indices", 3), ("node_class_numbers", 4)],
)
def test_number_that_was_given_out_is_not_given_out_again(counter: str, most: int) -> None:
    data, make = busy()
    make().restore(data | {counter: most})
    error = refusal(make, data | {counter: most - 1})
    assert (error.field, error.value) == (counter, most - 1)
    assert error.expected == f"an int >= {most}, the largest number in use"


def test_numbers_begin_at_none_where_none_was_given_out() -> None:
    make = partial(another, InMemoryCluster())
    make().restore(make().snapshot() | {"numbers": 0})
    error = refusal(make, make().snapshot() | {"numbers": -1})
    assert (error.field, error.expected) == ("numbers", "an int >= 0, the largest number in use")


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
    (lambda data: put(data, "lines[0].shape", endless(data["lines"][0]["shape"])), "RecursionErr"),
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
