"""Plant faults in our own source, to check that a test fails."""

from __future__ import annotations

import inspect
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

from gangsched import scheduler as chosen

__all__ = ["ON_THE_CORE", "plant"]

ON_THE_CORE = chosen.Scheduler.__module__.startswith("gangsched.core.")
"""Whether schedulers are those of ``core``: other functions have the faults then."""


def plant(
    patch: pytest.MonkeyPatch, owner: ModuleType | type, name: str, old: str, new: str
) -> None:
    """Replace a piece of the source of a function or method until *patch* is undone.

    Args:
        patch: Undoes the change.
        owner: The module or class in which callers look the function up.
        name: The function.
        old: A piece of its source that occurs once.
        new: Its replacement.
    """
    source = textwrap.dedent(inspect.getsource(getattr(owner, name)))
    assert source.count(old) == 1, f"{name} has {old!r} {source.count(old)} times"
    module = owner if isinstance(owner, ModuleType) else sys.modules[owner.__module__]
    made: dict[str, Any] = {}
    # the executed source is our own
    exec(compile(source.replace(old, new), f"<{name} with a fault>", "exec"), vars(module), made)
    patch.setattr(owner, name, made[name])
