"""NodeClass: nodes that no plugin can tell apart, as they are now.

Plugins say what they read of a node, and nodes of which they read the same are one class. So a
pod is judged against classes, of which there are few, and not against nodes. A node that takes a
pod, or gives one back, moves to another class; which one is remembered, and not computed again.

Invariants (checked by ``_check``):
  I1  each node is in exactly one class, and nodes in one class have equal signatures;
  I2  ``after`` and ``before`` say what a node of a class becomes by taking or giving back what a
      pod asks for; they agree with what it would be classified as;
  I3  the moves since a version, applied to what was so then, give what is so now;
  I4  classes that no node is in are forgotten before they outnumber the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, final

from sortedcontainers import SortedList

from gangsched.errors import InternalError
from gangsched.model import Node, Pod, Resources
from gangsched.protocols import NodeView

__all__ = ["BOUNDLESS", "LabelsRead", "Move", "NodeClass", "NodeClasses", "Sign", "Snapshot"]

_SPARE = 256
_IDLE_LABELS = 8
BOUNDLESS: Final = 1 << 60
"""More of a resource than anybody asks."""


@final
class LabelsRead:
    """The keys of the labels that tell nodes apart, counted by who reads them.

    Attributes:
        keys: The keys, in order. A few that nobody reads any more are kept, since to drop one is
            to classify every node anew.
    """

    __slots__ = ("_readers", "keys")

    def __init__(self) -> None:
        self._readers: dict[str, int] = {}
        self.keys: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many keys somebody reads."""
        return sum(count > 0 for count in self._readers.values())

    def add(self, keys: Iterable[str]) -> bool:
        """Count one more reader of *keys*; say whether nodes are to be classified anew."""
        before = len(self._readers)
        for key in keys:
            self._readers[key] = self._readers.get(key, 0) + 1
        if len(self._readers) == before:
            return False
        self.keys = tuple(sorted(self._readers))
        return True

    def discard(self, keys: Iterable[str]) -> bool:
        """Count one reader of *keys* less; say whether nodes are to be classified anew."""
        for key in keys:
            self._readers[key] -= 1
        idle = sum(not count for count in self._readers.values())
        if idle <= max(_IDLE_LABELS, len(self._readers) - idle):
            return False
        self._readers = {key: count for key, count in self._readers.items() if count}
        self.keys = tuple(sorted(self._readers))
        return True


@final
class Snapshot:
    """A node as it is, or as it would be; see ``gangsched.protocols.NodeView``."""

    __slots__ = ("free", "node", "pod_count")

    def __init__(self, node: Node, free: Mapping[str, int], pod_count: int) -> None:
        self.node: Node = node
        self.free: Mapping[str, int] = free
        self.pod_count: int = pod_count

    @property
    def pods(self) -> Collection[Pod]:
        """Refuse: nodes of one class have different pods, so an answer must not depend on them."""
        raise LookupError("node.pods is shown only for pods of which reads_pods(pod) is true")


@final
class NodeClass:
    """Nodes of which every plugin reads the same.

    Attributes:
        key: What plugins read, each in its turn, and last the labels; None for a node that stands
            alone, since one does not say.
        number: Ascends in the order in which classes were made.
        sample: One of the nodes, as they all are.
        nodes: The indices of the nodes, the first to come first.
        after: What a node becomes by taking a pod, by what the pod asks for.
        before: What it becomes by giving one back.
        endless: What it would be with more of a resource than anybody asks, by resource.
    """

    __slots__ = ("after", "before", "endless", "key", "nodes", "number", "sample")

    def __init__(self, key: tuple[Hashable, ...] | None, number: int, sample: Snapshot) -> None:
        self.key: tuple[Hashable, ...] | None = key
        self.number: int = number
        self.sample: Snapshot = sample
        self.nodes: Any = SortedList()
        self.after: dict[Resources, NodeClass] = {}
        self.before: dict[Resources, NodeClass] = {}
        self.endless: dict[str, NodeClass] = {}

    def forget_others(self) -> None:
        """Forget what the nodes would become."""
        self.after.clear()
        self.before.clear()
        self.endless.clear()


Sign: TypeAlias = Callable[[NodeView], tuple[Hashable, ...] | None]
"""What says what plugins read of a node; see ``NodeClass.key``."""

Move: TypeAlias = tuple[NodeClass | None, NodeClass | None]
"""A node that went from one class to another; None for a node that came or went."""


