"""``kubectl gang get``: the gangs as a table or as documents, once or as they change."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from gangsched.cli._ask_scheduler import Said
from gangsched.cli._files import BadInputError
from gangsched.cli._tables import age_of, drawn, print_documents, table
from gangsched.model import GroupKey
from gangsched.values.text import printable

if TYPE_CHECKING:
    from gangsched.kubernetes._gang_rows import GangRow
    from gangsched.kubernetes._survey import Survey

__all__ = ["gangs_named", "get_gangs", "name_gangs", "nothing", "show_gangs", "watch_gangs"]

_LOOK: Final = 1.0
"""Seconds between two looks of ``get --watch``."""

_GANGS: Final = (
    *("NAMESPACE", "NAME", "PHASE", "NEEDED", "HAVE", "HELD", "RUNNING", "AGE", "REASON"),
)
_WIDE: Final = (
    *_GANGS[:-1],
    *("RESTARTS", "PRIORITY", "API", "NODES", "REASON", "SCHEDULER SAYS"),
)


def name_gangs(options: argparse.Namespace) -> None:
    """Set the keys of the gangs that are named, and the namespace that has them all.

    Raises:
        BadInputError: A name does not say in which namespace the gang is.
    """
    for name in options.names:
        if "/" not in name and options.all_namespaces:
            raise BadInputError(f"{name}: expected NAMESPACE/NAME with --all-namespaces")
    here = options.namespace or "default"
    options.keys = tuple(each if "/" in each else f"{here}/{each}" for each in options.names)
    if any(key.partition("/")[0] != here for key in options.keys):
        options.namespace = None


def gangs_named(survey: Survey, options: argparse.Namespace) -> list[GangRow]:
    """Return the rows of the gangs that are named, or of all."""
    from gangsched.kubernetes._gang_rows import gang_rows

    rows = gang_rows(survey, options.namespace)
    return [row for row in rows if not options.keys or row.key in options.keys]


def get_gangs(survey: Survey, options: argparse.Namespace) -> None:
    """Print the gangs of a listed cluster."""
    _print_gangs(gangs_named(survey, options), options)


def show_gangs(said: Said, options: argparse.Namespace) -> None:
    """Print the gangs that the running scheduler has answered with."""
    _print_gangs([row for row in said.rows if not options.keys or row.key in options.keys], options)


def _print_gangs(rows: Sequence[GangRow], options: argparse.Namespace) -> None:
    """Print the gangs, as ``kubectl get`` does.

    Raises:
        BadInputError: One that was named is not there; the others are printed.
    """
    found = {row.key for row in rows}
    missing = [key for key in options.keys if key not in found]
    if rows or not missing:
        _print_rows(rows, options)
    if missing:
        raise BadInputError(f"no pod group {', '.join(missing)}")


def _print_rows(rows: Sequence[GangRow], options: argparse.Namespace) -> None:
    if options.output in ("json", "yaml"):
        print_documents("GangList", [row.to_dict() for row in rows], options.output)
    elif not rows:
        print(nothing("gangs", options))
    else:
        print(_gang_table(rows, options))
        for row in rows if options.keys else ():
            if row.tree:
                print(f"\n{drawn(row.tree)}")


def _gang_table(
    rows: Sequence[GangRow], options: argparse.Namespace, *, header: bool = True
) -> str:
    wide = options.output == "wide"
    columns = _WIDE if wide else _GANGS
    return table(columns, [_cells(row, wide=wide) for row in rows], header=header)


def _cells(row: GangRow, *, wide: bool) -> tuple[str, ...]:
    needed = "" if row.needed is None else str(row.needed)
    counts = (row.have, row.held, row.running)
    first = (row.namespace, row.name, row.phase, needed, *map(str, counts), age_of(row.age))
    if not wide:
        return (*first, row.reason)
    wider = (str(row.restarts), str(row.priority), row.api, ",".join(row.nodes))
    return (*first, *wider, row.reason, row.message)


async def watch_gangs(now: Callable[[], Survey], options: argparse.Namespace) -> None:
    """Print all gangs, then those that have changed, until interrupted.

    As JSON or YAML, each change is a document of its own, with the keys of the gangs that are gone.
    """
    shown: dict[GroupKey, tuple[object, ...]] = {}
    while True:
        rows = gangs_named(now(), options)
        now_shown = {row.key: _but_age(row) for row in rows}
        changed = [row for row in rows if shown.get(row.key) != now_shown[row.key]]
        gone = sorted(shown.keys() - now_shown.keys())
        if options.output in ("json", "yaml"):
            if changed or gone:
                found = [row.to_dict() for row in changed]
                print_documents("GangList", found, options.output, gone=gone)
        elif changed:
            print(_gang_table(changed, options, header=not shown), flush=True)
        for key in gone if options.output in ("table", "wide") else ():
            print(f"{printable(key)} is gone", flush=True)
        shown = now_shown
        await asyncio.sleep(_LOOK)


def _but_age(row: GangRow) -> tuple[object, ...]:
    cells = _cells(row, wide=True)
    return (*cells[:7], *cells[8:], row.tree)


def nothing(what: str, options: argparse.Namespace) -> str:
    """Return that there is nothing of a kind in the namespaces that were asked about."""
    where = "any namespace" if options.namespace is None else f"namespace {options.namespace}"
    return f"there are no {what} in {printable(where)}"
