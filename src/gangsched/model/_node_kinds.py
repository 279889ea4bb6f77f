"""The kinds of nodes in a cluster: what an autoscaler would add one more of.

Rules:
  R1  nodes are of one kind if they differ only in name, host name, and in being cordoned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from attrs import evolve

from gangsched.model import FrozenMap, Node, NodeName

__all__ = ["kinds_of_nodes", "one_more"]

_HOSTNAME: Final = "kubernetes.io/hostname"


def one_more(node: Node, name: str) -> Node:
    """Return a node like another one, with a name and without a host name."""
    labels = {key: value for key, value in node.labels.items() if key != _HOSTNAME}
    return evolve(node, name=NodeName(name), labels=FrozenMap(labels), unschedulable=False)


def kinds_of_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Return one more node of each kind, the most frequent kind first. O(nodes)."""
    kinds: Counter[Node] = Counter()
    first: dict[Node, NodeName] = {}
    for node in nodes:
        kind = one_more(node, "node")
        first.setdefault(kind, node.name)
        kinds[kind] += 1
    return [evolve(kind, name=NodeName(f"{first[kind]}-more")) for kind, _n in kinds.most_common()]
