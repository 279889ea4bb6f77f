"""How much of the annotations of a pod is kept.

The API server takes 256 KiB of annotations in each object, so 4,000 pods could take a gigabyte of a
scheduler's memory. What it reads are names and numbers.

Rules:
  R1  of annotations with more than ``MOST`` characters together, the longest are left out;
  R2  none is left out that names a group or says something of it, since its pod would start alone.
      Such a value is cut where it is too long for any name, so it is refused as it would be whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangsched.manifests.pod_topologies import ASKING
from gangsched.membership import ADMISSION_SPELLINGS, ROLE_SPELLINGS, SPELLINGS, Source
from gangsched.resources import FrozenMap

__all__ = ["MOST", "kept_annotations"]

MOST: Final = 32_768
"""Characters of all keys and values of a pod that are kept."""

_LONGEST_NAME: Final = 1024
_OF_GROUPS: Final = frozenset(
    key
    for spelling in (*SPELLINGS, *ROLE_SPELLINGS, *ADMISSION_SPELLINGS)
    if spelling.source is Source.ANNOTATION
    for key in (spelling.name, spelling.minimum)
    if key is not None
).union(ASKING)


def kept_annotations(annotations: Mapping[str, str]) -> FrozenMap[str]:
    """Return the annotations of a pod that are kept. O(n log n) if they are too long together."""
    left = MOST
    kept = {key: value[:_LONGEST_NAME] for key, value in annotations.items() if key in _OF_GROUPS}
    for key, value in sorted(annotations.items(), key=_length):
        if key in kept:
            continue
        left -= len(key) + len(value)
        if left < 0:
            break
        kept[key] = value
    if isinstance(annotations, FrozenMap) and kept == dict(annotations):
        return annotations
    return FrozenMap({key: kept[key] for key in annotations if key in kept})


def _length(annotation: tuple[str, str]) -> int:
    return len(annotation[0]) + len(annotation[1])
