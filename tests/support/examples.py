"""How many examples a property draws that needs fewer than the profile says.

Rules:
  R1  in ``deep`` nobody draws fewer: what is cut short for the sake of time is not cut there; and
      nowhere fewer than 20;
  R2  what has to find something draws no fewer in ``fast`` than in ``ci``: or it may not;
  R3  what only looks for the least of its kind has nothing explained: that takes as long again.
"""

from __future__ import annotations

from typing import Final

from hypothesis import Phase, settings

__all__ = ["IS_DEEP", "least", "one_in", "surely"]

_LEAST: Final = 20
IS_DEEP: Final = settings.get_current_profile_name() == "deep"


def one_in(share: int) -> settings:
    """Return the settings of the profile with one in so many of its examples; all in ``deep``."""
    count = settings().max_examples
    few = max(count // share, min(count, _LEAST))
    return settings(max_examples=count if IS_DEEP else few)


def least() -> settings:
    """Return the settings for ``hypothesis.find``: of the profile ``ci``, or of ``deep``."""
    return settings(surely(), phases=(Phase.generate, Phase.shrink))


def surely() -> settings:
    """Return settings by which what is there to be found is found, in ``fast`` too."""
    return settings.get_profile("deep" if IS_DEEP else "ci")
