"""Tables and ages as ``kubectl`` prints them, and the same rows as JSON and YAML.

Rules:
  R1  a cell is printed without control characters: names and messages come from an API server;
  R2  JSON and YAML have every field of a row, whatever a table shows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gangsched.trees import Tree
from gangsched.values.text import printable

__all__ = ["FORMATS", "age_of", "drawn", "number_or_dash", "print_documents", "table"]

FORMATS: Final = ("table", "wide", "json", "yaml")
"""The values of ``--output``."""

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_YEAR: Final = 365 * _DAY


def age_of(seconds: float) -> str:
    """Return an age as ``kubectl get`` has it: ``90s``, ``5m30s``, ``3h``, ``4d``.

    >>> [age_of(each) for each in (0, 119, 330, 7200, 90000, 864000)]
    ['0s', '119s', '5m30s', '120m', '25h', '10d']
    """
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    return f"{whole // _DAY}d" if whole < 2 * _YEAR else _two(whole, _YEAR, "y", _DAY, "d")


def _two(whole: int, large: int, first: str, small: int, second: str) -> str:
    """Return an age in two units, or in the larger one if it is a multiple of it."""
    rest = whole % large // small
    return f"{whole // large}{first}" + (f"{rest}{second}" if rest else "")


def number_or_dash(value: int | None) -> str:
    """Return a count as a cell; a dash if it is not known."""
    return "-" if value is None else str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, header: bool = True) -> str:
    """Return rows as a table; its last column is not padded."""
    lines = [tuple(columns)] if header else []
    lines += [tuple(printable(cell) or "-" for cell in row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def drawn(tree: Tree) -> str:
    """Return a tree as it is drawn on standard output, with the characters that it can write."""
    return "\n".join(tree.lines(sys.stdout.encoding))


def print_documents(
    kind: str,
    items: Sequence[dict[str, Any]],
    output: str,
    *,
    gone: Sequence[str] | None = None,
) -> None:
    """Print rows as JSON or YAML, as a list object of a kind.

    Args:
        kind: The kind of the list object.
        items: The rows.
        output: ``json`` or ``yaml``.
        gone: Of a stream of such objects, what was in one before and is gone. As YAML each of them
            ends with ``---``, so a reader of a stream knows that it is complete.
    """
    document: dict[str, Any] = {"apiVersion": "gangsched.kubectl/v1", "kind": kind}
    document["items"] = list(items)
    if gone is not None:
        document["gone"] = list(gone)
    if output == "json":
        print(json.dumps(document, indent=2), flush=True)
        return
    import yaml

    untyped: Any = yaml  # a type of its stubs is not known
    text = untyped.safe_dump(document, sort_keys=False, allow_unicode=False)
    print(text if gone is None else f"{text}---\n", end="", flush=True)
