"""NodesView: pods added and removed for one decision, and every node restored afterwards."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InternalError
from gangsched.events import Bound, NodeAdded, PodAdded
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.nodes_view import Holder, NodesView
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID
from gangsched.protocols import NodeView

NAMES = tuple(NodeName(f"n{n}") for n in range(3))


def read(view: NodeView) -> tuple[Hashable, ...]:
    """Return a node signature: nodes with equal free capacity are one class."""
    return (tuple(sorted((name, n) for name, n in view.free.items() if n)), view.pod_count)


def a_table() -> Nodes:
    """Return three nodes with two bound pods each, and one pod that is assumed."""
    cluster = InMemoryCluster()
    nodes = Nodes(cluster, read)
    for number, name in enumerate(NAMES):
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 8})))
        for each in range(2):
            pod = Pod(name=f"bound-{number}-{each}", requests={"cpu": 1 + each})
            cluster.apply(PodAdded(pod))
            cluster.apply(Bound(pod.uid, name, 1))
        nodes.refresh(name)
    nodes.assume(Pod(name="assumed", requests={"cpu": 1}), NAMES[0])
    return nodes


def content(nodes: Nodes) -> Any:
    """Return all that a view may change."""
    infos = nodes.infos.items()
    shown = {
        name: (id(info), info.free.copy(), info.holders.copy(), list(info.pods))
        for name, info in infos
    }
    classes = [nodes.classes.of(info.index) for _name, info in infos]
    return shown, classes, nodes.total().copy(), nodes.assumed.copy()


steps = st.lists(
    st.tuples(st.sampled_from(["assume", "unassume", "remove", "mark_ready"]), st.integers(0, 8)),
    max_size=12,
)


def play(nodes: Nodes, view: NodesView, moves: list[tuple[str, int]], prefix: str) -> None:
    """Change a view at random; after each change it and the nodes are checked."""
    planned: list[tuple[Pod, int]] = []
    removed: list[list[Holder]] = []
    for number, (move, n) in enumerate(moves):
        if move == "assume":
            index = nodes.infos[NAMES[n % 3]].index
            pod = Pod(name=f"{prefix}-{number}", requests={"cpu": n % 4})
            view.assume(pod, pod.requests, index)
            planned.append((pod, index))
            assert pod in nodes.by_index[index].pods
        elif move == "unassume" and planned:
            pod, index = planned.pop()
            view.unassume(pod, pod.requests, index)
            assert pod not in nodes.by_index[index].pods
        elif move == "remove":
            info = nodes.infos[NAMES[n % 3]]
            fixed = [uid for uid in info.holders if not uid.startswith(f"default/{prefix}-")]
            holders = [Holder(uid, info.index, info.holders[uid]) for uid in fixed[: 1 + n // 3]]
            removed.append(view.remove(holders))
            assert removed[-1] == holders
            assert not view.remove(holders)
        elif move == "mark_ready" and removed:
            holders = removed.pop()
            view.mark_ready(holders)
            for holder in holders:
                assert holder.uid in {pod.uid for pod in nodes.by_index[holder.at].pods}
        view._check()


@given(steps, steps)
def test_discard_restores_every_node(
    outer: list[tuple[str, int]], inner: list[tuple[str, int]]
) -> None:
    nodes = a_table()
    before = content(nodes)
    view = NodesView(nodes)
    play(nodes, view, outer, "outer")
    between = content(nodes)
    nested = NodesView(nodes)
    play(nodes, nested, inner, "inner")
    nested.discard()
    assert content(nodes) == between
    view.discard()
    assert content(nodes) == before
    nodes._check()


def test_view_shows_planned_pods_and_hides_removed_pods() -> None:
    nodes = a_table()
    info = nodes.infos[NAMES[1]]
    view = NodesView(nodes)
    view.remove(
        [Holder(PodUID("default/bound-1-0"), info.index, info.holders[PodUID("default/bound-1-0")])]
    )
    planned = Pod(name="planned", requests={"cpu": 1})
    view.assume(planned, planned.requests, info.index)
    shown = nodes.infos[NAMES[1]]
    assert [pod.name for pod in shown.pods] == ["bound-1-1", "planned"]
    assert [pod.name for pod in info.pods] == ["bound-1-0", "bound-1-1"]
    view.discard()
    assert nodes.infos[NAMES[1]] is info


def test_check_finds_a_node_that_was_changed_in_place() -> None:
    nodes = a_table()
    info = nodes.infos[NAMES[0]]
    view = NodesView(nodes)
    view.assume(Pod(name="planned"), Pod(name="planned").requests, info.index)
    nodes.infos[NAMES[0]] = info
    with pytest.raises(InternalError, match="n0 was changed in place"):
        view._check()
