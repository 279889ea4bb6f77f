"""Strategies for pods, groups, nodes and resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import strategies as st

from gangsched.model import (
    GroupKey,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodUID,
    Resources,
    Role,
    Taint,
    Topology,
)
from gangsched.strategies._arguments import strategy

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
    cpu: st.SearchStrategy[int] | None = None,
    gpu: st.SearchStrategy[int] | None = None,
    more: Mapping[str, st.SearchStrategy[int]] | None = None,
) -> st.SearchStrategy[Resources]:
    """Draw resources in whole units.

    Args:
        cpu: The amount of ``cpu``.
        gpu: The amount of ``nvidia.com/gpu``.
        more: The amounts of further resources, by name.
    """
    amounts: dict[str, st.SearchStrategy[int]] = {
        "cpu": strategy("cpu", cpu, _AMOUNTS),
        "nvidia.com/gpu": strategy("gpu", gpu, _AMOUNTS),
        **{
            name: strategy(f"more[{name!r}]", each, _AMOUNTS) for name, each in (more or {}).items()
        },
    }
    return st.fixed_dictionaries(amounts).map(Resources)


def nodes(
    *,
    names: st.SearchStrategy[str] | None = None,
    allocatable: st.SearchStrategy[Resources] | None = None,
    labels: st.SearchStrategy[Mapping[str, str]] | None = None,
    taints: st.SearchStrategy[Sequence[Taint]] | None = None,
) -> st.SearchStrategy[Node]:
    """Draw nodes.

    Args:
        names: The names of the nodes.
        allocatable: Their allocatable resources.
        labels: Their labels; none by default.
        taints: Their taints; none by default.
    """

    def make(
        name: str, offered: Resources, labelled: Mapping[str, str], tainted: Sequence[Taint]
    ) -> Node:
        return Node(
            name=NodeName(name), allocatable=offered, labels=dict(labelled), taints=tuple(tainted)
        )

    return st.builds(
        make,
        strategy("names", names, _NAMES),
        strategy("allocatable", allocatable, resources()),
        strategy("labels", labels, st.just({})),
        strategy("taints", taints, st.just(())),
    )


def pods(
    *,
    names: st.SearchStrategy[str] | None = None,
    groups: st.SearchStrategy[str | None] | None = None,
    requests: st.SearchStrategy[Resources] | None = None,
    priorities: st.SearchStrategy[int] | None = None,
    roles: st.SearchStrategy[str | None] | None = None,
) -> st.SearchStrategy[Pod]:
    """Draw pending pods. Pods with the same name usually have different UIDs.

    Args:
        names: The names of the pods.
        groups: Their group, or None.
        requests: Their requests.
        priorities: Their priority; 0 by default.
        roles: Their role in the group, or None.
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
        strategy("names", names, _NAMES),
        strategy("groups", groups, st.none()),
        strategy("requests", requests, resources()),
        strategy("priorities", priorities, _ALIKE),
        strategy("roles", roles, st.none()),
        st.integers(0, 2**32),
    )


def pod_groups(
    *,
    names: st.SearchStrategy[str] | None = None,
    min_available: st.SearchStrategy[int] | None = None,
    schedule_timeout: st.SearchStrategy[float | None] | None = None,
    roles: st.SearchStrategy[Mapping[str, int | Role]] | None = None,
    priorities: st.SearchStrategy[int | None] | None = None,
    topologies: st.SearchStrategy[Topology | None] | None = None,
    bundles: st.SearchStrategy[Sequence[GroupKey]] | None = None,
) -> st.SearchStrategy[PodGroup]:
    """Draw pod groups whose minimum is at least the number of pods that their roles need.

    Args:
        names: The names of the groups.
        min_available: Their minimum, before the roles are counted.
        schedule_timeout: Their permit timeout; None by default.
        roles: The minimum for each role, or a ``Role``; none by default. ``roles()`` draws copies.
        priorities: Their priority; None by default, which means that of the members.
        topologies: Their topology constraint; None by default.
        bundles: The groups of their bundle; none by default.
    """

    def make(
        name: str,
        minimum: int,
        timeout: float | None,
        minima: Mapping[str, int | Role],
        priority: int | None,
        topology: Topology | None,
        bundle: Sequence[GroupKey],
    ) -> PodGroup:
        least = PodGroup(name=name, roles=minima).min_available if minima else 1
        return PodGroup(
            name=name,
            roles=minima,
            min_available=max(minimum, least),
            schedule_timeout=timeout,
            priority=priority,
            topology=topology,
            bundle=tuple(bundle),
        )

    return st.builds(
        make,
        strategy("names", names, _NAMES),
        strategy("min_available", min_available, st.integers(1, 5)),
        strategy("schedule_timeout", schedule_timeout, st.none()),
        strategy("roles", roles, st.just({})),
        strategy("priorities", priorities, st.none()),
        strategy("topologies", topologies, st.none()),
        strategy("bundles", bundles, st.just(())),
    )


def some_nodes() -> st.SearchStrategy[Node]:
    """Draw nodes with some CPU."""
    return nodes(allocatable=resources(cpu=_SOME, gpu=st.just(0)))


def some_pods() -> st.SearchStrategy[Pod]:
    """Draw pods of two groups, and without a group."""
    return pods(
        groups=st.sampled_from([None, "x-0", "x-1"]),
        requests=resources(cpu=st.integers(0, 2), gpu=st.just(0)),
        priorities=st.sampled_from([0, 0, 1]),
    )


def some_groups() -> st.SearchStrategy[PodGroup]:
    """Draw pod groups, some with roles."""
    return pod_groups(roles=st.sampled_from(ROLES))
