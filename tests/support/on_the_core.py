"""A plugin of pytest that lets the presets make schedulers of ``core``.

``python -m pytest -p support.on_the_core tests/laws`` runs the tests of the laws on it.
"""

from __future__ import annotations

from typing import Any

from gangsched import presets
from gangsched.core.scheduler import Scheduler

__all__ = ["pytest_configure"]


def pytest_configure() -> None:
    """Put the scheduler of ``core`` in the place of the one that presets make."""
    replaced: Any = presets
    replaced.Scheduler = Scheduler
