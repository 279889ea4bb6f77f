"""Which tests of a control plane run on one worker of pytest-xdist.

Tests are given to workers one by one, but for those below: what they need is set up once for all of
them, by a fixture of their module, or only one of them can run at a time.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import pytest

__all__ = ["control_plane_scheduling"]

_TOGETHER: Final = (
    *("test_chart.py", "test_chart_of_the_extender.py", "test_image.py", "test_uninstall.py"),
    *("test_kubectl_shows_gangs.py", "test_rotated_credentials.py"),
    "test_volumes_on_an_api_server.py",
    "test_demonstrations.py::test_demonstration_with_an_operator",
)
"""A part of the name of each of them."""


def control_plane_scheduling(config: pytest.Config, log: Any) -> Any:
    """Return what gives workers one test after the other, or all that belong together.

    It is that of ``--dist loadscope`` with other scopes. The mode ``loadgroup`` of pytest-xdist 3.8
    finds no group with pytest 9.2.
    """
    scheduler: Any = importlib.import_module("xdist.scheduler")  # it has no types
    scheduling = scheduler.LoadScopeScheduling(config, log)
    scheduling._split_scope = _scope_of
    return scheduling


def _scope_of(name: str) -> str:
    return next((part for part in _TOGETHER if part in name), name)
