"""The chooser of ``PriorityHeap``'s build.

Rules:
  R1  every build behaves alike, to the letter;
  R2  this is the one place in the core that may read the environment.
"""

from __future__ import annotations

from typing import Final

from gangsched._core._heap._py import HeapHandle, PriorityHeap

__all__ = ["HeapHandle", "PriorityHeap", "heap_implementation"]

heap_implementation: Final = "python"
"""Which build is in use."""
