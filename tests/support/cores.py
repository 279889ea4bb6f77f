"""The core whose schedulers the tests of a run make: ``framework``, or the one that is made anew.

Rules:
  R1  presets and ``make_scheduler`` make schedulers of the core of the running test, when they are
      called, not when a module is imported;
  R2  in the profile ``deep`` each test of ``laws`` runs on both cores. Otherwise it runs on the
      core that presets choose: twice as many tests take too long for every day;
  R3  a test with the mark ``of_framework`` is about the inside of the old core, and runs on that
      alone. A test that makes no scheduler runs once;
  R4  a test with the mark ``core_lacks``, or in ``NOT_LOOKED_THROUGH``, runs on the old core alone;
      take the mark away with what is missing. ``-p support.on_the_core`` runs all on the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from gangsched import ClusterState, Profile, Scheduler, framework, presets
from gangsched.core.scheduler import Scheduler as Core

__all__ = [
    "CORES",
    "current_core",
    "deciding_with",
    "forget_answers",
    "runs_on",
    "make_scheduler",
]

CORES: Final[dict[str, Any]] = {"framework": framework.Scheduler, "core": Core}
"""The scheduler of each core, by name."""

NOT_LOOKED_THROUGH: Final = frozenset(
    {
        "test_failure_modes_a_interleavings.py",
        "test_law_07_nothing_leaks.py",
        "test_law_09_deterministic.py",
        "test_law_10_decides_alike.py",
        "test_law_10_snapshots.py",
        "test_law_10_the_same_gangs_start.py",
        "test_laws_under_faults.py",
        "test_plugins_see_siblings.py",
        "test_preemption_with_constraints.py",
        "test_questions_among_every_constraint.py",
        "test_questions_with_constraints.py",
        "test_questions_with_volumes.py",
        "test_quotas_hold.py",
        "test_reproducible_runs.py",
        "test_reservations_and_preemption.py",
        "test_restarted_gangs_are_whole.py",
        "test_snapshots_that_were_changed.py",
        "test_what_if.py",
        "test_whole_gangs_among_constraints_and_events.py",
        "test_whole_gangs_are_complete.py",
        "test_whole_gangs_of_one_class.py",
        "test_whole_gangs_placement_strategies.py",
        "test_whole_gangs_start_whole.py",
        "test_whole_gangs_within_a_label.py",
    }
)
"""Laws that may fail on the new core: take a file out when its failures were looked through."""

_LAWS: Final = Path(__file__).parents[1] / "laws"


@contextmanager
def deciding_with(core: str) -> Iterator[None]:
    """Let presets and ``make_scheduler`` make schedulers of a core inside the ``with`` block."""
    made: Any = presets
    before = made.Scheduler
    made.Scheduler = CORES[core]
    try:
        yield
    finally:
        made.Scheduler = before


def current_core() -> str:
    """Return the core whose schedulers presets make now."""
    made: Any = presets
    return next(name for name, one in CORES.items() if one is made.Scheduler)


def make_scheduler(cluster: ClusterState, profile: Profile, **arguments: Any) -> Scheduler:
    """Return a scheduler of the core of the running test."""
    made: Any = presets
    found: Scheduler = made.Scheduler(cluster, profile, **arguments)
    return found


def forget_answers(one: Scheduler) -> None:
    """Let a scheduler drop what it remembers beside its records; ``framework`` cannot."""
    if isinstance(one, Core):
        one.forget_answers()


def runs_on(path: Path, marks: dict[str, pytest.Mark]) -> tuple[str, ...]:
    """Return the cores on which a test runs; that of the presets unless it is among the laws."""
    if "of_framework" in marks:
        return ("framework",)
    default, once = current_core(), marks.get("once")
    if not path.is_relative_to(_LAWS) or (once is not None and "makes no" in once.args[0]):
        return (default,)
    lacks = "core_lacks" in marks or path.name in NOT_LOOKED_THROUGH
    is_deep = settings.get_current_profile_name() == "deep"
    return tuple(CORES) if is_deep and default == "framework" and not lacks else (default,)
