"""A term that a member carries is honoured for siblings of a kind that was asked about before."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from gangsched import (
    GroupRejected,
    HostPort,
    LabelSelector,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    presets,
)
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("siblings are placed together with the unit group only")

_HOST = "kubernetes.io/hostname"
_APART = PodAffinityTerm(topology_key=_HOST, label_selector=LabelSelector({"app": "x"}))


def members() -> list[Pod]:
    """Return two members with one port, and one that keeps away from both."""
    each: dict[str, Any] = {"labels": {"app": "x"}, "pod_group": "g", "min_available": 3}
    return [
        Pod(name="port-0", host_ports=[HostPort(80)], **each),
        Pod(name="apart", pod_anti_affinity=[_APART], **each),
        Pod(name="port-1", host_ports=[HostPort(80)], **each),
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("nodes", [2, 3])
def test_member_with_anti_affinity_shares_no_node_with_later_siblings(
    nodes: int, order: tuple[int, ...]
) -> None:
    """No label that tells classes of nodes apart is read for the siblings before it is placed."""
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster)
    for n in range(nodes):
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": 9}, labels={_HOST: f"n{n}"})))
    every = members()
    for n in order:
        host.tell(PodAdded(every[n]))
    host.decide()
    used = {pod.node_name for pod in host.cluster.pods()}
    assert used == ({"n0", "n1", "n2"} if nodes == 3 else {None})
    assert any(isinstance(effect, GroupRejected) for effect in host.effects) is (nodes == 2)
