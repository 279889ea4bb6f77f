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
    PodDeleted,
    PodGroupDeleted,
)
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
from gangsched.strategies._events import clusters
from gangsched.strategies._nouns import resources, some_groups, some_nodes, some_pods
from gangsched.strategies._objects import deleted_objects, objects_by_type

__all__ = ["strategies_of_types"]


@cache
def strategies_of_types() -> dict[type[Any], st.SearchStrategy[Any]]:
    """Return the strategy of each type in ``gangsched._hypothesis.TYPES``."""
    uids, names = some_pods().map(lambda pod: pod.uid), some_nodes().map(lambda node: node.name)
    keys, attempts = some_groups().map(lambda group: group.key), st.integers(1, 3)
    return {
        Resources: resources(),
        Pod: some_pods(),
        PodGroup: some_groups(),
        Node: some_nodes(),
        InMemoryCluster: clusters(),
        PodDeleted: st.builds(PodDeleted, uids),
        NodeDeleted: st.builds(NodeDeleted, names),
        PodGroupDeleted: st.builds(PodGroupDeleted, keys),
        ObjectDeleted: deleted_objects(),
        **objects_by_type(),
        Bound: st.builds(Bound, uids, names, attempts),
        BindFailed: st.builds(BindFailed, uids, attempts, st.just("no answer")),
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
    return {
        FrozenMap: st.dictionaries(keys, keys).map(FrozenMap),
        Taint: st.builds(Taint, keys, keys, effects),
        Toleration: st.builds(
            Toleration, key=keys, value=keys, exists=st.booleans(), effect=st.none() | effects
        ),
        Topology: st.builds(Topology, keys, st.booleans()),
        NodeSelectorRequirement: requirements,
        NodeSelectorTerm: st.builds(
            NodeSelectorTerm, st.lists(requirements, max_size=2).map(tuple)
        ),
    }
