"""Programs that a run of tests has started end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.patience import until
from support.root import ROOT
from support.runs import MARK, begin_run, of_other_runs, programs_of

pytestmark = [
    pytest.mark.once("makes no scheduler"),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the guard of a run needs pidfds"),
]

RUN = """
import os, signal, subprocess, sys, threading, time
from support.runs import MARK, begin_run

# a program in the background of a script ignores it, and so do those that it starts
signal.signal(signal.SIGINT, signal.SIG_DFL)
begin_run()
begin_run()
# a program in a session of its own, and one that it starts and does not wait for
program = ["sh", "-c", "setsid sleep 1000 & exec sleep 1000"]
start = lambda: subprocess.Popen(program, start_new_session=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(os.environ[MARK].split(":")[-1], flush=True)
time.sleep(1000)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.communicate()


def start_run(
    started: list[subprocess.Popen[str]], *before: str
) -> tuple[subprocess.Popen[str], str]:
    """Start a run of two programs, in another program if one is given; return it and its name."""
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", *before, RUN],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(process)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_programs_of_a_run_end_when_it_is_killed(
    started: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    process, identity = start_run(started)
    until(lambda: len(programs_of(identity)) == 2, lambda: programs_of(identity))
    process.send_signal(number)
    until(lambda: not programs_of(identity), lambda: programs_of(identity))


def test_programs_of_an_inner_run_end_with_the_outer_one(
    started: list[subprocess.Popen[str]],
) -> None:
    """As those of a worker, which is a run of its own, when its runner is killed."""
    inner = "subprocess.run([sys.executable, '-c', sys.argv[1]])"
    code = f"import subprocess, sys\nfrom support.runs import begin_run\nbegin_run()\n{inner}"
    outer, identity = start_run(started, code)
    until(lambda: len(programs_of(identity)) == 2, lambda: programs_of(identity))
    outer.kill()
    until(lambda: not programs_of(identity), lambda: programs_of(identity))


def test_programs_end_with_a_process_that_is_no_interpreter(tmp_path: Path) -> None:
    """As those of the script of the gate."""
    said = tmp_path / "said"
    script = f"""
        export {MARK}="$({sys.executable} {ROOT / "tests/support/runs.py"} begin $$)"
        sleep 1000 &
        echo "${MARK}" >{said}
        wait
    """
    process = subprocess.Popen(["bash", "-c", script])
    until(lambda: said.exists() and said.read_text())
    identity = said.read_text().strip().rpartition(":")[2]
    until(lambda: programs_of(identity))
    process.kill()
    process.wait()
    until(lambda: not programs_of(identity), lambda: programs_of(identity))


def test_run_says_what_another_one_has_left_and_what_goes_on_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin_run()
    own = os.environ[MARK]
    alive = own.split(":")[0]
    monkeypatch.setenv(MARK, "1-1")
    left = subprocess.Popen(["sleep", "1000"])  # its run never was, so no guard ends it
    monkeypatch.setenv(MARK, alive)
    beside = subprocess.Popen(["sleep", "1000"])
    try:
        own_lines = "\n".join(of_other_runs())
        assert f"left by a run that has ended (process 1-1): {left.pid} sleep 1000" in own_lines
        assert alive not in own_lines
        monkeypatch.setenv(MARK, "2-2")
        other = "\n".join(of_other_runs())
        assert f"another run goes on beside this one: process {alive}, with " in other
    finally:
        for process in (left, beside):
            process.kill()
            process.wait()
