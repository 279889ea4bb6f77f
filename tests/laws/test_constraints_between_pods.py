"""Affinity, spreading and host ports against an oracle that scans all pods for each node.

The oracle is written from the documentation of Kubernetes; see ``support.kube_rules``. Clusters are
small, so that all ways to place a gang can be tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import TypeVar

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    Effect,
    GroupKey,
    HostPort,
    InMemoryCluster,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodUID,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import Namespace
from gangsched.events import ObjectChanged
from gangsched.explain import SearchBudgetExhausted, UnschedulableMember
from support import kube_rules

pytestmark = pytest.mark.once("says itself which unit it is about")

_T = TypeVar("_T")
ZONE, HOST = "zone", "kubernetes.io/hostname"
NAMESPACES: Mapping[str, Mapping[str, str]] = {"one": {"team": "a"}, "two": {"team": "b"}}
KEYS = st.sampled_from([ZONE, HOST, "rack"])
LABELS = st.dictionaries(st.sampled_from(["app", "job"]), st.sampled_from(["x", "y"]))
EXPRESSIONS = st.builds(
    LabelSelectorRequirement,
    st.sampled_from(["app", "job"]),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2, unique=True).map(tuple),
) | st.builds(
    LabelSelectorRequirement,
    st.sampled_from(["app", "job"]),
    st.sampled_from(["Exists", "DoesNotExist"]),
)
SELECTORS = st.builds(LabelSelector, LABELS, st.lists(EXPRESSIONS, max_size=1).map(tuple))
BY_TEAM = st.sampled_from([None, None, LabelSelector(), LabelSelector({"team": "b"})])
TERMS = st.builds(
    PodAffinityTerm,
    topology_key=KEYS,
    label_selector=SELECTORS,
    namespaces=st.sampled_from([(), (), ("two",), ("one", "two")]),
    namespace_selector=BY_TEAM,
    match_label_keys=st.sampled_from([(), (), ("job",)]),
    mismatch_label_keys=st.sampled_from([(), (), ("app",)]),
) | st.builds(PodAffinityTerm, topology_key=KEYS)
SPREADS = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=KEYS,
    label_selector=SELECTORS,
    min_domains=st.none() | st.integers(1, 3),
    node_affinity_policy=st.sampled_from(["Honor", "Ignore"]),
    node_taints_policy=st.sampled_from(["Honor", "Ignore"]),
    match_label_keys=st.sampled_from([(), ("job",)]),
)
PORTS = st.builds(
    HostPort,
    st.sampled_from([80, 81]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
)


def few(values: st.SearchStrategy[_T], most: int = 1) -> st.SearchStrategy[tuple[_T, ...]]:
    """Return mostly empty tuples."""
    none: st.SearchStrategy[tuple[_T, ...]] = st.just(())
    return none | st.lists(values, min_size=1, max_size=most).map(tuple)


@st.composite
def constrained_pods(draw: st.DrawFn, name: str, *, group: str | None = None) -> Pod:
    """Draw a pod with constraints; of a group, all in one namespace."""
    labels = dict(draw(LABELS))
    if group is not None:
        labels["pod-group.scheduling.sigs.k8s.io/name"] = group
    named = NodeSelectorTerm((), [NodeSelectorRequirement("metadata.name", "NotIn", ["n0"])])
    zoned = NodeSelectorTerm([NodeSelectorRequirement(ZONE, "Exists")])
    return Pod(
        name=name,
        namespace="one" if group is not None else draw(st.sampled_from(["one", "two"])),
        labels=labels,
        requests={"cpu": draw(st.integers(0, 1))},
        pod_affinity=draw(few(TERMS, 2)),
        pod_anti_affinity=draw(few(TERMS)),
        topology_spread_constraints=draw(few(SPREADS, 2)),
        host_ports=draw(few(PORTS)),
        affinity=draw(st.sampled_from([(), (), (named,), (zoned,)])),
        tolerations=draw(st.sampled_from([(), (Toleration(exists=True),)])),
    )


@st.composite
def small_nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    """Draw nodes with zones and racks, and host names that are mostly their own."""
    made: list[Node] = []
    for n in range(draw(st.integers(1, 4))):
        labels = {HOST: f"n{n}"}
        if draw(st.integers(0, 5)) == 0:
            labels = draw(st.sampled_from([{}, {HOST: "shared"}]))
        zone = draw(st.sampled_from([None, "a", "b", "c"]))
        rack = draw(st.sampled_from([None, "r"]))
        labels |= {} if zone is None else {ZONE: zone}
        labels |= {} if rack is None else {"rack": rack}
        made.append(
            Node(
                name=f"n{n}",
                allocatable={"cpu": draw(st.integers(0, 2)), "pods": 4},
                labels=labels,
                taints=draw(st.sampled_from([(), (), (Taint("t"),)])),
            )
        )
    return tuple(made)


@frozen
class World:
    """Nodes, pods that run on them, and pods that are pending."""

    nodes: tuple[Node, ...]
    running: tuple[tuple[Pod, Node], ...]
    pending: tuple[Pod, ...]


@st.composite
def worlds(draw: st.DrawFn, *, gang: bool) -> World:
    """Draw a world; with *gang*, the pending pods are one gang."""
    nodes = draw(small_nodes())
    running: list[tuple[Pod, Node]] = []
    for n in range(draw(st.integers(0, 3))):
        node = draw(st.sampled_from(nodes))
        pod = draw(constrained_pods(f"running-{n}"))
        running.append((_with_requests(pod), node))
    group = "g" if gang else None
    kinds = [
        draw(constrained_pods(f"kind-{n}", group=group)) for n in range(draw(st.integers(1, 2)))
    ]
    pending: list[Pod] = []
    for n in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        labels = dict(kind.labels)
        if gang:
            labels["pod-group.scheduling.sigs.k8s.io/min-available"] = "0"
        pending.append(_named(kind, f"p{n}", labels))
    if gang:
        least = str(len(pending))
        pending = [
            _named(
                pod,
                pod.name,
                {**pod.labels, "pod-group.scheduling.sigs.k8s.io/min-available": least},
            )
            for pod in pending
        ]
    return World(nodes, tuple(running), tuple(pending))


def _named(pod: Pod, name: str, labels: Mapping[str, str]) -> Pod:
    from attrs import evolve

    return evolve(pod, name=name, uid=PodUID(name), labels=labels)


def _with_requests(pod: Pod) -> Pod:
    from attrs import evolve

    return evolve(pod, requests={"cpu": 0})


def run(
    world: World, unit: SchedulingUnit
) -> tuple[dict[PodUID, NodeName], list[Effect], Scheduler]:
    """Schedule a world; return the nodes that pods were bound to, and all effects."""
    cluster = InMemoryCluster()
    for name, labels in NAMESPACES.items():
        cluster.apply(ObjectChanged(Namespace(name=name, labels=labels)))
    for node in world.nodes:
        cluster.apply(NodeAdded(node))
    for pod, node in world.running:
        cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    scheduler = presets.coscheduling(cluster, unit=unit, permit_timeout=1.0)
    seen = list(scheduler.rebuild(now=0.0))
    for pod in world.pending:
        seen += scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        if not pod.labels.get("pod-group.scheduling.sigs.k8s.io/name"):
            seen += settle(cluster, scheduler)
    seen += settle(cluster, scheduler)
    scheduler._check()
    bound = {effect.uid: effect.node for effect in seen if isinstance(effect, Bind)}
    return bound, seen, scheduler


def settle(cluster: InMemoryCluster, scheduler: Scheduler) -> list[Effect]:
    """Make decisions until there is none to make, and report each bind."""
    seen: list[Effect] = []
    for _ in range(200):
        effects = scheduler.schedule_one(now=0.0)
        scheduler._check()
        if effects is None:
            return seen
        seen += effects
        for effect in effects:
            if isinstance(effect, Bind):
                event = Bound(effect.uid, effect.node, effect.attempt)
                seen += scheduler.handle(cluster.apply(event), now=0.0)
    raise AssertionError("the scheduler does not come to an end")


def said(reasons: Sequence[str], count: int) -> str:
    """Return a diagnosis as kube-scheduler words it."""
    counted = ", ".join(f"{n} {reason}" for reason, n in sorted(Counter(reasons).items()))
    return f"0/{count} nodes are available: {counted}."


@given(worlds(gang=False))
def test_single_pod_goes_where_every_constraint_holds(world: World) -> None:
    bound, seen, _scheduler = run(world, SchedulingUnit.POD)
    by_name = {node.name: node for node in world.nodes}
    placed = list(world.running)
    told = {e.uid: e.reason for e in reversed(seen) if isinstance(e, PodUnschedulable)}
    for pod in world.pending:
        refused = {node.name: why(world, placed, pod, node) for node in world.nodes}
        if pod.uid in bound and pod.uid not in told:
            assert refused[bound[pod.uid]] is None
            placed.append((pod, by_name[bound[pod.uid]]))
        elif pod.uid not in bound:
            reasons = [reason for reason in refused.values() if reason is not None]
            assert len(reasons) == len(world.nodes)
            assert told[pod.uid] == said(reasons, len(world.nodes))
        else:  # it was refused first, and accepted beside a later pod
            return


def why(world: World, placed: kube_rules.Placed, pod: Pod, node: Node) -> str | None:
    """Return why a pod may not go to a node, node affinity and taints first."""
    if node.taints and not pod.tolerations:
        return "node(s) had untolerated taint(s)"
    if pod.affinity and not any(t.matches(node.labels, node.name) for t in pod.affinity):
        return "node(s) didn't match Pod's node affinity/selector"
    return kube_rules.refusal(world.nodes, placed, pod, node, NAMESPACES)


@given(worlds(gang=True), st.sampled_from(SchedulingUnit))
def test_gang_meets_every_constraint_among_its_members(world: World, unit: SchedulingUnit) -> None:
    bound, _seen, _scheduler = run(world, unit)
    if not bound:
        return
    by_name = {node.name: node for node in world.nodes}
    assert set(bound) == {pod.uid for pod in world.pending}
    for order in permutations(world.pending):
        placed = list(world.running)
        for pod in order:
            node = by_name[bound[pod.uid]]
            if why(world, placed, pod, node) is not None:
                break
            placed.append((pod, node))
        else:
            return
    raise AssertionError(f"no order of the members leads to {bound}")


@given(worlds(gang=True))
def test_whole_gang_starts_if_any_order_of_its_members_can_be_placed(world: World) -> None:
    bound, _seen, scheduler = run(world, SchedulingUnit.GROUP)
    possible = can_all_start(world, list(world.running), list(world.pending), set())
    if possible != bool(bound):
        found = getattr(scheduler.why(GroupKey("one/g")), "unschedulable_member", None)
        assert isinstance(found, UnschedulableMember)
        assert isinstance(found.proof, SearchBudgetExhausted), (found, bound)


def can_all_start(
    world: World,
    placed: list[tuple[Pod, Node]],
    pods: list[Pod],
    seen: set[frozenset[tuple[str, str]]],
) -> bool:
    """Return whether all pods can be placed one after another, in some order."""
    if not pods:
        return True
    position = frozenset((pod.uid, node.name) for pod, node in placed)
    if position in seen:
        return False
    seen.add(position)
    return any(
        why(world, placed, pod, node) is None
        and can_all_start(
            world, [*placed, (pod, node)], [other for other in pods if other is not pod], seen
        )
        for pod in pods
        for node in world.nodes
    )
