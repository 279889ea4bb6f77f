"""Which build of the heap is taken: see ``gangsched._core._heap``."""

from __future__ import annotations

import runpy
import sys
from types import ModuleType
from typing import Any

import pytest

import gangsched._core._heap as chooser
from gangsched._core._heap._py import PriorityHeap as PythonHeap


class Compiled:
    """Stands for the class of the extension."""


def chosen(monkeypatch: pytest.MonkeyPatch, switch: str | None, *, is_built: bool) -> Any:
    """Return which class is taken, and what is said of it."""
    extension = ModuleType("gangsched._core._heap._c")
    vars(extension)["PriorityHeap"] = Compiled
    # a module that is None there cannot be imported
    monkeypatch.setitem(sys.modules, extension.__name__, extension if is_built else None)
    if switch is None:
        monkeypatch.delenv("GANGSCHED_NO_EXTENSIONS", raising=False)
    else:
        monkeypatch.setenv("GANGSCHED_NO_EXTENSIONS", switch)
    names = runpy.run_path(str(chooser.__file__))
    return names["PriorityHeap"], names["heap_implementation"]


@pytest.mark.parametrize("switch", [None, "", "0"])
def test_the_extension_is_taken_where_it_is_built(
    monkeypatch: pytest.MonkeyPatch, switch: str | None
) -> None:
    assert chosen(monkeypatch, switch, is_built=True) == (Compiled, "cython")


@pytest.mark.parametrize("switch", ["1", "no", " "])
def test_the_extension_is_left_alone_where_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    assert chosen(monkeypatch, switch, is_built=True) == (PythonHeap, "python")


@pytest.mark.parametrize("switch", [None, "1"])
def test_without_the_extension_the_heap_is_of_python(
    monkeypatch: pytest.MonkeyPatch, switch: str | None
) -> None:
    assert chosen(monkeypatch, switch, is_built=False) == (PythonHeap, "python")
