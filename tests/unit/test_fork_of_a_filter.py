"""A question asks the fork of a filter with state, not the filter of the scheduler."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from attrs import define, field

from gangsched import InMemoryCluster, NodeAdded, Pod, PodAdded, presets
from gangsched.outcomes import SUCCESS, Outcome
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod


@define(eq=False)
class Counting:
    """A filter that counts how often it is asked; forks count for themselves."""

    asked: int = 0
    forks: list[Counting] = field(factory=list["Counting"])

    @property
    def name(self) -> str:
        return "Counting"

    @property
    def attributes_signed(self) -> Collection[str]:
        return ()

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        return node.node.name

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        self.asked += 1
        return SUCCESS

    def fork(self) -> Counting:
        made = Counting(self.asked)
        self.forks.append(made)
        return made


def test_what_if_asks_the_fork_of_a_filter_about_a_class_of_pods_that_was_asked_before() -> None:
    cluster, plugin = InMemoryCluster(), Counting()
    scheduler = presets.gang(cluster, plugins=[plugin])
    scheduler.handle(cluster.apply(NodeAdded(make_node("a", cpu=4))), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("p", cpu=1))), now=0.0)
    scheduler.schedule_one(now=0.0)
    before = plugin.asked
    added = NodeAdded(make_node("b", cpu=9))
    scheduler.what_if(added, PodAdded(make_pod("q", cpu=1)))
    assert plugin.asked == before > 0
    assert [each.asked - before for each in plugin.forks] == [1]
