"""Nodes with what is free on them: the cluster state, and assumed pods laid over it.

Invariants (checked by ``_check``):
  I1  what is free on a node is what it offers, less what the pods ask for that are assigned to it
      or assumed on it; a pod that is both counts once;
  I2  ``changed`` lists nodes in the order of their last change, so that a reader who remembers a
      version finds what changed since then without looking at the rest.
"""

from __future__ import annotations

from typing import final

from gangsched._core._capacity import total_free
from gangsched.errors import ClusterStateError, InternalError
from gangsched.model import Node, NodeName, Pod, PodUID, Resources
from gangsched.protocols import ClusterState

__all__ = ["NodeInfo", "Nodes"]


@final
class NodeInfo:
    """One node; see ``gangsched.protocols.NodeView``."""

    __slots__ = ("free", "holders", "index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self.free: dict[str, int] = dict(node.allocatable)
        self.holders: dict[PodUID, Resources] = {}

    @property
    def pod_count(self) -> int:
        """How many pods hold the node."""
        return len(self.holders)

    def take(self, uid: PodUID, requests: Resources) -> None:
        """Let a pod hold the node, once. O(resources)."""
        if uid in self.holders:
            self.give_back(uid)
        self.holders[uid] = requests
        free = self.free
        for name, amount in requests.items():
            free[name] = free.get(name, 0) - amount

    def give_back(self, uid: PodUID) -> None:
        """Let a pod hold the node no more. O(resources)."""
        free = self.free
        for name, amount in self.holders.pop(uid).items():
            free[name] += amount


@final
class Nodes:
    """Every node, by name, as a scheduler sees them.

    Attributes:
        infos: The nodes.
        assumed: Which node each assumed pod holds.
        changed: Node name to the version of its last change, oldest first.
        version: Ascends with each change.
    """

    __slots__ = (
        "_cluster",
        "_indices",
        "_looked",
        "_total",
        "_total_at",
        "assumed",
        "by_index",
        "changed",
        "infos",
        "version",
    )

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._indices = 0
        self.infos: dict[NodeName, NodeInfo] = {}
        self.by_index: dict[int, NodeInfo] = {}
        self.assumed: dict[PodUID, tuple[NodeName, Pod]] = {}
        self.changed: dict[NodeName, int] = {}
        self.version = 0
        self._looked: dict[NodeName, tuple[Node | None, list[Pod]]] = {}
        self._total: dict[str, int] = {}
        self._total_at = 0

    def total(self) -> dict[str, int]:
        """Return what the nodes have free together; an overcommitted one has nothing.

        Runtime complexity: O(nodes x resources) when a node has changed since, else O(1).
        """
        if self._total_at != self.version:
            self._total = total_free(info.free for info in self.infos.values())
            self._total_at = self.version
        return self._total

    def look(self, name: NodeName) -> None:
        """Ask the cluster state about a node, so that ``refresh`` need not. O(pods on the node).

        Raises:
            ClusterStateError: The cluster state shows a pod on a node that it does not say so of.
        """
        if name not in self._looked:
            self._looked[name] = self._ask(name)

    def forget_looks(self) -> None:
        """Forget what was asked and not used."""
        self._looked.clear()

    def _ask(self, name: NodeName) -> tuple[Node | None, list[Pod]]:
        node = self._cluster.node(name)
        on_it = [] if node is None else list(self._cluster.pods_on(name))
        for pod in on_it:
            if pod.node_name != name:
                raise ClusterStateError(pod.key, f"is shown on {name}, is on {pod.node_name}")
        return node, on_it

    def refresh(self, name: NodeName) -> bool:
        """Read a node anew from the cluster state; say whether it may take more than before.

        Runtime complexity: O(pods on the node).

        Raises:
            ClusterStateError: See ``look``.
        """
        node, on_it = self._looked.get(name) or self._ask(name)
        before = self.infos.get(name)
        if node is None:
            if before is not None:
                del self.infos[name], self.by_index[before.index]
                self._touch(name)
            return False
        if before is None:
            self._indices += 1
        info = NodeInfo(node, self._indices if before is None else before.index)
        for pod in on_it:
            info.take(pod.uid, pod.requests)
        # who is assumed here held the node before, unless the node was away meanwhile
        for uid in self.assumed if before is None else before.holders:
            where, assumed = self.assumed.get(uid, (None, None))
            if where == name and assumed is not None and uid not in info.holders:
                info.take(uid, assumed.requests)
        self.infos[name] = self.by_index[info.index] = info
        if before is not None and before.node == node and before.holders == info.holders:
            return False
        self._touch(name)
        return (
            before is None
            or before.node != node
            or len(before.holders) > len(info.holders)
            or any(amount > before.free.get(n, 0) for n, amount in info.free.items())
        )

    def assume(self, pod: Pod, name: NodeName) -> None:
        """Let a pod hold a node that it is not assigned to yet. O(resources)."""
        self.assumed[pod.uid] = (name, pod)
        self.infos[name].take(pod.uid, pod.requests)
        self._touch(name)

    def confirm(self, uid: PodUID) -> None:
        """Take an assumed pod as assigned: the cluster state shows it from now on. O(1)."""
        self.assumed.pop(uid, None)

    def forget(self, uid: PodUID) -> NodeName:
        """Let an assumed pod hold its node no more; return the node. O(resources).

        One that is assigned there holds it all the same, told or not.
        """
        name, _pod = self.assumed.pop(uid)
        info = self.infos.get(name)
        shown = self._cluster.pod(uid)
        if shown is not None and shown.node_name == name and not shown.is_finished:
            return name
        if info is not None:
            info.give_back(uid)
            self._touch(name)
        return name

    def _touch(self, name: NodeName) -> None:
        self.version += 1
        self.changed.pop(name, None)
        if name in self.infos:
            self.changed[name] = self.version

    def _check(self) -> None:
        for uid, (name, _pod) in self.assumed.items():
            if name in self.infos and uid not in self.infos[name].holders:
                raise InternalError(f"{uid} is assumed on {name}, and does not hold it")
        for name, info in self.infos.items():
            free = dict(info.node.allocatable)
            for requests in info.holders.values():
                for resource, amount in requests.items():
                    free[resource] = free.get(resource, 0) - amount
            for resource in free.keys() | info.free.keys():
                if free.get(resource, 0) != info.free.get(resource, 0):
                    raise InternalError(f"{name}: {resource} is miscounted")
        versions = list(self.changed.values())
        if versions != sorted(versions) or self.changed.keys() != self.infos.keys():
            raise InternalError("the list of changed nodes is out of order")
