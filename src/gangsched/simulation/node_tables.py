"""Nodes from a CSV file: one node, or several like nodes, a row.

Columns:

- ``node`` or ``name``: the name; ``sn`` in Alibaba's traces.
- ``cpu``: CPUs, a quantity. ``cpu_milli``: thousandths of a CPU.
- ``memory``: a quantity. ``memory_mib``: mebibytes.
- ``gpus`` or ``gpu``: the number of ``nvidia.com/gpu``.
- ``model``: the model of the GPUs, as the label ``nvidia.com/gpu.product``.
- ``count``: that many nodes ``<name>-<index>``. Without the column, one node.
- ``label:KEY``: the label KEY. ``resource:NAME``: the quantity of another resource.

The list of machines of Microsoft's Philly cluster has columns of its own; see ``_philly_machines``.

Rules:
  R1  an empty cell means none;
  R2  a column that is not in the table is an error: a node without what it has would be guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gangsched.errors import InvalidValueError, TraceError
from gangsched.model import Node, NodeName
from gangsched.resources import Resources
from gangsched.simulation._philly_machines import is_machine_list, machines
from gangsched.simulation._trace_formats import GPU_MODEL
from gangsched.simulation._trace_rows import Row, Table

__all__ = ["load_nodes"]

MOST_NODES: Final = 150_000

_NAMES: Final = ("node", "name", "sn")
_PLAIN: Final = ("cpu", "cpu_milli", "memory", "memory_mib", "gpus", "gpu", "model", "count")
_GPU: Final = "nvidia.com/gpu"
_LABEL: Final = "label:"
_RESOURCE: Final = "resource:"


def load_nodes(lines: Iterable[str], *, file: str) -> tuple[Node, ...]:
    """Return the nodes of a CSV file, in its order.

    Runtime complexity: O(nodes).

    Args:
        lines: The lines of the file.
        file: Its name for errors.

    Raises:
        TraceError: A row or the header is malformed, a node is given twice, or there are more than
            150,000 nodes.
        InvalidValueError: An argument has a wrong type.
    """
    if not isinstance(file, str):
        raise InvalidValueError("file", file, "a string")
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise InvalidValueError("lines", lines, "an iterable of lines, such as an open file")
    table = Table(lines, file, expected=("node", "cpu", "memory", "gpus"))
    found: dict[str, Node] = {}
    for row, named, node in machines(table) if is_machine_list(table) else _rows(table):
        if node.name in found:
            raise row.problem(named, f"expected a unique name, got {node.name!r} again")
        found[node.name] = node
        if len(found) > MOST_NODES:
            raise row.problem(named, f"with it the file has more than {MOST_NODES:,} nodes")
    return tuple(found.values())


def _rows(table: Table) -> Iterator[tuple[Row, str, Node]]:
    named = _name_column(table)
    for row in table:
        for node in _nodes(row, named, table.columns):
            yield row, named, node


def _name_column(table: Table) -> str:
    names = [name for name in _NAMES if name in table.columns]
    if len(names) != 1:
        problem = f"expected one of the columns {', '.join(_NAMES)}, got {', '.join(table.columns)}"
        raise TraceError(table.file, table.line, "node", problem)
    for column in table.columns:
        known = column in (*_PLAIN, *names) or column.startswith((_LABEL, _RESOURCE))
        if not known or column in (_LABEL, _RESOURCE):
            expected = f"one of {', '.join(_PLAIN)}, {_LABEL}KEY, {_RESOURCE}NAME"
            raise TraceError(table.file, table.line, column, f"expected {expected}")
    table.require(names, table.columns)
    for one, other in (("cpu", "cpu_milli"), ("memory", "memory_mib"), ("gpus", "gpu")):
        if one in table.columns and other in table.columns:
            raise TraceError(table.file, table.line, one, f"expected {one} or {other}, got both")
    return names[0]


def _nodes(row: Row, named: str, columns: tuple[str, ...]) -> Iterator[Node]:
    name = row.name(named)
    amounts: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    for column in columns:
        text = row.text(column)
        if not text or column in (named, "count"):
            continue
        if column.startswith(_LABEL):
            labels[column.removeprefix(_LABEL)] = text
        elif column == "model":
            labels[GPU_MODEL] = text
        else:
            resource, amount = _amount(row, column)
            amounts[resource] = amount
    count = row.whole("count", least=1, most=MOST_NODES) if "count" in columns else None
    offered = Resources(amounts)
    if count is None:
        yield Node(name=NodeName(name), allocatable=offered, labels=labels)
        return
    width = max(3, len(str(count - 1)))
    for number in range(count):
        node = NodeName(f"{name}-{number:0{width}}")
        yield Node(name=node, allocatable=offered, labels=labels)


def _amount(row: Row, column: str) -> tuple[str, str | int]:
    match column:
        case "cpu_milli":
            return "cpu", f"{row.whole(column, least=0)}m"
        case "memory_mib":
            return "memory", f"{row.whole(column, least=0)}Mi"
        case "gpus" | "gpu":
            return _GPU, row.whole(column, least=0)
        case _:
            return column.removeprefix(_RESOURCE), row.quantity(column)
