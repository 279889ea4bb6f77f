"""A small tree of groups on an API server that serves composite pod groups."""

from __future__ import annotations

from gangsched.manifests.restarts import RESTARTING_UNTIL, RESTARTS
from support.cluster_objects import composite_json, group_json
from support.control_plane.client import Client

__all__ = ["create_tree", "delete_trees"]

_ALPHA = "/apis/scheduling.k8s.io/v1alpha3/namespaces/{}/compositepodgroups"
_BETA = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"


def create_tree(admin: Client, namespace: str, parent: str, child: str) -> None:
    """Create a parent that was being restarted and wants one group, and this group, of one pod."""
    body = composite_json(parent, 1, namespace=namespace)
    body["metadata"]["annotations"] = {RESTARTS: "1", RESTARTING_UNTIL: "1767225600"}
    admin.create(_ALPHA.format(namespace), body)
    reference = {"workloadName": "w", "templateName": child}
    above = {"parentCompositePodGroupName": parent, "workloadRef": reference}
    admin.create(_BETA.format(namespace), group_json(child, 1, namespace=namespace, **above))


def delete_trees(admin: Client, namespace: str) -> None:
    """Delete the parents of a namespace."""
    admin.delete(_ALPHA.format(namespace))
