"""The available builds of the heap; each test of the heap runs over all of them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Final

import pytest

from gangsched import PriorityHeap

__all__ = ["BUILDS", "build", "each_build"]


def build(name: str) -> type[PriorityHeap[Any]]:
    """Return the class of a build."""
    module = {"python": "_py", "cython": "_c"}[name]
    found: type[PriorityHeap[Any]] = importlib.import_module(
        f"gangsched.primitives.heap.{module}"
    ).PriorityHeap
    return found


_IS_BUILT = importlib.util.find_spec("gangsched.primitives.heap._c") is not None

BUILDS: Final[dict[str, type[PriorityHeap[Any]]]] = {
    name: build(name) for name in ("python", "cython") if name == "python" or _IS_BUILT
}
"""Name to class."""

each_build = pytest.mark.parametrize(
    "build",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(name not in BUILDS, reason="the extension is not built")
        )
        for name in ("python", "cython")
    ],
)
"""Runs a test once for each build, by name."""
