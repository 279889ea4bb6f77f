"""Drivers and gates: the loops that run a scheduler on threads and on asyncio.

Rules:
  R1  drivers log to ``gangsched.drivers``, gates to ``gangsched.drivers.gate``. Both are silent
      until the host gives them, or a logger above them, a handler.
"""

from __future__ import annotations

import logging

from gangsched.drivers._clock import EpochClock, epoch_seconds

__all__ = ["EpochClock", "epoch_seconds"]

logging.getLogger("gangsched").addHandler(logging.NullHandler())
