"""Register the types of gangsched with Hypothesis; the entry point ``hypothesis`` runs it.

Rules:
  R1  registration imports the library, and draws nothing.
"""

from __future__ import annotations

from hypothesis import strategies as st

from gangsched.events import BindFailed, Bound, NodeDeleted, PodDeleted, PodGroupDeleted
from gangsched.memory import InMemoryCluster
from gangsched.model import (
    FrozenMap,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodGroup,
    Resources,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
)
from gangsched.simulation.faults import FaultPlan
from gangsched.simulation.workload import Workload
from gangsched.strategies._events import clusters
from gangsched.strategies._faults import faults
from gangsched.strategies._nouns import resources, some_groups, some_nodes, some_pods
from gangsched.strategies._workloads import workloads

__all__ = ["register_types"]


def register_types() -> None:
    """Register a strategy for each type, so that ``st.from_type`` draws valid values."""
    st.register_type_strategy(Resources, resources())
    st.register_type_strategy(Pod, some_pods())
    st.register_type_strategy(PodGroup, some_groups())
    st.register_type_strategy(Node, some_nodes())
    st.register_type_strategy(InMemoryCluster, clusters())
    st.register_type_strategy(Workload, workloads())
    st.register_type_strategy(FaultPlan, faults())
    _register_parts()
    uids, names = some_pods().map(lambda pod: pod.uid), some_nodes().map(lambda node: node.name)
    keys, attempts = some_groups().map(lambda group: group.key), st.integers(1, 3)
    st.register_type_strategy(PodDeleted, st.builds(PodDeleted, uids))
    st.register_type_strategy(NodeDeleted, st.builds(NodeDeleted, names))
    st.register_type_strategy(PodGroupDeleted, st.builds(PodGroupDeleted, keys))
    st.register_type_strategy(Bound, st.builds(Bound, uids, names, attempts))
    failed = st.builds(BindFailed, uids, attempts, st.just("no answer"))
    st.register_type_strategy(BindFailed, failed)


def _register_parts() -> None:
    """Register the types of the fields of pods, nodes and groups."""
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
    st.register_type_strategy(FrozenMap, st.dictionaries(keys, keys).map(FrozenMap))
    st.register_type_strategy(Taint, st.builds(Taint, keys, keys, effects))
    tolerations = st.builds(
        Toleration, key=keys, value=keys, exists=st.booleans(), effect=st.none() | effects
    )
    st.register_type_strategy(Toleration, tolerations)
    st.register_type_strategy(Topology, st.builds(Topology, keys, st.booleans()))
    st.register_type_strategy(NodeSelectorRequirement, requirements)
    terms = st.lists(requirements, max_size=2).map(tuple)
    st.register_type_strategy(NodeSelectorTerm, st.builds(NodeSelectorTerm, terms))
