"""SIGTERM and SIGINT: the first lets a command end, the second ends it at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from support.patience import HANG

pytestmark = pytest.mark.once("makes no scheduler")

_PROGRAM: Final = """
import asyncio, sys, time
from gangsched.cli._signals import end_process, stopped_by_signals
loops, how, seconds = sys.argv[1:]

async def work():
    with stopped_by_signals(float(seconds)) as stop:
        print("ready", flush=True)
        if how == "busy":
            while True:
                time.sleep(0.001)  # the loop never comes round
        await stop.wait()
        print("stops", flush=True)
        if how == "hangs":
            await asyncio.Event().wait()
    print("ended", flush=True)

factory = None
if loops == "uvloop":
    import uvloop
    factory = uvloop.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(work())
end_process(0)
"""

SIGNALS: Final = pytest.mark.parametrize(
    ("loops", "number"), [("asyncio", signal.SIGTERM), ("uvloop", signal.SIGINT)]
)
LOOPS: Final = pytest.mark.parametrize("loops", ["asyncio", "uvloop"])


@contextmanager
def program(loops: str, how: str, seconds: float = HANG) -> Iterator[subprocess.Popen[str]]:
    """Run a program that ends when it is asked to, *hangs* then, or is *busy* all the time."""
    if loops == "uvloop":
        pytest.importorskip("uvloop")
    command = [sys.executable, "-c", _PROGRAM, loops, how, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert line(process) == "ready"
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@SIGNALS
def test_first_signal_lets_the_program_end(loops: str, number: signal.Signals) -> None:
    with program(loops, "ends") as process:
        process.send_signal(number)
        assert [line(process), line(process)] == ["stops", "ended"]
        assert process.wait(HANG) == 0


@SIGNALS
def test_second_signal_ends_a_program_that_hangs(loops: str, number: signal.Signals) -> None:
    with program(loops, "hangs") as process:
        process.send_signal(signal.SIGTERM)
        assert line(process) == "stops"
        process.send_signal(number)
        assert process.wait(HANG) == 128 + number


@LOOPS
def test_second_signal_ends_a_program_whose_event_loop_is_busy(loops: str) -> None:
    with program(loops, "busy") as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)  # of another number: equal ones may arrive as one
        assert process.wait(HANG) in (128 + signal.SIGTERM, 128 + signal.SIGINT)


@pytest.mark.parametrize(("loops", "how"), [("asyncio", "hangs"), ("uvloop", "busy")])
def test_program_that_does_not_end_in_time_is_ended(loops: str, how: str) -> None:
    with program(loops, how, seconds=0.1) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG) == 1
