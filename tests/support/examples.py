"""How many examples a property draws that needs fewer than the profile says.

Rules:
  R1  in ``deep`` nobody draws fewer: who is cut short for the sake of time is not cut there.
"""

from __future__ import annotations

from hypothesis import settings

__all__ = ["one_in"]

_FULL = "deep"


def one_in(share: int) -> settings:
    """Return the settings of the profile with one in so many of its examples; all in ``deep``."""
    if settings.get_current_profile_name() == _FULL:
        return settings()
    return settings(max_examples=settings().max_examples // share)
