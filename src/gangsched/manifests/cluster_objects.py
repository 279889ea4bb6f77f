"""Namespaces, volumes, disruption budgets, classes and sets of pods, from documents.

Rules:
  R1  an object is read as the values that a scheduler reads of it; other fields are not read;
  R2  an object that restricts pods in a way that is not modelled is not read as one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gangsched.cluster_objects import (
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
from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.selectors import (
    read_label_selector,
    read_node_selector,
    read_toleration,
    read_topology_term,
)
from gangsched.model import PreemptionPolicy, Resources

__all__ = ["OBJECT_KINDS", "read_object"]

_MODES: Final = tuple(mode.value for mode in AccessMode)
_STORAGE: Final = "storage"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_LEAST: Final = -(2**31)
_POLICIES: Final = tuple(policy.value for policy in PreemptionPolicy)
_IN_TREE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", ("volumeID",)),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", ("pdName",)),
    "azureDisk": ("kubernetes.io/azure-disk", ("diskURI",)),
    "azureFile": ("kubernetes.io/azure-file", ("secretName", "shareName")),
    "cinder": ("kubernetes.io/cinder", ("volumeID",)),
    "vsphereVolume": ("kubernetes.io/vsphere-volume", ("volumePath",)),
    "portworxVolume": ("kubernetes.io/portworx-volume", ("volumeID",)),
}


def read_object(manifest: Manifest) -> ClusterObject:
    """Return the object of a document of one of ``OBJECT_KINDS``.

    Raises:
        ManifestError: A field is malformed.
        InvalidValueError: *manifest* is not a Manifest, or is of another kind.
    """
    if not isinstance(manifest, Manifest):
        raise InvalidValueError("manifest", manifest, "a Manifest, see read_manifest")
    version = manifest.document["apiVersion"].text("v1")
    reader = _READERS.get((version.rpartition("/")[0], manifest.kind))
    if reader is None:
        expected = "a Manifest of " + ", ".join(sorted({kind for _group, kind in _READERS}))
        raise InvalidValueError("manifest", f"{version} {manifest.kind}", expected)
    return reader(manifest)


def _namespace(manifest: Manifest) -> Namespace:
    return Namespace(name=manifest.name, labels=manifest.document["metadata"]["labels"].texts())


def _storage(field: Field) -> Resources:
    return Resources.from_milli({_STORAGE: field.quantity(_STORAGE)} if field.given else {})


def _class_of(document: Field) -> str:
    beta = document["metadata"]["annotations"][_BETA_CLASS]
    return beta.text() if beta.given else document["spec"]["storageClassName"].text()


def _modes(field: Field) -> tuple[AccessMode, ...]:
    return tuple(AccessMode(each.word(_MODES)) for each in field.elements())


def _claim(manifest: Manifest) -> PersistentVolumeClaim:
    document = manifest.document
    metadata, spec, status = document["metadata"], document["spec"], document["status"]
    owners = [each for each in metadata["ownerReferences"].elements() if each["controller"].flag()]
    return PersistentVolumeClaim(
        name=manifest.name,
        namespace=manifest.namespace,
        uid=metadata["uid"].text(),
        volume=spec["volumeName"].text(),
        bound=metadata["annotations"][_BOUND].given,
        lost=status["phase"].text() == "Lost",
        terminating=bool(metadata["deletionTimestamp"].text()),
        storage_class=_class_of(document),
        access_modes=_modes(spec["accessModes"]),
        requests=_storage(spec["resources"]["requests"][_STORAGE]),
        selector=read_label_selector(spec["selector"]),
        volume_mode=spec["volumeMode"].text("Filesystem"),
        attributes_class=spec["volumeAttributesClassName"].text(),
        selected_node=metadata["annotations"][_SELECTED_NODE].text(),
        owner=owners[0]["uid"].text() if owners else "",
    )


def _volume(manifest: Manifest) -> PersistentVolume:
    document = manifest.document
    metadata, spec, status = document["metadata"], document["spec"], document["status"]
    required, claim = spec["nodeAffinity"]["required"], spec["claimRef"]
    key = ""
    if claim.given:
        key = f"{claim['namespace'].text('default')}/{claim['name'].name()}"
    return PersistentVolume(
        name=manifest.name,
        labels=metadata["labels"].texts(),
        capacity=_storage(spec["capacity"][_STORAGE]),
        storage_class=_class_of(document),
        access_modes=_modes(spec["accessModes"]),
        volume_mode=spec["volumeMode"].text("Filesystem"),
        attributes_class=spec["volumeAttributesClassName"].text(),
        node_affinity=tuple(read_node_selector(required)) if required.given else None,
        claim=key,
        claim_uid=claim["uid"].text(),
        available=status["phase"].text("Available") == "Available",
        terminating=bool(metadata["deletionTimestamp"].text()),
        source=_source(spec),
    )


def _source(spec: Field) -> VolumeSource | None:
    csi = spec["csi"]
    if csi.given:
        return VolumeSource(csi["driver"].name(), csi["volumeHandle"].text())
    for kind, (plugin, names) in _IN_TREE.items():
        if spec[kind].given:
            handle = "/".join(spec[kind][name].text() for name in names)
            return VolumeSource(plugin, handle, in_tree=True)
    return None


def _storage_class(manifest: Manifest) -> StorageClass:
    document = manifest.document
    mode = document["volumeBindingMode"].word(("Immediate", "WaitForFirstConsumer"), "Immediate")
    return StorageClass(
        name=manifest.name,
        provisioner=document["provisioner"].text(),
        waits=mode == "WaitForFirstConsumer",
        allowed_topologies=tuple(map(read_topology_term, document["allowedTopologies"].elements())),
    )


def _csi_node(manifest: Manifest) -> CSINode:
    drivers = tuple(manifest.document["spec"]["drivers"].elements())
    limits = ((each["name"].name(), each["allocatable"]["count"]) for each in drivers)
    migrated = manifest.document["metadata"]["annotations"][_MIGRATED].text()
    return CSINode(
        name=manifest.name,
        drivers=tuple(each["name"].name() for each in drivers),
        limits={name: limit.whole(least=0) for name, limit in limits if limit.given},
        migrated=tuple(name for name in migrated.split(",") if name),
    )


def _csi_driver(manifest: Manifest) -> CSIDriver:
    spec = manifest.document["spec"]
    return CSIDriver(
        name=manifest.name,
        tracks_capacity=spec["storageCapacity"].flag(),
        required_on_node=spec["preventPodSchedulingIfMissing"].flag(),
    )


def _capacity(manifest: Manifest) -> CSIStorageCapacity:
    document = manifest.document
    largest = document["maximumVolumeSize"]
    return CSIStorageCapacity(
        name=manifest.name,
        namespace=manifest.namespace,
        storage_class=document["storageClassName"].text(),
        nodes=read_label_selector(document["nodeTopology"]),
        largest_volume=_storage(largest if largest.given else document["capacity"]),
    )


def _attachment(manifest: Manifest) -> VolumeAttachment:
    spec = manifest.document["spec"]
    return VolumeAttachment(
        name=manifest.name,
        node=spec["nodeName"].text(),
        attacher=spec["attacher"].text(),
        volume=spec["source"]["persistentVolumeName"].text(),
    )


def _budget(manifest: Manifest) -> PodDisruptionBudget:
    document = manifest.document
    disrupted = document["status"]["disruptedPods"].entries()
    allowed = document["status"]["disruptionsAllowed"]
    if not allowed.given:
        manifest.note("it allows no disruption: status.disruptionsAllowed is absent")
    return PodDisruptionBudget(
        name=manifest.name,
        namespace=manifest.namespace,
        selector=read_label_selector(document["spec"]["selector"]),
        disruptions_allowed=allowed.whole(0, least=0),
        disrupted_pods=[name for name, _at in disrupted],
    )


def _priority_class(manifest: Manifest) -> PriorityClass:
    document = manifest.document
    policy = document["preemptionPolicy"].word(
        _POLICIES, PreemptionPolicy.PREEMPT_LOWER_PRIORITY.value
    )
    return PriorityClass(
        name=manifest.name,
        value=document["value"].whole(least=_LEAST),
        global_default=document["globalDefault"].flag(),
        preemption_policy=PreemptionPolicy(policy),
    )


def _runtime_class(manifest: Manifest) -> RuntimeClass:
    document = manifest.document
    scheduling = document["scheduling"]
    return RuntimeClass(
        name=manifest.name,
        overhead=document["overhead"]["podFixed"].resources(),
        node_selector=scheduling["nodeSelector"].texts(),
        tolerations=tuple(map(read_toleration, scheduling["tolerations"].elements())),
    )


def _service(manifest: Manifest) -> Service:
    selector = manifest.document["spec"]["selector"].texts()
    return Service(name=manifest.name, namespace=manifest.namespace, selector=selector)


def _replication_controller(manifest: Manifest) -> ReplicationController:
    selector = manifest.document["spec"]["selector"].texts()
    return ReplicationController(
        name=manifest.name, namespace=manifest.namespace, selector=selector
    )


def _replica_set(manifest: Manifest) -> ReplicaSet:
    selector = read_label_selector(manifest.document["spec"]["selector"])
    return ReplicaSet(name=manifest.name, namespace=manifest.namespace, selector=selector)


def _stateful_set(manifest: Manifest) -> StatefulSet:
    selector = read_label_selector(manifest.document["spec"]["selector"])
    return StatefulSet(name=manifest.name, namespace=manifest.namespace, selector=selector)


_READERS: Final[Mapping[tuple[str, str], Callable[[Manifest], ClusterObject]]] = {
    ("", "Namespace"): _namespace,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSINode"): _csi_node,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
    ("storage.k8s.io", "CSIStorageCapacity"): _capacity,
    ("storage.k8s.io", "VolumeAttachment"): _attachment,
    ("policy", "PodDisruptionBudget"): _budget,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
    ("", "Service"): _service,
    ("", "ReplicationController"): _replication_controller,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
}

OBJECT_KINDS: Final = frozenset(_READERS)
"""API group and kind of each document that ``read_object`` reads."""
