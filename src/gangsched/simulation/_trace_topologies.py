"""The topology constraint of a job of a trace, from the columns that state it.

Columns, all of them labels of nodes; see ``Topology``:

- ``topology``: the nodes of the gang have one value of it.
- ``prefer``: they have one value of it if possible. Alone: one value of the next coarser level
  then, at last the fewest; with ``topology``, within one value of that.
- ``slices``: ``rack:16``, or several with ``|`` between them, the coarsest first: how many workers
  in a row share a value.

Rules:
  R1  a job of one worker is no gang: what it states is checked, and does not count.
"""

from __future__ import annotations

import re
from typing import Final, final

from gangsched.constraints import Topology
from gangsched.errors import InvalidValueError
from gangsched.simulation._trace_rows import Row

__all__ = ["TOPOLOGY", "Topologies"]

TOPOLOGY: Final = ("topology", "prefer", "slices")

_SLICE: Final = re.compile(r"(?P<level>[^|:]+):(?P<size>[0-9]{1,9})", re.ASCII)


@final
class Topologies:
    """The topology constraints of the rows of a file, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], Topology | None] = {("", "", ""): None}

    def of(self, row: Row) -> Topology | None:
        """Return the topology of a row; None if it states none."""
        key = tuple(map(row.text, TOPOLOGY))
        if key not in self._made:
            self._made[key] = _topology(row, *key)
        return self._made[key]


def _topology(row: Row, within: str, prefer: str, slices: str) -> Topology | None:
    cut: dict[str, int] = {}
    for part in slices.split("|") if slices else ():
        found = _SLICE.fullmatch(part)
        if found is None or found["level"] in cut:
            raise row.refuse("slices", "LABEL:SIZE such as rack:16, or several with | between them")
        cut[found["level"]] = int(found["size"])
    try:
        if within:
            return Topology(within, prefer=prefer or None, slices=cut)
        if prefer:
            return Topology(prefer, required=False, slices=cut)
        return Topology(slices=cut)
    except InvalidValueError as error:
        column = "slices" if error.field.startswith("slices") else "prefer"
        raise row.refuse(column, error.expected) from error
