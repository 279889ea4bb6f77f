"""Documents as tests: every example in ``README.md`` and ``docs/`` is run.

Rules:
  R1  the examples of one document share a namespace and a folder; no two documents do. So where
      tests run in several processes, each file has to run in one: ``--dist loadfile``;
  R2  a block after ``<!-- file: NAME -->`` is written to that file in the document's folder; a
      file that is shown by ``literalinclude`` is copied there;
  R3  in a ``console`` block each ``$ gangsched`` line is run in this process, each ``$ python``
      line in one of its own, and must print what follows it, on standard output and standard error
      together; ``...`` stands for anything;
  R4  a command that is not run is an error, and so is Python in a block that is not marked
      ``python``: what is shown is what happens;
  R5  after ``<!-- needs: PACKAGE -->`` a document's ``$ python`` lines are skipped, saying so,
      where the package is not installed;
  R6  a block that needs a package is skipped where that is absent by ``% skip: next if(not
      installed("PACKAGE"), reason=…)`` before it.

Loaded by ``-p support.documents``, so that documents are collected wherever they lie.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from unittest import SkipTest, mock

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

from support.root import ROOT

__all__ = [
    "ROOT",
    "fails",
    "printed_by",
    "pytest_collect_file",
    "refuses",
    "run_command",
    "run_program",
]

_FLAGS = doctest.ELLIPSIS
_FILE = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n+^(?P<fence>`{3,})[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)

_UNMARKED = re.compile(r"^```(?:py|py3|python3|pycon|doctest)$.*?^```$", re.MULTILINE | re.DOTALL)
_INCLUDED = re.compile(r"^```{literalinclude} (?P<name>\S+)$", re.MULTILINE)
_NEEDED = re.compile(r"^<!-- needs: (?P<name>\S+) -->$", re.MULTILINE)
_SECONDS = 300.0
"""A program that runs longer is taken to hang."""

_QUIET: Final = {"DASK_LOGGING__DISTRIBUTED": "error"}
"""Dask logs that a connection was closed, or not, as its threads end in one order or another."""


def run_command(*words: str) -> tuple[int, str]:
    """Run ``gangsched`` in this process; return its exit code and what it printed."""
    from gangsched.cli import main  # not at the top: the runner starts whatever the library does

    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        mock.patch.dict(os.environ, COLUMNS="80", NO_COLOR="1"),
    ):
        try:
            code = main(words)
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 1
    return code, printed.getvalue()


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run ``gangsched`` on bad input; return the one line that it prints, on standard error."""
    from gangsched.cli import main

    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gangsched: ")
    assert captured.err.count("\n") == 1
    return captured.err


def printed_by(*words: str) -> str:
    """Run ``gangsched``, which must succeed; return what it printed."""
    code, printed = run_command(*words)
    assert code == 0, printed
    return printed


def refuses(*words: str) -> str:
    """Run ``gangsched`` on bad input; return the one line that it prints, however it ends."""
    code, printed = run_command(*words)
    assert code == 2, printed
    assert printed.startswith("gangsched"), printed
    assert printed.count("\n") == 1, printed
    return printed


def run_program(*words: str, folder: Path) -> tuple[int, str]:
    """Run Python in a process of its own and in a folder; return its exit code and its output.

    Commands that are installed beside Python are found, as in an active environment.

    Raises:
        subprocess.TimeoutExpired: It hangs; it was killed.
    """
    import gangsched

    source = str(Path(gangsched.__file__).parents[1])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source, "PATH": path, **_QUIET},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_SECONDS,
        text=True,
    )
    return done.returncode, done.stdout


def _files(document: Document) -> Iterable[Region]:
    for found in _FILE.finditer(document.text):
        yield Region(found.start(), found.end(), parsed=found, evaluator=_write)
    for found in _INCLUDED.finditer(document.text):
        yield Region(found.start(), found.end(), parsed=found["name"], evaluator=_copy)
    for found in _NEEDED.finditer(document.text):
        yield Region(found.start(), found.end(), parsed=found["name"], evaluator=_need)


def _unmarked(document: Document) -> Iterable[Region]:
    files = [found.span() for found in _FILE.finditer(document.text)]
    for found in _UNMARKED.finditer(document.text):
        if not any(begin < found.start() < end for begin, end in files):
            yield Region(found.start(), found.end(), parsed=found[0], evaluator=_not_run)


def _copy(example: Example) -> None:
    shutil.copy(Path(example.path).parent / example.parsed, example.namespace["folder"])


def _need(example: Example) -> None:
    if find_spec(example.parsed) is None:
        example.namespace["absent"] = example.parsed


def _write(example: Example) -> None:
    folder: Path = example.namespace["folder"]
    (folder / example.parsed["name"]).write_text(example.parsed["text"], encoding="utf-8")


def _console(example: Example) -> str | None:
    code: int = example.namespace.get("exit_code", 0)
    _nothing, *commands = re.split(r"^\$ ", f"\n{example.parsed}", flags=re.MULTILINE)
    for command in commands:
        line, _newline, expected = command.partition("\n")
        if line == "echo $?":
            printed = f"{code}\n"
        else:
            program, *words = shlex.split(line)
            if program == "gangsched":
                with contextlib.chdir(example.namespace["folder"]):
                    code, printed = run_command(*words)
            elif program == "python":
                if "absent" in example.namespace:
                    absent = example.namespace["absent"]
                    raise SkipTest(f"{absent} is not installed: pip install --group hosts")
                code, printed = run_program(*words, folder=example.namespace["folder"])
            else:
                return f"not run: {line}"
        expected = expected.rstrip("\n") + "\n" if expected.strip() else ""
        if not doctest.OutputChecker().check_output(expected, printed, _FLAGS):
            return f"$ {line}\nexpected:\n{expected}\nprinted:\n{printed}"
    example.namespace["exit_code"] = code
    return None


def _not_run(_example: Example) -> str:
    return "not run: mark the block python"


def _begin(namespace: dict[str, Any]) -> None:
    namespace["temporary"] = tempfile.TemporaryDirectory()
    namespace["folder"] = Path(namespace["temporary"].name)
    namespace["installed"] = lambda name: find_spec(name) is not None


def _end(namespace: dict[str, Any]) -> None:
    namespace["temporary"].cleanup()


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=_FLAGS),
        CodeBlockParser("console", _console),
        SkipParser(),
        _files,
        _unmarked,
    ],
    path=str(ROOT),
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    excludes=["tests/*.md", "docs/_build/*"],
    setup=_begin,
    teardown=_end,
).pytest()
