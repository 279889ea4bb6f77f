"""kube-scheduler as the judge of every test in this folder, and how many pods it judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from differential.judge import Judge
from differential.profiles import FILTERS, configuration
from support.control_plane import Client, ControlPlane
from support.control_plane.fixtures import control_plane

__all__ = ["control_plane", "judge"]

_counted: Final[list[str]] = []


@pytest.fixture(scope="session")
def judge(control_plane: ControlPlane) -> Iterator[Judge]:
    """kube-scheduler with the profiles of ``profiles``."""
    scheduler = control_plane.start_scheduler(configuration(), features={})
    began = time.monotonic()
    with Client(scheduler.url, control_plane.admin.token) as pages:
        judging = Judge(control_plane.admin, FILTERS, pages)
        yield judging
    took = time.monotonic() - began
    _counted.append(f"kube-scheduler judged {judging.judged} pods in {took:.0f} s")
    scheduler.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many pods were judged."""
    for line in _counted:
        terminalreporter.write_line(line)
