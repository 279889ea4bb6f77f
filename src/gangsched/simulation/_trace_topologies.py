"""The topology constraint of a job of a trace, from the columns that state it.

Columns, whose cells are labels of nodes; see ``Topology``:

- ``topology``: the nodes of the gang have one value of it.
- ``prefer``: they have one value of it if possible. Alone: one value of the next coarser level
  then, at last the fewest; with ``topology``, within one value of that.
- ``slices``: ``rack:16``, or several with ``|`` between them, the coarsest first: how many workers
  in a row share a value.
- ``apart``: no two slices, or without slices no two workers, share a value of it.
- ``exclusive``: nobody else's pods have its values while the gang runs.

Rules:
  R1  a job of one worker is no gang: what it states is checked, and does not count.
"""

from __future__ import annotations

import re
from typing import Any, Final, final

from gangsched.constraints import Topology
from gangsched.errors import InvalidValueError
from gangsched.simulation._trace_rows import Row

__all__ = ["TOPOLOGY", "Topologies"]

TOPOLOGY: Final = ("topology", "prefer", "slices", "apart", "exclusive")

_SLICE: Final = re.compile(r"(?P<level>[^|:]+):(?P<size>[0-9]{1,9})", re.ASCII)


@final
class Topologies:
    """The topology constraints of the rows of a file, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], Topology | None] = {("",) * len(TOPOLOGY): None}

    def of(self, row: Row) -> Topology | None:
        """Return the topology of a row; None if it states none."""
        key = tuple(map(row.text, TOPOLOGY))
        if key not in self._made:
            self._made[key] = _topology(row, *key)
        return self._made[key]


def _topology(
    row: Row, within: str, prefer: str, slices: str, apart: str, exclusive: str
) -> Topology:
    more: dict[str, Any] = {"slices": _slices(row, slices)}
    more |= {"apart": apart or None, "exclusive": exclusive or None}
    try:
        if prefer and not within:
            return Topology(prefer, required=False, **more)
        return Topology(within or None, prefer=prefer or None, **more)
    except InvalidValueError as error:
        column = error.field.partition("[")[0]
        raise row.refuse(column if column in TOPOLOGY else "topology", error.expected) from error


def _slices(row: Row, text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in text.split("|") if text else ():
        found = _SLICE.fullmatch(part)
        if found is None or found["level"] in sizes:
            raise row.refuse("slices", "LABEL:SIZE such as rack:16, or several with | between them")
        sizes[found["level"]] = int(found["size"])
    return sizes
