"""Nodes as plugins see them: a kind of nodes, a state, or a single node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol, final

from gangsched.core.nodes.hold import Hold
from gangsched.core.nodes.node_table import DEFAULTED, NodeState, NodeTable
from gangsched.model import FrozenMap, Node, NodeName, Pod
from gangsched.quantity import MILLI

__all__ = ["NodeView", "NodeViews", "ShowsPods", "StateView", "StaticView"]

_NO_AMOUNTS: Final[FrozenMap[int]] = FrozenMap()


class ShowsPods(Protocol):
    """What shows the nodes with the pods on them; ``Records`` does."""

    @property
    def table(self) -> NodeTable:
        """The nodes."""
        ...

    @property
    def now(self) -> float:
        """The current instant."""
        ...

    @property
    def guard(self) -> Any:
        """What keeps the plan of a reservation valid; None without one."""
        ...

    @property
    def holds(self) -> Collection[Hold]:
        """The capacity that is held for pods that are not there yet."""
        ...

    def pods_on(self, slot: int, /) -> Collection[Pod]:
        """Return the pods on a node."""
        ...


@final
class StaticView:
    """A node without its pods, for a plugin that says that it does not read them."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node: Node = node

    @property
    def free(self) -> Mapping[str, int]:
        """Not to be read."""
        raise _not_declared("free")

    @property
    def defaulted(self) -> FrozenMap[int]:
        """Not to be read."""
        raise _not_declared("defaulted")

    @property
    def pod_count(self) -> int:
        """Not to be read."""
        raise _not_declared("pod_count")

    @property
    def pods(self) -> Collection[Pod]:
        """Not to be read."""
        raise _not_declared("pods")


def _not_declared(what: str) -> LookupError:
    return LookupError(f"a plugin that signs the node alone cannot read {what!r} of it")


class _Amounts:
    __slots__ = ("_state", "_table")

    def __init__(self, table: NodeTable, state: NodeState) -> None:
        self._table = table
        self._state = state

    @property
    def free(self) -> Mapping[str, int]:
        """See ``gangsched.protocols.NodeView``. O(resources)."""
        table = self._table
        free = self._state.free
        named = {n: free[number] for n, number in table.resources.items() if number}
        return {n: amount for n, amount in named.items() if amount and not n.startswith(DEFAULTED)}

    @property
    def defaulted(self) -> FrozenMap[int]:
        """See ``gangsched.protocols.NodeView``. O(resources)."""
        free, start = self._state.free, len(DEFAULTED)
        found = {
            name[start:]: -free[number]
            for name, number in self._table.resources.items()
            if name.startswith(DEFAULTED) and free[number]
        }
        return FrozenMap(found) if found else _NO_AMOUNTS

    @property
    def pod_count(self) -> int:
        """The number of pods on the node."""
        state = self._state
        return (state.offered[0] - state.free[0]) // MILLI


@final
class StateView(_Amounts):
    """A node in a state, for a plugin that reads its capacity."""

    __slots__ = ()

    @property
    def node(self) -> Node:
        """A node in that state."""
        found = self._table.nodes[self._table.first_in(self._state)]
        assert found is not None
        return found

    @property
    def pods(self) -> Collection[Pod]:
        """Not to be read."""
        raise _not_declared("pods")


@final
class NodeView(_Amounts):
    """A node with the pods on it, as it is now.

    Args:
        records: What shows the node.
        slot: The slot of the node in the table.
        shows_pods: Whether the pods may be read.
    """

    __slots__ = ("_records", "_shows_pods", "_slot")

    def __init__(self, records: ShowsPods, slot: int, *, shows_pods: bool = True) -> None:
        super().__init__(records.table, records.table.state_of[slot])
        self._records = records
        self._shows_pods = shows_pods
        self._slot = slot

    @property
    def slot(self) -> int:
        """The slot of the node in the table."""
        return self._slot

    @property
    def node(self) -> Node:
        """The node."""
        found = self._table.nodes[self._slot]
        assert found is not None
        return found

    @property
    def pods(self) -> Collection[Pod]:
        """The pods on the node: bound, assumed, and planned in the current decision."""
        if not self._shows_pods:  # nothing would try the pod again when these come or go
            raise LookupError("node.pods is shown only for pods of which reads_pods(pod) is true")
        return self._records.pods_on(self._slot)


@final
class NodeViews(Mapping[NodeName, NodeView]):
    """All nodes by name, as they are now."""

    __slots__ = ("_records",)

    def __init__(self, records: ShowsPods) -> None:
        self._records = records

    @property
    def guard(self) -> Any:
        """What keeps the plan of a reservation valid; see ``records.Guard``."""
        return self._records.guard

    @property
    def holds(self) -> Collection[Hold]:
        """The capacity that is held for pods that are not there yet."""
        return self._records.holds

    @property
    def now(self) -> float:
        """The current instant."""
        return self._records.now

    def at(self, slot: int, *, shows_pods: bool = True) -> NodeView:
        """Return the node of a slot."""
        return NodeView(self._records, slot, shows_pods=shows_pods)

    def __getitem__(self, name: NodeName) -> NodeView:
        table = self._records.table
        slot = table.slots[name]
        if table.nodes[slot] is None:
            raise KeyError(name)
        return NodeView(self._records, slot)

    def __iter__(self) -> Iterator[NodeName]:
        return (node.name for node in self._records.table.nodes if node is not None)

    def __len__(self) -> int:
        return self._records.table.count
