"""What a plugin sees of a node, by what it says that it reads."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, Outcome, Pod, PodAdded, Success, presets
from gangsched.errors import PluginError
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod


class Reads:
    """Reads something of each node that it is asked about."""

    name = "Reads"

    def __init__(self, what: str) -> None:
        self._what = what
        self.seen: list[Any] = []

    def filter(self, _state: CycleView, _pod: Pod, node: NodeView) -> Outcome:
        self.seen.append(getattr(node, self._what))
        return Success()


class ReadsAmounts(Reads):
    """Says that its answer follows from the amounts of a node."""

    def pod_signature(self, _pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        return tuple(sorted(node.free.items()))


class ReadsNode(ReadsAmounts):
    """Says that its answer follows from the node without its pods."""

    signs_node_alone = True

    def node_signature(self, node: NodeView) -> Hashable:
        return node.node.name


def seen(plugin: Reads) -> Any:
    """Return what a plugin reads of a node: of 4 CPUs one is taken, and the only GPU."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=[plugin])
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4, gpu=1))), now=0.0)
    bound = [evolve(pod, node_name="n") for pod in (make_pod("a", cpu=1, gpu=1), make_pod("b"))]
    for pod in (*bound, make_pod("c", cpu=1)):
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    scheduler.schedule_one(now=0.0)
    (found,) = plugin.seen
    return found


@pytest.mark.parametrize("kind", [Reads, ReadsAmounts])
def test_node_shows_what_is_free_and_how_many_pods_are_there(kind: type[Reads]) -> None:
    assert dict(seen(kind("free"))) == {"cpu": 3000}
    assert dict(seen(kind("defaulted"))) == {}
    assert seen(kind("pod_count")) == 2


@pytest.mark.parametrize(
    ("plugin", "what"),
    [
        *[(ReadsNode(what), what) for what in ("free", "defaulted", "pod_count", "pods")],
        (ReadsAmounts("pods"), "pods"),
        (Reads("pods"), "pods"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_plugin_cannot_read_what_it_does_not_declare(plugin: Reads, what: str) -> None:
    with pytest.raises(PluginError, match=rf"(cannot read '|node\.){what}"):
        seen(plugin)
