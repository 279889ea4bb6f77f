"""Small clusters with pods that have constraints on each other, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen
from hypothesis import strategies as st

from gangsched import (
    HostPort,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodUID,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from support import kube_rules

__all__ = [
    "HOST",
    "NAMESPACES",
    "ZONE",
    "World",
    "constrained_pods",
    "few_constraints",
    "gangs_of_few_kinds",
    "small_nodes",
    "why",
    "worlds",
]

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
def few_constraints(draw: st.DrawFn) -> dict[str, Any]:
    """Draw at most two constraints about pods with one label, or a port."""
    alike = LabelSelector({"app": "x"})
    key = draw(st.sampled_from([ZONE, HOST]))
    term = PodAffinityTerm(topology_key=key, label_selector=alike)
    spread = TopologySpreadConstraint(
        max_skew=draw(st.integers(1, 2)),
        topology_key=key,
        label_selector=alike,
        min_domains=draw(st.none() | st.integers(1, 3)),
    )
    families: list[dict[str, Any]] = [
        {"host_ports": [draw(PORTS)]},
        {"pod_anti_affinity": [term]},
        {"pod_affinity": [term]},
        {"topology_spread_constraints": [spread]},
    ]
    chosen = draw(st.lists(st.sampled_from(families), max_size=2))
    return {name: value for family in chosen for name, value in family.items()}


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

    def accepts(self, placed: kube_rules.Placed, pod: Pod, node: Node) -> bool:
        """Return whether a pod may go to a node."""
        return why(self, placed, pod, node) is None

    def can_place(self, pods: Sequence[Pod], placed: kube_rules.Placed) -> bool:
        """Return whether pods can be placed one after another, in some order."""
        return kube_rules.can_be_placed(pods, placed, self.nodes, self.accepts)

    def holds(self, members: kube_rules.Placed, placed: kube_rules.Placed) -> bool:
        """Return whether pods can be placed on their nodes, in some order."""
        return kube_rules.hold_in_some_order(members, placed, self.accepts)


@st.composite
def worlds(draw: st.DrawFn, *, gang: bool) -> World:
    """Draw a world; with *gang*, the pending pods are one gang."""
    nodes = draw(small_nodes())
    running: list[tuple[Pod, Node]] = []
    for n in range(draw(st.integers(0, 3))):
        node = draw(st.sampled_from(nodes))
        pod = draw(constrained_pods(f"running-{n}"))
        running.append((evolve(pod, requests={"cpu": 0}), node))
    group = "g" if gang else None
    kinds = [
        draw(constrained_pods(f"kind-{n}", group=group)) for n in range(draw(st.integers(1, 2)))
    ]
    pending: list[Pod] = []
    count = draw(st.integers(1, 3))
    least = {"pod-group.scheduling.sigs.k8s.io/min-available": str(count)} if gang else {}
    for n in range(count):
        kind = draw(st.sampled_from(kinds))
        labels = {**kind.labels, **least}
        pending.append(evolve(kind, name=f"p{n}", uid=PodUID(f"p{n}"), labels=labels))
    return World(nodes, tuple(running), tuple(pending))


@st.composite
def gangs_of_few_kinds(draw: st.DrawFn) -> World:
    """Draw a gang on empty nodes with room for it, so that constraints alone decide.

    All members have one label, and each constraint is about the pods with it. So the constraints of
    one kind meet the members of another more often than in ``worlds``.
    """
    nodes = tuple(
        Node(
            name=f"n{n}",
            allocatable={"cpu": 4, "pods": 20},
            labels={HOST: f"n{n}", ZONE: draw(st.sampled_from(["a", "b"]))},
        )
        for n in range(draw(st.sampled_from([2, 2, 3])))
    )
    # members of one kind keep apart by their port, so those of another meet them on any node
    one_port = {"host_ports": [HostPort(80)]}
    kinds = [one_port, *(draw(few_constraints()) for _kind in range(draw(st.integers(1, 2))))]
    count = draw(st.integers(3, 4))
    labels = {
        "app": "x",
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": str(count),
    }
    pending = tuple(
        Pod(
            name=f"p{n}",
            uid=PodUID(f"p{n}"),
            namespace="one",
            labels=labels,
            requests={"cpu": 1},
            **draw(st.sampled_from(kinds)),
        )
        for n in range(count)
    )
    return World(nodes, (), pending)


def why(world: World, placed: kube_rules.Placed, pod: Pod, node: Node) -> str | None:
    """Return why a pod may not go to a node, node affinity and taints first."""
    if node.taints and not pod.tolerations:
        return "node(s) had untolerated taint(s)"
    if pod.affinity and not any(t.matches(node.labels, node.name) for t in pod.affinity):
        return "node(s) didn't match Pod's node affinity/selector"
    return kube_rules.refusal(world.nodes, placed, pod, node, NAMESPACES)
