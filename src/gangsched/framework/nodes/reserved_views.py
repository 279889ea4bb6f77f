"""Views of the nodes for entities that are exempt from reserved capacity, and for looking ahead.

An exempt entity is decided on nodes from which its entries are left out. The ledger keeps them,
so whatever the decision raises or rejects, they are withheld again afterwards. No flag says which
view is in force: each node records the entries that are withheld from it. An exempt entity may
break the plan of the reserved gang, too, so the nodes have no ``PlanGuard`` meanwhile.

Rules:
  R1  within a view no other entity is decided;
  R2  a view ends with all entries withheld that the ledger has, however it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager

from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.model import NodeName, PodUID

__all__ = ["exempt", "replace", "withholds", "without"]


def replace(nodes: Nodes, entries: Iterable[ReservedCapacity]) -> list[NodeName]:
    """Reserve capacity for a gang that starts later, in place of all that was reserved so before.

    Runtime complexity: O(returning pods + plugins) for each node with an entry.

    Returns:
        The nodes of which less is withheld than before.
    """
    earlier = {e.node: _withheld(nodes, e.node) for e in nodes.ledger.expected()}
    nodes.replace_expected(entries)
    nodes.departed.clear()
    return [name for name, had in earlier.items() if _is_more(had, _withheld(nodes, name))]


@contextmanager
def exempt(nodes: Nodes, entries: Iterable[ReservedCapacity]) -> Generator[None, None, None]:
    """Leave entries out of the nodes while an entity is decided that is exempt from them.

    Runtime complexity: O(returning pods + plugins) for each entry, at the begin and at the end.
    """
    entries = list(entries)
    guard, nodes.guard = nodes.guard, None
    nodes.leave_out(entries)
    try:
        yield
    finally:
        nodes.withhold(entries)
        nodes.guard = guard


def withholds(nodes: Nodes, entries: Iterable[ReservedCapacity]) -> bool:
    """Return whether any node of some entries withholds capacity for a reservation. O(entries)."""
    infos = (nodes.infos.get(entry.node) for entry in entries)
    return any(info.withheld or info.withheld_pods for info in infos if info is not None)


@contextmanager
def without(
    nodes: Nodes,
    entries: Iterable[ReservedCapacity],
    leaving: Mapping[NodeName, Collection[PodUID]],
) -> Generator[None, None, None]:
    """Look ahead: take pods off their nodes, and leave entries out.

    Runtime complexity: O(resources) for each pod; see ``exempt`` for the entries.
    """
    with exempt(nodes, entries):
        view = NodesView(nodes)
        try:
            for name, uids in leaving.items():
                info = nodes.infos[name]
                view.remove([Holder(uid, info.index, info.holders[uid]) for uid in uids])
            yield
        finally:
            view.discard()


def _withheld(nodes: Nodes, name: NodeName) -> tuple[dict[str, int], int]:
    info = nodes.infos.get(name)
    return ({}, 0) if info is None else (info.withheld, info.withheld_pods)


def _is_more(before: tuple[dict[str, int], int], after: tuple[dict[str, int], int]) -> bool:
    return before[1] > after[1] or any(n > after[0].get(name, 0) for name, n in before[0].items())
