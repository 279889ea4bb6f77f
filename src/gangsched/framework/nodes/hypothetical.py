"""Nodes as they would be if some pods were gone.

Rules:
  R1  it is laid over the nodes for as long as a question takes, and taken off again whatever
      happens: then every node is in the class that it was in, and holds whom it held;
  R2  who is gone twice is gone once;
  R3  where a reservation withholds capacity, it withholds some of what they leave too;
  R4  the capacity of a nominated pod can be taken back as that of a pod can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import NodeInfo, Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.model import PodUID, Resources

__all__ = ["Holder", "Vacancy"]


class Holder(NamedTuple):
    """A pod that holds capacity of a node, or that capacity is reserved for.

    Attributes:
        uid: The pod.
        at: The index of the node.
        requests: What it holds there.
        reserved: The entry of the ledger, for a nominated pod; None for a pod on the node.
    """

    uid: PodUID
    at: int
    requests: Resources
    reserved: ReservedCapacity | None = None

    def is_on(self, info: NodeInfo) -> bool:
        """Return whether it holds capacity of a node. O(1), O(entries) for a nominated pod."""
        if self.reserved is not None:
            return self.reserved in info.nominated
        return self.uid in info.holders


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
            if not holder.is_on(info):
                continue
            given = become.get(index) or classes.of(index)
            become[index] = classes.giving_back(given, holder.requests)
            if holder.reserved is None:
                info.give_back(holder.uid, total)
            else:
                info.withdraw(holder.reserved, total)
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
            info = self._nodes.by_index[index]
            if holder.reserved is None:
                info.take(holder.uid, holder.requests, total)
            else:
                info.nominate(holder.reserved, total)
        self._move(become)

    def close(self) -> None:
        """Let everybody be where he is."""
        nodes = self._nodes
        for index, (info, given) in self._before.items():
            nodes.infos[info.node.name] = nodes.by_index[index] = info
            nodes.classes.move(index, given)
        self._before.clear()
        nodes.restore_total(self._total)

    def original(self, index: int) -> NodeClass:
        """Return the class of a node before any pod was taken off it. O(1)."""
        before = self._before.get(index)
        return self._nodes.classes.of(index) if before is None else before[1]

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
        if nodes.ledger.expecting:
            for index in become:
                nodes.withhold_anew(nodes.by_index[index])
