"""Rows of the conformance table: what ties a test to the number of its row.

Rules:
  R1  each row of the table has exactly one test, or one case of a test;
  R2  its id is ``row-23``. If the result differs from the published plugin's on purpose, it is
      ``row-23-ours``, and ``docs/explanation/conformance.md`` gives the reason.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gangsched import Node, NodeName, Pod, PodGroup

__all__ = ["NAMESPACE", "ROWS", "gang", "ids_in", "machine", "row", "rows", "worker"]

ROWS: Final = (*(str(number) for number in range(1, 99)), "14v")
"""The number of every row; 14v is a variant of the first version of the plugin."""

NAMESPACE: Final = "lab"
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_ID: Final = re.compile(r"row-(\d+v?)(-ours)?")


def row(number: int | str, *values: object, ours: bool = False) -> Any:
    """Return the case of a row, for a parametrized test."""
    assert str(number) in ROWS
    return pytest.param(*values, id=f"row-{number}{'-ours' if ours else ''}")


def rows(number: int | str, *, ours: bool = False) -> pytest.MarkDecorator:
    """Mark a test of one row."""
    return pytest.mark.parametrize((), [row(number, ours=ours)])


def worker(name: str, group: str | None = None, **fields: Any) -> Pod:
    """Return a pod, as a member of *group* if one is given."""
    labels = {} if group is None else {_LABEL: group}
    return Pod(name=name, **{"namespace": NAMESPACE, "labels": labels, **fields})


def gang(name: str, minimum: int, **fields: Any) -> PodGroup:
    """Return a pod group."""
    return PodGroup(name=name, min_available=minimum, **{"namespace": NAMESPACE, **fields})


def machine(name: str, **allocatable: str | int) -> Node:
    """Return a node with the given resources."""
    return Node(name=NodeName(name), allocatable=allocatable)


def ids_in(folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield the row of each test in *folder*, and whether its result is ours."""
    for path in sorted(folder.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, test in vars(module).items():
            if name.startswith("test_"):
                for mark in getattr(test, "pytestmark", ()):
                    if mark.name == "parametrize":
                        yield from _ids(mark.args[1])


def _ids(cases: Any) -> Iterator[tuple[str, bool]]:
    for case in cases:
        found = _ID.fullmatch(str(getattr(case, "id", "")))
        if found is not None:
            yield found[1], found[2] is not None
