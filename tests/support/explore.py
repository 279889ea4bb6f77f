"""Random search for minutes or hours: ``python -m support.explore --minutes 60`` in ``tests``.

The tests that draw examples are run again and again, each time with another seed. Every failure is
printed with the command that repeats it, and the search goes on. The exit code is 1 if a test has
failed. The tests of ``differential`` are among them where ``GANGSCHED_CONTROL_PLANE`` is set.

Rules:
  R1  a round is one file with one seed: round *n* of a file, from 0, has the seed ``--seed`` + n;
  R2  the file that has had the least time is next, so a slow file delays no other one;
  R3  a round that begins before the end is finished, and one that hangs is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pytest
from attrs import define, field
from hypothesis import is_hypothesis_test
from hypothesis.statistics import collector

from support.root import ROOT

__all__ = ["File", "Notes", "Search", "draws", "summary"]

_FOLDERS: Final = ("tests/laws", "tests/core", "tests/stories", "tests/kit")
_JUDGED: Final = "tests/differential"
_CALLS: Final = frozenset({"check_scheduler", "run_state_machine_as_test"})
"""What draws examples where a test calls it."""
_HANGS: Final = 1200.0
"""Seconds after which a round hangs; to shrink one failure takes hypothesis 300 at most."""


# In the process of a round, as a plugin ----------------------------------------------------------


def draws(test: Any) -> bool:
    """Return whether a test function draws examples."""
    code = getattr(test, "__code__", None)
    return is_hypothesis_test(test) or (code is not None and not _CALLS.isdisjoint(code.co_names))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what draws nothing."""
    left_out = [item for item in items if not draws(getattr(item, "obj", None))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if draws(getattr(item, "obj", None))]
    _note(tests=[item.nodeid for item in items])


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count the examples of a test: of one that calls the kit, those that the kit draws."""
    _note(begun=item.nodeid)
    counted: Counter[str] = Counter()

    def count(statistics: dict[str, Any]) -> None:
        for phase in ("reuse", "generate", "shrink"):
            counted["examples"] += len(statistics.get(f"{phase}-phase", {}).get("test-cases", ()))

    counting: Any = collector  # which is typed as if it could not be set
    try:
        with counting.with_value(count):
            return (yield)
    finally:
        _note(examples=counted["examples"])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how a test ended."""
    if report.failed:
        _note(failed=report.nodeid, why=report.longreprtext)
    elif report.when == "teardown":
        _note(ended=report.nodeid)


