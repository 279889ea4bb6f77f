"""The choice between the two builds of the heap."""

from __future__ import annotations

import runpy
import sys
from types import ModuleType
from typing import Any

import pytest

import gangsched._core._heap as chooser
from gangsched._core._heap._py import PriorityHeap as PythonHeap


class Compiled:
    """A stub for the compiled class."""


def chosen(monkeypatch: pytest.MonkeyPatch, switch: str | None, *, is_built: bool) -> Any:
    """Return the chosen class and the name of its build."""
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
def test_extension_is_used_if_built(monkeypatch: pytest.MonkeyPatch, switch: str | None) -> None:
    assert chosen(monkeypatch, switch, is_built=True) == (Compiled, "cython")


@pytest.mark.parametrize("switch", ["1", "no", " "])
def test_extension_is_not_used_if_switched_off(
    monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    assert chosen(monkeypatch, switch, is_built=True) == (PythonHeap, "python")


@pytest.mark.parametrize("switch", [None, "1"])
def test_python_heap_is_used_without_extension(
    monkeypatch: pytest.MonkeyPatch, switch: str | None
) -> None:
    assert chosen(monkeypatch, switch, is_built=False) == (PythonHeap, "python")
