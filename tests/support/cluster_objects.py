"""Objects of a cluster as the API server's JSON, for tests of the running scheduler."""

from __future__ import annotations

from typing import Any

__all__ = ["GROUPS", "NODES", "PODS", "group_json", "node_json", "pod_json"]

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"


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


def group_json(
    name: str, minimum: int, *, namespace: str = "default", **spec: Any
) -> dict[str, Any]:
    """Return a native PodGroup."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec},
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
