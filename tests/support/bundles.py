"""Short builders for bundles: their pod groups and members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from gangsched import (
    Event,
    GroupKey,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUID,
    PodUpdated,
    explain,
)
from gangsched.testing import make_pod
from support.driver import Driver

__all__ = ["AB", "CD", "end", "key", "pods", "running", "spec", "specs", "why"]

AB = ("one/a", "two/b")
CD = ("one/c", "two/d")


def key(group: str) -> GroupKey:
    """Return the key of a group."""
    return GroupKey(group)


def spec(group: str, minimum: int, bundle: Sequence[str] = (), **fields: Any) -> PodGroup:
    """Return the pod group ``namespace/name``."""
    namespace, _slash, name = group.partition("/")
    keys = tuple(map(key, bundle))
    return PodGroup(name=name, namespace=namespace, min_available=minimum, bundle=keys, **fields)


def specs(*groups: str, minimum: int = 2, **fields: Any) -> list[Event]:
    """Return the events that add a bundle."""
    return [PodGroupAdded(spec(group, minimum, groups, **fields)) for group in groups]


def pods(group: str, count: int = 2, *, first: int = 0, cpu: int = 1, **asks: Any) -> list[Pod]:
    """Return equal members of a group."""
    namespace, _slash, name = group.partition("/")
    made = [make_pod(f"{name}-{first + n}", group=name, cpu=cpu, **asks) for n in range(count)]
    return [evolve(p, namespace=namespace, uid=PodUID(f"{namespace}/{p.name}")) for p in made]


def running(driver: Driver) -> dict[str, int]:
    """Return the number of bound, unfinished members of each group."""
    found: dict[str, int] = {}
    for pod in driver.cluster.pods():
        if pod.node_name is not None and not pod.is_finished:
            group = f"{pod.namespace}/{pod.name.rpartition('-')[0]}"
            found[group] = found.get(group, 0) + 1
    return found


def end(driver: Driver) -> None:
    """Let all running pods succeed."""
    for pod in list(driver.cluster.pods()):
        if pod.node_name is not None and not pod.is_finished:
            driver.tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))


def why(driver: Driver, group: str) -> explain.Why:
    """Return why a group is not running."""
    return driver.scheduler.why(key(group))
