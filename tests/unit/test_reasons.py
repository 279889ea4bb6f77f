"""Reasons of failures: which is named, by whom, and in whose words."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import (
    Event,
    GroupRejected,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodRejected,
    PodUnschedulable,
    PodUpdated,
    Profile,
    Role,
    Scheduler,
    SchedulingUnit,
    Taint,
    VolumeClaim,
    gang,
    presets,
)
from gangsched.coscheduling import Coscheduling
from gangsched.explain import NoNodeFits, SearchBudgetExhausted, Shortage
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.plugins import DefaultBinder, NodeResources, TaintToleration
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod

# The reason against a node is a constraint before it is a lack of capacity


def reason(plugins: tuple[object, ...], *cpus: int) -> str:
    """Return the reason why tainted nodes do not take a pod of 4 CPUs."""
    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(Coscheduling(), *plugins, DefaultBinder()))
    for n, cpu in enumerate(cpus):
        name, taints = NodeName(f"n{n}"), (Taint("dedicated", "others"),)
        node = Node(name=name, allocatable={"cpu": cpu, "pods": 9}, taints=taints)
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    pod = make_pod("p", cpu=4)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    scheduler.schedule_one(now=0.0)
    why = scheduler.why(pod)
    assert isinstance(why, NoNodeFits)
    return why.reason


@pytest.mark.parametrize("cpus", [(4, 1), (1, 4), (4, 1, 5, 2), (2, 4, 1, 5)])
@pytest.mark.parametrize("is_first", [True, False])
def test_taint_is_the_reason_also_where_capacity_lacks(
    cpus: tuple[int, ...], *, is_first: bool
) -> None:
    """More capacity would not help there."""
    taints, capacity = TaintToleration(), NodeResources()
    found = reason((taints, capacity) if is_first else (capacity, taints), *cpus)
    assert f"{len(cpus)} node(s) had untolerated taint" in found
    assert "Insufficient cpu" not in found


# Why a gang does not start of which a plugin counts the pods on nodes: every cause is named

GPU = "nvidia.com/gpu"


class GpuQuota:
    """The pods with GPUs use at most two of them; no signature, so each pod is a kind."""

    name = "GpuQuota"
    limit = 2

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        pods = [each for view in state.nodes.values() for each in view.pods]
        used = sum(each.requests.amount(GPU) for each in pods)
        if used + pod.requests.amount(GPU) <= 1000 * self.limit:
            return Success()
        return Unschedulable(f"the lab may use {self.limit} GPUs", resolvable=False)

    def pod_signature(self, pod: Pod) -> int:
        return pod.requests.amount(GPU)

    def node_signature(self, node: NodeView) -> None:
        return None


class Wide(GpuQuota):
    limit = 12


def tried(plugin: object, workers: int, *, nodes: int, budget: int = 10_000) -> Scheduler:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=[plugin], search_budget=budget)
    for number in range(nodes):
        node = Node(name=f"n{number}", allocatable={GPU: 4})
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for event in gang("g", roles={"worker": Role(workers)}, gpu=1).events():
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler


def test_search_that_is_cut_short_names_the_quota_that_stopped_it() -> None:
    scheduler = tried(Wide(), 20, nodes=9, budget=200)
    why = scheduler.why("default/g")
    proof = getattr(why, "unschedulable_member").proof  # noqa: B009
    assert isinstance(proof, SearchBudgetExhausted)
    assert "given up after 200 steps: 12 of 20 members fit, and more may" in str(why)
    assert "the lab may use 12 GPUs" in str(why)


def test_bound_that_is_not_exact_is_no_count() -> None:
    proof = Shortage(20, 19, exact=False)
    assert str(proof) == "not all of 20 members fit at once"
    assert str(Shortage(20, 15, exact=False)) == "15 or fewer of 20 members fit at once"
    assert str(Shortage(20, 12, exact=True)) == "at most 12 of 20 members fit at once"
    within = Shortage(3, 2, exact=False, role="ps", within="rack=r1", resource="cpu")
    assert str(within) == "not all of 3 members of role ps fit within rack=r1: cpu is short"


# free. So the gang is told about that member, and not how many of the others fit.

_PREFIX: Final = "pod-group.scheduling.sigs.k8s.io/"
_HOST: Final = "kubernetes.io/hostname"
_GANG: Final = {_PREFIX + "name": "g", _PREFIX + "min-available": "5"}


def _node(name: str, cpu: int = 2, **more: Any) -> Node:
    offers: dict[str, str | int] = {"cpu": cpu, "ephemeral-storage": "10Gi", "pods": 10}
    given: dict[str, Any] = {"labels": {_HOST: name}, **more}
    return Node(name=name, allocatable=offers, **given)


def _pods(count: int, first: int = 0, **more: Any) -> list[Pod]:
    given: dict[str, Any] = {"labels": _GANG, "requests": {"cpu": 1}, **more}
    return [Pod(name=f"p{n}", uid=f"p{n}", **given) for n in range(first, first + count)]


def _told(
    nodes: list[Node], pods: list[Pod], group: PodGroup | None = None
) -> tuple[dict[str, str], str, Any]:
    """Return what each pod and the group is told, and which member the answer of ``why`` names."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for node in nodes:
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    if group is not None:
        scheduler.handle(cluster.apply(PodGroupAdded(group)), now=0.0)
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects: list[Any] = []
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    told = {str(each.uid): each.reason for each in effects if isinstance(each, PodUnschedulable)}
    (rejected,) = [each for each in effects if isinstance(each, GroupRejected)]
    why: Any = scheduler.why("default/g")
    return told, rejected.reason, why.unschedulable_member


