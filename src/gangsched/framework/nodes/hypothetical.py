"""Nodes as they would be if some pods were gone.

Rules:
  R1  it is laid over the nodes for as long as a question takes, and taken off again whatever
      happens: then every node is in the class that it was in, and holds whom it held;
  R2  who is gone twice is gone once;
  R3  what is kept for a gang that is to start later is kept of what they leave too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import NodeInfo, Nodes
from gangsched.model import PodUID, Resources

__all__ = ["Holder", "Vacancy"]


class Holder(NamedTuple):
    """A pod, or a stand-in, that holds a node: the index of the node, and what it takes there."""

    uid: PodUID
    at: int
    requests: Resources


@final
class Vacancy:
    """Lets pods be gone from their nodes for a while.

    Runtime complexity: O(log nodes) for each node, and O(resources) for each pod.
    """

    __slots__ = ("_before", "_nodes", "_total")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._before: dict[int, tuple[NodeInfo, NodeClass]] = {}
        self._total = nodes.total().copy()

    def vacate(self, holders: Iterable[Holder]) -> list[Holder]:
        """Let pods be gone; return those who were not gone already."""
        fresh: list[Holder] = []
        become: dict[int, NodeClass] = {}
        classes, total = self._nodes.classes, self._nodes.total()
        for holder in holders:
            index = holder.at
            info = self._info(index)
            if holder.uid not in info.holders:
                continue
            given = become.get(index) or classes.of(index)
            become[index] = classes.giving_back(given, holder.requests)
            info.give_back(holder.uid, total)
            fresh.append(holder)
        self._move(become)
        return fresh

    def take_back(self, holders: Sequence[Holder]) -> None:
        """Let pods be there again that were gone."""
        become: dict[int, NodeClass] = {}
        classes, total = self._nodes.classes, self._nodes.total()
        for holder in holders:
            index = holder.at
            given = become.get(index) or classes.of(index)
            become[index] = classes.taking(given, holder.requests)
            self._nodes.by_index[index].take(holder.uid, holder.requests, total)
        self._move(become)

    def close(self) -> None:
        """Let everybody be where he is."""
        nodes = self._nodes
        for index, (info, given) in self._before.items():
            nodes.infos[info.node.name] = nodes.by_index[index] = info
            nodes.classes.move(index, given)
        self._before.clear()
        nodes.restore_total(self._total)

    def _info(self, index: int) -> NodeInfo:
        nodes = self._nodes
        info = nodes.by_index[index]
        if index not in self._before:
            self._before[index] = (info, nodes.classes.of(index))
            info = info.copy()
            nodes.infos[info.node.name] = nodes.by_index[index] = info
        return info

    def _move(self, become: dict[int, NodeClass]) -> None:
        nodes = self._nodes
        for index, given in become.items():
            nodes.classes.move(index, given)
            if nodes.needs:
                nodes.keep_anew(nodes.by_index[index].node.name)
