"""Objects of a cluster that constraints refer to: namespaces, volumes, services and others.

Rules:
  R1  each object is a frozen value, validated once, by its constructor;
  R2  an object is identified by its kind, which is its class, and its key: the name, or
      ``namespace/name`` for a kind with namespaces;
  R3  a value has what a scheduler reads of the object, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from gangsched.cluster_objects.budgets import PodDisruptionBudget
from gangsched.cluster_objects.classes import PriorityClass, RuntimeClass
from gangsched.cluster_objects.namespaces import Namespace
from gangsched.cluster_objects.sets_of_pods import (
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from gangsched.cluster_objects.store import ObjectStore, services_of
from gangsched.cluster_objects.volume_claims import (
    AccessMode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeSource,
)
from gangsched.cluster_objects.volume_drivers import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
)

__all__ = [
    "KINDS",
    "AccessMode",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "ClusterObject",
    "Namespace",
    "ObjectStore",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "RuntimeClass",
    "Service",
    "StatefulSet",
    "StorageClass",
    "VolumeAttachment",
    "VolumeSource",
    "services_of",
]

ClusterObject: TypeAlias = (
    Namespace
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | PodDisruptionBudget
    | PriorityClass
    | RuntimeClass
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
)
"""An object of a cluster that constraints refer to."""

KINDS: Final[Mapping[str, type[ClusterObject]]] = {
    kind.__name__: kind
    for kind in (
        *(Namespace, PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIDriver),
        *(CSIStorageCapacity, VolumeAttachment, PodDisruptionBudget, PriorityClass, RuntimeClass),
        *(Service, ReplicationController, ReplicaSet, StatefulSet),
    )
}
"""The classes of these objects, by the name of the kind in Kubernetes."""
