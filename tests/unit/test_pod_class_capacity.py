"""Like pods: in which order nodes are filled by how many of them they take."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import rule

from gangsched.events import NodeAdded
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod
from gangsched.outcomes import Unschedulable
from gangsched.plugins import NodeResources
from support.fleet import FleetMachine, signature
from support.views import cycle

POD = Pod(name="p", requests={"cpu": 1})
GPU = "example.com/gpu"


class Fitting:
    """A judge that looks at resources alone."""

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        outcome = NodeResources().filter(cycle(), POD, given)
        if isinstance(outcome, Unschedulable):
            return (0, outcome.reasons)
        return (NodeResources().headroom(POD, given), ())

    def before_scoring(self, found: Sequence[NodeClass]) -> None: ...

    def quick(self, given: NodeClass) -> None: ...

    def score(self, given: NodeClass) -> int:
        return NodeResources().score(cycle(), POD, given)


def fresh_class(nodes: Nodes) -> PodClass:
    made = PodClass(POD.requests, POD)
    made.judgements.refresh(nodes, Fitting())
    return made


def rooms_in_order(pods: PodClass, strands: bool, wanted: int) -> list[int]:
    rooms = dict(pods.judgements.with_max_pods())
    return [rooms[each] for each in pods.judgements.by_max_pods(strands, wanted)]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0, 2])), max_size=8), st.integers(1, 8)
)
def test_first_the_tightest_that_takes_all_then_the_roomiest(
    seats: list[tuple[int, int]], wanted: int
) -> None:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster, signature)
    for number, (cpu, gpu) in enumerate(seats):
        name = NodeName(f"n{number}")
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": cpu, GPU: gpu})))
        nodes.refresh(name)
    pods = fresh_class(nodes)
    for strands in (False, True):
        rooms = {cpu for cpu, gpu in seats if cpu and bool(gpu) is strands}
        enough = sorted(room for room in rooms if room >= wanted)
        less = sorted((room for room in rooms if room < wanted), reverse=True)
        assert rooms_in_order(pods, strands, wanted) == [*enough, *less]


def nodes_that_offer(*offers: dict[str, int | str]) -> Nodes:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    for number, allocatable in enumerate(offers):
        name = NodeName(f"n{number}")
        cluster.apply(NodeAdded(Node(name=name, allocatable=allocatable)))
        nodes.refresh(name)
    return nodes


def filled(pods: PodClass, strands: bool) -> set[str]:
    """Return the nodes that are filled when nodes that strand something are, or when others."""
    return {found.node.name for found in pods.judgements.by_max_pods(strands, 1)}


def test_only_something_scarce_that_is_left_and_not_asked_for_would_be_stranded() -> None:
    nodes = nodes_that_offer(
        {"cpu": 4}, {"cpu": 4, "memory": 4}, {"cpu": 4, GPU: 1}, {"cpu": 4, GPU: "1m"}
    )
    pods = fresh_class(nodes)
    assert filled(pods, strands=False) == {"n0", "n1"}
    assert filled(pods, strands=True) == {"n2", "n3"}
    nodes.assume(Pod(name="q", requests={GPU: 1}), NodeName("n2"))
    pods = fresh_class(nodes)
    assert filled(pods, strands=False) == {"n0", "n1", "n2"}
    asking = PodClass("asking", Pod(name="p", requests={"cpu": 1, GPU: 1}))
    asking.judgements.refresh(nodes, Fitting())
    assert filled(asking, strands=True) == set()


class RoomMachine(FleetMachine):
    """The order by capacity is maintained through every change."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = PodClass(POD.requests, POD)

    @rule(wanted=st.integers(1, 4), strands=st.booleans())
    def plan_gang(self, wanted: int, strands: bool) -> None:
        self.kept.judgements.refresh(self.nodes, Fitting())
        fresh = fresh_class(self.nodes)
        assert dict(self.kept.judgements.with_max_pods()) == dict(fresh.judgements.with_max_pods())
        kept = rooms_in_order(self.kept, strands, wanted)
        assert kept == rooms_in_order(fresh, strands, wanted)
        self.kept.judgements._check(self.nodes, Fitting(), self.kept.signature)


TestRooms = RoomMachine.TestCase


def test_answers_of_forgotten_classes_are_forgotten() -> None:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster, signature)
    name = NodeName("n")
    pods = PodClass(POD.requests, POD)
    for cpu in range(1500):
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": cpu})))
        nodes.refresh(name)
        pods.judgements.refresh(nodes, Fitting())
    assert nodes.classes.epoch > 1
    assert len(pods.judgements._judged) < 600
    pods.judgements._check(nodes, Fitting(), pods.signature)
