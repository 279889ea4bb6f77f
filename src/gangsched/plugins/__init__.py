"""Plugins named as in kube-scheduler, one file each; the gang policy is ``Coscheduling``."""

from __future__ import annotations

from gangsched.plugins.default_binder import DefaultBinder
from gangsched.plugins.node_affinity import NodeAffinity
from gangsched.plugins.node_resources import NodeResources, Strategy
from gangsched.plugins.node_unschedulable import NodeUnschedulable
from gangsched.plugins.node_volume_limits import NodeVolumeLimits
from gangsched.plugins.priority_sort import PrioritySort
from gangsched.plugins.qos_sort import QOSSort
from gangsched.plugins.taints import TaintToleration
from gangsched.plugins.volume_binding import VolumeBinding
from gangsched.plugins.volume_restrictions import VolumeRestrictions
from gangsched.plugins.volume_zone import VolumeZone

__all__ = [
    "DefaultBinder",
    "NodeAffinity",
    "NodeResources",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PrioritySort",
    "QOSSort",
    "Strategy",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
]