def _note(**found: object) -> None:
    with open(os.environ["EXPLORED"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps(found) + "\n")


# In the process that searches --------------------------------------------------------------------


Notes = list[dict[str, Any]]


@define(eq=False)
class File:
    """One test file, and what its rounds have found."""

    path: str
    seconds: float = 0.0
    is_busy: bool = False
    found: Counter[str] = field(factory=Counter)
    failed: Counter[str] = field(factory=Counter)


@define(eq=False)
class Search:
    """Rounds up to an instant of *clock*, in any number of threads.

    Attributes:
        files: What is run.
        seed: That of the first round of each file.
        end: When no other round begins.
        run: Runs a file with a seed, and returns the notes of the run.
    """

    files: list[File]
    seed: int
    end: float
    run: Callable[[int, str], Notes]
    clock: Callable[[], float] = time.monotonic
    _lock: Lock = field(factory=Lock)

    def go_on(self) -> None:
        """Run round after round; each thread calls it."""
        while (file := self._next()) is not None:
            seed, began = self.seed + file.found["rounds"], self.clock()
            notes = self.run(seed, file.path)
            with self._lock:
                file.is_busy = False
                file.seconds += self.clock() - began
                file.found["rounds"] += 1
                file.found["tests"] += sum("ended" in note for note in notes)
                file.found["examples"] += sum(note.get("examples", 0) for note in notes)
                for note in notes:
                    if "failed" in note:
                        _tell(file, seed, note["failed"], note["why"])

    def _next(self) -> File | None:
        with self._lock:
            idle = [file for file in self.files if not file.is_busy]
            if self.clock() >= self.end or not idle:
                return None
            file = min(idle, key=lambda file: file.seconds)
            file.is_busy = True
            return file


def _tell(file: File, seed: int, test: str, why: str) -> None:
    """Count a failure, and print the first one of a test, with the command that repeats it."""
    file.failed[test] += 1
    if file.failed[test] == 1:
        run = "HYPOTHESIS_PROFILE=explore .venv/bin/python -m pytest -n 0"
        print(f"\n{why}\n\nFAILED: {run} --hypothesis-seed={seed} '{test}'\n", flush=True)


def _run(seed: int, *targets: str) -> Notes:
    """Run the tests of files with a seed, and return the notes of the run."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes")
        notes.touch()
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "tests"))))
        named = {"HYPOTHESIS_PROFILE": "explore", "EXPLORED": str(notes), "PYTHONPATH": path}
        quiet = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "support.explore")
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", *quiet, f"--hypothesis-seed={seed}", *targets],
                cwd=ROOT,
                env={**os.environ, **named},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_HANGS,
            )
            said, code = ended.stdout, ended.returncode
        except subprocess.TimeoutExpired:
            said, code = f"it goes on after {_HANGS:.0f} s", -1
        found = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    # a process that dies, hangs, or cannot import the file names no test as failed
    if code not in (0, 1):
        begun = [note["begun"] for note in found if "begun" in note]
        found.append({"failed": begun[-1] if begun else targets[0], "why": said})
    return found


def _files(targets: list[str]) -> list[File]:
    """Return the files with tests that draw, below some folders."""
    found = _run(0, "--collect-only", *targets)
    for note in found:
        if "why" in note:
            raise SystemExit(note["why"])
    tests = [test for note in found for test in note.get("tests", ())]
    return [File(path) for path in dict.fromkeys(test.partition("::")[0] for test in tests)]


def summary(files: list[File], seed: int) -> Iterator[str]:
    """Yield lines with the counts of each file, of all, and of each test that failed."""
    yield "  rounds     tests   examples    seconds   failures"
    total, failed = Counter[str](), Counter[str]()
    for file in sorted(files, key=lambda file: file.path):
        total += file.found
        failed += file.failed
        counts = f"{file.found['rounds']:8} {file.found['tests']:9} {file.found['examples']:10}"
        yield f"{counts} {file.seconds:10.0f} {file.failed.total():10}  {file.path}"
    counted = ", ".join(f"{total[name]} {name}" for name in ("rounds", "tests", "examples"))
    yield f"seed {seed}: {counted}, {failed.total()} failures of {len(failed)} tests"
    for test, count in failed.items():
        yield f"{count:8} x {test}"


def main() -> None:
    """Search, print what was found, and exit with 1 if a test has failed."""
    parser = argparse.ArgumentParser(prog="python -m support.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, help="of the first round of each file; default: drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("tests", nargs="*", help="files and folders instead of those that draw")
    options = parser.parse_args()
    seed = random.SystemRandom().getrandbits(48) if options.seed is None else options.seed
    is_judged = os.environ.get("GANGSCHED_CONTROL_PLANE", "0") not in ("", "0")
    files = _files(options.tests or [*_FOLDERS, *([_JUDGED] if is_judged else [])])
    random.Random(seed).shuffle(files)  # so that a short search is not always of the same files
    print(f"seed {seed}, {len(files)} files, {options.jobs} at once", flush=True)
    search = Search(files, seed, time.monotonic() + 60 * options.minutes, _run)
    with ThreadPoolExecutor(options.jobs) as pool:
        for job in [pool.submit(search.go_on) for _ in range(options.jobs)]:
            job.result()
    print(*summary(files, seed), sep="\n")
    sys.exit(any(file.failed for file in files))


if __name__ == "__main__":
    main()
