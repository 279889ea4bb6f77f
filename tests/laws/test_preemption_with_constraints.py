"""Preemption honours the constraints between pods, against an oracle that tries every set of pods.

The oracle scans all pods for each node; see ``support.kube_rules``. Clusters are small, so that
every set of running pods of lower priority can be tried as victims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest
from attrs import evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Evict,
    HostPort,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Nominated,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodUID,
    Preemption,
    SchedulingUnit,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import Namespace, PodDisruptionBudget
from gangsched.events import ObjectChanged
from support import kube_rules
from support.constrained_worlds import (
    HOST,
    NAMESPACES,
    ZONE,
    World,
    constrained_pods,
    small_nodes,
)
from support.constrained_worlds import why as why_not
from support.settled import settle

pytestmark = pytest.mark.once("says itself which unit it is about")

HIGH = 9
NEVER = (kube_rules.AFFINITY, "missing required label", "taint", "node affinity")
"""Refusals that no eviction changes, as kube-scheduler has it."""


@frozen
class Case:
    """Nodes, running pods, and one pending pod of high priority."""

    nodes: tuple[Node, ...]
    running: tuple[tuple[Pod, Node], ...]
    pod: Pod

    def world(self, without: Collection[PodUID] = ()) -> World:
        """Return the case as a world in which some running pods are gone."""
        left = tuple(each for each in self.running if each[0].uid not in without)
        return World(self.nodes, left, (self.pod,))

    def fits(self, without: Collection[PodUID], node: Node) -> bool:
        world = self.world(without)
        return why_not(world, world.running, self.pod, node) is None

    def can_be_helped(self) -> list[Node]:
        """Return the nodes that evictions may make take the pod."""
        world, found = self.world(), list[Node]()
        for node in self.nodes:
            reason = why_not(world, world.running, self.pod, node) or ""
            if not any(each in reason for each in NEVER):
                found.append(node)
        return found

    def may_be_evicted(self) -> list[Pod]:
        return [pod for pod, _node in self.running if pod.priority < HIGH]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = draw(small_nodes())
    running: list[tuple[Pod, Node]] = []
    for n in range(draw(st.integers(1, 4))):
        pod = draw(constrained_pods(f"running-{n}"))
        priority = draw(st.sampled_from([0, 0, 1, HIGH]))
        node = draw(st.sampled_from(nodes))
        used = sum(p.requests.amount("cpu") for p, where in running if where is node)
        if used + pod.requests.amount("cpu") > node.allocatable.amount("cpu"):
            pod = evolve(pod, requests={"cpu": 0})
        running.append((evolve(pod, priority=priority), node))
    pod = evolve(draw(constrained_pods("high")), priority=HIGH)
    return Case(nodes, tuple(running), pod)


@frozen
class Outcome:
    """What became of a case; how often nodes were nominated does not count in comparisons."""

    evicted: frozenset[PodUID]
    nominated: NodeName | None
    bound: NodeName | None
    nominations: int = field(default=0, eq=False)


def play(case: Case, unit: SchedulingUnit, *budgets: PodDisruptionBudget) -> Outcome:
    """Let the pod arrive, carry out the evictions, and let it be bound."""
    cluster = InMemoryCluster()
    for name, labels in NAMESPACES.items():
        cluster.apply(ObjectChanged(Namespace(name=name, labels=labels)))
    for node in case.nodes:
        cluster.apply(NodeAdded(node))
    for budget in budgets:
        cluster.apply(ObjectChanged(budget))
    for pod, node in case.running:
        cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    scheduler = presets.coscheduling(
        cluster, unit=unit, permit_timeout=1.0, preemption=Preemption(grace=1e6)
    )
    scheduler.rebuild(now=0.0)
    scheduler.handle(cluster.apply(PodAdded(case.pod)), now=0.0)
    seen = settle(cluster, scheduler, most=100)
    evicted = [effect.uid for effect in seen if isinstance(effect, Evict)]
    nominated = next(
        (node for e in seen if isinstance(e, Nominated) for _uid, node in e.places), None
    )
    for uid in evicted:
        seen += scheduler.handle(cluster.apply(PodDeleted(uid)), now=0.0)
        scheduler._check()
    seen += settle(cluster, scheduler, most=100)
    bound = next((e.node for e in seen if isinstance(e, Bind) and e.uid == case.pod.uid), None)
    times = sum(isinstance(effect, Nominated) for effect in seen)
    return Outcome(frozenset(evicted), nominated, bound, times)


def subsets(pods: Sequence[Pod]) -> Iterator[tuple[Pod, ...]]:
    for size in range(len(pods) + 1):
        yield from combinations(pods, size)


UNITS = st.sampled_from(SchedulingUnit)


@given(cases(), UNITS)
def test_pod_is_bound_where_every_constraint_holds_after_its_victims_have_left(
    case: Case, unit: SchedulingUnit
) -> None:
    """No victim can be spared, and victims are found wherever evictions help.

    As in kube-scheduler, no victims need be found if a companion is among the lower pods.
    """
    found = play(case, unit)
    by_uid = {pod.uid: pod for pod, _node in case.running}
    assert all(by_uid[uid].priority < HIGH for uid in found.evicted)
    if found.evicted:
        assert found.nominated is not None
        assert found.bound == found.nominated
    if found.bound is not None:
        node = next(node for node in case.nodes if node.name == found.bound)
        assert case.fits(found.evicted, node)
    if any(case.fits((), node) for node in case.nodes):
        assert found.evicted == frozenset()
        assert found.bound is not None
    for uid in found.evicted:
        spared = found.evicted - {uid}
        assert not any(case.fits(spared, node) for node in case.nodes), uid
    most = highest_needed(case)
    if most is not None:
        assert found.bound is not None
        assert max((by_uid[uid].priority for uid in found.evicted), default=-1) <= most
    elif not any(
        case.fits({pod.uid for pod in chosen}, node)
        for chosen in subsets(case.may_be_evicted())
        for node in case.can_be_helped()
    ):
        assert found == Outcome(frozenset(), None, None)


def highest_needed(case: Case, spared: Collection[PodUID] = ()) -> int | None:
    """Return the least priority up to which evicting every pod makes the pod fit."""
    nodes, pods = case.can_be_helped(), case.may_be_evicted()
    for highest in sorted({-1, *(pod.priority for pod in pods)}):
        gone = {pod.uid for pod in pods if pod.priority <= highest and pod.uid not in spared}
        if any(case.fits(gone, node) for node in nodes):
            return highest
    return None


def budgets_of(app: str) -> list[PodDisruptionBudget]:
    """Return budgets that allow no eviction of some pods, in each namespace."""
    selector = LabelSelector({"app": app})
    return [
        PodDisruptionBudget(name="b", namespace=name, selector=selector, disruptions_allowed=0)
        for name in NAMESPACES
    ]


@given(cases(), UNITS)
def test_budget_is_violated_only_where_no_other_victims_are_enough(
    case: Case, unit: SchedulingUnit
) -> None:
    held = {pod.uid for pod, _node in case.running if pod.labels.get("app") == "x"}
    found = play(case, unit, *budgets_of("x"))
    if highest_needed(case, spared=held) is not None:
        assert not found.evicted & held
        assert found.bound is not None


# Cases that broke it ------------------------------------------------------------------------------


def node(name: str, zone: str, cpu: int = 4, **fields: Any) -> Node:
    labels = {HOST: name, ZONE: zone, **fields.pop("labels", {})}
    return Node(name=name, allocatable={"cpu": cpu, "pods": 9}, labels=labels, **fields)


def pod(name: str, app: str, priority: int = 0, **fields: Any) -> Pod:
    return Pod(name=name, namespace="one", labels={"app": app}, priority=priority, **fields)


def about(app: str, key: str = ZONE) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector({"app": app}))


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_preemptor_waits_for_a_victim_on_another_node_than_its_own(unit: SchedulingUnit) -> None:
    """It was retried at once, failed, and preempted again without an end."""
    a, b = node("a", "z"), node("b", "z", cpu=9)
    carrier = pod("carrier", "x", pod_anti_affinity=[about("high")])
    high = pod("high", "high", HIGH, requests={"cpu": 5})
    found = play(Case((a, b), ((carrier, a),), high), unit)
    assert found == Outcome(frozenset({carrier.uid}), b.name, b.name)
    assert found.nominations == 1


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_victim_may_be_on_a_node_that_refuses_the_preemptor_for_good(unit: SchedulingUnit) -> None:
    a, b = node("a", "z", taints=(Taint("t"),)), node("b", "z")
    other = pod("other", "x", tolerations=[Toleration(exists=True)])
    high = pod("high", "high", HIGH, pod_anti_affinity=[about("x")])
    found = play(Case((a, b), ((other, a),), high), unit)
    assert found == Outcome(frozenset({other.uid}), b.name, b.name)


@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("priority", [0, HIGH])
def test_anti_affinity_to_a_pod_of_the_same_priority_cannot_be_resolved(
    unit: SchedulingUnit, priority: int
) -> None:
    a = node("a", "z")
    rival, low = pod("rival", "x", priority), pod("low", "y")
    high = pod("high", "high", HIGH, pod_anti_affinity=[about("x")])
    found = play(Case((a,), ((rival, a), (low, a)), high), unit)
    assert found.evicted == (frozenset() if priority == HIGH else frozenset({rival.uid}))


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_companion_is_no_victim(unit: SchedulingUnit) -> None:
    """Without its companion the preemptor would not be accepted there.

    As the documentation of Kubernetes says of affinity to pods of lower priority, no pod of a lower
    priority than the companion's need be found either; here one is.
    """
    a = node("a", "z", cpu=2)
    friend = pod("friend", "x", 1, requests={"cpu": 1})
    stranger = pod("stranger", "y", requests={"cpu": 1})
    high = pod("high", "high", HIGH, requests={"cpu": 1}, pod_affinity=[about("x")])
    found = play(Case((a,), ((friend, a), (stranger, a)), high), unit)
    assert found == Outcome(frozenset({stranger.uid}), a.name, a.name)


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_pods_are_not_evicted_so_that_an_affinity_has_no_object(unit: SchedulingUnit) -> None:
    """Without any pod that it selects, a pod that selects itself is accepted anywhere."""
    a, b = node("a", "y", cpu=0), node("b", "z")
    friend = pod("friend", "x")
    high = pod("high", "x", HIGH, requests={"cpu": 1}, pod_affinity=[about("x")])
    found = play(Case((a, b), ((friend, a),), high), unit)
    assert found == Outcome(frozenset(), None, None)


@pytest.mark.parametrize("unit", SchedulingUnit)
def test_spread_and_host_ports_are_freed_by_preemption(unit: SchedulingUnit) -> None:
    a, b = node("a", "y"), node("b", "z")
    taken = pod("taken", "x", host_ports=[HostPort(80)])
    high = pod("high", "x", HIGH, host_ports=[HostPort(80)], node_selector={HOST: "a"})
    assert play(Case((a, b), ((taken, a),), high), unit).evicted == {taken.uid}
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, label_selector=LabelSelector({"app": "x"})
    )
    full = pod("full", "q", HIGH, requests={"cpu": 4})
    even = pod("even", "x", HIGH, requests={"cpu": 1}, topology_spread_constraints=[spread])
    one = pod("one", "x")
    found = play(Case((a, b), ((one, a), (full, b)), even), unit)
    assert found == Outcome(frozenset({one.uid}), a.name, a.name)
