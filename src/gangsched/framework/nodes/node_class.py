"""NodeClass: an equivalence class of nodes, and what is known of it by itself.

Each plugin declares what it reads of a node (``node_signature`` and ``labels_read``). Nodes with
equal signatures are one class: no plugin can tell them apart. ``NodeClasses`` has all of them.

Rule: a class is the same for as long as it has nodes. What leads from it to other classes are
caches, which may be cleared.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Final, TypeAlias, final

from attrs import frozen

from gangsched.framework.nodes import in_order
from gangsched.model import FrozenMap, Node, Pod, Resources
from gangsched.resources import NOTHING

__all__ = ["Link", "NodeClass", "NodeKind", "NodeShape", "Snapshot", "Transition", "scarce_in"]


class _View:
    """What plugins see of a node; see ``gangsched.protocols.NodeView``."""

    __slots__ = ("defaulted", "free", "node", "pod_count")

    node: Node
    free: dict[str, int]
    pod_count: int
    defaulted: FrozenMap[int]

    @property
    def pods(self) -> Collection[Pod]:
        """Refuse: nodes of one class have different pods, so an answer must not depend on them."""
        raise LookupError("node.pods is shown only for pods of which reads_pods(pod) is true")


@final
class Snapshot(_View):
    """A real or hypothetical node, frozen."""

    READ_ONLY: Final = True
    __slots__ = ()

    def __init__(
        self,
        node: Node,
        free: dict[str, int],
        pod_count: int,
        defaulted: FrozenMap[int] = NOTHING.defaulted,
    ) -> None:
        self.node = node
        self.free = free
        self.pod_count = pod_count
        self.defaulted = defaulted


Transition: TypeAlias = Resources | tuple[Resources, FrozenMap[int]]
Link: TypeAlias = "tuple[Resources, Transition, NodeClass, NodeClass]"
"""The requests of a pod, the key of the transition, the class without the pod and the one with it.
"""


@final
@frozen(eq=False)
class NodeKind:
    """Nodes that are alike but for their capacity and what pods change of it.

    Plugins that sign the node alone give one answer for all of them; see
    ``gangsched.protocols.SignsNodeAlone``.

    Attributes:
        key: The signature without the parts that pods change.
    """

    key: tuple[Hashable, ...]


@final
class NodeShape:
    """Nodes of one kind with the same allocatable capacity, which differ only in their pods.

    A node that is the only one of its shape is never like another node, so its classes need no
    signature; see ``gangsched.protocols.SignsAllocatable``.

    Attributes:
        kind: The kind.
        nodes: The number of nodes.
    """

    __slots__ = ("kind", "nodes")

    def __init__(self, kind: NodeKind) -> None:
        self.kind: NodeKind = kind
        self.nodes: int = 0


def scarce_in(free: Mapping[str, int]) -> frozenset[str]:
    """Return the extended resources of which some is free."""
    return frozenset([name for name, amount in free.items() if "/" in name and amount > 0])


@final
class NodeClass(_View):
    """Nodes with equal signatures, and a view of one of them, which stands for all.

    The view is not an object of its own: where no two nodes are alike, each pod that is placed
    makes a class.

    Attributes:
        key: The signature: the part that each plugin reads, and last the labels. None for a node
            that is a class of its own, because a plugin has no ``node_signature``.
        is_signed: Whether *key* is the signature of the nodes as they are. If not, the node is the
            only one of its shape, and the parts that pods change are those that it had before.
        number: The number of the class, ascending in the order of creation.
        scarce: The extended resources, such as GPUs, of which some is free.
        nodes: The indices of the nodes, in order of arrival.
        kind: The kind of the nodes; None if that is not known.
        shape: The shape of the nodes; None if that is not known.
        next: The first class known to which a node moves when it takes a pod; most classes know
            no other, and need no dict.
        after: The others, by the requests of the pod, with what is defaulted if anything is; None
            if there are none.
        previous: The first class known to which a node moves when it releases a pod.
        before: The others, in the same way.
        endless: The class of a node with ``BOUNDLESS`` of a resource, by resource; None if there
            are none.
    """

    __slots__ = (
        "after",
        "before",
        "endless",
        "is_signed",
        "key",
        "kind",
        "next",
        "nodes",
        "number",
        "previous",
        "scarce",
        "shape",
    )

    def __init__(
        self,
        key: tuple[Hashable, ...] | None,
        number: int,
        view: _View,
        kind: NodeKind | None = None,
        shape: NodeShape | None = None,
        scarce: frozenset[str] | None = None,
    ) -> None:
        self.node: Node = view.node
        self.free: dict[str, int] = view.free
        self.pod_count: int = view.pod_count
        self.defaulted: FrozenMap[int] = view.defaulted
        self.key: tuple[Hashable, ...] | None = key
        self.number: int = number
        self.kind: NodeKind | None = kind
        self.shape: NodeShape | None = shape
        self.is_signed: bool = True
        self.scarce: frozenset[str] = scarce_in(view.free) if scarce is None else scarce
        self.nodes: in_order.Items = in_order.NONE
        self.next: Link | None = None
        self.previous: Link | None = None
        self.after: dict[Transition, NodeClass] | None = None
        self.before: dict[Transition, NodeClass] | None = None
        self.endless: dict[str, NodeClass] | None = None

    def unsigned(
        self,
        number: int,
        free: dict[str, int],
        pod_count: int,
        defaulted: FrozenMap[int],
        scarce: frozenset[str],
    ) -> NodeClass:
        """Return the class of the only node of a shape after a change of its pods."""
        # without the constructor, which reads a view and computes the rest
        made = NodeClass.__new__(NodeClass)
        made.node = self.node
        made.free = free
        made.pod_count = pod_count
        made.defaulted = defaulted
        made.key = self.key
        made.number = number
        made.kind = self.kind
        made.shape = self.shape
        made.is_signed = False
        made.scarce = scarce
        made.nodes = in_order.NONE
        made.next = made.previous = made.after = made.before = made.endless = None
        return made

    def forget_others(self) -> None:
        """Clear the cached transitions to other classes."""
        self.next = self.previous = self.after = self.before = self.endless = None
