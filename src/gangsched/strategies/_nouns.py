"""Strategies for pods, groups, nodes and resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from gangsched.model import Node, NodeName, Pod, PodGroup, PodUID, Resources

__all__ = [
    "ROLES",
    "nodes",
    "pod_groups",
    "pods",
    "resources",
    "some_groups",
    "some_nodes",
    "some_pods",
]

_ROLE_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/role"

_NAMES = st.integers(0, 9).map(lambda n: f"x-{n}")
_AMOUNTS = st.integers(0, 8)
_SOME = st.integers(1, 4)
_ALIKE = st.just(0)
ROLES: Final[tuple[Mapping[str, int], ...]] = ({}, {}, {"ps": 1, "worker": 1}, {"worker": 2})


def resources(
    *,
    cpu: st.SearchStrategy[int] = _AMOUNTS,
    gpu: st.SearchStrategy[int] = _AMOUNTS,
) -> st.SearchStrategy[Resources]:
    """Draw amounts of cpu and ``nvidia.com/gpu``, in whole units."""

    def make(cpus: int, gpus: int) -> Resources:
        return Resources({"cpu": cpus, "nvidia.com/gpu": gpus})

    return st.builds(make, cpu, gpu)


def nodes(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    allocatable: st.SearchStrategy[Resources] | None = None,
    labels: st.SearchStrategy[Mapping[str, str]] | None = None,
) -> st.SearchStrategy[Node]:
    """Draw nodes."""

    def make(name: str, offered: Resources, labelled: Mapping[str, str]) -> Node:
        return Node(name=NodeName(name), allocatable=offered, labels=dict(labelled))

    return st.builds(
        make,
        names,
        resources() if allocatable is None else allocatable,
        st.just({}) if labels is None else labels,
    )


def pods(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    groups: st.SearchStrategy[str | None] | None = None,
    requests: st.SearchStrategy[Resources] | None = None,
    priorities: st.SearchStrategy[int] | None = None,
    roles: st.SearchStrategy[str | None] | None = None,
) -> st.SearchStrategy[Pod]:
    """Draw pods that are pending; of a group where *groups* gives a name, of a role likewise.

    Two pods of one name have different UIDs.
    """

    def make(
        name: str, group: str | None, asked: Resources, priority: int, role: str | None, uid: int
    ) -> Pod:
        return Pod(
            name=name,
            uid=PodUID(f"{name}-{uid}"),
            pod_group=group,
            labels={} if role is None else {_ROLE_LABEL: role},
            requests=asked,
            priority=priority,
        )

    return st.builds(
        make,
        names,
        st.none() if groups is None else groups,
        resources() if requests is None else requests,
        _ALIKE if priorities is None else priorities,
        st.none() if roles is None else roles,
        st.integers(0, 2**32),
    )


def pod_groups(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    min_available: st.SearchStrategy[int] | None = None,
    schedule_timeout: st.SearchStrategy[float | None] | None = None,
    roles: st.SearchStrategy[Mapping[str, int]] | None = None,
    priorities: st.SearchStrategy[int | None] | None = None,
) -> st.SearchStrategy[PodGroup]:
    """Draw specifications of groups; the minimum is at least what their roles add up to."""

    def make(
        name: str,
        minimum: int,
        timeout: float | None,
        minima: Mapping[str, int],
        priority: int | None,
    ) -> PodGroup:
        least = max(minimum, sum(minima.values()))
        return PodGroup(
            name=name,
            roles=dict(minima),
            min_available=least,
            schedule_timeout=timeout,
            priority=priority,
        )

    return st.builds(
        make,
        names,
        st.integers(1, 5) if min_available is None else min_available,
        st.none() if schedule_timeout is None else schedule_timeout,
        st.just({}) if roles is None else roles,
        st.none() if priorities is None else priorities,
    )


def some_nodes() -> st.SearchStrategy[Node]:
    """Draw nodes of which each offers something."""
    return nodes(allocatable=resources(cpu=_SOME, gpu=st.just(0)))


def some_pods() -> st.SearchStrategy[Pod]:
    """Draw pods of two groups and of none."""
    return pods(
        groups=st.sampled_from([None, "x-0", "x-1"]),
        requests=resources(cpu=st.integers(0, 2), gpu=st.just(0)),
        priorities=st.sampled_from([0, 0, 1]),
    )


def some_groups() -> st.SearchStrategy[PodGroup]:
    """Draw specifications, some with roles."""
    return pod_groups(roles=st.sampled_from(ROLES))
