"""Services that spread pods, and constraints that are ignored, on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_objects import pod_json
from support.running import on_a_loop
from support.scheduled_cluster import Cluster, cluster, eventually, scheduling

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

CLAIMS = [{"name": "gpu", "resourceClaimName": "none"}]


def add_web_pod(cluster: Cluster, name: str, **spec: Any) -> None:
    """Create a pod of the service."""
    body = pod_json(name, scheduler=cluster.name, namespace=cluster.namespace, gpu=0, **spec)
    body["metadata"]["labels"] = {"app": "web"}
    body["spec"]["nodeSelector"] = {"test": cluster.namespace}
    del body["status"]
    cluster.plane.admin.create(cluster.path(), body)


@on_a_loop
async def test_pod_with_an_ignored_constraint_is_placed(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.add_pod("claiming", resourceClaims=CLAIMS)
    async with scheduling(cluster):
        await eventually(lambda: cluster.condition("claiming", "PodScheduled"))
        held = cluster.condition("claiming", "PodScheduled")
    assert held is not None
    assert "spec.resourceClaims" in held["message"]
    async with scheduling(cluster, cluster.settings(ignored=("spec.resourceClaims",))):
        await eventually(lambda: cluster.all_bound(1))


@pytest.mark.parametrize("configured", [True, False])
@on_a_loop
async def test_pods_of_a_service_are_spread_if_it_is_configured(
    cluster: Cluster, configured: bool
) -> None:
    cluster.add_nodes(2)
    service = {
        "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}},
    }
    services = f"/api/v1/namespaces/{cluster.namespace}/services"
    cluster.plane.admin.create(services, service)
    args: dict[str, Any] = {"PodTopologySpread": {}} if configured else {}
    weights = {"PodTopologySpread": 100} if configured else {}
    # the emptier node scores higher otherwise: the other node is filled by pods without the label
    first, second = cluster.nodes
    for n in range(6):
        cluster.add_pod(f"busy-{n}", nodeName=second, gpu=0)
    for n in range(2):
        add_web_pod(cluster, f"web-{n}", nodeName=first)
    add_web_pod(cluster, "late")
    settings = cluster.settings(profile={"args": args, "weights": weights})
    async with scheduling(cluster, settings):
        await eventually(lambda: cluster.all_bound(9))
    assert cluster.placed()["late"] == (second if configured else first)
