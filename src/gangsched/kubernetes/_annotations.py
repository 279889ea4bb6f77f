"""How much of the annotations of a pod is kept.

The API server takes 256 KiB of annotations in each object, so 4,000 pods could take a gigabyte of a
scheduler's memory. What it reads are names and numbers.

Rules:
  R1  of annotations with more than ``MOST`` characters together, the longest are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangsched.resources import FrozenMap

__all__ = ["MOST", "kept_annotations"]

MOST: Final = 32_768
"""Characters of all keys and values of a pod that are kept."""


def kept_annotations(annotations: Mapping[str, str]) -> FrozenMap[str]:
    """Return the annotations of a pod that are kept. O(n log n) if they are too long together."""
    left = MOST
    kept: dict[str, str] = {}
    for key, value in sorted(annotations.items(), key=_length):
        left -= len(key) + len(value)
        if left < 0:
            break
        kept[key] = value
    if len(kept) == len(annotations) and isinstance(annotations, FrozenMap):
        return annotations
    return FrozenMap({key: value for key, value in annotations.items() if key in kept})


def _length(annotation: tuple[str, str]) -> int:
    return len(annotation[0]) + len(annotation[1])
