"""A plan that makes a preemptor fit, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias, final

from attrs import field, frozen

from gangsched.core.attempt.placing import Places
from gangsched.core.preemption.eviction_units import EvictionUnit
from gangsched.core.records.gang import PodRecord
from gangsched.core.records.trial import Lifted

__all__ = ["Cost", "Level", "Taken", "VictimPlan", "cost_of", "level_of"]

_BASE: Final = 2**31
"""Added to each priority of a sum, so that more pods never cost less; as in kube-scheduler."""

Taken: TypeAlias = tuple[EvictionUnit, list[Lifted], list[PodRecord]]
"""A unit, with what was taken off nodes for it, and which pods are evicted with it."""
Level: TypeAlias = tuple[float, bool]
Cost: TypeAlias = tuple[Level, float, int, int, int, float]


@final
@frozen
class VictimPlan:
    """A plan that makes a preemptor fit.

    Attributes:
        places: A node for each pod of the preemptor.
        units: The gangs and regular pods that are evicted, and the nominations that are taken.
        members: The elastic members that are evicted.
        cost: The sort key of plans: the highest level of a unit, the highest priority of a victim,
            gangs, the sum of priorities, pods, and how early the first victim of that priority was
            created.
        violations: The number of evictions that violate a disruption budget.
        awaited: The terminating pods that must have left, on whichever nodes; None for a preemptor
            that needs only its nodes.
    """

    places: Places
    units: list[EvictionUnit] = field(factory=list[EvictionUnit])
    members: list[PodRecord] = field(factory=list[PodRecord])
    cost: Cost = ((-math.inf, False), -math.inf, 0, 0, 0, 0.0)
    violations: int = 0
    awaited: list[PodRecord] | None = None


def cost_of(victims: Sequence[Taken]) -> Cost:
    """Return the cost of a plan; see ``VictimPlan``. O(victims)."""
    each = [
        (unit.priority, len(some) if unit.elastic is not None else unit.pods, unit.created_at)
        for unit, some, _evicted in victims
        if unit.nomination is None
    ]
    highest = max((priority for priority, _pods, _at in each), default=-math.inf)
    return (
        max((level_of(unit) for unit, _some, _evicted in victims), default=(-math.inf, False)),
        highest,
        sum(unit.gangs for unit, _some, _evicted in victims),
        sum((priority + _BASE) * pods for priority, pods, _at in each),
        sum(pods for _priority, pods, _at in each),
        -min((at for priority, _pods, at in each if priority == highest), default=0.0),
    )


def level_of(unit: EvictionUnit) -> Level:
    """Return how late a unit is taken: nominations go before pods of their priority."""
    return unit.priority, unit.nomination is None
