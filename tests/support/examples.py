"""Hypothesis settings for properties that draw fewer examples than the profile.

Rules:
  R1  the profile ``deep`` never draws fewer, and no profile fewer than 20;
  R2  a test that must find a violation draws as many examples in ``fast`` as in ``ci``;
  R3  ``least`` skips the phase ``explain``, which would double the time.
"""

from __future__ import annotations

from typing import Final

from hypothesis import Phase, settings

__all__ = ["IS_DEEP", "least", "one_in", "surely"]

_LEAST: Final = 20
IS_DEEP: Final = settings.get_current_profile_name() == "deep"


def one_in(share: int) -> settings:
    """Return the settings of the profile with 1/*share* of its examples; all in ``deep``."""
    count = settings().max_examples
    few = max(count // share, min(count, _LEAST))
    return settings(max_examples=count if IS_DEEP else few)


def least() -> settings:
    """Return the settings for ``hypothesis.find``: of the profile ``ci``, or of ``deep``."""
    return settings(surely(), phases=(Phase.generate, Phase.shrink))


def surely() -> settings:
    """Return settings with enough examples to find a violation, in ``fast`` too."""
    return settings.get_profile("deep" if IS_DEEP else "ci")
