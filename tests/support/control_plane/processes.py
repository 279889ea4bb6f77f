"""One program that runs: its log, whether it is ready, how it is stopped.

Rules:
  R1  output goes to a file, whose end is in the error if the program fails;
  R2  a program is stopped by a signal, and killed if it does not end in time; no program outlives
      the interpreter that started it, however that ends: see ``support.runs``;
  R3  a port that was free is not given to another run meanwhile: see ``free_ports``.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from support.patience import saw, until
from support.runs import MARK, begin_run

__all__ = ["Process", "ProgramFailed", "free_ports"]

_TAIL: Final = 3000
_PORTS: Final = (10_300, 30_000)
"""Above those of Kubernetes' own programs, below those of outgoing connections."""
_chance: Final = random.SystemRandom()
_reservations: Final[list[socket.socket]] = []


class ProgramFailed(Exception):
    """A program ended before it was ready; the text ends with its log's end."""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface on which nothing listens, all different.

    They are below those that the system gives to outgoing connections, and on Linux they are
    reserved until this interpreter ends. So neither a connection nor another run of tests takes one
    before it is used.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = _chance.randrange(*_PORTS)
        if port not in ports and _reserve(port) and _is_free(port):
            ports.append(port)
    return ports


def _reserve(port: int) -> bool:
    """Reserve a port; return False if an interpreter, this one included, has reserved it."""
    if sys.platform != "linux":
        return True
    # a name without a file: it is gone with the socket, also after a kill
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0gangsched-port-{port}")
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Process:
    """A program that was started; see the module for its rules.

    Args:
        program: The file to run.
        arguments: Its arguments.
        log: The file that its output is added to.
        environment: Its environment; None for that of this interpreter.
        url: Where it serves its pages; empty if that does not matter.
    """

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        url: str = "",
    ) -> None:
        self.url: Final = url
        self.name: Final = program.name
        self.log: Final = log
        begin_run()
        if environment is not None and MARK in os.environ:
            environment = {**environment, MARK: os.environ[MARK]}
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

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return once *ready* answers True; errors of connections count as False.

        Raises:
            ProgramFailed: The program ended.
            AssertionError: The program hangs.
        """

        def is_ready() -> bool:
            if not self.is_running:
                raise ProgramFailed(self._report(f"ended with code {self._popen.returncode}"))
            try:
                return ready()
            except OSError as error:  # it does not listen yet
                saw(repr(error))
                return False

        until(is_ready, lambda: self._report("is not ready"))

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
        """Ask it to end, and return its exit code.

        Args:
            timeout: Seconds after which it is killed. A test that checks the code passes ``HANG``.
        """
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
