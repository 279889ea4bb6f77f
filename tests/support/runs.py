"""Programs of a run of tests end with it, whatever ends the run; Linux only.

A run is a process that starts programs: a runner of tests, each of its workers, a demonstration, or
the script of the gate. It puts its identity into an environment variable, which every program that
it starts inherits, and so do the programs that those start, in whatever session. A guard, a process
of its own, waits for the end of the run and kills what has the identity.

Rules:
  R1  the identity of a run is its process number and the time of its start, so it is never that of
      a later process with the same number;
  R2  the guard needs nothing of the run: no signal handler, no thread, no pipe that a forked child
      keeps open. It has an empty environment and no terminal, so nothing ends it before the run;
  R3  nothing is killed while its run lives.

``python runs.py begin PID`` begins a run for a process that is no interpreter, and prints the value
of the variable; ``python runs.py others`` prints what there is of other runs. Standard library
only: the script of the gate calls it before anything is installed.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["MARK", "begin_run", "identity_of", "of_other_runs", "programs_of"]

MARK: Final = "TESTS_RUN_BY"
"""The variable; its value is the identities of nested runs, separated by colons."""

_PROC: Final = Path("/proc")
_STARTED: Final = 18
"""The place of the start time in ``/proc/PID/stat``, after the name and the state."""
_guards: Final[list[subprocess.Popen[bytes]]] = []
"""The guards of this process; a Popen that is collected while its process runs is a warning."""


def begin_run() -> None:
    """Mark all programs that this process starts from now on, and let them end with it.

    A second call does nothing. Programs with an environment of their own need ``MARK`` in it.
    """
    if not _is_linux():
        return
    own = identity_of(os.getpid())
    marks = os.environ.get(MARK, "")
    if own not in marks.split(":"):
        os.environ[MARK] = _marked(marks, own)


def programs_of(identity: str) -> dict[int, str]:
    """Return the processes of a run by number, each with its command line."""
    return {pid: command for pid, marks, command in _marked_processes() if identity in marks}


def of_other_runs() -> list[str]:
    """Return sentences about programs of other runs, first those of runs that have ended."""
    own = os.environ.get(MARK, "").split(":")[0]
    runs: dict[str, list[str]] = {}
    for pid, marks, command in _marked_processes():
        # programs of a run that this one is nested in are not of another run
        if marks[0] != own:
            runs.setdefault(marks[0], []).append(f"{pid} {command}")
    ended = [run for run in runs if not _is_alive(run)]
    lines = [
        f"left by a run that has ended (process {run}): {program}"
        for run in ended
        for program in runs.pop(run)
    ]
    number = "another run goes on beside this one: process {}, with {} programs"
    return lines + [number.format(run, len(programs)) for run, programs in runs.items()]


def _is_linux() -> bool:
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def _marked(marks: str, identity: str) -> str:
    """Start the guard of a run, and return the marks of its programs."""
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", os.path.abspath(__file__), "guard", identity],
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _guards.append(guard)
    return f"{marks}:{identity}" if marks else identity


def _guard(identity: str) -> None:
    """Wait for the end of a run, and kill what it has left."""
    try:
        run = os.pidfd_open(int(identity.partition("-")[0]))
    except ProcessLookupError:
        pass
    else:
        if _is_alive(identity):
            select.select([run], [], [])
    # twice: a child that the run had forked when it ended has the variable only once it executes
    for pause in (0.5, 0.0):
        while programs := programs_of(identity):  # until none is left: they may start others
            for pid in programs:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        time.sleep(pause)


def _marked_processes() -> Iterator[tuple[int, list[str], str]]:
    """Yield number, marks and command line of each process that has marks."""
    for folder in _PROC.glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue  # the process has ended, or belongs to another user
        for variable in variables:
            name, _, value = variable.partition(b"=")
            if name.decode(errors="replace") == MARK and value:
                yield int(folder.name), value.decode().split(":"), command.decode(errors="replace")


def identity_of(pid: int) -> str:
    """Return the identity of a process.

    Raises:
        OSError: There is no such process.
    """
    state, *fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    if state in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return f"{pid}-{fields[_STARTED]}"


def _is_alive(identity: str) -> bool:
    try:
        return identity_of(int(identity.partition("-")[0])) == identity
    except OSError:
        return False


def _main(*arguments: str) -> None:
    match arguments:
        case ("begin", pid):
            if _is_linux():
                print(_marked(os.environ.get(MARK, ""), identity_of(int(pid))))
        case ("guard", identity):
            _guard(identity)
        case ("others",):
            for line in of_other_runs():
                print(line)
        case _:
            raise SystemExit(f"expected begin PID, guard IDENTITY or others, got {arguments}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
