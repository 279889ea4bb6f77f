"""The scheduling unit of the schedulers of a test that does not choose one.

Rules:
  R1  ``Policy``, ``Driver`` and ``coscheduling`` read the unit when they create a scheduler, not
      when a module is imported. So rows of a table use the unit of their test;
  R2  a test of ``laws`` or of ``conformance`` runs in both units. Two marks change this:
      ``pod_by_pod`` for tests about members that hold nodes while they wait, and ``once`` for
      tests that create no scheduler with these defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import is_hypothesis_test

from gangsched import ClusterState, Scheduler, SchedulingUnit, presets

__all__ = ["coscheduling", "current", "deciding_by", "runs_in_both"]

_HERE: Final = Path(__file__).parents[1]
_IN_BOTH: Final = (_HERE / "laws", _HERE / "conformance")
_current: list[SchedulingUnit] = [SchedulingUnit.POD]


def current() -> SchedulingUnit:
    """Return the default unit of the running test."""
    return _current[-1]


@contextmanager
def deciding_by(unit: SchedulingUnit) -> Iterator[None]:
    """Set the default unit inside the ``with`` block."""
    _current.append(unit)
    try:
        yield
    finally:
        _current.pop()


def coscheduling(
    cluster: ClusterState, *, unit: SchedulingUnit | None = None, **policy: Any
) -> Scheduler:
    """Return ``presets.coscheduling``, by default with the unit of the test."""
    return presets.coscheduling(cluster, unit=unit or current(), **policy)


def runs_in_both(test: Callable[..., object], path: Path, marks: set[str]) -> bool:
    """Return whether a test runs once for each unit.

    A property that draws its policy draws the unit with it, and runs once.
    """
    if not any(path.is_relative_to(each) for each in _IN_BOTH) or marks & {"once", "pod_by_pod"}:
        return False
    return not (is_hypothesis_test(test) and "policy" in _arguments(test))


def _arguments(test: Callable[..., object]) -> set[str]:
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", test)
    return set(inspect.signature(inner).parameters)
