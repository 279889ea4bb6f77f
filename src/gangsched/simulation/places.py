"""Which node each pod holds, and what is left of the nodes.

Rules:
  R1  a pod holds its node from the decision that assigns it, until it has ended or gives it back:
      what is reserved for it is not free;
  R2  what pods of a gone node hold is forgotten with the pods, not with the node: the node may
      come back before they are gone.

Invariant: ``used`` is the sum of what is held, for each node.
"""

from __future__ import annotations

from typing import Protocol, final

from gangsched.model import Node, NodeName, PodUID
from gangsched.resources import Resources

__all__ = ["Places", "Watcher"]


class Watcher(Protocol):
    """What is told of each change of ``Places``."""

    def taken(self, uid: PodUID, node: NodeName, now: float) -> None:
        """A pod holds a node from now on."""
        ...

    def given(self, uid: PodUID, node: NodeName, now: float) -> None:
        """A pod does not hold a node any more."""
        ...

    def changed(self, node: NodeName, now: float) -> None:
        """A node was added or deleted, or is another one; or what its pods hold is."""
        ...


@final
class Places:
    """The nodes of a run, and what pods hold there.

    Attributes:
        nodes: The nodes that are there, by name.
        seen: The nodes that are there, and the last version of those that are gone.
        watchers: What is told of each change.
    """

    def __init__(self) -> None:
        self.nodes: dict[NodeName, Node] = {}
        self.seen: dict[NodeName, Node] = {}
        self.watchers: list[Watcher] = []
        self._held: dict[PodUID, tuple[NodeName, Resources]] = {}
        self._used: dict[NodeName, dict[str, int]] = {}
        self._pods: dict[NodeName, int] = {}

    def pods_on(self, name: NodeName) -> int:
        """Return how many pods hold a node. O(1)."""
        return self._pods.get(name, 0)

    def free_on(self, name: NodeName) -> dict[str, int]:
        """Return what is free on a node, in thousandths; nothing if it takes no pods.

        The number of pods is no resource here. Runtime complexity: O(resources).
        """
        node = self.nodes.get(name)
        if node is None or node.unschedulable:
            return {}
        used = self._used.get(name, {})
        offered = node.allocatable.items()
        return {n: max(all_ - used.get(n, 0), 0) for n, all_ in offered if n != "pods"}

    def put(self, uid: PodUID, node: NodeName, requests: Resources, *, now: float) -> None:
        """Record that a pod holds a node, and how much of it. O(resources)."""
        known = self._held.get(uid)
        if known is not None:
            if known[0] == node and (known[1] is requests or known[1] == requests):
                return
            self.drop(uid, now=now)
        self._held[uid] = node, requests
        self._pods[node] = self._pods.get(node, 0) + 1
        used = self._used.setdefault(node, {})
        for name, amount in requests.items():
            used[name] = used.get(name, 0) + amount
        for watcher in self.watchers:
            watcher.taken(uid, node, now)
            watcher.changed(node, now)

    def resize(self, uid: PodUID, requests: Resources, *, now: float) -> None:
        """Record what a pod requests now, if it holds a node. O(resources)."""
        known = self._held.get(uid)
        if known is not None:
            self.put(uid, known[0], requests, now=now)

    def drop(self, uid: PodUID, *, now: float) -> None:
        """Record that a pod holds no node. O(resources)."""
        known = self._held.pop(uid, None)
        if known is None:
            return
        node, requests = known
        self._pods[node] -= 1
        if self._pods[node]:
            used = self._used[node]
            for name, amount in requests.items():
                used[name] -= amount
        else:
            del self._pods[node], self._used[node]
        for watcher in self.watchers:
            watcher.given(uid, node, now)
            watcher.changed(node, now)

    def set_node(self, name: NodeName, node: Node | None, *, now: float) -> None:
        """Record a node as it is now; None if it is gone."""
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = self.seen[name] = node
        for watcher in self.watchers:
            watcher.changed(name, now)
