"""Each field of what is remembered is in the table of ``core/remembered``, in one place."""

from __future__ import annotations

import enum
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import pytest
from attrs import evolve

from gangsched.core.nodes.views import NodeViews
from gangsched.core.remembered import COMPUTED, REMEMBERED, Fields, kept
from gangsched.core.snapshot import kept_rows, rows
from gangsched.core.snapshot.forms import SNAPSHOT
from gangsched.forking.copying import fork
from support.fingerprint import attributes, is_frozen, is_ours, reachable
from support.snapshot_cases import CASES

pytestmark = pytest.mark.once("reads the table")

MODULES = ("gangsched.core.", "gangsched.primitives.", "gangsched.cycle_state")
SORTS = ("kept", "written", "derived", "made", "dropped")
VALUES = ("ErrorRow",)
"""Rows of values that have no table: an error."""


def parts(thing: Any) -> list[Any]:
    """Return what an object holds."""
    if isinstance(thing, types.MethodType):
        return [thing.__self__]
    held: Any = thing
    if isinstance(thing, Mapping) and not isinstance(thing, NodeViews):
        return [*held.keys(), *held.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return [*thing]
    return list(attributes(thing).values()) if is_ours(thing) else []


def found() -> dict[type[Any], set[str]]:
    """Return the fields of each class that busy schedulers remember something in."""
    fields: dict[type[Any], set[str]] = {}
    for make in CASES.values():
        case = make()
        scheduler = case.make(case.cluster)
        scheduler.restore(case.data)
        for thing in reachable(scheduler, parts):
            kind: type[Any] = thing.__class__
            is_value = isinstance(thing, enum.Enum) or is_frozen(thing)
            is_memory = kind.__module__.startswith(MODULES) and not is_value
            if is_memory or (is_ours(thing) and kind.__name__ in REMEMBERED):
                fields.setdefault(kind, set()).update(attributes(thing))
    return fields


def faults(
    fields: Mapping[type[Any], set[str]], table: Mapping[str, Fields], computed: Iterable[str]
) -> Iterator[str]:
    """Say what is not in the table, and what is there and is gone."""
    known = {kind.__name__: kind for kind in fields}
    for name in {*table, *computed} - known.keys():
        yield f"class {name} is listed, and it is gone"
    for kind, names in fields.items():
        name = kind.__name__
        if name not in table:
            if name not in computed:
                yield f"class {name} is not listed"
            continue
        listed = [each for sort in SORTS for each in getattr(table[name], sort)]
        for each in names - set(listed):
            yield f"field {name}.{each} is not listed"
        for each in set(listed) - names:
            yield f"field {name}.{each} is listed, and it is gone"
        for each in {each for each in listed if listed.count(each) > 1}:
            yield f"field {name}.{each} is listed twice"
        for each in set(table[name].shown) - {*table[name].kept, *table[name].written}:
            yield f"field {name}.{each} is shown, and neither kept nor written"
    yield from faults_of_forks(fields, table)
    yield from faults_of_rows(table)


def faults_of_forks(
    fields: Mapping[type[Any], set[str]], table: Mapping[str, Fields]
) -> Iterator[str]:
    """Say which class names a field for forks that it does not have, or that must be copied."""
    for kind, names in fields.items():
        anew, shallow = getattr(kind, "DERIVED", ()), getattr(kind, "SHALLOW", ())
        for each in {*anew, *shallow} - names:
            yield f"field {kind.__name__}.{each} is named for forks, and it is gone"
        entry = table.get(kind.__name__)
        for each in () if entry is None else {*anew} - {*entry.derived, *entry.dropped}:
            yield f"field {kind.__name__}.{each} begins anew in a fork, and is remembered"


def faults_of_rows(table: Mapping[str, Fields]) -> Iterator[str]:
    """Say which field of a row is of no object, and which field is in no row."""
    every: list[Any] = [getattr(each, name) for each in (rows, kept_rows) for name in each.__all__]
    has = {f"{row.__name__}.{each.name}" for row in every for each in attrs.fields(row)}
    used: dict[str, str] = {}
    for name, entry in table.items():
        used |= {f"{entry.row}.{each}": f"{name}.{each}" for each in entry.kept}
        for each, targets in entry.written.items():
            used |= dict.fromkeys(targets.split(), f"{name}.{each}")
    for target in used.keys() - has:
        yield f"field {used[target]} is not in a snapshot: there is no {target}"
    for target in has - used.keys():
        if not target.startswith(VALUES):
            yield f"field {target} of a row is of no field that is remembered"


def test_each_field_is_in_one_place_of_the_table() -> None:
    assert sorted(faults(found(), REMEMBERED, COMPUTED)) == []


@pytest.mark.parametrize("name", CASES)
def test_restored_object_has_the_kept_fields_of_its_row(name: str) -> None:
    case = CASES[name]()
    scheduler = case.make(case.cluster)
    scheduler.restore(case.data)
    state = scheduler._state
    plain = {each: one for each, one in case.data.items() if each not in ("format", "gangsched")}
    read = SNAPSHOT.read(plain, "")
    records, reserving = state.records, state.reservation
    pairs: list[tuple[str, object, object]] = [("Records", records, read)]
    pairs += [("PodRecord", records.pods[row.uid], row) for row in read.pods]
    pairs += [("GangRecord", records.gangs[row.key], row) for row in read.gangs]
    pairs += [("PodGroupInfo", records.registry.get(row.key), row) for row in read.groups]
    pairs += [("WaitingPod", records.waiting.get(row.uid), row) for row in read.waiting]
    lives = state.restarts.lives
    pairs += [("GroupLife", lives[row.group][row.path], row) for row in read.restarts]
    known = state.nominations.known
    pairs += [("Nomination", known[records.gangs[row.gang]], row) for row in read.nominations]
    if read.backfill is not None:
        pairs.append(("ReservationState", reserving, read.backfill))
        if read.backfill.reservation is not None:
            pairs.append(("ActiveReservation", reserving.current, read.backfill.reservation))
    for kind, thing, row in pairs:
        assert kept(kind, thing) == kept(kind, row), thing


@pytest.mark.parametrize("name", CASES)
def test_fork_has_a_copy_of_each_object_with_all_its_fields(name: str) -> None:
    case = CASES[name]()
    scheduler = case.make(case.cluster)
    scheduler.restore(case.data)
    state = scheduler._state

    def listed(root: object) -> dict[int, Any]:
        things = (thing for thing in reachable(root, parts) if is_ours(thing))
        in_table = (*REMEMBERED, *COMPUTED)
        return {
            id(thing): thing
            for thing in things
            if thing.__class__.__name__ in in_table and not is_frozen(thing)
        }

    copy = fork(state)
    copies, originals = listed(copy), listed(state)
    assert not copies.keys() & originals.keys()
    assert Counter(map(shape, copies.values())) == Counter(map(shape, originals.values()))


def shape(thing: Any) -> tuple[str, ...]:
    """Return the class of an object, and the names of its fields."""
    return (thing.__class__.__name__, *sorted(attributes(thing)))


def test_field_that_is_new_or_gone_is_named() -> None:
    fields = found()
    gang = next(kind for kind in fields if kind.__name__ == "GangRecord")
    fields[gang] = {*fields[gang], "colour"} - {"reason"}
    fewer = {name: entry for name, entry in REMEMBERED.items() if name != "Hold"}
    waits = evolve(REMEMBERED["WaitingPod"], kept="attempt deadline since uid node")
    assert set(faults(fields, {**fewer, "WaitingPod": waits}, COMPUTED)) == {
        "class Hold is not listed",
        "field GangRecord.colour is not listed",
        "field GangRecord.reason is listed, and it is gone",
        "field WaitingPod.node is listed twice",
        "field WaitingPod.node is not in a snapshot: there is no WaitRow.node",
        *(
            f"field {row}.{name} of a row is of no field that is remembered"
            for row in ("NominatedPodRow", "ReservedRow")
            for name in ("node", "since")
        ),
    }
