"""Rows of ``growth.py``: numbers of nodes, pods, groups and members.

Rule: a row is a function that prepares a run of *n* items; see ``growth_runs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from gangsched import (
    GroupKey,
    NodeAdded,
    NodeName,
    PodDeleted,
    PodGroup,
    Topology,
)
from gangsched.testing import make_pod
from growth_runs import (
    RACK,
    Row,
    Run,
    Shown,
    added,
    after,
    full,
    nodes,
    on,
    pods,
    scheduler_of,
)

__all__ = ["ROWS"]


def equal_nodes(n: int) -> Run:
    """Equal nodes that are added one by one, and then as many pods."""
    return after((), [*map(added, nodes(n)), *map(added, pods(n))], n)


def unlike_nodes(n: int) -> Run:
    """Nodes that are added one by one, each with memory of its own, and then as many pods."""
    return after((), [*map(added, nodes(n, unlike=True)), *map(added, pods(n))], n)


def pending_pods(n: int) -> Run:
    """Like pods that arrive one by one on a full cluster, and leave again."""
    given = pods(n)
    leave = [PodDeleted(pod.uid) for pod in given]
    return after(full(10), [*map(added, given), *leave], 0)


def groups_of_one(n: int) -> Run:
    """Groups of one member each, placed one by one."""
    given = [make_pod(f"g{g}", group=f"g{g}", min_available=1, cpu=1) for g in range(n)]
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def members_one_by_one(n: int) -> Run:
    """Members of one group that arrive one by one, and start together with the last."""
    given = pods(n, group="g", min_available=n)
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def late_members(n: int) -> Run:
    """Members of a started group that arrive one by one on a full cluster."""
    first = pods(1, "first", group="g", min_available=1)
    late = pods(n, "late", group="g", min_available=1)
    return after([*nodes(1, cpu=1), *first], list(map(added, late)), 0)


def waiting_late_members(n: int) -> Run:
    """Nodes that are added one by one while as many members of a started group wait for them."""
    first = pods(1, "first", group="g", min_available=1)
    late = pods(n, "late", group="g", min_available=1)
    more = [evolve(node, name=NodeName(f"m{k}")) for k, node in enumerate(nodes(n, cpu=1))]
    return after([*nodes(1, cpu=1), *first, *late], list(map(added, more)), n)


def groups_of_a_bundle(n: int) -> Run:
    """Groups of one bundle whose members arrive one by one, and start together."""
    keys = tuple(GroupKey(f"default/g{g}") for g in range(n))
    specs = [PodGroup(name=f"g{g}", min_available=1, bundle=keys) for g in range(n)]
    given = [make_pod(f"g{g}-0", group=f"g{g}", cpu=1) for g in range(n)]
    return after([*nodes(n // 32 + 1), *specs], list(map(added, given)), n)


def pods_on_a_node(n: int) -> Run:
    """Pods that are bound to one node and leave it, one by one."""
    running = on("n0", pods(n, "r"))
    leave = [PodDeleted(pod.uid) for pod in running]
    return after(nodes(1, cpu=2 * n), [*map(added, running), *leave], 0)


def distinct_shapes(n: int) -> Run:
    """Pods of which no two ask for the same, on a full cluster with 10 nodes."""
    given = [make_pod(f"p{k}", requests={"cpu": f"{1000 + k}m"}) for k in range(n)]
    return after(full(10), list(map(added, given)), 0)


def events_with_distinct_shapes(n: int) -> Run:
    """Pods that end on a full cluster, beside as many pending pods of which no two are alike."""
    given = [make_pod(f"p{k}", requests={"cpu": f"{90_000 + k}m"}) for k in range(n)]
    small = on("n0", pods(n, "r", cpu="1m"))
    shown: list[Shown] = [*nodes(1), *small, *given]
    return after(shown, [PodDeleted(pod.uid) for pod in small], 0)


def refused_members(n: int) -> Run:
    """Members that contradict the first of their group, and leave again."""
    first = make_pod("first", group="g", min_available=2, cpu=1)
    given = pods(n, group="g", min_available=3)
    leave = [PodDeleted(pod.uid) for pod in given]
    return after([*nodes(1), first], [*map(added, given), *leave], 0)


def members_beside_refused_ones(n: int) -> Run:
    """Members that leave a group one by one, beside as many that contradict it."""
    given = pods(n, group="g", min_available=2 * n)
    refused = pods(n, "refused", group="g", min_available=3)
    leave = [PodDeleted(pod.uid) for pod in given[1:]]
    return after([*nodes(1), *given, *refused], leave, 0)


def unlike_members(n: int) -> Run:
    """A gang of which no two members ask for the same, placed in one decision."""
    given = [
        make_pod(f"g-{k}", group="g", min_available=n, requests={"cpu": f"{1000 + k % 997}m"})
        for k in range(n)
    ]
    return after(nodes(n // 16 + 1), list(map(added, given)), n)


def topology_values(n: int) -> Run:
    """Gangs of 4 within one rack of 4 nodes, as many gangs as racks."""
    topology = Topology(RACK)
    specs = [PodGroup(name=f"g{g}", min_available=4, topology=topology) for g in range(n // 4)]
    given = [make_pod(f"g{k // 4}-{k}", group=f"g{k // 4}", cpu=40) for k in range(n // 4 * 4)]
    shown: list[Shown] = [*nodes(n // 4 * 4, racks=n // 4), *specs]
    return after(shown, list(map(added, given)), n // 4 * 4)


def priorities(n: int) -> Run:
    """Pods of which each has a priority of its own."""
    given = [make_pod(f"p{k}", cpu=1, priority=k) for k in range(n)]
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def namespaces(n: int) -> Run:
    """Groups of one in a namespace of their own."""
    given = [
        evolve(
            make_pod(f"p{k}", group="g", min_available=1, cpu=1), namespace=f"ns{k}", uid=f"u{k}"
        )
        for k in range(n)
    ]
    return after(nodes(n // 32 + 1), list(map(added, given)), n)


def what_if(n: int) -> Run:
    """One question about the future of a cluster with so many pending pods."""
    _cluster, scheduler = scheduler_of(*nodes(10, cpu=1), *pods(n))

    def run() -> None:
        scheduler.what_if(NodeAdded(evolve(nodes(1)[0], name=NodeName("another"))))

    return run


ROWS: Final[Mapping[str, tuple[Row, int]]] = {
    "nodes, each with a pod": (equal_nodes, 1),
    "unlike nodes, each with a pod": (unlike_nodes, 1),
    "pending pods that do not fit": (pending_pods, 1),
    "groups of one": (groups_of_one, 1),
    "members of a group, one by one": (members_one_by_one, 1),
    "late members on a full cluster": (late_members, 1),
    "nodes for waiting late members": (waiting_late_members, 1),
    "groups of a bundle": (groups_of_a_bundle, 10),
    "pods on a node": (pods_on_a_node, 1),
    "distinct shapes": (distinct_shapes, 1),
    "events beside distinct shapes": (events_with_distinct_shapes, 1),
    "refused members": (refused_members, 1),
    "members beside refused ones": (members_beside_refused_ones, 1),
    "unlike members of a gang": (unlike_members, 10),
    "values of a topology label": (topology_values, 1),
    "priorities": (priorities, 1),
    "namespaces": (namespaces, 1),
    "pending pods of a what_if": (what_if, 1),
}
"""Each row, with how many times smaller its sizes are."""
