"""Two versions of the library beside each other: one row of a table for each thing that both do.

Each version has a process of its own, which has the same worlds. The rounds of the two alternate,
and each round measures the CPU time of calls of the scheduler only.

Rules:
  R1  the same pods, nodes and events for both, and a check that both did what the row says;
  R2  the first round is not counted: classes of pods may be evaluated there for the first time,
      unless the row is about new classes, which each round has anew;
  R3  a ratio is of two rounds of one number, so a machine that is busy for a while slows both.
"""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import IO, Any, TypeAlias, cast

from attrs import field, frozen

__all__ = ["Round", "Row", "Version", "head", "serve", "show"]

Round: TypeAlias = Callable[[int], Mapping[str, float]]
"""Runs a round of a number; returns the CPU seconds that the scheduler took, by what is measured.

What is not measured apart is called by the empty text.
"""


@frozen
class Row:
    """Something that both versions do; it has a line for each thing that is measured.

    Attributes:
        name: What it is.
        gate: The ratio of this version to the other one that is not to be exceeded.
        prepare: Sets a world up, and returns what runs a round in it.
        per: How many of what is named are in a round.
        most: By what is measured, how many microseconds it may take in this version.
        rounds: How many rounds are counted at most.
        warm: How many rounds go before those that are counted.
    """

    name: str
    gate: float
    prepare: Callable[[], Round]
    per: int = 1
    most: Mapping[str, float] = field(factory=dict[str, float])
    rounds: int = 99
    warm: int = 1

    def measure(self, this: Version, other: Version | None, rounds: int) -> Iterator[str]:
        """Yield the lines of this row."""
        versions = [this] if other is None else [other, this]
        for version in versions:
            version.ask("prepare", self.name)
        spent: dict[Version, list[dict[str, float]]] = {version: [] for version in versions}
        for number in range(-self.warm, min(rounds, self.rounds)):
            for version in versions if number % 2 else reversed(versions):
                seconds = version.ask("round", number + self.warm)
                if number >= 0:
                    spent[version].append(seconds)
        for part in spent[this][0]:
            new, old = (
                [each[part] / self.per for each in spent.get(version, ())]
                for version in (this, versions[0])
            )
            yield self._shown(part, new, old if other is not None else [])

    def _shown(self, part: str, new: Sequence[float], old: Sequence[float]) -> str:
        name, most = f"{self.name}, {part}" if part else self.name, self.most.get(part, math.inf)
        problems = [f"more than {most:,.0f} µs"] if median(new) * 1e6 > most else []
        if not old:
            return _line(name, f"{median(new) * 1e6:,.0f}", "", "", ", ".join(problems))
        ratios = sorted(after / before for before, after in zip(old, new, strict=True))
        if median(ratios) > self.gate:
            problems.insert(0, "missed")
        return _line(
            name,
            f"{median(new) * 1e6:,.0f}",
            f"{ratios[0]:.2f} / {median(ratios):.2f} / {ratios[-1]:.2f}",
            f"{self.gate:.2f}",
            ", ".join(problems),
        )


class Version:
    """A process with a version of the library.

    Args:
        program: The benchmark that serves rows; see ``serve``.
        arguments: Its arguments.
        source: The folder with the package; None for the one that is installed.
    """

    def __init__(self, program: Path, arguments: Sequence[str], source: Path | None) -> None:
        environment = dict(os.environ)
        if source is not None:
            environment["PYTHONPATH"] = str(source)
        command = [sys.executable, str(program), *arguments, "--serve"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, text=True
        )

    def ask(self, *words: str | int) -> Any:
        """Return the answer to a question."""
        asked, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        asked.write(json.dumps(words) + "\n")
        asked.flush()
        answer = answers.readline()
        if not answer:
            raise SystemExit(f"a version of the library failed at {words}")
        return json.loads(answer)

    def end(self) -> None:
        """End the process."""
        cast("IO[str]", self._process.stdin).close()
        self._process.wait()


def serve(rows: Iterable[Row], others: Mapping[str, Callable[[], Any]]) -> None:
    """Answer the questions of ``Row.measure``, and others by their names."""
    known, ready = {row.name: row for row in rows}, cast("Any", None)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        word, *more = json.loads(line)
        answer: Any = None
        if word == "prepare":
            ready = known[more[0]].prepare()
        elif word == "round":
            gc.collect()
            gc.disable()
            answer = ready(more[0])
            gc.enable()
        else:
            answer = others[word]()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _line(name: str, this: str, ratios: str, gate: str, mark: str) -> str:
    return f"| {name} | {this} | {ratios} | {gate} | {mark} |"


def head() -> str:
    """Return the head of the table."""
    columns = _line("CPU time", "this, µs", "min / median / max", "gate", "")
    return f"{columns}\n|---|---:|---:|---:|---|"


def show(
    rows: Iterable[Row], this: Version, other: Version | None, *, rounds: int, only: str
) -> None:
    """Print the lines of each row whose name has *only* in it."""
    for row in rows:
        if only in row.name:
            for each in row.measure(this, other, rounds):
                print(each, flush=True)
