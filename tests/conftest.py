"""Profiles of hypothesis, and where the real traces are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("fast", max_examples=50, deadline=None, suppress_health_check=_SLOW)
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


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real traces; the test is skipped where it is absent."""
    if not TRACES.is_dir():
        pytest.skip(f"the real traces are not in {TRACES}")
    return TRACES
