"""One call evaluates a node for a pod, and gives what filter, headroom and score give."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from attrs import evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    Resources,
    Scheduler,
    SchedulingUnit,
    Taint,
)
from gangsched.coscheduling import Coscheduling
from gangsched.errors import PluginError, ProfileError
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.plugins import (
    DefaultBinder,
    NodeResources,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    PrioritySort,
    Strategy,
    TaintToleration,
)
from gangsched.profile import Profile
from gangsched.profile.signing import evaluates_nodes
from gangsched.protocols import CycleView, NodeEvaluator, NodeView
from gangsched.testing import check_plugin, make_pod
from support.busy import NOW, tell
from support.views import cycle, node_view

GPU: Final = "example.com/gpu"
AMOUNTS: Final = st.integers(0, 9)


def offers() -> st.SearchStrategy[dict[str, int]]:
    names = st.sampled_from(["cpu", "memory", GPU, "pods"])
    return st.dictionaries(names, AMOUNTS)


def requests() -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), AMOUNTS)


@given(st.sampled_from(Strategy), offers(), requests(), requests(), st.integers(0, 3))
def test_evaluator_agrees_with_filter_headroom_and_score(
    strategy: Strategy, has: dict[str, int], held: dict[str, int], asks: dict[str, int], pods: int
) -> None:
    plugin, pod = NodeResources(strategy), Pod(name="p", requests=asks)
    node = Node(name=NodeName("n"), allocatable=has)
    free = node.allocatable.to_milli()
    for name, amount in Resources(held).items():
        free[name] = free.get(name, 0) - amount
    view = evolve(node_view(node), free=free, pod_count=pods)
    evaluate = plugin.node_evaluator(pod)
    assert evaluate is not None
    refused = isinstance(plugin.filter(cycle(), pod, view), Unschedulable)
    wanted = (plugin.headroom(pod, view), plugin.score(cycle(), pod, view))
    assert evaluate(view) == (None if refused else wanted)


@given(st.sampled_from(Strategy), offers(), requests())
def test_evaluator_agrees_where_a_resource_is_free_that_the_node_does_not_offer(
    strategy: Strategy, has: dict[str, int], asks: dict[str, int]
) -> None:
    """As on a hypothetical node, with any amount of a resource; see ``NodeClasses.boundless``."""
    plugin, pod = NodeResources(strategy), Pod(name="p", requests=asks)
    node = Node(name=NodeName("n"), allocatable=has)
    for name in ("cpu", "memory", GPU):
        view = evolve(node_view(node), free={**node.allocatable.to_milli(), name: 1 << 60})
        evaluate = plugin.node_evaluator(pod)
        assert evaluate is not None
        refused = isinstance(plugin.filter(cycle(), pod, view), Unschedulable)
        wanted = (plugin.headroom(pod, view), plugin.score(cycle(), pod, view))
        assert evaluate(view) == (None if refused else wanted)


def test_pod_that_requests_a_number_of_pods_has_no_evaluator() -> None:
    assert NodeResources().node_evaluator(Pod(name="p", requests={"pods": 1})) is None


class WithoutEvaluator(NodeResources):
    """The same plugin, asked by its three methods, and about each node in each state."""

    @property
    def signs_allocatable(self) -> bool:
        return False

    def node_evaluator(self, pod: Pod) -> NodeEvaluator | None:
        return None


def scheduler_with(
    resources: object, nodes: Iterable[Node], unit: SchedulingUnit, *more: object
) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    first = (Coscheduling(), NodeUnschedulable(), TaintToleration())
    plugins = (*first, resources, *more, DefaultBinder())
    scheduler = Scheduler(cluster, Profile(*plugins), unit=unit)
    for node in nodes:
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    return cluster, scheduler


def placed(
    resources: object,
    nodes: list[Node],
    steps: list[tuple[str, int]],
    unit: SchedulingUnit,
    *more: object,
) -> list[tuple[str, str]]:
    """Let pods and gangs come and go; return all binds."""
    cluster, scheduler = scheduler_with(resources, nodes, unit, *more)
    binds: list[tuple[str, str]] = []
    running: list[Bind] = []
    for n, (what, size) in enumerate(steps):
        if what == "ends" and running:
            tell(cluster, scheduler, PodDeleted(running.pop(size % len(running)).uid), now=0.0)
        elif what == "node":
            extra = evolve(nodes[size % len(nodes)], name=NodeName(f"extra-{n}"))
            tell(cluster, scheduler, NodeAdded(extra), now=0.0)
        for m in range(size if what in ("gang", GPU) else 1 if what == "pod" else 0):
            asks: dict[str, str | int] = {"cpu": size, "memory": 1, GPU: int(what == GPU)}
            group = None if what == "pod" else f"g{n}"
            least = None if group is None else size
            pod = make_pod(f"p{n}-{m}", requests=asks, group=group, min_available=least)
            tell(cluster, scheduler, PodAdded(pod), now=0.0)
        while (effects := scheduler.schedule_one(now=0.0)) is not None:
            for bind in (each for each in effects if isinstance(each, Bind)):
                binds.append((bind.uid, bind.node))
                running.append(bind)
                tell(cluster, scheduler, Bound(bind.uid, bind.node, bind.attempt), now=0.0)
        scheduler._check()
    return binds


def a_node(cpu: int, memory: int, gpu: int, *, tainted: bool, cordoned: bool) -> Node:
    return Node(
        name=NodeName("?"),
        allocatable={"cpu": cpu, "memory": memory, GPU: gpu, "pods": 5},
        taints=(Taint("dedicated", "others"),) if tainted else (),
        unschedulable=cordoned,
    )


RARELY = st.sampled_from([False, False, False, True])
AMONG = {"cpu": st.integers(2, 8), "memory": st.integers(3, 9), "gpu": st.integers(0, 2)}
NODES = st.lists(
    st.builds(a_node, **AMONG, tainted=RARELY, cordoned=RARELY), min_size=1, max_size=6
).map(lambda found: [evolve(each, name=NodeName(f"n{n}")) for n, each in enumerate(found)])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "pod", "gang", GPU, "ends", "ends", "node"]), st.integers(1, 3)
    ),
    max_size=10,
)


@given(NODES, STEPS, st.sampled_from(SchedulingUnit), st.sampled_from(Strategy))
def test_pods_are_placed_as_if_each_node_were_asked_by_three_methods(
    nodes: list[Node], steps: list[tuple[str, int]], unit: SchedulingUnit, strategy: Strategy
) -> None:
    slow = placed(WithoutEvaluator(strategy), nodes, steps, unit)
    assert placed(NodeResources(strategy), nodes, steps, unit) == slow


@given(NODES, STEPS, st.sampled_from(SchedulingUnit))
def test_second_plugin_that_reads_capacity_is_asked_about_each_node_as_it_is(
    nodes: list[Node], steps: list[tuple[str, int]], unit: SchedulingUnit
) -> None:
    balanced = NodeResourcesBalancedAllocation()
    slow = placed(WithoutEvaluator(), nodes, steps, unit, balanced)
    assert placed(NodeResources(), nodes, steps, unit, balanced) == slow


# What is asked ------------------------------------------------------------------------------------


@frozen
class Counting(NodeResources):
    """Counts the calls of each method."""

    asked: list[str] = field(factory=list[str])

    @property
    def signs_allocatable(self) -> bool:
        return True

    def node_signature(self, node: NodeView) -> Any:
        self.asked.append("node_signature")
        return super().node_signature(node)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        self.asked.append("filter")
        return super().filter(state, pod, node)

    def headroom(self, pod: Pod, node: NodeView) -> int:
        self.asked.append("headroom")
        return super().headroom(pod, node)

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        self.asked.append("score")
        return super().score(state, pod, node)

    def node_evaluator(self, pod: Pod) -> NodeEvaluator | None:
        found = super().node_evaluator(pod)
        assert found is not None

        def evaluate(node: NodeView) -> tuple[int, int] | None:
            self.asked.append("evaluate")
            return found(node)

        return evaluate


def unlike(number: int) -> list[Node]:
    return [
        Node(name=NodeName(f"n{n}"), allocatable={"cpu": 8, "memory": 64 + n, "pods": 9})
        for n in range(number)
    ]


def test_unlike_node_is_evaluated_once_and_not_signed_again() -> None:
    asked: list[str] = []
    cluster, scheduler = scheduler_with(Counting(asked=asked), unlike(9), SchedulingUnit.GROUP)
    assert asked.count("node_signature") == 9
    asked.clear()
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=1)), now=0.0)
    assert scheduler.schedule_one(now=0.0)
    # the first node of the kind shows what the other plugins answer for the kind
    assert sorted(asked) == sorted(["filter", "headroom", "score", *["evaluate"] * 8])
    asked.clear()
    tell(cluster, scheduler, PodAdded(make_pod("q", cpu=1)), now=0.0)
    assert scheduler.schedule_one(now=0.0)
    assert asked == ["evaluate"]


def test_refused_node_is_asked_for_its_reasons() -> None:
    asked: list[str] = []
    cluster, scheduler = scheduler_with(Counting(asked=asked), unlike(3), SchedulingUnit.GROUP)
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=9)), now=0.0)
    assert scheduler.schedule_one(now=0.0)
    assert "Insufficient cpu" in str(scheduler.why(make_pod("p").uid))
    scheduler._check()


def test_like_node_that_arrives_later_meets_the_first_in_one_class() -> None:
    nodes = unlike(2)
    cluster, scheduler = scheduler_with(NodeResources(), nodes, SchedulingUnit.GROUP)
    classes = scheduler._state.nodes.classes
    pods = iter(make_pod(f"p{n}", cpu=1) for n in range(9))

    def place() -> None:
        tell(cluster, scheduler, PodAdded(next(pods)), now=0.0)
        assert scheduler.schedule_one(now=0.0)

    place()
    place()
    assert [each.is_signed for each in classes.occupied()] == [False, False]
    twins = [evolve(each, name=NodeName(f"twin-{n}")) for n, each in enumerate(nodes)]
    for twin in twins:
        tell(cluster, scheduler, NodeAdded(twin), now=0.0)
    for _ in range(6):
        place()
    assert {len(info.holders) for info in scheduler._state.nodes.infos.values()} == {2}
    assert len(list(classes.occupied())) == 2
    scheduler._check()


def test_pickled_scheduler_makes_its_evaluator_anew() -> None:
    cluster, scheduler = scheduler_with(NodeResources(), unlike(3), SchedulingUnit.GROUP)
    for name in ("p", "q"):
        tell(cluster, scheduler, PodAdded(make_pod(name, cpu=1)), now=0.0)
    under_way = scheduler.schedule_one(now=0.0)
    assert under_way
    twin = pickle.loads(pickle.dumps(scheduler))
    decided = scheduler.schedule_one(now=0.0)
    assert decided
    assert twin.schedule_one(now=0.0) == (*under_way, *decided)
    twin._check()


class AnotherScore(NodeResources):
    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 7


class AnotherFilter(NodeResources):
    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


class AnotherHeadroom(NodeResources):
    def headroom(self, pod: Pod, node: NodeView) -> int:
        return 1


@pytest.mark.parametrize("kind", [AnotherScore, AnotherFilter, AnotherHeadroom, NodeResourcesFit])
def test_subclass_with_a_method_of_its_own_has_no_evaluator(kind: type[Any]) -> None:
    assert evaluates_nodes(NodeResources())
    assert not evaluates_nodes(kind())
    assert Profile(PrioritySort(), kind(), DefaultBinder()).evaluating is None


class Signing(TaintToleration):
    """A second plugin that reads what pods change."""

    @property
    def signs_node_alone(self) -> bool:
        return False


def test_evaluator_is_not_used_beside_another_plugin_that_reads_what_pods_change() -> None:
    assert Profile(PrioritySort(), NodeResources(), DefaultBinder()).evaluating is not None
    with_two = Profile(PrioritySort(), NodeResources(), Signing(), DefaultBinder())
    assert with_two.evaluating is None


@frozen
class Reading:
    """Scores a node by its free cpu, and notes what it was shown."""

    shown: list[int] = field(factory=list[int])
    name = "Reading"

    def pod_signature(self, pod: Pod) -> None:
        return None

    def node_signature(self, node: NodeView) -> int:
        return node.free["cpu"]

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        self.shown.append(node.free["cpu"])
        return 0


def test_second_plugin_is_shown_each_state_of_a_node_that_is_not_signed_again() -> None:
    reading = Reading()
    nodes = unlike(1)
    cluster, scheduler = scheduler_with(NodeResources(), nodes, SchedulingUnit.GROUP, reading)
    for n in range(3):
        tell(cluster, scheduler, PodAdded(make_pod(f"p{n}", cpu=1)), now=0.0)
        assert scheduler.schedule_one(now=0.0)
    assert reading.shown == [8000, 7000, 6000]


# What is refused ----------------------------------------------------------------------------------


@frozen
class Odd(NodeResources):
    """Returns a function that returns anything."""

    returns: Any = None

    def node_evaluator(self, pod: Pod) -> NodeEvaluator | None:
        return (lambda _node: self.returns) if pod.name.startswith("p") else self.returns


@pytest.mark.parametrize(
    "returned",
    [True, 1, (1,), (1, 2, 3), (1, 101), (1, -1), (-1, 1), (1.0, 1), (True, 1), (1, "x"), [1, 2]],
)
def test_bad_answer_of_an_evaluator_is_refused_by_plugin_and_value(returned: Any) -> None:
    cluster, scheduler = scheduler_with(Odd(returns=returned), unlike(2), SchedulingUnit.GROUP)
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=1)), now=0.0)
    with pytest.raises(PluginError, match="NodeResourcesFit") as caught:
        scheduler.schedule_one(now=NOW)
    assert (caught.value.point, caught.value.subject) == ("node_evaluator", "default/p")
    assert repr(returned) in str(caught.value) or "unhashable" in str(caught.value)


@pytest.mark.parametrize("returned", [True, 1, "evaluate"])
def test_evaluator_that_is_no_function_is_refused(returned: Any) -> None:
    cluster, scheduler = scheduler_with(Odd(returns=returned), unlike(2), SchedulingUnit.GROUP)
    tell(cluster, scheduler, PodAdded(make_pod("q", cpu=1)), now=0.0)
    with pytest.raises(PluginError, match=r"node_evaluator.*expected a function"):
        scheduler.schedule_one(now=NOW)


def test_error_of_an_evaluator_names_the_plugin_and_the_pod() -> None:
    class Failing(NodeResources):
        def node_evaluator(self, pod: Pod) -> NodeEvaluator | None:
            return lambda node: (1 // len(node.node.labels), 0)

    cluster, scheduler = scheduler_with(Failing(), unlike(2), SchedulingUnit.GROUP)
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=1)), now=0.0)
    with pytest.raises(PluginError, match="ZeroDivisionError") as caught:
        scheduler.schedule_one(now=NOW)
    assert (caught.value.point, caught.value.subject) == ("node_evaluator", "default/p")


@pytest.mark.parametrize("given", [None, 1, "yes"])
def test_declaration_of_allocatable_that_is_no_bool_is_refused(given: Any) -> None:
    class Declaring(NodeResources):
        signs_allocatable: Any = given

    with pytest.raises(ProfileError, match="signs_allocatable") as caught:
        Profile(PrioritySort(), Declaring(), DefaultBinder())
    assert repr(given) in str(caught.value)


def generous(plugin: NodeResources, pod: Pod) -> Callable[[NodeView], tuple[int, int] | None]:
    found = plugin.node_evaluator(pod)
    assert found is not None
    return lambda node: found(node) or (1, 0)


def test_check_plugin_finds_an_evaluator_that_disagrees() -> None:
    class Generous(NodeResources):
        def node_evaluator(self, pod: Pod) -> NodeEvaluator | None:
            return generous(NodeResources(), pod)

    check_plugin(NodeResources())
    with pytest.raises(AssertionError, match=r"node_evaluator: gives \(1, 0\)"):
        check_plugin(Generous())
