"""What one decision is about, and how the members of a gang are laid out."""

from __future__ import annotations

import enum
from typing import NoReturn

from gangsched._fields import refuse_choice

__all__ = ["PlacementStrategy", "SchedulingUnit"]


class SchedulingUnit(enum.Enum):
    """What one decision is about."""

    POD = "pod"
    """One pod; members of a gang that are placed wait on permit for the others."""
    GROUP = "group"
    """One gang: as many members as it needs are placed and let go in one call, or none is."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "unit", value)


class PlacementStrategy(enum.Enum):
    """Where the members of a gang go, of all the nodes that can take them."""

    AUTO = "auto"
    """``pack`` for members that ask for an extended resource such as a GPU, else ``score``."""
    PACK = "pack"
    """On the fewest nodes, and on none whose GPUs they would keep others from."""
    SPREAD = "spread"
    """On as many nodes as there are members; among equals by score."""
    SCORE = "score"
    """Where the score plugins say, one member after the other."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "placement", value)
