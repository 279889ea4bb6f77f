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

__all__ = ["Round", "Row", "Version", "alternate", "head", "line", "ratios", "serve", "show"]

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
        sides = [(version, self.name) for version in (this, other) if version is not None]
        spent = alternate(sides, min(rounds, self.rounds), self.warm)
        for part in spent[0][0]:
            new, *old = ([each[part] / self.per for each in side] for side in spent)
            yield self._shown(part, new, old[0] if old else [])

    def _shown(self, part: str, new: Sequence[float], old: Sequence[float]) -> str:
        name, most = f"{self.name}, {part}" if part else self.name, self.most.get(part, math.inf)
        problems = [f"more than {most:,.0f} µs"] if median(new) * 1e6 > most else []
        if not old:
            return line(name, f"{median(new) * 1e6:,.0f}", "", "", ", ".join(problems))
        shown, middle = ratios(new, old)
        if middle > self.gate:
            problems.insert(0, "missed")
        time = f"{median(new) * 1e6:,.0f}"
        return line(name, time, shown, f"{self.gate:.2f}", ", ".join(problems))


class Version:
    """A process with a version of the library.

    Args:
        program: The benchmark that serves what it measures; see ``serve``.
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


def alternate(
    sides: Sequence[tuple[Version, str]], rounds: int, warm: int
) -> list[list[dict[str, float]]]:
    """Let things be done in turn; return what each counted round of each of them took.

    Args:
        sides: What is done, by its name, and the process that does it.
        rounds: How many rounds are counted.
        warm: How many rounds go before those.
    """
    for version in {version for version, _name in sides}:
        version.ask("prepare", *(name for each, name in sides if each is version))
    spent: list[list[dict[str, float]]] = [[] for _side in sides]
    for number in range(-warm, rounds):
        turns = list(zip(sides, spent, strict=True))
        for (version, name), kept in turns[::-1] if number % 2 else turns:
            seconds = version.ask("round", name, number + warm)
            if number >= 0:
                kept.append(seconds)
    return spent


def ratios(new: Sequence[float], old: Sequence[float]) -> tuple[str, float]:
    """Return the least, middle and largest ratio within a round as text, and the middle one."""
    within = sorted(after / before for before, after in zip(old, new, strict=True))
    middle = median(within)
    return f"{within[0]:.2f} / {middle:.2f} / {within[-1]:.2f}", middle


def serve(
    known: Mapping[str, Callable[[], Round]], others: Mapping[str, Callable[[], Any]]
) -> None:
    """Answer the questions of ``alternate``, and others by their names.

    Args:
        known: What sets a world up and returns what runs a round in it, by name.
        others: What answers another question, by its word.
    """
    ready: dict[str, Round] = {}
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        word, *more = json.loads(line)
        answer: Any = None
        if word == "prepare":
            ready = {name: known[name]() for name in more}
        elif word == "round":
            gc.collect()
            gc.disable()
            answer = ready[more[0]](more[1])
            gc.enable()
        else:
            answer = others[word]()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def line(*cells: str) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def head() -> str:
    """Return the head of the table."""
    columns = line("CPU time", "this, µs", "min / median / max", "gate", "")
    return f"{columns}\n|---|---:|---:|---:|---|"


def show(
    rows: Iterable[Row], this: Version, other: Version | None, *, rounds: int, only: str
) -> None:
    """Print the lines of each row whose name has *only* in it."""
    for row in rows:
        if only in row.name:
            for each in row.measure(this, other, rounds):
                print(each, flush=True)
