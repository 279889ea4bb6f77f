"""NodeClasses: all classes of nodes, and the log of moves between them.

Theory of operation. Each plugin declares what it reads of a node (``node_signature`` and
``labels_read``). Nodes with equal signatures are one class: no plugin can tell them apart. A pod is
evaluated against classes, of which there are few, and not against nodes.

When a node takes or releases a pod, it moves to another class. A class remembers the class that
its nodes move to, by the requests of the pod, so that plugins are asked once for each transition.

Every move is appended to a log with a version. A pod class reads the moves since the version that
it has seen, and so updates its counts without looking at all nodes.

Invariants (``_check`` checks I1):
  I1  each node is in exactly one class, and nodes in one class have equal signatures;
  I2  ``after`` and ``before`` lead to the class whose signature the node has after it has taken or
      released a pod with these requests;
  I3  the moves since a version, applied to the classes of that version, give the current classes.

Rules:
  R1  ``forget_unused`` drops the empty classes when more than ``2 * nodes + 256`` classes were made
      since they were last dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.framework.nodes import in_order
from gangsched.framework.nodes.node_class import (
    NodeClass,
    NodeKind,
    NodeShape,
    Snapshot,
    Transition,
    scarce_in,
)
from gangsched.model import Resources
from gangsched.protocols import NodeView
from gangsched.resources import NOTHING, shifted

__all__ = ["BOUNDLESS", "Move", "NodeClasses", "Sign", "SignAfter"]

_SPARE = 256
_NONE: Final = NOTHING.defaulted
BOUNDLESS: Final = 1 << 60
"""More of a resource than any pod requests."""


Sign: TypeAlias = Callable[[NodeView], tuple[Hashable, ...] | None]
"""Returns the signature of a node; see ``NodeClass.key``."""

SignAfter: TypeAlias = Callable[[NodeView, tuple[Hashable, ...]], "tuple[Hashable, ...] | None"]
"""Returns the signature of a node that has taken or released a pod, from its signature before."""

Move: TypeAlias = tuple[NodeClass | None, NodeClass | None]
"""The class that a node left and the one it joined; None if the node was added or deleted."""


@final
class NodeClasses:
    """All classes of nodes, and the log of moves between them.

    Args:
        sign: Signs a node; None if each node is a class of its own.
        sign_after: Signs a node after a pod; None to ask *sign* again.
        changing: The positions of the parts of a signature that pods change; None if any may.
        signs_allocatable: Whether each of these parts differs if nodes offer different amounts.

    Attributes:
        version: The number of moves so far.
        epoch: How many times empty classes were dropped.
    """

    __slots__ = (
        "_asked",
        "_base",
        "_changes",
        "_changing",
        "_is_scarce",
        "_kinds",
        "_known",
        "_made",
        "_moves",
        "_numbers",
        "_occupied",
        "_of",
        "_shapes",
        "_sign",
        "_sign_after",
        "_signs_allocatable",
        "epoch",
    )

    def __init__(
        self,
        sign: Sign | None = None,
        sign_after: SignAfter | None = None,
        changing: tuple[int, ...] | None = None,
        *,
        signs_allocatable: bool = False,
    ) -> None:
        self._sign = sign
        self._sign_after = sign_after
        self._changing = changing
        self._signs_allocatable = signs_allocatable
        self._kinds: dict[Hashable, NodeKind] = {}
        self._shapes: dict[tuple[NodeKind, Resources], NodeShape] = {}
        self._of: dict[int, NodeClass] = {}
        self._known: dict[Hashable, NodeClass] = {}
        self._occupied: dict[NodeClass, None] = {}
        self._moves: list[Move] = []
        self._base = 0
        self._made = 0
        self._numbers = 0
        self.epoch: int = 0
        # the requests of the last pod and the sign of the change, what changes of each resource,
        # and whether one of them is an extended resource
        self._asked: tuple[Resources | None, int] = (None, 0)
        self._changes: tuple[tuple[str, int], ...] = ()
        self._is_scarce = False

    @property
    def version(self) -> int:
        """The number of moves so far."""
        return self._base + len(self._moves)

    @property
    def count(self) -> int:
        """The number of classes with nodes."""
        return len(self._occupied)

    def of(self, index: int) -> NodeClass:
        """Return the class of a node. O(1)."""
        return self._of[index]

    def occupied(self) -> Iterator[NodeClass]:
        """Iterate over the classes with nodes. O(classes)."""
        return iter(self._occupied)

    def since(self, version: int) -> list[Move] | None:
        """Return the moves since a version; None if the log does not reach back so far."""
        return None if version < self._base else self._moves[version - self._base :]

    def put(self, index: int, view: NodeView) -> NodeClass:
        """Classify a node that was added or has changed; return its class.

        Runtime complexity: O(plugins + log nodes).
        """
        old = self._of.get(index)
        new = self._classify(_frozen(view))
        self._move(index, old, new)
        return new

    def remove(self, index: int) -> None:
        """Remove a node. O(log nodes)."""
        self._move(index, self._of[index], None)

    def take(self, index: int, requests: Resources) -> None:
        """Move a node to its class after it has taken a pod. O(log nodes)."""
        old = self._of[index]
        self._move(index, old, self.taking(old, requests))

    def move(self, index: int, to: NodeClass) -> None:
        """Move a node to a class that the caller knows to be right. O(log nodes)."""
        self._move(index, self._of[index], to)

    def move_together(self, become: Iterable[tuple[int, NodeClass]]) -> None:
        """Move nodes as ``move`` does. O(log nodes) for each."""
        of, occupied, moves = self._of, self._occupied, self._moves
        for index, new in become:
            old = of[index]
            nodes = old.nodes
            if old.shape is new.shape and len(nodes) == 1 and not new.nodes and old is not new:
                # where no two nodes are alike, this is each move
                old.nodes, new.nodes = new.nodes, nodes
                del occupied[old]
                occupied[new] = None
                of[index] = new
                moves.append((old, new))
            else:
                self._move(index, old, new)
        if len(moves) > 2 * len(of) + _SPARE:
            self._trim()

    def give_back(self, index: int, requests: Resources) -> None:
        """Move a node to its class after it has released a pod. O(log nodes)."""
        old = self._of[index]
        self._move(index, old, self.giving_back(old, requests))

    def taking(self, given: NodeClass, requests: Resources) -> NodeClass:
        """Return the class after a node has taken a pod. O(1), the first time O(plugins)."""
        link = given.next
        if link is not None and link[0] is requests:
            return link[3]
        key = requests if requests.defaulted is _NONE else (requests, requests.defaulted)
        if link is not None:
            found = link[3] if link[1] == key else _other(given.after, key)
            if found is not None:
                return found
        new = self._step(given, requests, 1)
        made = (requests, key, given, new)
        if link is None:
            given.next = made
        else:
            given.after = _with(given.after, key, new)
        if new.previous is None:
            new.previous = made
        elif new.previous[1] != key:
            new.before = _with(new.before, key, given)
        return new

    def giving_back(self, given: NodeClass, requests: Resources) -> NodeClass:
        """Return the class after a node has released a pod. O(1), the first time O(plugins)."""
        link = given.previous
        if link is not None and link[0] is requests:
            return link[2]
        key = requests if requests.defaulted is _NONE else (requests, requests.defaulted)
        if link is not None:
            found = link[2] if link[1] == key else _other(given.before, key)
            if found is not None:
                return found
        new = self._step(given, requests, -1)
        made = (requests, key, new, given)
        if link is None:
            given.previous = made
        else:
            given.before = _with(given.before, key, new)
        if new.next is None:
            new.next = made
        elif new.next[1] != key:
            new.after = _with(new.after, key, given)
        return new

    def boundless(self, given: NodeClass, resource: str) -> NodeClass:
        """Return the class of a node with ``BOUNDLESS`` of a resource.

        O(1), the first time O(plugins).
        """
        found = None if given.endless is None else given.endless.get(resource)
        if found is None:
            free = {**given.free, resource: BOUNDLESS}
            endless = Snapshot(given.node, free, given.pod_count, given.defaulted)
            found = self._classify(endless, given)
            for each in (given, found):
                each.endless = {**(each.endless or {}), resource: found}
        return found

    def classify_anew(self, views: Mapping[int, NodeView]) -> None:
        """Classify every node again, because plugins read other labels now. O(nodes)."""
        self._forget_empty()
        for index, view in views.items():
            self.put(index, view)
        # one class a node is what this takes, and no sign of classes that are not needed any more
        self._made = len(self._occupied)

    def forget_unused(self) -> None:
        """Drop the empty classes if there are too many. O(1) amortised."""
        if self._made > 2 * len(self._of) + _SPARE:
            self._forget_empty()

    def _step(self, given: NodeClass, requests: Resources, sign: int) -> NodeClass:
        asked, before = self._asked
        if requests is not asked or sign != before:  # the members of a gang share theirs
            self._asked = (requests, sign)
            self._changes = tuple([(name, -sign * need) for name, need in requests.items()])
            self._is_scarce = any("/" in name for name in requests)
        free = dict(given.free)
        for name, change in self._changes:
            free[name] = free.get(name, 0) + change
        defaulted = given.defaulted
        if requests.defaulted is not _NONE:
            defaulted = shifted(defaulted, requests.defaulted, sign)
        shape = given.shape
        if shape is None or shape.nodes > 1:
            view = Snapshot(given.node, free, given.pod_count + sign, defaulted)
            return self._classify(view, given)
        self._numbers = number = self._numbers + 1
        self._made += 1
        scarce = scarce_in(free) if self._is_scarce else given.scarce
        return given.unsigned(number, free, given.pod_count + sign, defaulted, scarce)

    def _classify(self, sample: Snapshot, before: NodeClass | None = None) -> NodeClass:
        """Return the class of a node; *before* is its class before a change of capacity."""
        if before is not None and before.key is not None and self._sign_after is not None:
            key = self._sign_after(sample, before.key)
        else:
            key = None if self._sign is None else self._sign(sample)
        found = None if key is None else self._known.get(key)
        if found is None:
            self._numbers += 1
            self._made += 1
            kind = self._kind_of(key, before)
            found = NodeClass(key, self._numbers, sample, kind, self._shape_of(kind, sample))
            if key is not None:
                self._known[key] = found
        return found

    def _kind_of(
        self, key: tuple[Hashable, ...] | None, before: NodeClass | None
    ) -> NodeKind | None:
        """Return the kind of nodes with a signature."""
        if key is None or self._changing is None:
            return None
        # the labels are the last part, and may be others than before
        if before is not None and before.key is not None and before.key[-1] == key[-1]:
            return before.kind
        parts = list(key)
        for n in self._changing:
            parts[n] = None
        alike = tuple(parts)
        kind = self._kinds.get(alike)
        if kind is None:
            kind = self._kinds[alike] = NodeKind(alike)
        return kind

    def _shape_of(self, kind: NodeKind | None, sample: Snapshot) -> NodeShape | None:
        """Return the shape of nodes of a kind."""
        if kind is None or not self._signs_allocatable:
            return None
        key = (kind, sample.node.allocatable)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = NodeShape(kind)
        return shape

    def _move(self, index: int, old: NodeClass | None, new: NodeClass | None) -> None:
        if old is new:
            return
        before = None if old is None else old.shape
        shape = None if new is None else new.shape
        if before is not shape:
            if before is not None:
                before.nodes -= 1
            if shape is not None:
                shape.nodes += 1
        if old is not None and new is not None and not new.nodes and len(old.nodes) == 1:
            # where no two nodes are alike, this is each move
            old.nodes, new.nodes = new.nodes, old.nodes
            del self._occupied[old]
            self._occupied[new] = None
            self._of[index] = new
            self._log(old, new)
            return
        if old is not None:
            in_order.remove(old.nodes, index)
            if not old.nodes:
                del self._occupied[old]
        if new is None:
            del self._of[index]
        else:
            new.nodes = in_order.add(new.nodes or [], index)
            self._occupied[new] = None
            self._of[index] = new
        self._log(old, new)

    def _log(self, old: NodeClass | None, new: NodeClass | None) -> None:
        self._moves.append((old, new))
        if len(self._moves) > 2 * len(self._of) + _SPARE:
            self._trim()

    def _trim(self) -> None:
        """Drop the first half of the log."""
        half = len(self._moves) // 2
        del self._moves[:half]
        self._base += half

    def _forget_empty(self) -> None:
        self._known = {key: found for key, found in self._known.items() if found.nodes}
        for found in self.occupied():
            found.forget_others()
        # what no node has is forgotten when most is such
        if len(self._kinds) > 2 * len(self._occupied) + _SPARE:
            kinds = {found.kind for found in self._occupied}
            self._kinds = {key: kind for key, kind in self._kinds.items() if kind in kinds}
        if len(self._shapes) > 2 * len(self._of) + _SPARE:
            self._shapes = {key: shape for key, shape in self._shapes.items() if shape.nodes}
        self._made = len(self._occupied)
        self.epoch += 1

    def _check(self, views: Mapping[int, NodeView]) -> None:
        if views.keys() != self._of.keys():
            raise InternalError("the nodes and the nodes in classes differ")
        for index, view in views.items():
            found = self._of[index]
            if index not in found.nodes:
                raise InternalError(f"class {found.number} does not have its node {index}")
            is_known = found.key is None or self._known.get(found.key) is found
            if found.is_signed and not is_known:
                raise InternalError(f"class {found.number} is not known by its key")
            self._check_signature(index, found, _frozen(view))
        if sum(len(found.nodes) for found in self.occupied()) != len(self._of):
            raise InternalError("a class has a node that is not in it")
        if self._occupied.keys() != set(self._of.values()):
            raise InternalError("the classes that a node is in are miscounted")
        shapes = Counter(found.shape for found in self._of.values() if found.shape is not None)
        if any(shape.nodes != shapes[shape] for shape in {*shapes, *self._shapes.values()}):
            raise InternalError("the nodes of a shape are miscounted")

    def _check_signature(self, index: int, found: NodeClass, view: Snapshot) -> None:
        if found.key is None or self._sign is None:
            return
        # no plugin may tell the sample of a class without a signature from the node
        wanted = found.key if found.is_signed else self._sign(found)
        if self._sign(view) != wanted:
            raise InternalError(f"node {index} is not what its class is")


def _frozen(view: NodeView) -> Snapshot:
    return Snapshot(view.node, dict(view.free), view.pod_count, view.defaulted)


def _other(others: Mapping[Transition, NodeClass] | None, key: Transition) -> NodeClass | None:
    return None if others is None else others.get(key)


def _with(
    others: dict[Transition, NodeClass] | None, key: Transition, to: NodeClass
) -> dict[Transition, NodeClass]:
    """Return the transitions with one more, which replaces none. O(1)."""
    others = {} if others is None else others
    others.setdefault(key, to)
    return others
