"""Profiles of hypothesis, the unit of tests, and where the real traces are."""

from __future__ import annotations

import gc
import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from gangsched import SchedulingUnit
from support.runs import begin_run, of_other_runs
from support.units import deciding_by, runs_in_both
from support.workers import control_plane_scheduling

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
_EACH_TIME = settings(
    # whoever runs the tests gets the same answer: other examples are drawn by support.explore
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=_SLOW,
)
_DRAWN = settings(_EACH_TIME, derandomize=False)
settings.register_profile("fast", _EACH_TIME, max_examples=50)
settings.register_profile("ci", _EACH_TIME, max_examples=100)
settings.register_profile(
    "explore", _DRAWN, max_examples=100, phases=set(Phase) - {Phase.explain, Phase.reuse}
)
settings.register_profile("deep", _DRAWN, max_examples=20_000)
# Hypothesis also draws constants of all modules that are loaded. Which these are depends on the
# tests that ran before in the same process, and on where the library is installed.
patch.object(providers, "_get_local_constants", Constants, create=True).start()
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_spent: defaultdict[str, float] = defaultdict(float)
"""The seconds that tests of each file took, by the clock."""

TRACES = Path(__file__).parents[2] / "shared" / "traces"


_SLOWEST: Final = frozenset(
    {
        "tests/scenarios/test_philly.py",
        "tests/unit/test_growth_benchmark.py",
        "tests/laws/test_law_01_to_08_at_every_step.py",
        "tests/laws/test_law_10_rebuildable.py",
        "docs/how-to/host-parsl.md",
        "tests/kit/test_gangsched_variants.py",
        "tests/kit/test_wrong_schedulers.py",
        "tests/unit/test_fingerprint.py",
        "tests/kubernetes/test_demonstrations.py",
        "tests/kubernetes/test_chart.py",
    }
)
"""Files that begin first: one that begins last would keep one worker busy alone."""


def pytest_configure(config: pytest.Config) -> None:
    """Let every program that a test starts end with the run, however the run ends."""
    begin_run()
    config.option.loadscopereorder = False  # files in the order of ``_SLOWEST``, not by tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the slowest files begin first."""
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in _SLOWEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run on one worker what tests of a control plane share, unless another mode is named."""
    is_wanted = os.environ.get("GANGSCHED_CONTROL_PLANE", "0") not in ("", "0")
    if is_wanted and config.getvalue("dist") == "load":
        return control_plane_scheduling(config, log)
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run three workers on two cores: tests of shells wait, and others run meanwhile."""
    return max(1, (os.cpu_count() or 1) * 3 // 2)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say which programs of other runs are there: they slow this one, or use what it needs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        for line in of_other_runs():
            reporter.write_line(line)


def pytest_collection_finish() -> None:
    """Leave the collected tests out of each pass of the garbage collector: they stay anyway."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of a file; with xdist, the main process gets the reports of all workers."""
    _spent[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the ten slowest files: the last one to end bounds a run with ``--dist loadfile``."""
    if len(_spent) > 1:
        terminalreporter.section("slowest files")
        for file in sorted(_spent, key=_spent.__getitem__, reverse=True)[:10]:
            terminalreporter.write_line(f"{_spent[file]:6.1f} s {file}")


@pytest.fixture(autouse=True)
def unit_by_default(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let schedulers decide by the unit that the test runs in; see ``support.units``."""
    with deciding_by(getattr(request, "param", SchedulingUnit.POD)):
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each unit, unless it says why not."""
    marks = {mark.name: mark for mark in metafunc.definition.iter_markers()}
    if runs_in_both(metafunc.function, metafunc.definition.path, set(marks)):
        ids = [unit.value for unit in SchedulingUnit]
        metafunc.parametrize("unit_by_default", list(SchedulingUnit), ids=ids, indirect=True)


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
