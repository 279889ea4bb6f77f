"""NodesView: nodes with a few pods added or removed, for one decision.

Theory of operation. A decision often needs the nodes after a few changes: with the members of a
gang that are planned so far, or without the pods that preemption would evict. All questions about
nodes go to one table and its classes. So the view is laid over that table in place, as Volcano's
``Statement`` is laid over its session. A node is copied before its first change, and the table
shows the copy. From then on every reader of the table, plugins included, sees the changed node.
``discard`` puts the originals back.

Views nest: the inner one copies what the outer one has changed, and is discarded first.

Rules (I1 and I2 are checked by ``_check``):
  I1  while it is open, each node has the class, the free capacity and the pods that follow from the
      pods on it;
  I2  no original node is in the table once the view has changed it;
  R1  the view is discarded however the decision ends; then each node has the free capacity, the
      pods and the class that it had before;
  R2  no pod is assumed by it: ``Nodes.assumed`` does not change;
  R3  the capacity that is reserved on a node is computed anew after each change, so it is also
      reserved of what a removed pod leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

from gangsched.constraints.matchers import CarriedTerm
from gangsched.errors import InternalError
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.model import Pod, PodUID, Resources

__all__ = ["Holder", "NodesView"]


class Holder(NamedTuple):
    """A pod that holds capacity of a node, or for which capacity is reserved there.

    Attributes:
        uid: Its UID.
        at: The index of the node.
        requests: What it requests.
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
class NodesView:
    """Changes to nodes that are made for one decision and taken back.

    Runtime complexity: O(log nodes) for each node that changes, O(resources) for each pod, and
    O(pods on the node) for the first change of a node.
    """

    __slots__ = ("_before", "_counted", "_nodes", "_pods", "_total")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._before: dict[int, tuple[NodeInfo, NodeClass]] = {}
        self._pods: dict[PodUID, Pod] = {}
        # what was counted (1) or not counted any more (-1), so that discard can undo it
        self._counted: list[tuple[Pod, int, int]] = []
        self._total = nodes.total().copy()

    def assume(
        self,
        pod: Pod,
        requests: Resources,
        index: int,
        terms: tuple[CarriedTerm, ...] | None = None,
    ) -> None:
        """Put a pod, which holds no node, on the node with this index.

        Args:
            pod: The pod.
            requests: Its requests.
            index: The index of the node.
            terms: The terms that it carries, if they are known; see ``PodCounts.put``.
        """
        classes = self._nodes.classes
        info = self._changed(index)
        given = classes.taking(classes.of(index), requests)
        info.take(pod.uid, requests, self._nodes.total())
        info.show(pod)
        self._count(pod, index, 1, terms)
        self._move({index: given})

    def unassume(self, pod: Pod, requests: Resources, index: int) -> None:
        """Undo ``assume``."""
        classes = self._nodes.classes
        info = self._changed(index)
        given = classes.giving_back(classes.of(index), requests)
        info.give_back(pod.uid, self._nodes.total())
        self._count(pod, index, -1)
        self._move({index: given})

    def remove(self, holders: Iterable[Holder]) -> list[Holder]:
        """Take pods, or reserved capacity, off their nodes; return those that were still there."""
        removed: list[Holder] = []
        become: dict[int, NodeClass] = {}
        classes, total = self._nodes.classes, self._nodes.total()
        for holder in holders:
            uid, index, requests, reserved = holder
            info = self._changed(index)
            if reserved is not None:
                if reserved not in info.nominated:
                    continue
                info.withdraw(reserved, total)
            elif uid in info.holders:
                pod = self._pods[uid] = info.pods_by_uid[uid]
                self._count(pod, index, -1)
                info.give_back(uid, total)
            else:
                continue
            given = become.get(index) or classes.of(index)
            become[index] = classes.giving_back(given, requests)
            removed.append(holder)
        self._move(become)
        return removed

    def mark_ready(self, holders: Sequence[Holder]) -> None:
        """Put pods that were removed back on their nodes."""
        become: dict[int, NodeClass] = {}
        classes, total = self._nodes.classes, self._nodes.total()
        for uid, index, requests, reserved in holders:
            given = become.get(index) or classes.of(index)
            become[index] = classes.taking(given, requests)
            info = self._nodes.by_index[index]
            if reserved is not None:
                info.nominate(reserved, total)
                continue
            info.take(uid, requests, total)
            info.show(self._pods[uid])
            self._count(self._pods[uid], index, 1)
        self._move(become)

    def discard(self) -> None:
        """Restore the original nodes."""
        nodes = self._nodes
        while self._counted:
            pod, index, change = self._counted.pop()
            (nodes.counts.take if change > 0 else nodes.counts.put)(pod, index)
        for index, (info, given) in self._before.items():
            nodes.infos[info.node.name] = nodes.by_index[index] = info
            nodes.classes.move(index, given)
        self._before.clear()
        self._pods.clear()
        nodes.restore_total(self._total)

    def original(self, index: int) -> NodeClass:
        """Return the class that a node had before its first change. O(1)."""
        before = self._before.get(index)
        return self._nodes.classes.of(index) if before is None else before[1]

    def _count(
        self,
        pod: Pod,
        index: int,
        change: int,
        terms: tuple[CarriedTerm, ...] | None = None,
    ) -> None:
        counts, counted = self._nodes.counts, self._counted
        # also while nothing is counted: a plugin may ask for the first count later in the decision
        last = counted[-1] if counted else None
        if last is not None and last[0] is pod and last[1] == index and last[2] == -change:
            counted.pop()
        else:
            counted.append((pod, index, change))
        if change > 0:
            counts.put(pod, index, terms)
        else:
            counts.take(pod, index)

    def _changed(self, index: int) -> NodeInfo:
        """Return a node that may be changed: a copy, made before its first change."""
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

    def _check(self) -> None:
        self._nodes._check_nodes()
        for index, (info, _given) in self._before.items():
            if self._nodes.by_index[index] is info or self._nodes.infos[info.node.name] is info:
                raise InternalError(f"{info.node.name} was changed in place")