_STORAGE: Final = "0/3 nodes are available: 3 Insufficient ephemeral-storage."


@pytest.mark.parametrize("cpus", [1, 2, 9])
@pytest.mark.parametrize("is_first", [True, False])
def test_member_that_fits_nowhere_is_named_whatever_else_is_short(
    cpus: int, is_first: bool
) -> None:
    nodes = [_node(f"n{n}", cpus) for n in range(3)]
    large = _pods(1, 9, requests={"cpu": 1, "ephemeral-storage": "1Ti"})
    others = _pods(4)
    told, reason, member = _told(nodes, large + others if is_first else others + large)
    assert told == dict.fromkeys(("p0", "p1", "p2", "p3", "p9"), _STORAGE)
    assert reason == _STORAGE
    assert member.uid == "p9"
    assert isinstance(member.proof, Shortage)


def test_member_that_fits_nowhere_is_not_named_if_the_gang_does_not_need_it() -> None:
    nodes = [_node("n0", 4)]
    large = _pods(1, 9, requests={"cpu": 1, "ephemeral-storage": "1Ti"})
    _all, reason, _member = _told(nodes, [*_pods(5), *large])
    assert reason == "at most 4 of 5 members fit: cpu is short"


def test_constraint_of_the_remaining_nodes_is_named_beside_the_scarce_resource() -> None:
    # the node without cpu is not named again: that cpu is scarce says it. What is free on the node
    # with the taint is of no use, so cpu is short, and not free in pieces too small
    nodes = [_node("n0"), _node("n1"), _node("none", 0), _node("t", 9, taints=[Taint("a")])]
    _all, reason, _member = _told(nodes, _pods(5))
    assert reason == (
        "at most 4 of 5 members fit: cpu is short; of 4 nodes: 1 node(s) had untolerated taint(s)"
    )


def test_constraint_between_members_is_named_with_counts() -> None:
    apart = PodAffinityTerm(
        topology_key=_HOST, label_selector=LabelSelector({_PREFIX + "name": "g"})
    )
    nodes = [_node(f"n{n}") for n in range(3)]
    _all, reason, _member = _told(nodes, _pods(5, pod_anti_affinity=(apart,)))
    assert reason == (
        "at most 3 of 5 members fit at once: 0/3 nodes are available:"
        " 3 node(s) didn't match pod anti-affinity rules."
    )


# name contradicting nodes is refused for that, also if one of its claims is missing.

_CLAIMS: Final = {
    "ephemeral": VolumeClaim("scratch", ephemeral=True),
    "named": VolumeClaim("data"),
}


def _terms(*names: str) -> tuple[NodeSelectorTerm, ...]:
    asked = [NodeSelectorRequirement("metadata.name", "In", [name]) for name in names]
    return (NodeSelectorTerm((), match_fields=asked),)


