"""What plugins read of nodes: what tells nodes apart, and when they are asked again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

import gangsched.plugins
from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodUnschedulable,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    presets,
)
from gangsched.errors import ProfileError
from gangsched.outcomes import SUCCESS
from gangsched.plugins import (
    DefaultBinder,
    NodeResources,
    NodeResourcesBalancedAllocation,
    PrioritySort,
    TaintToleration,
)
from gangsched.profile.signing import signs_node_alone
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import FakeNode, check_plugin, cycle, make_node, make_pod, node_view

# What a plugin says that it reads of a node tells nodes apart, whatever else is equal


class _Named:
    """Reads the name of a node."""

    name = "Named"

    def __init__(self, *, alone: bool) -> None:
        self.signs_node_alone = alone

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        return node.node.name


class _Filters(_Named):
    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success() if node.node.name == "n3" else Unschedulable("another name")


class _Scores(_Named):
    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 100 if node.node.name == "n3" else 0


@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling, presets.kube_default])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("kind", [_Filters, _Scores])
def test_plugin_may_tell_nodes_apart_by_their_names(
    kind: type[_Named], alone: bool, make: Any
) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster, plugins=[kind(alone=alone)])
    for n in range(5):
        scheduler.handle(cluster.apply(NodeAdded(make_node(f"n{n}", cpu=4))), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(make_pod("p", cpu=1))), now=0.0)
    assert [e.node for e in scheduler.schedule_one(now=0.0) if isinstance(e, Bind)] == ["n3"]


_AMOUNTS = st.integers(0, 4)


@given(
    st.lists(st.tuples(_AMOUNTS, _AMOUNTS, _AMOUNTS, _AMOUNTS), min_size=1, max_size=4),
    _AMOUNTS,
    _AMOUNTS,
)
def test_balanced_allocation_scores_many_nodes_as_one_by_one(
    nodes: list[tuple[int, int, int, int]], cpu: int, memory: int
) -> None:
    plugin = NodeResourcesBalancedAllocation()
    pod = Pod(name="p", requests={"cpu": cpu, "memory": memory})
    views: list[FakeNode] = []
    for n, (cpus, memories, used, taken) in enumerate(nodes):
        node = make_node(f"n{n}", allocatable={"cpu": cpus, "memory": memories})
        views.append(node_view(node, used={"cpu": min(used, cpus), "memory": min(taken, memories)}))
    names = ("cpu", "memory")
    frees = [[view.free.get(name, 0) for name in names] for view in views]
    offers = [[view.node.allocatable.amount(name) for name in names] for view in views]
    many = plugin.scores_by_amounts(pod, {"cpu": 0, "memory": 1}, frees, offers)
    assert many == [plugin.score(cycle(), pod, view) for view in views]


# A plugin that signs the node alone is not asked again after the node has taken a pod

OF_CAPACITY: Final = {"NodeResources", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def ours() -> list[Any]:
    kinds = [getattr(gangsched.plugins, name) for name in gangsched.plugins.__all__]
    return [kind() for kind in kinds if hasattr(kind, "node_signature")]


@frozen
class Audience:
    """Signs nodes, and counts how often it is asked."""

    asked: list[int] = field(factory=list[int])
    signs_node_alone: Any = True
    signature: Any = None

    @property
    def name(self) -> str:
        return "Audience"

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        self.asked.append(node.pod_count)
        return self.signature(node) if callable(self.signature) else None

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


@pytest.mark.parametrize("plugin", ours(), ids=lambda plugin: type(plugin).__name__)
def test_plugin_signs_the_node_alone_unless_it_reads_capacity(plugin: Any) -> None:
    assert signs_node_alone(plugin) is (type(plugin).__name__ not in OF_CAPACITY)
    check_plugin(plugin)


@pytest.mark.parametrize("given", [None, 1, "yes", ()])
def test_declaration_that_is_no_bool_is_refused_by_name_and_value(given: Any) -> None:
    with pytest.raises(ProfileError, match="signs_node_alone: 'Audience' has ") as caught:
        Profile(Audience(signs_node_alone=given), PrioritySort(), NodeResources(), DefaultBinder())
    assert repr(given) in str(caught.value)


def test_check_plugin_finds_a_signature_that_pods_change() -> None:
    class Careless(TaintToleration):
        @property
        def signs_node_alone(self) -> bool:
            return True

        def node_signature(self, node: NodeView) -> Hashable:
            return (node.node.taints, node.pod_count)

    with pytest.raises(AssertionError, match=r"node_signature: is .* with less capacity"):
        check_plugin(Careless())


# A plugin that reads pods may name the only nodes that it can accept: no other node is asked


@frozen
class Naming:
    """Accepts at most one pod on a node, and only nodes that it names for the pod."""

    named: tuple[str, ...] | None
    name: str = "Naming"
    asked: list[str] = field(factory=list[str])

    def pod_signature(self, pod: Pod) -> str:
        return ""

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def nodes_named(self, pod: Pod) -> Iterable[NodeName] | None:
        return None if self.named is None else [NodeName(name) for name in self.named]

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        self.asked.append(node.node.name)
        return Unschedulable("node has a pod") if any(True for _pod in node.pods) else SUCCESS


def decided(
    pods: list[Pod], *plugins: Any, unit: SchedulingUnit, cpu: int = 4
) -> tuple[dict[str, str], str, Scheduler]:
    """Return the node of each pod that is bound, the last reason, and the scheduler."""
    cluster = InMemoryCluster()
    for name in ("a", "b", "c", "d"):
        cluster.apply(NodeAdded(make_node(name, cpu=1 if name == "d" else cpu)))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster, unit=unit, plugins=plugins)
    scheduler.rebuild(now=0.0)
    bound, reason = dict[str, str](), ""
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                bound[effect.uid.partition("/")[2]] = effect.node
            elif isinstance(effect, PodUnschedulable):
                reason = effect.reason
    return bound, reason, scheduler


UNITS = pytest.mark.parametrize("unit", list(SchedulingUnit))


@UNITS
def test_only_named_nodes_are_asked_and_taken(unit: SchedulingUnit) -> None:
    plugin = Naming(("gone", "d", "c"))
    bound, _reason, _scheduler = decided([make_pod("p", cpu=2)], plugin, unit=unit)
    assert bound == {"p": "c"}
    assert set(plugin.asked) == {"c"}


@UNITS
def test_pod_that_fits_on_no_named_node_says_of_how_many_nodes_which_is_true(
    unit: SchedulingUnit,
) -> None:
    bound, reason, _scheduler = decided([make_pod("p", cpu=2)], Naming(("d",)), unit=unit)
    assert bound == {}
    assert reason.startswith("0/4 nodes are available: ")
    assert "3 node(s) didn't satisfy plugin(s) [Naming]" in reason


@UNITS
def test_node_that_is_not_named_and_too_small_is_said_not_to_be_named(unit: SchedulingUnit) -> None:
    _bound, reason, _scheduler = decided([make_pod("p", cpu=5)], Naming(("a", "d")), unit=unit)
    assert "2 Insufficient cpu" in reason
    assert "2 node(s) didn't satisfy plugin(s) [Naming]" in reason


@UNITS
@pytest.mark.parametrize("count", [2, 3])
def test_gang_is_placed_on_named_nodes_or_not_at_all(unit: SchedulingUnit, count: int) -> None:
    gang = [make_pod(f"g{n}", group="g", min_available=count, cpu=1) for n in range(count)]
    bound, _reason, scheduler = decided(gang, Naming(("b", "d")), unit=unit)
    assert set(bound.values()) == ({"b", "d"} if count == 2 else set())
    scheduler._check()


class Unread:
    """Accepts all nodes; it does not say that it reads pods."""

    name = "Unread"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


@UNITS
def test_plugin_that_reads_pods_sees_them_after_one_that_does_not(unit: SchedulingUnit) -> None:
    pods = [make_pod(name, cpu=1) for name in ("p", "q")]
    bound, _reason, _scheduler = decided(pods, Unread(), Naming(None), unit=unit)
    assert bound == {"p": "a", "q": "b"}
