"""Faults planted in our own source, for a test to be seen to notice."""

from __future__ import annotations

import inspect
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

__all__ = ["plant"]


def plant(
    patch: pytest.MonkeyPatch, owner: ModuleType | type, name: str, old: str, new: str
) -> None:
    """Replace a piece of the source of a function or method, for as long as *patch* is in force.

    Args:
        patch: Undoes it.
        owner: The module or class; who calls the function must look it up there.
        name: The function.
        old: A piece of its source that is there once.
        new: What stands in its place.
    """
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert source.count(old) == 1, f"{name} has {old!r} {source.count(old)} times"
    module = owner if isinstance(owner, ModuleType) else sys.modules[owner.__module__]
    made: dict[str, Any] = {}
    # the fault is ours, and so is the source
    exec(compile(source.replace(old, new), f"<{name} with a fault>", "exec"), vars(module), made)
    patch.setattr(owner, name, made[name])
