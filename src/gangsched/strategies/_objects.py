"""Strategies for the other objects of a cluster: namespaces, volumes, services and so on."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from gangsched.cluster_objects import (
    KINDS,
    AccessMode,
    ClusterObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    RuntimeClass,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from gangsched.constraints import (
    Disk,
    LabelSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
    VolumeClaim,
)
from gangsched.events import ObjectDeleted
from gangsched.model import PreemptionPolicy

__all__ = ["deleted_objects", "objects_by_type", "some_objects"]

_NAMES: Final = st.integers(0, 3).map(lambda n: f"x-{n}")
_NODES: Final = st.integers(0, 9).map(lambda n: f"x-{n}")
_CLASSES: Final = st.sampled_from(["", "slow", "fast"])
_NAMESPACES: Final = st.sampled_from(["default", "other"])
_KEYS: Final = st.sampled_from(["x", "y"])
_LABELS: Final = st.dictionaries(_KEYS, _KEYS, max_size=2)
_FLAGS: Final = st.booleans()
_SIZES: Final = st.integers(0, 4).map(lambda n: {"storage": f"{n}Gi"} if n else {})
_MODES: Final = st.lists(st.sampled_from(AccessMode), max_size=2).map(tuple)
_DRIVERS: Final = st.sampled_from(["csi.example.com", "other.example.com"])
_TERMS: Final = st.lists(
    st.builds(
        NodeSelectorTerm,
        st.tuples(st.builds(NodeSelectorRequirement, _KEYS, st.just("In"), st.tuples(_KEYS))),
    ),
    max_size=2,
).map(tuple)
_SELECTORS: Final = st.builds(LabelSelector, _LABELS)


def objects_by_type() -> dict[type[Any], st.SearchStrategy[Any]]:
    """Return a strategy for each class of objects, and for the classes of their fields."""
    sources = st.builds(VolumeSource, _DRIVERS, _NAMES, _FLAGS)
    return {
        VolumeSource: sources,
        VolumeClaim: st.builds(VolumeClaim, _NAMES, _FLAGS),
        Disk: st.builds(
            Disk, st.sampled_from(Disk.KINDS), _NAMES, _FLAGS, st.lists(_NAMES, max_size=2)
        ),
        Namespace: st.builds(Namespace, name=_NAMESPACES, labels=_LABELS),
        PersistentVolumeClaim: st.builds(
            PersistentVolumeClaim,
            name=_NAMES,
            namespace=_NAMESPACES,
            uid=_NAMES,
            volume=st.just("") | _NAMES,
            bound=_FLAGS,
            lost=_FLAGS,
            terminating=_FLAGS,
            storage_class=_CLASSES,
            access_modes=_MODES,
            requests=_SIZES,
            selector=st.none() | _SELECTORS,
            selected_node=st.just("") | _NODES,
        ),
        PersistentVolume: st.builds(
            PersistentVolume,
            name=_NAMES,
            labels=_LABELS,
            capacity=_SIZES,
            storage_class=_CLASSES,
            access_modes=_MODES,
            node_affinity=st.none() | _TERMS,
            claim=st.just("") | _NAMES.map(lambda name: f"default/{name}"),
            available=_FLAGS,
            terminating=_FLAGS,
            source=st.none() | sources,
        ),
        StorageClass: st.builds(
            StorageClass,
            name=_CLASSES.filter(bool),
            provisioner=_DRIVERS | st.just("kubernetes.io/no-provisioner"),
            waits=_FLAGS,
            allowed_topologies=_TERMS,
        ),
        CSINode: st.builds(
            CSINode,
            name=_NODES,
            drivers=st.lists(_DRIVERS, max_size=2, unique=True),
            limits=st.dictionaries(_DRIVERS, st.integers(0, 3), max_size=2),
        ),
        CSIDriver: st.builds(
            CSIDriver, name=_DRIVERS, tracks_capacity=_FLAGS, required_on_node=_FLAGS
        ),
        CSIStorageCapacity: st.builds(
            CSIStorageCapacity,
            name=_NAMES,
            namespace=_NAMESPACES,
            storage_class=_CLASSES,
            nodes=st.none() | _SELECTORS,
            largest_volume=_SIZES,
        ),
        VolumeAttachment: st.builds(
            VolumeAttachment, name=_NAMES, node=_NODES, attacher=_DRIVERS, volume=_NAMES
        ),
        PodDisruptionBudget: st.builds(
            PodDisruptionBudget,
            name=_NAMES,
            namespace=_NAMESPACES,
            selector=st.none() | _SELECTORS,
            disruptions_allowed=st.integers(0, 2),
            disrupted_pods=st.frozensets(_NAMES, max_size=2),
        ),
        PriorityClass: st.builds(
            PriorityClass,
            name=_NAMES,
            value=st.integers(0, 3),
            global_default=_FLAGS,
            preemption_policy=st.sampled_from(PreemptionPolicy),
        ),
        RuntimeClass: st.builds(
            RuntimeClass,
            name=_NAMES,
            overhead=st.integers(0, 2).map(lambda n: {"cpu": n} if n else {}),
            node_selector=_LABELS,
            tolerations=st.lists(st.builds(Toleration, key=_KEYS, value=_KEYS), max_size=1),
        ),
        **{
            kind: st.builds(kind, name=_NAMES, namespace=_NAMESPACES, selector=_LABELS)
            for kind in (Service, ReplicationController)
        },
        **{
            kind: st.builds(
                kind, name=_NAMES, namespace=_NAMESPACES, selector=st.none() | _SELECTORS
            )
            for kind in (ReplicaSet, StatefulSet)
        },
    }


def some_objects() -> st.SearchStrategy[ClusterObject]:
    """Draw objects of every class, often with the same names."""
    of_types = objects_by_type()
    return st.one_of([of_types[kind] for kind in KINDS.values()])


def deleted_objects() -> st.SearchStrategy[ObjectDeleted]:
    """Draw deletions of such objects."""
    return some_objects().map(lambda one: ObjectDeleted(type(one).__name__, one.key))
