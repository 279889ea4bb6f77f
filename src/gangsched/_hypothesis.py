"""The entry point that Hypothesis calls when it is imported.

It makes ``st.from_type`` draw valid values of the types in ``gangsched.model`` and of the events.

Rules:
  R1  Hypothesis is imported in many programs that do not use this library, so the entry point loads
      only the modules that define these types. The strategies, and the simulator that some of them
      draw for, are loaded when a value is first drawn.
"""

from __future__ import annotations

from typing import Any, Final, get_origin

from hypothesis import strategies as st

from gangsched.cluster_objects import KINDS, VolumeSource
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
    ContainerImage,
    Disk,
    FrozenMap,
    HostPort,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodGroup,
    PreferredSchedulingTerm,
    Resources,
    Role,
    Taint,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
)

__all__ = ["TYPES", "register_types"]

TYPES: Final[tuple[type[Any], ...]] = (
    *(Resources, Pod, PodGroup, Node, InMemoryCluster),
    *(PodDeleted, NodeDeleted, PodGroupDeleted, Bound, BindFailed),
    *(PermitAllowed, PermitRejected),
    *(FrozenMap, Role, Taint, Toleration, Topology),
    *(NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm),
    *(LabelSelector, LabelSelectorRequirement, PodAffinityTerm, WeightedPodAffinityTerm),
    *(TopologySpreadConstraint, HostPort, ContainerImage),
    *(VolumeClaim, Disk, VolumeSource, ObjectDeleted, *KINDS.values()),
)
"""The registered types. Hypothesis builds the other events from these."""


def register_types() -> None:
    """Register a strategy for each of ``TYPES``. Draws nothing."""
    for kind in TYPES:
        st.register_type_strategy(kind, _strategy_of)


def _strategy_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return the strategy for a registered type, or for a parametrised form of it."""
    from gangsched.strategies._types import strategies_of_types

    return strategies_of_types()[get_origin(kind) or kind]
