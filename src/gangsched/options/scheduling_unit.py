"""The scheduling unit of a scheduler, and its placement strategy."""

from __future__ import annotations

import enum
from typing import NoReturn

from gangsched.values.fields import refuse_choice

__all__ = ["PlacementStrategy", "SchedulingUnit"]


class SchedulingUnit(enum.Enum):
    """What one scheduling cycle is about."""

    POD = "pod"
    """One pod: a placed member of a gang waits on permit for its siblings."""
    GROUP = "group"
    """One gang: its quorum is placed and released in one call, or no member is."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "unit", value)


class PlacementStrategy(enum.Enum):
    """Which of the feasible nodes the pods of a gang are placed on; a single pod is a gang of one.

    It decides among nodes of equal scores; ``spread`` goes before the scores. For a pod that is
    packed, the score of the plugin that compares requests with free capacity is left out.
    """

    AUTO = "auto"
    """``pack`` for pods that request an extended resource such as a GPU, else ``score``."""
    PACK = "pack"
    """The fewest nodes of equal score; last, nodes with free GPUs that the pods do not request."""
    SPREAD = "spread"
    """As many nodes as there are members; among equal nodes, the best score."""
    SCORE = "score"
    """The node with the best score, for one pod after the other."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "placement", value)
