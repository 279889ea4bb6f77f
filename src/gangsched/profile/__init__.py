"""Which plugins run, and what they declare about themselves."""

from __future__ import annotations

from gangsched.profile._profile import POINTS, Profile

__all__ = ["POINTS", "Profile"]
