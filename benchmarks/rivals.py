"""The two cores beside each other: one row of a table for each thing that both do.

A row prepares a world for each core, and then measures rounds. The rounds of the two cores
alternate, and each round measures the CPU time of calls of the scheduler only.

Rules:
  R1  the same pods, nodes and calls for both cores, and a check that both did what the row says;
  R2  the first round is not counted: classes of pods may be evaluated there for the first time,
      unless the row is about new classes, which each round has anew;
  R3  a ratio is of two rounds of one number, so a machine that is busy for a while slows both.
"""

from __future__ import annotations

import enum
import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from gangsched import presets
from gangsched.core.scheduler import Scheduler as New
from gangsched.framework import Scheduler as Old

__all__ = ["HEAD", "Core", "Round", "Row", "presets_on", "show"]

Round: TypeAlias = Callable[[int], Mapping[str, float]]
"""Runs a round of a number; returns the CPU seconds that the scheduler took, by what is measured.

What is not measured apart is called by the empty text.
"""


class Core(enum.Enum):
    """What schedules."""

    OLD = "framework"
    NEW = "core"


@contextmanager
def presets_on(core: Core) -> Iterator[None]:
    """Let the presets make schedulers of a core."""
    replaced: Any = presets
    before = replaced.Scheduler
    replaced.Scheduler = Old if core is Core.OLD else New
    try:
        yield
    finally:
        replaced.Scheduler = before


@frozen
class Row:
    """Something that both cores do; it has a line for each thing that is measured.

    Attributes:
        name: What it is.
        gate: The ratio of the new core to the old one that is not to be exceeded.
        prepare: Sets a world up, and returns what runs a round in it.
        per: How many of what is named are in a round.
        most: By what is measured, how many microseconds it may take in the new core.
        rounds: How many rounds are counted at most.
        warm: How many rounds go before those that are counted.
    """

    name: str
    gate: float
    prepare: Callable[[Core], Round]
    per: int = 1
    most: Mapping[str, float] = field(factory=dict[str, float])
    rounds: int = 99
    warm: int = 1

    def measure(self, rounds: int) -> Iterator[str]:
        """Yield the lines of this row."""
        ready: dict[Core, Round] = {}
        for core in Core:
            with presets_on(core):
                ready[core] = self.prepare(core)
        spent: dict[Core, list[Mapping[str, float]]] = {core: [] for core in Core}
        for number in range(-self.warm, min(rounds, self.rounds)):
            for core in tuple(Core) if number % 2 else tuple(reversed(Core)):
                gc.collect()
                gc.disable()
                with presets_on(core):
                    seconds = ready[core](number + self.warm)
                gc.enable()
                if number >= 0:
                    spent[core].append(seconds)
        for part in spent[Core.OLD][0]:
            old, new = ([each[part] / self.per for each in spent[core]] for core in Core)
            yield self._shown(part, old, new)

    def _shown(self, part: str, old: Sequence[float], new: Sequence[float]) -> str:
        ratios = sorted(after / before for before, after in zip(old, new, strict=True))
        middle, most = median(ratios), self.most.get(part, math.inf) / 1e6
        problems: list[str] = []
        if middle > self.gate:
            problems.append("missed")
        if median(new) > most:
            problems.append(f"more than {most * 1e6:,.0f} µs")
        return _line(
            f"{self.name}, {part}" if part else self.name,
            f"{median(old) * 1e6:,.0f}",
            f"{median(new) * 1e6:,.0f}",
            f"{ratios[0]:.2f} / {middle:.2f} / {ratios[-1]:.2f}",
            f"{self.gate:.2f}",
            ", ".join(problems),
        )


def _line(name: str, old: str, new: str, ratios: str, gate: str, mark: str) -> str:
    return f"| {name} | {old} | {new} | {ratios} | {gate} | {mark} |"


HEAD: Final = "\n".join(
    (
        _line("CPU time", "framework, µs", "core, µs", "min / median / max", "gate", ""),
        "|---|---:|---:|---:|---:|---|",
    )
)


def show(rows: Iterable[Row], rounds: int, only: str) -> None:
    """Print the lines of each row whose name has *only* in it."""
    for row in rows:
        if only in row.name:
            for each in row.measure(rounds):
                print(each, flush=True)
