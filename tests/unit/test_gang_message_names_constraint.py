"""The message of a gang that does not fit names the constraint, in kube-scheduler's words.

A member that fits on no node keeps its gang from starting, however much of anything else is free.
So the gang is told about that member, and not how many of the others fit.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from gangsched import (
    GroupRejected,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
    Taint,
    Topology,
    presets,
)
from gangsched.explain import Shortage

_PREFIX: Final = "pod-group.scheduling.sigs.k8s.io/"
_HOST: Final = "kubernetes.io/hostname"
_GANG: Final = {_PREFIX + "name": "g", _PREFIX + "min-available": "5"}


def _node(name: str, cpu: int = 2, **more: Any) -> Node:
    offers: dict[str, str | int] = {"cpu": cpu, "ephemeral-storage": "10Gi", "pods": 10}
    given: dict[str, Any] = {"labels": {_HOST: name}, **more}
    return Node(name=name, allocatable=offers, **given)


def _pods(count: int, first: int = 0, **more: Any) -> list[Pod]:
    given: dict[str, Any] = {"labels": _GANG, "requests": {"cpu": 1}, **more}
    return [Pod(name=f"p{n}", uid=f"p{n}", **given) for n in range(first, first + count)]


def _told(
    nodes: list[Node], pods: list[Pod], group: PodGroup | None = None
) -> tuple[dict[str, str], str, Any]:
    """Return what each pod and the group is told, and which member the answer of ``why`` names."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for node in nodes:
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    if group is not None:
        scheduler.handle(cluster.apply(PodGroupAdded(group)), now=0.0)
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects: list[Any] = []
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    told = {str(each.uid): each.reason for each in effects if isinstance(each, PodUnschedulable)}
    (rejected,) = [each for each in effects if isinstance(each, GroupRejected)]
    why: Any = scheduler.why("default/g")
    return told, rejected.reason, why.unschedulable_member


_STORAGE: Final = "0/3 nodes are available: 3 Insufficient ephemeral-storage."


@pytest.mark.parametrize("cpus", [1, 2, 9])
@pytest.mark.parametrize("is_first", [True, False])
def test_member_that_fits_nowhere_is_named_whatever_else_is_short(
    cpus: int, is_first: bool
) -> None:
    nodes = [_node(f"n{n}", cpus) for n in range(3)]
    large = _pods(1, 9, requests={"cpu": 1, "ephemeral-storage": "1Ti"})
    others = _pods(4)
    told, reason, member = _told(nodes, large + others if is_first else others + large)
    assert told == dict.fromkeys(("p0", "p1", "p2", "p3", "p9"), _STORAGE)
    assert reason == _STORAGE
    assert member.uid == "p9"
    assert isinstance(member.proof, Shortage)


def test_member_that_fits_nowhere_is_not_named_if_the_gang_does_not_need_it() -> None:
    nodes = [_node("n0", 4)]
    large = _pods(1, 9, requests={"cpu": 1, "ephemeral-storage": "1Ti"})
    _all, reason, _member = _told(nodes, [*_pods(5), *large])
    assert reason == "at most 4 of 5 members fit: cpu is short"


def test_constraint_of_the_remaining_nodes_is_named_beside_the_scarce_resource() -> None:
    # the node without cpu is not named again: that cpu is scarce says it. What is free on the node
    # with the taint is of no use, so cpu is short, and not free in pieces too small
    nodes = [_node("n0"), _node("n1"), _node("none", 0), _node("t", 9, taints=[Taint("a")])]
    _all, reason, _member = _told(nodes, _pods(5))
    assert reason == (
        "at most 4 of 5 members fit: cpu is short; of 4 nodes: 1 node(s) had untolerated taint(s)"
    )


def test_constraint_between_members_is_named_with_counts() -> None:
    apart = PodAffinityTerm(
        topology_key=_HOST, label_selector=LabelSelector({_PREFIX + "name": "g"})
    )
    nodes = [_node(f"n{n}") for n in range(3)]
    _all, reason, _member = _told(nodes, _pods(5, pod_anti_affinity=(apart,)))
    assert reason == (
        "at most 3 of 5 members fit at once: 0/3 nodes are available:"
        " 3 node(s) didn't match pod anti-affinity rules."
    )


def test_member_that_fits_nowhere_is_named_in_a_gang_with_a_topology() -> None:
    nodes = [_node(f"n{n}", 9, labels={"rack": f"r{n}"}) for n in range(3)]
    large = _pods(1, 9, requests={"cpu": 1, "ephemeral-storage": "1Ti"})
    group = PodGroup(name="g", min_available=5, topology=Topology("rack"))
    _all, reason, _member = _told(nodes, [*_pods(4), *large], group)
    assert reason == _STORAGE
