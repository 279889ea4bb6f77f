"""A plugin of pytest that lets everything take the scheduler of ``core``.

``python -m pytest -p support.on_the_core tests/laws`` runs the tests of the laws on it. Programs
that a test starts take the other one.
"""

from __future__ import annotations

import sys
from typing import Any

from gangsched import framework
from gangsched import scheduler as chosen
from gangsched.core.scheduler import Scheduler

__all__: list[str] = []


def _replace() -> None:
    """Put the scheduler in the place of the other one wherever that was imported already."""
    others = [each for name, each in sys.modules.items() if name.startswith("gangsched")]
    for module in (chosen, *others):
        replaced: Any = module
        is_framework = module.__name__.startswith(framework.__name__)
        if not is_framework and vars(module).get("Scheduler") is framework.Scheduler:
            replaced.Scheduler = Scheduler


_replace()
