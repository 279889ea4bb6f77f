"""How large are the core and what goes with it, and how much has a plugin to know?

Rules:
  R1  lines are those of Python files without the folders ``kubernetes``, ``simulation`` and
      ``cli``, docstrings and empty lines included;
  R2  the protocols are those that a plugin may implement: points and extensions;
  R3  the attributes of a profile are those that its plugins make, without methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import gangsched
from gangsched import protocols
from gangsched.plugins import DefaultBinder, PrioritySort
from gangsched.profile import Profile

__all__ = ["lines", "sizes"]

_APART: Final = frozenset({"kubernetes", "simulation", "cli"})
GATES: Final = {
    "lines without `kubernetes`, `simulation` and `cli`": 30_000,
    "protocols for plugins": 20,
    "attributes of a profile": 20,
}


def sizes() -> dict[str, int]:
    """Return what is counted, by name."""
    root = Path(gangsched.__file__).parent
    files = [f for f in root.rglob("*.py") if f.relative_to(root).parts[0] not in _APART]
    text = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    named = [name for name in protocols.__all__ if name.endswith(("Plugin", "Extensions"))]
    profile = Profile(PrioritySort(), DefaultBinder())
    return dict(zip(GATES, (len(text), len(named), len(vars(profile))), strict=True))


def lines(this: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| size | this | gate | |"
    yield "|---|---:|---:|---|"
    for name, gate in GATES.items():
        yield f"| {name} | {this[name]:,} | {gate:,} | {'missed' * (this[name] > gate)} |"
