"""Shells that own time: the same small loop twice, on threads and on asyncio.

Rules:
  R1  what is worth a word goes to the loggers of the standard library, below ``gangsched``; they
      are silent until the host gives them a handler.
"""

from __future__ import annotations

import logging

logging.getLogger("gangsched").addHandler(logging.NullHandler())
