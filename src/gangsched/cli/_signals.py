"""The signals that end a command which works on a cluster.

Rules:
  R1  the first SIGTERM or SIGINT sets an event; the command ends by itself then;
  R2  a second one ends the process at once, with 128 and the number of the signal as the exit code.
      The handlers are those of Python, which run between two bytecodes: those of an event loop
      would wait until it comes round. A default handler would not do, because the kernel does not
      end the first process of a container by one;
  R3  a process that has not ended when its time is over ends with code 1, whatever it waits for.
      The next leader has to be as safe then as after a kill, and it is;
  R4  a program that has ended its work does not free its objects one by one: those of a large
      cluster take seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

__all__ = ["end_process", "stopped_by_signals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_BY_SIGNAL: Final = 128
"""What is added to the number of a signal, as shells do."""

_log = logging.getLogger("gangsched.cli")


@contextmanager
def stopped_by_signals(seconds: float) -> Generator[asyncio.Event]:
    """Yield an event that the first signal sets; used in the main thread, on the running loop.

    Args:
        seconds: After how many seconds from the first signal the process is ended.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    timer = threading.Timer(seconds, _end_late, (seconds,))
    timer.daemon = True
    signals: list[int] = []

    def signalled(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) > 1:
            os._exit(_BY_SIGNAL + number)
        timer.start()
        loop.call_soon_threadsafe(first_seen, signal.Signals(number).name)

    def first_seen(name: str) -> None:
        _log.info("%s: this ends within %g s; a second signal ends it at once", name, seconds)
        stop.set()

    before = {number: signal.signal(number, signalled) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        timer.cancel()


def end_process(code: int) -> NoReturn:
    """End the process with an exit code, and free nothing."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _end_late(seconds: float) -> None:
    _log.error("not ended within %g s of the signal: ended now", seconds)
    os._exit(1)
