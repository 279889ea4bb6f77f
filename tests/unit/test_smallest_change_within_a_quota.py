"""``smallest_change`` beside a plugin that bounds how many pods the cluster takes."""

from __future__ import annotations

from collections.abc import Hashable

from gangsched import InMemoryCluster, Node, NodeAdded, PodAdded, PodGroup, PodGroupAdded, presets
from gangsched.explain import NotEnoughMembers
from gangsched.model import Pod
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod
from gangsched.what_if import Insufficient

SHAPE = Node(name="x", allocatable={"cpu": 4})


class OnePod:
    """Lets one pod run anywhere, and says so as a bound."""

    name = "OnePod"

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def used(self, state: CycleView) -> int:
        return sum(len(node.pods) for node in state.nodes.values())

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Unschedulable("one pod at most") if self.used(state) else Success()

    def cluster_headroom(self, state: CycleView, pod: Pod) -> int:
        return 1 - self.used(state)


def test_group_without_members_lacks_them_with_any_number_of_nodes() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=(OnePod(),))
    group = PodGroup(name="g", min_available=2)
    for event in (NodeAdded(make_node("n", cpu=4)), PodGroupAdded(group)):
        scheduler.handle(cluster.apply(event), now=0.0)
    found = scheduler.smallest_change("default/g", SHAPE)
    assert isinstance(found, Insufficient)
    assert isinstance(found.why, NotEnoughMembers)


def test_reason_of_a_group_beside_another_counts_the_added_nodes() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=(OnePod(),))
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    for name, cpu in (("g", 1), ("h", 2)):
        for number in range(2):
            pod = make_pod(f"{name}-{number}", group=name, min_available=2, cpu=cpu)
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    found = scheduler.smallest_change("default/g", SHAPE, most=1)
    assert isinstance(found, Insufficient)
    assert "0/2 nodes are available: 2 one pod at most" in str(found.why)
