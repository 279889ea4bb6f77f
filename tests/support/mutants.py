"""How many small faults of the core the tests notice: ``python -m support.mutants`` in ``tests``.

A mutant is the source with one place changed. The places are drawn by a seed. A mutant is killed if
a test fails, or hangs. Of the test files that run the changed line, some are run, up to a limit of
seconds; so the share that is printed is a lower bound.

Rules:
  R1  the checkout is never changed: a mutant is a copy of ``src``;
  R2  which file runs which lines, and how long it takes, is measured first, and kept in ``--kept``
      until a source is newer.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import coverage
import pytest

__all__ = ["Mutant", "mutants_of"]

_ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("core", "primitives", "cycle_state")
_COVERAGE: Final = "coverage"
_SECONDS: Final = "seconds.json"
_SWAPS: Final[dict[type[ast.AST], type[Any]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
_TRANSCRIPTS: Final = "tests/scenarios/test_text.py"
_START: Final = 1.0
"""Seconds that are added to what a test file takes: it is imported first."""
_LEFT_OUT: Final = ("check", "_check", "__repr__", "__str__")
"""Functions that decide nothing: a self-check is no behaviour, and neither is a description."""


class Mutant(NamedTuple):
    """One place, and what it becomes.

    Attributes:
        path: The file, below ``src``.
        line: The line of the place, from 1.
        before: The text of the place.
        after: What it becomes.
        start: Where the text begins in the file, and ``end`` where it ends.
    """

    path: str
    line: int
    before: str
    after: str
    start: int
    end: int

    def applied(self, source: str) -> str:
        """Return the source of the file with the change."""
        return source[: self.start] + self.after + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before!r} -> {self.after!r}"


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a file. The source is ASCII."""
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    for node in _places(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        for after in _changed(node):
            yield Mutant(path, node.lineno, source[start:end], after, start, end)


def _places(tree: ast.AST) -> Iterator[Any]:
    """Yield the statements and expressions that are inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name not in _LEFT_OUT:
                for statement in node.body:
                    yield from _within(statement)
        elif isinstance(node, ast.ClassDef):
            yield from _places(node)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr):
        return  # the parts of a formatted string have no places of their own on 3.11
    if isinstance(node, ast.stmt | ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "args" if isinstance(node, ast.FunctionDef) else ""):
            continue
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, ast.AST):
                yield from _within(each)


def _changed(node: Any) -> Iterator[str]:
    """Yield what a statement or an expression becomes, as text."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _SWAPS:
            swapped = ast.Compare(node.left, [_SWAPS[type(op)]()], node.comparators)
            yield f"({ast.unparse(swapped)})"
        case ast.BoolOp(op=op):
            yield f"({ast.unparse(ast.BoolOp(_SWAPS[type(op)](), node.values))})"
        case ast.BinOp(op=op) if type(op) in _SWAPS:
            yield f"({ast.unparse(ast.BinOp(node.left, _SWAPS[type(op)](), node.right))})"
        case ast.AugAssign(op=op) if type(op) in _SWAPS:
            yield ast.unparse(ast.AugAssign(node.target, _SWAPS[type(op)](), node.value))
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.If() | ast.While():
            pass  # the condition is a place by itself
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case _:
            pass


# Which tests run a line --------------------------------------------------------------------------


def pytest_runtest_protocol(item: Any) -> None:
    """As a plugin: note that what runs from here on is run by the file of a test."""
    known = coverage.Coverage.current()
    if known is not None:
        known.switch_context(item.nodeid.partition("::")[0])


def pytest_runtest_logreport(report: Any) -> None:
    """As a plugin: add up what the tests of each file take."""
    _TIMES[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """As a plugin: keep what the main process has seen, which gets the reports of all workers."""
    kept = os.environ.get("MUTANTS_TIMES")
    if kept and not hasattr(session.config, "workerinput"):
        Path(kept).write_text(json.dumps(_TIMES), encoding="utf-8")


_TIMES: Final[Counter[str]] = Counter()


def _measure(kept: Path) -> None:
    """Run all tests once, and keep which file runs which lines, and how long each file takes."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    named = {"COVERAGE_FILE": str(kept / _COVERAGE), "MUTANTS_TIMES": str(kept / _SECONDS)}
    run = ["-m", "coverage", "run", "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"]
    _python(*run, "-p", "support.mutants", "tests", environment=named, check=True)
    _python("-m", "coverage", "combine", "-q", environment=named, check=True)


def _is_stale(kept: Path, sources: Iterable[Path]) -> bool:
    """Return whether a source has changed since the tests were measured: its lines have moved."""
    measured = kept / _COVERAGE
    times = (path.stat().st_mtime for path in sources)
    return not measured.exists() or measured.stat().st_mtime < max(times)


class Runs:
    """Which test files run which lines, and how long they take."""

    def __init__(self, kept: Path) -> None:
        self._data = coverage.CoverageData(str(kept / _COVERAGE))
        self._data.read()
        seconds: dict[str, float] = json.loads((kept / _SECONDS).read_text(encoding="utf-8"))
        self._times = Counter(seconds)
        self._lines: dict[str, dict[int, list[str]]] = {}

    def of(self, mutant: Mutant, limit: float) -> list[str]:
        """Return test files that run a line, up to a limit of seconds.

        The transcripts come first, which see most; then those that run most lines of the file for
        each second that they take.
        """
        if mutant.path not in self._lines:
            full = str(_ROOT / "src" / mutant.path)
            self._lines[mutant.path] = self._data.contexts_by_lineno(full)
        lines = self._lines[mutant.path]
        files = {name for name in lines.get(mutant.line, ()) if name}
        runs = Counter(name for names in lines.values() for name in names)
        found: list[str] = []
        cost = {name: (self._times[name] + _START) / runs[name] for name in files}
        for name in sorted(files, key=lambda name: (name != _TRANSCRIPTS, cost[name])):
            limit -= self._times[name]
            if found and limit < 0:
                break
            found.append(name)
        return found


# Mutants -----------------------------------------------------------------------------------------


def _python(
    *args: str, environment: dict[str, str], check: bool = False, timeout: float | None = None
) -> int:
    named = {**os.environ, "CI": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    named["PYTHONPATH"] = os.pathsep.join((named.get("PYTHONPATH", ""), str(_ROOT / "tests")))
    out = None if check else subprocess.DEVNULL
    run = subprocess.run(
        [sys.executable, *args], cwd=_ROOT, env=named, check=check, timeout=timeout, stdout=out
    )
    return run.returncode


def _is_killed(mutant: Mutant, source: Path, tests: list[str], limit: float) -> bool:
    """Run the tests on a mutant in a copy of the source."""
    if not tests:
        return False
    changed = source / mutant.path
    before = changed.read_text(encoding="ascii")
    changed.write_text(mutant.applied(before), encoding="ascii")
    quiet = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider")
    try:
        named = {"PYTHONPATH": str(source)}
        timeout = 5 * limit + 60
        return _python("-m", "pytest", *quiet, *tests, environment=named, timeout=timeout) != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        changed.write_text(before, encoding="ascii")


def main() -> None:
    """Draw mutants, run the tests on each, and print the share that is killed."""
    parser = argparse.ArgumentParser(prog="python -m support.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of tests for each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--kept", type=Path, default=_ROOT / "build" / "mutants")
    options = parser.parse_args()
    sources = [
        path
        for package in _PACKAGES
        for path in sorted((_ROOT / "src" / "gangsched" / package).rglob("*.py"))
    ]
    if _is_stale(options.kept, sources):
        _measure(options.kept)
    runs = Runs(options.kept)
    places = [
        mutant
        for path in sources
        for mutant in mutants_of(
            str(path.relative_to(_ROOT / "src")), path.read_text(encoding="ascii")
        )
    ]
    drawn = random.Random(options.seed).sample(places, min(options.count, len(places)))
    copies: SimpleQueue[Path] = SimpleQueue()
    killed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            copies.put(Path(shutil.copytree(_ROOT / "src", Path(folder, str(number)))))

        def run(mutant: Mutant) -> bool:
            source = copies.get()
            try:
                return _is_killed(mutant, source, runs.of(mutant, options.limit), options.limit)
            finally:
                copies.put(source)

        for number, (mutant, is_killed) in enumerate(
            zip(drawn, pool.map(run, drawn), strict=True), start=1
        ):
            killed += is_killed
            if not is_killed:
                print(f"survived: {mutant}", flush=True)
            if number % 25 == 0 or number == len(drawn):
                share = 100 * killed / number
                print(f"{killed} of {number} mutants killed, {share:.1f} %", flush=True)


if __name__ == "__main__":
    main()
