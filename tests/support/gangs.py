"""Short helpers for whole gangs: nodes, members, one decision, and placements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import evolve

from gangsched import (
    Bind,
    ClusterState,
    Effect,
    GroupKey,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    Taint,
    Toleration,
    Topology,
    presets,
)
from gangsched.explain import UnschedulableMember
from gangsched.testing import make_pod
from support.driver import Driver

__all__ = [
    "GPU",
    "binds",
    "decide",
    "gang_driver",
    "members",
    "unschedulable",
    "node",
    "place",
    "specify",
    "where",
]

GPU = "nvidia.com/gpu"


def node(
    name: str, cpu: int = 0, gpu: int = 0, *, tainted: bool = False, **labels: str | None
) -> NodeAdded:
    """Return the event that adds a node."""
    return NodeAdded(
        Node(
            name=NodeName(name),
            allocatable={"cpu": cpu, GPU: gpu},
            labels={key: value for key, value in labels.items() if value is not None},
            taints=(Taint("reserved"),) if tainted else (),
        )
    )


def members(
    group: str,
    count: int,
    minimum: int | None = None,
    *,
    prefix: str = "",
    tolerant: bool = False,
    selector: dict[str, str] | None = None,
    **asks: Any,
) -> list[Pod]:
    """Return equal members of a group; by default, the minimum is their number."""
    least = count if minimum is None else minimum
    return [
        evolve(
            make_pod(f"{group}-{prefix}{number}", group=group, min_available=least, **asks),
            tolerations=(Toleration("reserved", exists=True),) if tolerant else (),
            node_selector=selector or {},
        )
        for number in range(count)
    ]


def specify(group: str, minimum: int, topology: Topology | None = None, **fields: Any) -> PodGroup:
    """Return a pod group."""
    return PodGroup(name=group, min_available=minimum, topology=topology, **fields)


def gang_driver(
    *nodes: NodeAdded, make: Callable[[ClusterState], Scheduler] | None = None, **policy: Any
) -> Driver:
    """Return a driver of ``presets.gang`` with some nodes."""
    driver = Driver(make or partial(presets.gang, **policy))
    driver.tell(*nodes)
    return driver


def decide(driver: Driver) -> tuple[Effect, ...]:
    """Make one decision; return its effects."""
    before = len(driver.log)
    driver.step()
    return next(told for told in driver.log[before:] if told.call == "schedule_one").effects


def place(driver: Driver, *pods: Pod, spec: PodGroup | None = None) -> dict[str, str]:
    """Add the members of a gang, and decide once; return the placements."""
    if spec is not None:
        driver.tell(PodGroupAdded(spec))
    driver.add(*pods)
    return binds(decide(driver))


def binds(effects: tuple[Effect, ...]) -> dict[str, str]:
    """Return the binds among some effects: pod name to node name."""
    return {e.uid.partition("/")[2]: e.node for e in effects if isinstance(e, Bind)}


def where(driver: Driver) -> dict[str, str]:
    """Return the placements in the cluster."""
    return {pod.name: pod.node_name for pod in driver.cluster.pods() if pod.node_name}


def unschedulable(driver: Driver, group: str) -> UnschedulableMember:
    """Return the unschedulable member of a gang."""
    why: Any = driver.scheduler.why(GroupKey(f"default/{group}"))
    found = why.unschedulable_member
    assert isinstance(found, UnschedulableMember)
    return found
