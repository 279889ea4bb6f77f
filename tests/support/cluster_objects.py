"""Objects of a cluster as the API server's JSON, for tests of the running scheduler."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = [
    "CLAIMS",
    "CLASSES",
    "COMPOSITES",
    "GROUPS",
    "NODES",
    "PODS",
    "VOLUMES",
    "claim_json",
    "class_of",
    "composite_json",
    "group_json",
    "node_json",
    "pod_json",
    "put_gang",
    "storage_class_json",
    "uses_claim",
    "volume_json",
]

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups"


def node_json(name: str, *, cpu: int = 32, gpu: int = 8, **spec: Any) -> dict[str, Any]:
    """Return a node."""
    offered = {"cpu": str(cpu), "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpu)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": offered, "allocatable": offered},
    }


def class_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the priority class of a pod's specification, as that of its group.

    The API server fills the priority of the default class into a group that names none.
    """
    return {name: spec[name] for name in ("priorityClassName",) if name in spec}


def group_json(
    name: str, minimum: int, *, namespace: str = "default", **spec: Any
) -> dict[str, Any]:
    """Return a native PodGroup."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec},
    }


def composite_json(
    name: str, minimum: int, *, namespace: str = "default", parent: str = "", **spec: Any
) -> dict[str, Any]:
    """Return a group of groups of Kubernetes; below *parent*, if it is given."""
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": minimum}},
            "workloadRef": {"workloadName": "w", "templateName": name},
            **above,
            **spec,
        },
    }


def pod_json(
    name: str,
    *,
    group: str | None = None,
    scheduler: str = "gangsched",
    namespace: str = "default",
    cpu: int = 1,
    gpu: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod."""
    asked = {"cpu": str(cpu), "memory": "1Gi"}
    limits = {"nvidia.com/gpu": str(gpu)} if gpu else {}
    resources: dict[str, Any] = {"requests": {**asked, **limits}}
    container = {"name": "c", "image": "x", "resources": resources}
    found: dict[str, Any] = {"schedulerName": scheduler, "containers": [container], **spec}
    if limits:
        resources["limits"] = limits
    if group is not None:
        found["schedulingGroup"] = {"podGroupName": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": found,
        "status": {"phase": "Pending"},
    }


class _Server(Protocol):
    def put(self, collection: str, given: dict[str, Any]) -> dict[str, Any]: ...


def put_gang(
    api: _Server,
    name: str,
    size: int,
    minimum: int | None = None,
    *,
    namespace: str = "default",
    parent: str = "",
    **pod: Any,
) -> list[str]:
    """Create a native PodGroup and its pods; return the names of these."""
    minimum = size if minimum is None else minimum
    above = {"parentCompositePodGroupName": parent} if parent else {}
    api.put(GROUPS, group_json(name, minimum, namespace=namespace, **above))
    names = [f"{name}-{n}" for n in range(size)]
    for each in names:
        api.put(PODS, pod_json(each, group=name, namespace=namespace, **pod))
    return names


def claim_json(name: str, *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """Return a claim of 1Gi; of the class ``fast`` unless *spec* names another."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def volume_json(name: str, *, nodes: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    """Return a volume of 1Gi that *nodes* reach; all nodes if none is named."""
    if nodes:
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/x"},
            **spec,
        },
        "status": {"phase": "Available"},
    }


def storage_class_json(
    name: str = "fast", *, provisioner: str = "csi.example.com", waits: bool = True
) -> dict[str, Any]:
    """Return a storage class."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }


def uses_claim(name: str) -> list[dict[str, Any]]:
    """Return the volumes of a pod that uses a claim."""
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
