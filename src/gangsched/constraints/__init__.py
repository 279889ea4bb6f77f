"""Placement constraints: what pods ask of nodes and of other pods, and what nodes have.

Rules:
  R1  each class is a frozen value, validated by its constructor, compared and hashed by its
      attributes;
  R2  a constraint only decides whether it matches. Plugins combine constraints;
  R3  names are those of the Kubernetes API in snake case. A value that the API server refuses is
      refused here too.
"""

from __future__ import annotations

from gangsched.constraints.images import ContainerImage
from gangsched.constraints.node_selector import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from gangsched.constraints.pod_affinity import PodAffinityTerm, WeightedPodAffinityTerm
from gangsched.constraints.ports import HostPort
from gangsched.constraints.selectors import LabelSelector, LabelSelectorRequirement
from gangsched.constraints.taints import Comparison, Taint, TaintEffect, Toleration
from gangsched.constraints.topology import Topology
from gangsched.constraints.topology_spread import (
    NodeInclusionPolicy,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
)
from gangsched.constraints.volumes import Disk, VolumeClaim

__all__ = [
    "Comparison",
    "ContainerImage",
    "Disk",
    "HostPort",
    "LabelSelector",
    "LabelSelectorRequirement",
    "NodeInclusionPolicy",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PodAffinityTerm",
    "PreferredSchedulingTerm",
    "Taint",
    "TaintEffect",
    "Toleration",
    "Topology",
    "TopologySpreadConstraint",
    "VolumeClaim",
    "WeightedPodAffinityTerm",
    "WhenUnsatisfiable",
]
