"""The chooser of ``PriorityHeap``'s build.

Rules:
  R1  every build behaves alike, to the letter;
  R2  this is the one place in the core that may read the environment;
  R3  the compiled build is taken where it was built, unless ``GANGSCHED_NO_EXTENSIONS`` is set to
      anything but nothing or 0.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gangsched._core._heap._py import HeapHandle, PriorityHeap

__all__ = ["HeapHandle", "PriorityHeap", "heap_implementation"]

_chosen = "python"
if not TYPE_CHECKING and os.environ.get("GANGSCHED_NO_EXTENSIONS", "0") in ("", "0"):
    try:
        from gangsched._core._heap._c import PriorityHeap
    except ImportError:
        pass
    else:
        _chosen = "cython"

heap_implementation: Final = _chosen
"""Which build is in use."""
