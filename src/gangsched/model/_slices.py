"""Slices: which members of a gang share a domain of a finer level, by their numbers.

Members 0 to 17 are the first slice of 18, 18 to 35 the second, and the last one may be short.
Slices are nested, outermost first: a member of a slice of a rack and one of a node has both.

Rules:
  R1  a member has the number that its controller gives it, else the one that ends its name after a
      hyphen. So a member that replaces another one belongs where that one was;
  R2  members beyond the minimum are in no slice.

Source: ``podset-slice-size`` of Kueue, ``--segment`` of Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["number_of", "slice_of"]

_INDEX_LABELS: Final = (
    # before that of a StatefulSet, in which a leader has the number of its set
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)
_AT_THE_END: Final = re.compile(r"-(\d{1,9})$", re.ASCII)


def number_of(name: str, labels: Mapping[str, str]) -> int | None:
    """Return the number of a pod; None if it has none."""
    texts = [labels[key] for key in _INDEX_LABELS if key in labels]
    if not texts and (found := _AT_THE_END.search(name)) is not None:
        texts.append(found.group(1))
    text = texts[0] if texts else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def slice_of(number: int, count: int, slices: tuple[tuple[str, int], ...]) -> str:
    """Return the path of the slice of a member, ``slice-1/slice-0``; ``""`` beyond *count*."""
    if number >= count:
        return ""
    steps: list[str] = []
    for _level, size in slices:
        steps.append(f"slice-{number // size}")
        number %= size
    return "/".join(steps)
