"""The list of machines that goes with the Philly log, ``cluster_machine_list``: a CSV file.

Rules:
  R1  the columns are ``machineId``, ``number of GPUs`` and ``single GPU mem``, with blanks around
      them or without;
  R2  the memory of a GPU becomes the label that GPU feature discovery writes, in mebibytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gangsched.model import Node, NodeName
from gangsched.simulation._trace_rows import Row, Table

__all__ = ["GPU_MEMORY", "is_machine_list", "machines"]

GPU_MEMORY: Final = "nvidia.com/gpu.memory"

_NAME, _GPUS, _MEMORY = "machineId", "number of GPUs", "single GPU mem"
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_GIGABYTES: Final = re.compile(r"([0-9]{1,6}) ?GB", re.ASCII)


def is_machine_list(table: Table) -> bool:
    """Return whether a table is such a list, by its columns."""
    return sorted(_places(table)) == sorted((_NAME, _GPUS, _MEMORY))


def machines(table: Table) -> Iterator[tuple[Row, str, Node]]:
    """Yield the node of each row, with the row and the column of its name.

    Raises:
        TraceError: A row is malformed.
    """
    places = _places(table)
    named, gpus, memory = (places[name] for name in (_NAME, _GPUS, _MEMORY))
    for row in table:
        count, size = row.text(gpus).strip(), _GIGABYTES.fullmatch(row.text(memory).strip())
        if not _WHOLE.fullmatch(count):
            raise row.refuse(gpus, "a whole number of GPUs")
        if size is None:
            raise row.refuse(memory, "a size such as 24GB")
        yield (
            row,
            named,
            Node(
                name=NodeName(row.name(named).strip()),
                allocatable={"nvidia.com/gpu": int(count)},
                labels={GPU_MEMORY: str(int(size[1]) * 1024)},
            ),
        )


def _places(table: Table) -> dict[str, str]:
    return {column.strip(): column for column in table.columns}
