"""A gang is packed on the fewest nodes, whether its plugins tell which pods are alike or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PlacementStrategy,
    Pod,
    PodAdded,
    Success,
    presets,
)
from gangsched.outcomes import SUCCESS
from gangsched.testing import make_pod


class AcceptsAll:
    """A filter that does not tell what it reads of a pod."""

    name = "AcceptsAll"

    def filter(self, _state: object, _pod: Pod, _node: object) -> Success:
        return SUCCESS


class AcceptsAllBeside(AcceptsAll):
    """The same, declared as a reader of the pods on a node."""

    def reads_pods(self, _pod: Pod) -> bool:
        return True


def nodes_used(sizes: Mapping[str, int], members: int, *plugins: object, cpu: int = 1) -> list[str]:
    """Return the node of each member of a gang, sorted."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, placement=PlacementStrategy.PACK, plugins=plugins)
    events: list[Any] = [
        NodeAdded(Node(name=NodeName(name), allocatable={"cpu": size}))
        for name, size in sizes.items()
    ]
    events += [
        PodAdded(make_pod(f"g-{n}", group="g", min_available=members, cpu=cpu))
        for n in range(members)
    ]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    found: list[str] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        found += [effect.node for effect in effects if isinstance(effect, Bind)]
    return sorted(found)


@pytest.mark.parametrize("plugin", [AcceptsAll, AcceptsAllBeside])
@pytest.mark.parametrize(
    ("sizes", "members"),
    [
        ({"x": 2, "y": 2, "z": 4}, 4),  # one large node takes all
        ({"x": 2, "y": 2, "z": 8, "w": 4}, 4),  # the smallest that takes all
        ({"x": 2, "y": 1, "z": 4}, 6),  # the largest, then the smallest that takes the rest
        ({"x": 1, "y": 2, "z": 4}, 5),
    ],
)
def test_gang_is_packed_alike_with_and_without_signatures(
    plugin: type[AcceptsAll], sizes: dict[str, int], members: int
) -> None:
    assert nodes_used(sizes, members, plugin()) == nodes_used(sizes, members)


def test_members_with_other_requests_are_no_reason_for_a_larger_node() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, placement=PlacementStrategy.PACK, plugins=(AcceptsAll(),))
    for name, size in {"small": 1, "large": 4}.items():
        node = Node(name=NodeName(name), allocatable={"cpu": size, "memory": size})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for name, resource in {"g-0": "cpu", "g-1": "memory"}.items():
        pod = make_pod(name, group="g", min_available=2, requests={resource: 1})
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert {effect.node for effect in effects if isinstance(effect, Bind)} == {"small"}
