"""Profiles of hypothesis, the unit and the core of tests, and where the real traces are."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from gangsched import SchedulingUnit
from support.cores import current_core, deciding_with, runs_on
from support.runs import begin_run, of_other_runs
from support.units import deciding_by, runs_in_both
from support.workers import control_plane_scheduling

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "fast",
    max_examples=50,
    deadline=None,
    # a gate that is red by chance costs more than the examples that it draws anew find
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.register_profile("deep", max_examples=20_000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

TRACES = Path(__file__).parents[2] / "shared" / "traces"


def pytest_configure() -> None:
    """Let every program that a test starts end with the run, however the run ends."""
    begin_run()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run on one worker what tests of a control plane share, unless another mode is named."""
    is_wanted = os.environ.get("GANGSCHED_CONTROL_PLANE", "0") not in ("", "0")
    if is_wanted and config.getvalue("dist") == "load":
        return control_plane_scheduling(config, log)
    return None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say which programs of other runs are there: they slow this one, or use what it needs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        for line in of_other_runs():
            reporter.write_line(line)


@pytest.fixture(autouse=True)
def unit_by_default(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let schedulers decide by the unit that the test runs in; see ``support.units``."""
    with deciding_by(getattr(request, "param", SchedulingUnit.POD)):
        yield


@pytest.fixture(autouse=True)
def core_by_default(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let schedulers be those of the core that the test runs on; see ``support.cores``."""
    with deciding_with(getattr(request, "param", current_core())):
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each unit and on each core, unless it says why not."""
    marks = {mark.name: mark for mark in metafunc.definition.iter_markers()}
    if runs_in_both(metafunc.function, metafunc.definition.path, set(marks)):
        ids = [unit.value for unit in SchedulingUnit]
        metafunc.parametrize("unit_by_default", list(SchedulingUnit), ids=ids, indirect=True)
    cores = runs_on(metafunc.definition.path, marks)
    if cores != (current_core(),):
        metafunc.parametrize("core_by_default", cores, indirect=True)


@pytest.fixture(autouse=True)
def logs_of_the_package() -> Iterator[None]:
    """Take back what a test sets for the loggers of the package, as commands do."""
    loggers = [logging.getLogger("gangsched"), logging.getLogger("gangsched.kubernetes.decisions")]
    before = [(each, each.level, each.propagate, each.handlers[:]) for each in loggers]
    yield
    for logger, level, propagate, handlers in before:
        logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real traces; the test is skipped where it is absent."""
    if not TRACES.is_dir():
        pytest.skip(f"the real traces are not in {TRACES}")
    return TRACES
