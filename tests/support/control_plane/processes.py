"""One program that runs: its log, whether it is ready, how it is stopped.

Rules:
  R1  output goes to a file, whose end is in the error if the program fails;
  R2  a program is stopped by a signal, and killed if it does not end in time; no program outlives
      the interpreter that started it.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

__all__ = ["Process", "ProgramFailed", "free_ports"]

_STEP: Final = 0.05
_TAIL: Final = 3000


class ProgramFailed(Exception):
    """A program ended, or did not become ready in time; the text ends with its log's end."""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface on which nothing listens, all different."""
    with ExitStack() as held:
        ports: list[int] = []
        for _ in range(count):
            listener = held.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
        return ports


class Process:
    """A program that was started; see the module for its rules.

    Args:
        program: The file to run.
        arguments: Its arguments.
        log: The file that its output is added to.
        environment: Its environment; None for that of this interpreter.
    """

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name: Final = program.name
        self.log: Final = log
        with log.open("ab") as output:
            self._popen: Final = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # an interrupt from the terminal is for the tests
            )
        _running.add(self)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def cpu_seconds(self, *, children: bool = False) -> float:
        """Return the processor time that it has used; Linux only.

        Args:
            children: Whether the time of its child processes that have ended is added.
        """
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        ticks = stat.rpartition(")")[2].split()[11 : 15 if children else 13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Return the memory that it has in use now; Linux only."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def wait_until(self, ready: Callable[[], bool], *, timeout: float = 60.0) -> None:
        """Return once *ready* answers True; errors of connections count as False.

        Raises:
            ProgramFailed: The program ended, or *timeout* seconds passed.
        """
        until = time.monotonic() + timeout
        while True:
            if not self.is_running:
                raise ProgramFailed(self._report(f"ended with code {self._popen.returncode}"))
            try:
                if ready():
                    return
            except OSError:
                pass  # it does not listen yet
            if time.monotonic() > until:
                raise ProgramFailed(self._report(f"was not ready within {timeout:g} s"))
            time.sleep(_STEP)

    def pause(self) -> None:
        """Stop the program's clock, as a machine does that is overloaded; see ``resume``."""
        self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused program go on."""
        self._popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, without any cleaning up."""
        self._popen.kill()
        self._popen.wait()
        _running.discard(self)

    def stop(self, *, timeout: float = 5.0) -> int:
        """Ask it to end, wait *timeout* seconds, then kill it; return its exit code."""
        if self.is_running:
            self.resume()
            self._popen.terminate()
            try:
                self._popen.wait(timeout)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        _running.discard(self)
        return self._popen.wait()

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]

    def _report(self, what: str) -> str:
        return f"{self.name} {what}; the end of {self.log}:\n{self.log_tail()}"


_running: weakref.WeakSet[Process] = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        process.kill()