@final
class NodeClasses:
    """Every class that a node is in, and the moves between them.

    Attributes:
        version: How many moves there have been.
        epoch: How often classes without nodes were forgotten.
    """

    __slots__ = (
        "_base",
        "_known",
        "_made",
        "_moves",
        "_numbers",
        "_occupied",
        "_of",
        "_sign",
        "epoch",
    )

    def __init__(self, sign: Sign | None = None) -> None:
        self._sign = sign
        self._of: dict[int, NodeClass] = {}
        self._known: dict[Hashable, NodeClass] = {}
        self._occupied: dict[NodeClass, None] = {}
        self._moves: list[Move] = []
        self._base = 0
        self._made = 0
        self._numbers = 0
        self.epoch: int = 0

    @property
    def version(self) -> int:
        """How many moves there have been."""
        return self._base + len(self._moves)

    def of(self, index: int) -> NodeClass:
        """Return the class of a node. O(1)."""
        return self._of[index]

    def occupied(self) -> Iterator[NodeClass]:
        """Iterate over the classes that a node is in. O(classes)."""
        return iter(self._occupied)

    def since(self, version: int) -> list[Move] | None:
        """Return the moves since a version; None when they are not remembered any more."""
        return None if version < self._base else self._moves[version - self._base :]

    def put(self, index: int, view: NodeView) -> None:
        """Classify a node anew, as one that came or changed. O(plugins + log nodes)."""
        old = self._of.get(index)
        snapshot = Snapshot(view.node, dict(view.free), view.pod_count)
        self._move(index, old, self._classify(snapshot))

    def remove(self, index: int) -> None:
        """Take a node as gone. O(log nodes)."""
        self._move(index, self._of[index], None)

    def take(self, index: int, requests: Resources) -> None:
        """Let a node take what a pod asks for. O(log nodes)."""
        old = self._of[index]
        self._move(index, old, self.taking(old, requests))

    def move(self, index: int, to: NodeClass) -> None:
        """Put a node into a class that it is known to be of now. O(log nodes)."""
        self._move(index, self._of[index], to)

    def give_back(self, index: int, requests: Resources) -> None:
        """Let a node give back what a pod asked for. O(log nodes)."""
        old = self._of[index]
        self._move(index, old, self.giving_back(old, requests))

    def taking(self, given: NodeClass, requests: Resources) -> NodeClass:
        """Return what a node becomes by taking a pod. O(1), O(plugins) for the first time."""
        new = given.after.get(requests)
        if new is None:
            new = self._step(given, requests, 1)
            given.after[requests] = new
            new.before.setdefault(requests, given)
        return new

    def giving_back(self, given: NodeClass, requests: Resources) -> NodeClass:
        """Return what a node becomes by giving one back. O(1), O(plugins) for the first time."""
        new = given.before.get(requests)
        if new is None:
            new = self._step(given, requests, -1)
            given.before[requests] = new
            new.after.setdefault(requests, given)
        return new

    def boundless(self, given: NodeClass, resource: str) -> NodeClass:
        """Return what a node would be with more of a resource than anybody asks.

        O(1), O(plugins) for the first time.
        """
        found = given.endless.get(resource)
        if found is None:
            sample = given.sample
            free = {**sample.free, resource: BOUNDLESS}
            found = self._classify(Snapshot(sample.node, free, sample.pod_count))
            given.endless[resource] = found.endless[resource] = found
        return found

    def classify_anew(self, views: Mapping[int, NodeView]) -> None:
        """Classify every node anew, as plugins have come to read more of them. O(nodes)."""
        self._forget_empty()
        for index, view in views.items():
            self.put(index, view)

    def forget_unused(self) -> None:
        """Forget the classes that no node is in, once they are too many. O(1) amortised."""
        if self._made > 2 * len(self._of) + _SPARE:
            self._forget_empty()

    def _step(self, given: NodeClass, requests: Resources, sign: int) -> NodeClass:
        sample = given.sample
        free = dict(sample.free)
        for name, amount in requests.items():
            free[name] = free.get(name, 0) - sign * amount
        return self._classify(Snapshot(sample.node, free, sample.pod_count + sign))

    def _classify(self, sample: Snapshot) -> NodeClass:
        key = None if self._sign is None else self._sign(sample)
        found = None if key is None else self._known.get(key)
        if found is None:
            self._numbers += 1
            self._made += 1
            found = NodeClass(key, self._numbers, sample)
            if key is not None:
                self._known[key] = found
        return found

    def _move(self, index: int, old: NodeClass | None, new: NodeClass | None) -> None:
        if old is new:
            return
        if old is not None:
            old.nodes.remove(index)
            if not old.nodes:
                del self._occupied[old]
        if new is None:
            del self._of[index]
        else:
            new.nodes.add(index)
            self._occupied[new] = None
            self._of[index] = new
        self._moves.append((old, new))
        if len(self._moves) > 2 * len(self._of) + _SPARE:
            half = len(self._moves) // 2
            del self._moves[:half]
            self._base += half

    def _forget_empty(self) -> None:
        self._known = {key: found for key, found in self._known.items() if found.nodes}
        for found in self.occupied():
            found.forget_others()
        self._made = len(self._occupied)
        self.epoch += 1

    def _check(self, views: Mapping[int, NodeView]) -> None:
        if views.keys() != self._of.keys():
            raise InternalError("the nodes and the nodes in classes differ")
        for index, view in views.items():
            found = self._of[index]
            if index not in found.nodes:
                raise InternalError(f"class {found.number} does not have its node {index}")
            if found.key is not None and self._known.get(found.key) is not found:
                raise InternalError(f"class {found.number} is not known by its key")
            if found.key is not None and self._sign is not None:
                now = self._sign(Snapshot(view.node, dict(view.free), view.pod_count))
                if now != found.key:
                    raise InternalError(f"node {index} is not what its class is")
        if sum(len(found.nodes) for found in self.occupied()) != len(self._of):
            raise InternalError("a class has a node that is not in it")
        if self._occupied.keys() != set(self._of.values()):
            raise InternalError("the classes that a node is in are miscounted")
