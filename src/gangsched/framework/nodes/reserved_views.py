"""Keeping room for a gang that is to start later, and looking ahead to what will be free.

Rules:
  R1  while what is kept is lifted, or pods are taken as gone, nothing is decided about others;
  R2  ``lifted`` and ``without`` leave the nodes as they were, however they end.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager

from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.framework.nodes.reserved_capacity import Need
from gangsched.model import NodeName, PodUID

__all__ = ["keep_for", "keeps_some", "lifted", "without"]


def keep_for(nodes: Nodes, needs: Mapping[NodeName, Need]) -> list[NodeName]:
    """Keep room for these needs in the place of those before.

    Runtime complexity: O(holders + plugins) for each node in question.

    Returns:
        The nodes of which less is kept than before.
    """
    before = {name: _kept_of(nodes, name) for name in nodes.needs}
    nodes.needs = dict(needs)
    nodes.departed.clear()
    for name in dict.fromkeys([*before, *needs]):
        nodes.keep_anew(name)
    return [name for name, kept in before.items() if _is_more(kept, _kept_of(nodes, name))]


@contextmanager
def lifted(nodes: Nodes) -> Generator[None, None, None]:
    """Keep nothing for a while, for who need not heed what is kept.

    Runtime complexity: O(holders + plugins) for each node that is needed, at its begin and its end.
    """
    _set_lifted(nodes, True)
    try:
        yield
    finally:
        _set_lifted(nodes, False)


def keeps_some(nodes: Nodes) -> bool:
    """Say whether anything is kept that is free now. O(needs)."""
    return any(kept or pods for kept, pods in (_kept_of(nodes, name) for name in nodes.needs))


@contextmanager
def without(
    nodes: Nodes, leaving: Mapping[NodeName, Collection[PodUID]]
) -> Generator[None, None, None]:
    """Take pods as gone, and keep nothing, for a while: to look ahead.

    Runtime complexity: O(resources) for each pod, and O(holders + plugins) for each node of which
    something is kept.
    """
    with lifted(nodes):
        view = NodesView(nodes)
        try:
            for name, uids in leaving.items():
                info = nodes.infos[name]
                view.remove([Holder(uid, info.index, info.holders[uid]) for uid in uids])
            yield
        finally:
            view.discard()


def _set_lifted(nodes: Nodes, flag: bool) -> None:
    nodes.lifted = flag
    for name in nodes.needs:
        nodes.keep_anew(name)


def _kept_of(nodes: Nodes, name: NodeName) -> tuple[dict[str, int], int]:
    info = nodes.infos.get(name)
    return ({}, 0) if info is None else (info.kept, info.kept_pods)


def _is_more(before: tuple[dict[str, int], int], after: tuple[dict[str, int], int]) -> bool:
    return before[1] > after[1] or any(n > after[0].get(name, 0) for name, n in before[0].items())
