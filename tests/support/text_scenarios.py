"""Scenarios as text: commands, a line ``----``, and what the scheduler answers.

``rewritten`` runs the commands of a text, and returns the text with the answers of this run. A text
is right if it stays the same, so to check a file and to rewrite it is one thing.

Rules:
  R1  only public names of ``gangsched`` are used; ``Story`` is the host;
  R2  a text is run with both scheduling units, unless its line ``preset`` chooses one. An answer of
      one unit alone begins with ``[pod]`` or ``[group]``;
  R3  each run is repeated with a restored scheduler before each block, which must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from functools import partial
from typing import Any, Final, TypeAlias, get_type_hints

from gangsched import (
    Backfill,
    Coscheduling,
    GangschedError,
    Preemption,
    Scheduler,
    SchedulingUnit,
    presets,
)
from support.text_commands import BadWordError, Run, options

__all__ = ["ScenarioError", "difference", "rewritten"]


def _preemption(members: str) -> Preemption:
    return Preemption(elastic_members=bool(("minima", "all").index(members)))


_SCHEDULER: Final[Mapping[str, Any]] = {
    **{n: True if kind is bool else kind for n, kind in get_type_hints(Coscheduling).items()},
    "unit": SchedulingUnit,
    "strict_priorities": True,
    "preemption": _preemption,
    "can_evict": True,
    "backfill": Backfill(),
}
"""The words of the line ``preset``, as those of ``text_commands``."""
END: Final = "----"
Line: TypeAlias = tuple[int, str]
"""A line with its number."""


class ScenarioError(Exception):
    """A text is no scenario; says the file, the line, the word and what is expected."""


class _BadLineError(Exception):
    """The arguments are the number of the line, and what is wrong."""


def rewritten(text: str, path: str) -> str:
    """Return a text with the answers of this run; *path* is for errors.

    Raises:
        ScenarioError: The text is malformed.
    """
    blocks: list[list[Line]] = [[]]
    answers = False
    for number, line in enumerate(text.splitlines(), start=1):
        answers = answers and line != ""
        if not answers:
            blocks[-1].append((number, line))
        if line == END and not answers:
            blocks.append([])
            answers = True
    left = [(number, line) for number, line in blocks.pop() if line]
    if left:
        number, line = left[-1]
        raise ScenarioError(f"{path}:{number}: {line!r}: no line {END} follows")
    if not text.startswith("# "):
        raise ScenarioError(f"{path}:1: the first line must be a comment that says what is shown")
    lines: list[str] = []
    try:
        makers = _makers(line for block in blocks for line in block)
        runs = [[Run(make, restores=each) for make in makers.values()] for each in (False, True)]
        for block in blocks:
            lines += _answered(block, makers, runs)
    except _BadLineError as error:
        number, why = error.args
        raise ScenarioError(f"{path}:{number}: {why}") from error
    return "\n".join(lines) + "\n"


def difference(text: str, answered: str, path: str) -> str:
    """Return a diff of a text and its rewriting; its first line says where it begins."""
    old, new = text.splitlines(), answered.splitlines()
    pairs = enumerate(zip(old, new, strict=False), start=1)
    number = next((n for n, (one, other) in pairs if one != other), min(len(old), len(new)) + 1)
    diff = unified_diff(old, new, "expected", "got", lineterm="", n=99)
    return "\n".join([f"{path}:{number}: another answer than expected", *diff])


def _makers(lines: Iterable[Line]) -> dict[str, Callable[..., Scheduler]]:
    """Return how to create the scheduler, by the name of its unit."""
    for number, line in lines:
        command, *words = line.split("#")[0].split() or [""]
        if command == "preset":
            try:
                return _schedulers(words)
            except ValueError as error:
                raise _BadLineError(number, f"{line}: {error}") from error
        if command:
            break
    return _schedulers(["coscheduling"])


def _schedulers(words: Sequence[str]) -> dict[str, Callable[..., Scheduler]]:
    """Return how to create a scheduler, by the name of its unit, as a line ``preset`` says."""
    name, *rest = words or [""]
    given = options(rest, _SCHEDULER)
    if name == "gang":
        return {"group": partial(presets.gang, **given)}
    if name != "coscheduling":
        raise BadWordError(name, "expected gang or coscheduling")
    units = [given.pop("unit")] if "unit" in given else list(SchedulingUnit)
    return {unit.value: partial(presets.coscheduling, unit=unit, **given) for unit in units}


def _answered(
    block: Sequence[Line], units: Iterable[str], runs: Iterable[Sequence[Run]]
) -> Iterator[str]:
    """Return the lines of a block, and their answers."""
    yield from (line for _number, line in block)
    live, restored = ([_answers(run, block[:-1]) for run in each] for each in runs)
    yield from _merged(units, live)
    if live != restored:
        diff = difference("\n".join(_merged(units, live)), "\n".join(_merged(units, restored)), "")
        raise _BadLineError(block[-1][0], f"a restored scheduler answers otherwise\n{diff}")


def _answers(run: Run, block: Iterable[Line]) -> list[str]:
    run.begin()
    for number, line in block:
        try:
            run.run(line)
        except (GangschedError, ValueError) as error:
            raise _BadLineError(number, f"{line}: {error}") from error
    return run.answers()


def _merged(units: Iterable[str], answers: Sequence[list[str]]) -> Iterator[str]:
    if len(answers) == 1:
        yield from answers[0]
        return
    (first, second), (lines, more) = units, answers
    for tag, a, b, c, d in SequenceMatcher(None, lines, more, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from lines[a:b]
        else:
            yield from (f"[{first}] {line}" for line in lines[a:b])
            yield from (f"[{second}] {line}" for line in more[c:d])
