"""The strategies that ``st.from_type`` uses; see ``gangsched._hypothesis``."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from gangsched.events import (
    BindFailed,
    Bound,
    NodeDeleted,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodDeleted,
    PodGroupDeleted,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import (
    Comparison,
    ContainerImage,
    FrozenMap,
    HostPort,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeInclusionPolicy,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodGroup,
    PreferredSchedulingTerm,
    Resources,
    Role,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.strategies._events import clusters
from gangsched.strategies._nouns import resources, some_groups, some_nodes, some_pods
from gangsched.strategies._objects import deleted_objects, objects_by_type
from gangsched.strategies._roles import some_roles

__all__ = ["strategies_of_types"]


@cache
def strategies_of_types() -> dict[type[Any], st.SearchStrategy[Any]]:
    """Return the strategy of each type in ``gangsched._hypothesis.TYPES``."""
    uids, names = some_pods().map(lambda pod: pod.uid), some_nodes().map(lambda node: node.name)
    keys, attempts = some_groups().map(lambda group: group.key), st.integers(1, 3)
    plugins = st.just("Coscheduling")
    return {
        Resources: resources(),
        Pod: some_pods(),
        PodGroup: some_groups(),
        Node: some_nodes(),
        Role: some_roles(),
        InMemoryCluster: clusters(),
        PodDeleted: st.builds(PodDeleted, uids),
        NodeDeleted: st.builds(NodeDeleted, names),
        PodGroupDeleted: st.builds(PodGroupDeleted, keys),
        ObjectDeleted: deleted_objects(),
        **objects_by_type(),
        Bound: st.builds(Bound, uids, names, attempts),
        BindFailed: st.builds(BindFailed, uids, attempts, st.just("no answer")),
        PermitAllowed: st.builds(PermitAllowed, uids, plugins, attempts),
        PermitRejected: st.builds(PermitRejected, uids, plugins, attempts, st.just("no licence")),
        **_of_constraints(),
    }


def _of_constraints() -> dict[type[Any], st.SearchStrategy[Any]]:
    """Return the strategy of each type that pods and nodes are composed of."""
    keys = st.sampled_from(["x", "y"])
    effects = st.sampled_from(TaintEffect)
    listed = st.builds(
        NodeSelectorRequirement,
        keys,
        st.sampled_from(["In", "NotIn"]),
        st.lists(keys, min_size=1, max_size=2).map(tuple),
    )
    asked = st.builds(NodeSelectorRequirement, keys, st.sampled_from(["Exists", "DoesNotExist"]))
    compared = st.builds(
        NodeSelectorRequirement,
        keys,
        st.sampled_from(["Gt", "Lt"]),
        st.integers(0, 9).map(lambda n: (str(n),)),
    )
    requirements = listed | asked | compared
    weights = st.integers(1, 100)
    named = st.builds(
        NodeSelectorRequirement,
        st.just("metadata.name"),
        st.sampled_from(["In", "NotIn"]),
        st.tuples(keys),
    )
    node_terms = st.builds(
        NodeSelectorTerm,
        st.lists(requirements, max_size=2).map(tuple),
        st.lists(named, max_size=1).map(tuple),
    )
    return {
        FrozenMap: st.dictionaries(keys, keys).map(FrozenMap),
        Taint: st.builds(Taint, keys, keys, effects),
        Toleration: st.builds(
            Toleration, key=keys, value=keys, exists=st.booleans(), effect=st.none() | effects
        )
        | st.builds(
            Toleration,
            key=keys,
            value=st.integers(0, 9).map(str),
            comparison=st.sampled_from(Comparison),
        ),
        Topology: st.builds(Topology, keys, st.booleans(), prefer=st.sampled_from([None, "z"])),
        NodeSelectorRequirement: requirements,
        NodeSelectorTerm: node_terms,
        PreferredSchedulingTerm: st.builds(
            PreferredSchedulingTerm, weight=weights, preference=node_terms
        ),
        **_of_pod_constraints(keys, weights),
    }


def _of_pod_constraints(
    keys: st.SearchStrategy[str], weights: st.SearchStrategy[int]
) -> dict[type[Any], st.SearchStrategy[Any]]:
    """Return the strategy of each type of constraint between pods."""
    lists = st.lists(keys, max_size=2).map(tuple)
    expressions = st.builds(
        LabelSelectorRequirement,
        keys,
        st.sampled_from(["In", "NotIn"]),
        st.lists(keys, min_size=1, max_size=2).map(tuple),
    ) | st.builds(LabelSelectorRequirement, keys, st.sampled_from(["Exists", "DoesNotExist"]))
    selectors = st.builds(
        LabelSelector, st.dictionaries(keys, keys), st.lists(expressions, max_size=2).map(tuple)
    )
    terms = st.builds(
        PodAffinityTerm,
        topology_key=keys,
        label_selector=selectors,
        namespaces=lists,
        namespace_selector=st.none() | selectors,
        match_label_keys=st.sampled_from([(), ("x",)]),
        mismatch_label_keys=st.sampled_from([(), ("y",)]),
    ) | st.builds(PodAffinityTerm, topology_key=keys)
    policies = st.sampled_from(NodeInclusionPolicy)
    hard = st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 3),
        topology_key=keys,
        label_selector=st.none() | selectors,
        min_domains=st.none() | st.integers(1, 3),
        node_affinity_policy=policies,
        node_taints_policy=policies,
    )
    soft = st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 3),
        topology_key=keys,
        when_unsatisfiable=st.just(WhenUnsatisfiable.SCHEDULE_ANYWAY),
        label_selector=selectors,
        match_label_keys=lists,
    )
    ports = st.builds(
        HostPort, st.integers(1, 3), st.sampled_from(["TCP", "UDP"]), st.sampled_from(["", "::1"])
    )
    return {
        LabelSelectorRequirement: expressions,
        LabelSelector: selectors,
        PodAffinityTerm: terms,
        WeightedPodAffinityTerm: st.builds(
            WeightedPodAffinityTerm, weight=weights, pod_affinity_term=terms
        ),
        TopologySpreadConstraint: hard | soft,
        HostPort: ports,
        ContainerImage: st.builds(ContainerImage, lists, st.integers(0, 2**40)),
    }
