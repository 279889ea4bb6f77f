"""Plugins named as in kube-scheduler, one file each; the gang policy is ``Coscheduling``."""

from __future__ import annotations

from gangsched.plugins.default_binder import DefaultBinder
from gangsched.plugins.image_locality import ImageLocality
from gangsched.plugins.inter_pod_affinity import InterPodAffinity, PreferredInterPodAffinity
from gangsched.plugins.node_affinity import NodeAffinity, PreferredNodeAffinity
from gangsched.plugins.node_declared_features import NodeDeclaredFeatures
from gangsched.plugins.node_name import NodeName
from gangsched.plugins.node_ports import NodePorts
from gangsched.plugins.node_resources import (
    NodeResources,
    NodeResourcesFit,
    ScoringStrategy,
    Strategy,
)
from gangsched.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from gangsched.plugins.node_unschedulable import NodeUnschedulable
from gangsched.plugins.node_volume_limits import NodeVolumeLimits
from gangsched.plugins.pod_topology_spread import (
    SYSTEM_DEFAULT_CONSTRAINTS,
    PodTopologySpread,
    ScoringPodTopologySpread,
)
from gangsched.plugins.priority_sort import PrioritySort
from gangsched.plugins.qos_sort import QOSSort
from gangsched.plugins.taints import CountingTaintToleration, TaintToleration
from gangsched.plugins.volume_binding import VolumeBinding
from gangsched.plugins.volume_restrictions import VolumeRestrictions
from gangsched.plugins.volume_zone import VolumeZone

__all__ = [
    "SYSTEM_DEFAULT_CONSTRAINTS",
    "CountingTaintToleration",
    "DefaultBinder",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResources",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "PreferredInterPodAffinity",
    "PreferredNodeAffinity",
    "PrioritySort",
    "QOSSort",
    "ScoringPodTopologySpread",
    "ScoringStrategy",
    "Strategy",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
]
