"""How kube-scheduler turns raw scores into scores from 0 to 100."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangsched.model import NodeName

__all__ = ["BEST", "by_largest"]

BEST: Final = 100
"""The highest score; ``MaxNodeScore`` in kube-scheduler."""


def by_largest(scores: Mapping[NodeName, int], *, reverse: bool = False) -> Mapping[NodeName, int]:
    """Return each score as a percentage of the largest; with *reverse*, what is left of 100.

    Source: ``DefaultNormalizeScore`` of kube-scheduler.
    """
    largest = max(scores.values(), default=0)
    if largest <= 0:
        return dict.fromkeys(scores, BEST) if reverse else dict(scores)
    found = {name: BEST * score // largest for name, score in scores.items()}
    return {name: BEST - score for name, score in found.items()} if reverse else found
