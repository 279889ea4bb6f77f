"""A driver of a scheduler that asks a faulty plugin before all others."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from gangsched import (
    ClusterState,
    Coscheduling,
    MatchPolicy,
    PodUID,
    PodUpdated,
    Profile,
    Scheduler,
    SchedulingUnit,
)
from gangsched.plugins import DefaultBinder, NodeResources
from support.driver import Driver
from support.faulty_plugin import FaultyPlugin
from support.gangs import node

__all__ = ["faulty_driver", "told", "update"]


def faulty_driver(
    *points: str,
    unit: SchedulingUnit = SchedulingUnit.POD,
    wide: str = "",
    policy: object | None = None,
    match: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    cpu: int = 6,
    strict_priorities: bool = False,
) -> tuple[Driver, FaultyPlugin]:
    """Return the driver, with one node, and the plugin.

    Args:
        points: The points that the plugin has; without any, one that does nothing.
        unit: What one decision is about.
        wide: The points at which the plugin answers for a whole group.
        policy: What sorts the queue; the gang policy without it.
        match: What the oracle takes for the policy's quorum.
        cpu: What the node offers.
        strict_priorities: Whether a pod with another priority than its group is refused.
    """
    needed = ("unreserve",) if "reserve" in points else () if points else ("post_bind",)
    faulty = FaultyPlugin(*points, *needed, group_wide=wide.split())
    sorts = policy or Coscheduling(permit_timeout=50.0)

    def make(cluster: ClusterState) -> Scheduler:
        profile = Profile(faulty, sorts, NodeResources(), DefaultBinder())
        return Scheduler(cluster, profile, unit=unit, strict_priorities=strict_priorities)

    driver = Driver(make, permit_timeout=50.0, match=match)
    driver.tell(node("n", cpu))
    return driver, faulty


def told(driver: Driver, kind: type) -> list[Any]:
    """Return all effects of a kind that the scheduler has returned."""
    return [e for call in driver.log for e in call.effects if isinstance(e, kind)]


def update(driver: Driver, uid: PodUID, **changes: Any) -> None:
    """Let a pod change."""
    pod = driver.cluster.pod(uid)
    assert pod is not None
    driver.tell(PodUpdated(evolve(pod, **changes)))
