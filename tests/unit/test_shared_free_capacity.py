"""A node and its class share one dict of free capacity, and no change of one shows in the other."""

from __future__ import annotations

from collections.abc import Hashable

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched.events import NodeAdded
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_classes import Sign
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, Resources
from gangsched.plugins import NodeResourcesFit
from gangsched.protocols import NodeView

NAMES = [NodeName(name) for name in ("large", "small", "empty")]
OFFERS: tuple[dict[str, str | int], ...] = ({"cpu": 8, "memory": 64}, {"cpu": 2, "memory": 3}, {})


def whole(view: NodeView) -> tuple[Hashable, ...]:
    """Sign all of the capacity; the last part stands for the labels."""
    return (NodeResourcesFit().node_signature(view), ())


def cpu_only(view: NodeView) -> tuple[Hashable, ...]:
    return (view.free.get("cpu", 0), ())


def fleet(sign: Sign = whole) -> Nodes:
    """Return nodes of which no two offer the same."""
    cluster = InMemoryCluster()
    nodes = Nodes(cluster, sign, changing=(0,), signs_allocatable=sign is whole)
    for name, offers in zip(NAMES, OFFERS, strict=True):
        cluster.apply(NodeAdded(Node(name=name, allocatable=offers)))
        nodes.refresh(name)
    return nodes


def reserve(nodes: Nodes) -> None:
    entry = ReservedCapacity.expecting(1, NAMES[0], 0, ())
    for _ in range(3):
        entry.add(Resources({"cpu": 1}))
    nodes.reserve([entry])


def assume(nodes: Nodes, placed: list[tuple[Pod, NodeName]]) -> None:
    """Assume pods as a decision about a gang does."""
    pods: list[tuple[Pod, Resources, int]] = []
    become: dict[int, NodeClass] = {}
    for pod, name in placed:
        index = nodes.infos[name].index
        before = become.get(index) or nodes.classes.of(index)
        become[index] = nodes.classes.taking(before, pod.requests)
        pods.append((pod, pod.requests, index))
    nodes.assume_together(pods, become.items())


ASKED = [
    Resources(),
    Resources({"cpu": 1}),
    Resources({"cpu": 1, "memory": 1}),
    Resources({"cpu": 2}).with_defaulted({"memory": 5}),
    Resources({"example.com/gpu": 1}),
]


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(ASKED)), max_size=9),
    st.booleans(),
    st.sampled_from([whole, cpu_only]),
)
def test_gang_is_assumed_as_its_members_are_one_by_one(
    asked: list[tuple[NodeName, Resources]], is_reserved: bool, sign: Sign
) -> None:
    """Also beyond what a node has, which a profile without a filter of capacity allows."""
    placed = [
        (evolve(Pod(name=f"p{n}"), requests=requests), name)
        for n, (name, requests) in enumerate(asked)
    ]
    together, singly = fleet(sign), fleet(sign)
    for nodes in (together, singly):
        if is_reserved:
            reserve(nodes)
    assume(together, placed)
    for pod, name in placed:
        singly.assume(pod, name)
    for nodes in (together, singly):
        nodes._check()
    assert together.total() == singly.total()
    for name in NAMES:
        one, other = together.infos[name], singly.infos[name]
        assert (one.free, one.defaulted, one.withheld) == (
            other.free,
            other.defaulted,
            other.withheld,
        )
    before = fleet(sign)
    if is_reserved:
        reserve(before)
    for pod, _name in placed:  # what the members held is given back, and nothing else
        together.forget(pod.uid)
        together._check()
    for name in NAMES:
        found, wanted = together.infos[name].free, before.infos[name].free
        assert {n: found.get(n, 0) for n in found | wanted} == {
            n: wanted.get(n, 0) for n in found | wanted
        }


def test_change_of_a_node_does_not_show_in_the_class_that_it_was_in() -> None:
    nodes = fleet()
    assume(nodes, [(Pod(name="p", requests={"cpu": 1}), NAMES[0])])
    info = nodes.infos[NAMES[0]]
    given_class = nodes.classes.of(info.index)
    assert info.free is given_class.free  # one dict, or the rest of the test shows nothing
    nodes.assume(Pod(name="q", requests={"cpu": 2}), NAMES[0])
    assert (given_class.free["cpu"], info.free["cpu"]) == (7000, 5000)
    nodes._check()


def test_nodes_of_one_class_keep_what_no_plugin_reads_apart() -> None:
    cluster = InMemoryCluster()
    nodes = Nodes(cluster, cpu_only)
    for name, memory in (("a", 1), ("b", 2)):
        node = Node(name=name, allocatable={"cpu": 1, "memory": memory})
        cluster.apply(NodeAdded(node))
        nodes.refresh(node.name)
    assert nodes.classes.count == 1
    assert [info.free["memory"] for info in nodes.infos.values()] == [1000, 2000]
    nodes._check()


def test_moves_of_gangs_do_not_lengthen_the_log_without_bound() -> None:
    nodes = fleet()
    index = nodes.infos[NAMES[0]].index
    one = nodes.classes.of(index)
    other = nodes.classes.taking(one, Resources({"cpu": 1}))
    for _ in range(200):
        nodes.classes.move_together([(index, other)])
        nodes.classes.move_together([(index, one)])
    assert nodes.classes.since(0) is None
    nodes.classes._check(nodes.by_index)


def test_node_that_moves_to_another_shape_is_counted_there() -> None:
    nodes = fleet()
    large, small = (nodes.infos[name].index for name in NAMES[:2])
    to = nodes.classes.taking(nodes.classes.of(small), Resources({"cpu": 1}))
    nodes.classes.move_together([(large, to)])
    assert to.shape is not None
    assert to.shape.nodes == 2