def _reason(scheduler: Scheduler, uid: str) -> str:
    effects = scheduler.schedule_one(now=0.0) or ()
    (told,) = [each for each in effects if isinstance(each, PodUnschedulable) and each.uid == uid]
    return told.reason


@pytest.mark.parametrize("claim", _CLAIMS)
@pytest.mark.parametrize("preset", ["pod_by_pod", "gang", "kube_default"])
def test_conflicting_names_are_told_before_a_missing_claim(preset: str, claim: str) -> None:
    cluster = InMemoryCluster()
    scheduler = getattr(presets, preset)(cluster)
    pod = Pod(name="p", uid="p", affinity=_terms("a", "b"), volume_claims=(_CLAIMS[claim],))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert _reason(scheduler, "p") == "0/1 nodes are available: pod affinity terms conflict."


def test_missing_claim_is_told_when_names_do_not_conflict() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster)
    pod = Pod(name="p", uid="p", affinity=_terms("a"), volume_claims=(_CLAIMS["named"],))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert 'persistentvolumeclaim "data" not found' in _reason(scheduler, "p")


def test_pod_with_conflicting_names_is_not_tried_again_without_an_event() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster)
    pod = Pod(name="p", uid="p", affinity=_terms("a", "b"))
    for event in (NodeAdded(Node(name="a", allocatable={"cpu": 1})), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert "pod affinity terms conflict" in _reason(scheduler, "p")
    scheduler.advance(now=1000.0)
    assert scheduler.schedule_one(now=1000.0) is None


# A group that lacks members of a role alone is told how many of those fit


class Unsigned:
    """A plugin that says nothing of what it reads, so members are placed one after the other."""

    name = "Unsigned"

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return node.pod_count


def test_members_of_a_lacking_role_are_counted_though_the_group_lacks_none_in_all() -> None:
    cluster = InMemoryCluster()
    profile = Profile(*presets.coscheduling_profile().plugins, Unsigned())
    scheduler = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    group = PodGroup(name="g", min_available=2, roles={"ps": 2})
    running = [
        evolve(make_pod(f"w{n}", group="g", cpu=1), node_name=NodeName("n")) for n in range(2)
    ]
    lacking = [make_pod(f"ps{n}", group="g", cpu=1, role="ps") for n in range(2)]
    events: list[Event] = [
        NodeAdded(make_node("n", cpu=3)),
        PodGroupAdded(group),
        *map(PodAdded, [*running, *lacking]),
    ]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0)
    assert effects is not None
    (rejected,) = (effect for effect in effects if isinstance(effect, GroupRejected))
    assert rejected.reason == "at most 1 of 2 members fit: cpu is short"
    data = scheduler.snapshot()
    restored = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    restored.restore(data)
    assert restored.snapshot() == data


# What a notice says of a pod that gives its node back because of an event


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"phase": PodPhase.SUCCEEDED}, "pod w0 has succeeded"),
        ({"phase": PodPhase.FAILED}, "pod w0 has failed"),
        ({"deleted_at": 1.0}, "pod w0 is terminating"),
        ({"node_name": NodeName("m")}, "pod w0 was bound to m"),
        ({"scheduling_gates": ("quota",)}, "pod w0 has scheduling gates: quota"),
    ],
)
def test_waiting_pod_that_loses_its_node_says_what_happened(
    change: dict[str, Any], says: str
) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, permit_timeout=60.0)
    pods = [make_pod(f"w{n}", group="g", min_available=2, cpu=1) for n in range(2)]
    nodes = [make_node("n", cpu=1), make_node("m", cpu=0)]
    events: list[Event] = [*map(NodeAdded, nodes), *map(PodAdded, pods)]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert [waiting.uid for waiting in scheduler.waiting] == [pods[0].uid]
    effects = scheduler.handle(cluster.apply(PodUpdated(evolve(pods[0], **change))), now=1.0)
    rejected = [effect for effect in effects if isinstance(effect, PodRejected)]
    assert [(each.uid, each.reason) for each in rejected] == [(pods[0].uid, says)]
