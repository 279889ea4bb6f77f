"""The cost of victims: what is compared first, and which pods of a unit count."""

from __future__ import annotations

import math

from gangsched import PodUID, Resources
from gangsched.framework.nodes.nodes_view import Holder
from gangsched.framework.preemption.eviction_units import EvictionUnit
from gangsched.framework.preemption.victim_plan import Taken, cost_of

BASE = 2**31
"""Added to each priority, so that each further victim costs more."""


def unit(
    *, held: int, pods: int, priority: int = 0, at: float = 0.0, elastic: bool = False
) -> Taken:
    """Return a unit of some pods, of which some hold capacity where it was taken off."""
    holders = [Holder(PodUID(f"default/p{n}"), 0, Resources({"cpu": 1})) for n in range(held)]
    made = EvictionUnit(priority, 0 if elastic else 1, pods, at, 1, is_elastic=elastic)
    return made, holders


def test_of_an_elastic_unit_the_members_that_are_taken_off_count() -> None:
    cost = cost_of([unit(held=1, pods=5, elastic=True)])
    assert cost[1:4] == (0, BASE, 1)


def test_of_a_gang_each_evicted_pod_counts() -> None:
    cost = cost_of([unit(held=1, pods=5)])
    assert cost[1:4] == (1, 5 * BASE, 5)


def test_latest_start_among_the_victims_of_the_highest_priority_counts() -> None:
    young = unit(held=1, pods=1, priority=3, at=90.0)
    old = unit(held=1, pods=1, priority=3, at=40.0)
    low = unit(held=1, pods=1, priority=1, at=7.0)
    cost = cost_of([low, young, old])
    assert cost == (3, 3, 2 * (3 + BASE) + 1 + BASE, 3, -40.0)


def test_plan_without_victims_costs_least() -> None:
    assert cost_of([]) == (-math.inf, 0, 0, 0, 0.0)
    assert cost_of([]) < cost_of([unit(held=1, pods=1, priority=-(2**31))])
