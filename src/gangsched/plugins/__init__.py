"""Plugins named as in kube-scheduler, one file each; the gang policy is ``Coscheduling``."""

from __future__ import annotations

from gangsched.plugins.default_binder import DefaultBinder
from gangsched.plugins.inter_pod_affinity import InterPodAffinity
from gangsched.plugins.node_affinity import NodeAffinity
from gangsched.plugins.node_declared_features import NodeDeclaredFeatures
from gangsched.plugins.node_name import NodeName
from gangsched.plugins.node_ports import NodePorts
from gangsched.plugins.node_resources import NodeResources, Strategy
from gangsched.plugins.node_unschedulable import NodeUnschedulable
from gangsched.plugins.pod_topology_spread import PodTopologySpread
from gangsched.plugins.priority_sort import PrioritySort
from gangsched.plugins.qos_sort import QOSSort
from gangsched.plugins.taints import TaintToleration

__all__ = [
    "DefaultBinder",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResources",
    "NodeUnschedulable",
    "PodTopologySpread",
    "PrioritySort",
    "QOSSort",
    "Strategy",
    "TaintToleration",
]
