"""``Pod``, ``PodGroup`` and ``Node``, and the values that their attributes hold.

Rules:
  R1  every value is frozen, and validated once, by its constructor. The rest of the library relies
      on that;
  R2  a pod is identified by its UID: two pods of one name with two UIDs are two pods;
  R3  amounts of resources are integers in thousandths (see ``gangsched.quantity``);
  R4  instants and durations are seconds on the caller's clock; names that end in ``_at`` are
      instants;
  R5  parameters take ``str``; attributes have the types ``PodUID``, ``GroupKey`` and ``NodeName``.
"""

from __future__ import annotations

from gangsched.constraints import (
    Comparison,
    ContainerImage,
    Disk,
    HostPort,
    LabelSelector,
    LabelSelectorRequirement,
    NodeInclusionPolicy,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.model._labelled_role import LabelledRole
from gangsched.model._names import GroupKey, NodeName, PodUID, PreemptionPolicy, group_key
from gangsched.model._node import Node
from gangsched.model._pod import Pod, PodPhase, QOSClass
from gangsched.model._pod_group import PodGroup
from gangsched.model._restart_policy import RestartPolicy
from gangsched.model._role import Role
from gangsched.resources import FrozenMap, Resources

__all__ = [
    "Comparison",
    "ContainerImage",
    "Disk",
    "FrozenMap",
    "GroupKey",
    "HostPort",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LabelledRole",
    "Node",
    "NodeInclusionPolicy",
    "NodeName",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Pod",
    "PodAffinityTerm",
    "PodGroup",
    "PodPhase",
    "PodUID",
    "PreemptionPolicy",
    "PreferredSchedulingTerm",
    "QOSClass",
    "Resources",
    "RestartPolicy",
    "Role",
    "Taint",
    "TaintEffect",
    "Toleration",
    "Topology",
    "TopologySpreadConstraint",
    "VolumeClaim",
    "WeightedPodAffinityTerm",
    "WhenUnsatisfiable",
    "group_key",
]
