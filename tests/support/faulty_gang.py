"""A gang that is decided next, in one decision, with a plugin that can be made to misbehave."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Profile,
    Scheduler,
    SchedulingUnit,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.busy import NOW, tell
from support.faulty_plugin import FaultyPlugin
from support.shown import memory as remembered
from support.shown import nothing_is_assumed

__all__ = ["Host", "host", "memory", "nothing_is_kept", "only"]

NEEDED = {"post_filter": ["filter"], "reserve": ["unreserve"]}
Host = tuple[InMemoryCluster, Scheduler, FaultyPlugin]


def host(*points: str, cpu: int = 6, minimum: int = 3, size: int = 3, wide: str = "") -> Host:
    """Return a gang that is next, and a faulty plugin that is asked before all others."""
    cluster = InMemoryCluster()
    needed = {*points, *(other for p in points for other in NEEDED.get(p, ()))}
    faulty = FaultyPlugin(*sorted(needed), group_wide=wide.split())
    profile = Profile(faulty, Coscheduling(permit_timeout=50.0), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    node = Node(name=NodeName("n"), allocatable={"cpu": cpu})
    tell(cluster, scheduler, NodeAdded(node), now=NOW)
    for number in range(size):
        pod = make_pod(f"w-{number}", group="w", min_available=minimum, cpu=2)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    return cluster, scheduler, faulty


def memory(host: Host) -> dict[str, Hashable]:
    """Return what the scheduler of a host remembers."""
    return remembered(host[1])


def nothing_is_kept(scheduler: Scheduler) -> None:
    assert nothing_is_assumed(scheduler)
    scheduler._check()


def only(pod_name: str, otherwise: Any, answer: Any) -> Any:
    """Return what a plugin does that says something else of one member."""

    def ask(*args: object, **_kwargs: object) -> Any:
        pod = next(each for each in args if isinstance(each, Pod))
        found = answer if pod.name == pod_name else otherwise
        if isinstance(found, Exception):
            raise found
        return found

    return ask
