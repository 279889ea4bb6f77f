"""``PriorityHeap``: the compiled build if there is one, else the one in pure Python.

Rules:
  R1  both builds have the same behaviour, including error messages;
  R2  no other module of the core reads the environment;
  R3  the compiled build is used if it exists and ``GANGSCHED_NO_EXTENSIONS`` is unset, empty or 0.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gangsched.primitives.heap._py import HeapHandle, PriorityHeap

__all__ = ["HeapHandle", "PriorityHeap", "heap_implementation"]

_chosen = "python"
if not TYPE_CHECKING and os.environ.get("GANGSCHED_NO_EXTENSIONS", "0") in ("", "0"):
    try:
        from gangsched.primitives.heap._c import PriorityHeap
    except ImportError:
        pass
    else:
        _chosen = "cython"

heap_implementation: Final = _chosen
"""The build in use: ``cython`` or ``python``."""
