"""Hypothesis settings for properties that draw fewer examples than the profile.

Rules:
  R1  the profile ``deep`` never draws fewer, and no profile fewer than 20 by
      default: a law of which each row of a table draws needs fewer for each row;
  R2  a test that must find a violation draws 200 examples in ``fast`` and ``ci``;
  R3  ``least`` skips the phase ``explain``, which would double the time.
"""

from __future__ import annotations

from typing import Final

from hypothesis import Phase, settings

__all__ = ["FINDS", "IS_DEEP", "PROFILE", "least", "one_in", "surely"]

_LEAST: Final = 20
FINDS: Final = settings(settings.get_profile("ci"), max_examples=200)
"""Enough examples to find the violations that tests plant."""
IS_DEEP: Final = settings.get_current_profile_name() == "deep"
PROFILE: Final = settings.get_current_profile_name().replace("explore", "ci")
"""Whose row of a table of counts applies: ``explore`` draws as many as ``ci``, in each round."""


def one_in(share: int, *, at_least: int = _LEAST) -> settings:
    """Return the settings of the profile with 1/*share* of its examples; all in ``deep``."""
    count = settings().max_examples
    few = max(count // share, min(count, at_least))
    return settings(max_examples=count if IS_DEEP else few)


def least() -> settings:
    """Return the settings for ``hypothesis.find``: those of ``surely``."""
    return settings(surely(), phases=(Phase.generate, Phase.shrink))


def surely() -> settings:
    """Return settings with enough examples to find a violation, in ``fast`` too."""
    return settings.get_profile("deep") if IS_DEEP else FINDS
