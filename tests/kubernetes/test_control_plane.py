"""The control plane of the tests works: objects, rights, restarts, and kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from support.control_plane import Account, ApiError, ControlPlane, Rule
from support.patience import until

pytestmark = pytest.mark.once("makes no scheduler")


def test_api_server_serves_native_pod_groups(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
    body: dict[str, Any] = {"metadata": {"name": "g"}}
    body["spec"] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    stored = control_plane.admin.create(path, body)["spec"]
    assert stored["schedulingPolicy"] == body["spec"]["schedulingPolicy"]
    version = control_plane.admin.get("/version")
    assert (version["major"], version["minor"]) == ("1", "37")


def test_account_may_do_what_its_rules_name_and_nothing_else(control_plane: ControlPlane) -> None:
    account = Account.create(control_plane.admin, "reader", [Rule(["list"], ["nodes"])])
    client = control_plane.client(account.token)
    client.items("/api/v1/nodes")
    with pytest.raises(ApiError) as caught:
        client.items("/api/v1/pods")
    assert caught.value.status == 403


def test_killed_api_server_comes_back_with_its_objects(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apiserver.kill()
    with pytest.raises(ConnectionError):
        control_plane.admin.get(f"/api/v1/namespaces/{namespace}")
    control_plane.start_apiserver()
    found = control_plane.admin.get(f"/api/v1/namespaces/{namespace}")
    assert found["metadata"]["name"] == namespace


def test_kube_scheduler_binds_a_pod(control_plane: ControlPlane, namespace: str) -> None:
    admin = control_plane.admin
    admin.delete("/api/v1/nodes")
    scheduler = control_plane.start_scheduler(
        {"profiles": [{"schedulerName": "stock", "pluginConfig": []}]}
    )
    offers = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    admin.create("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"allocatable": offers}})
    spec = {"schedulerName": "stock", "containers": [{"name": "c", "image": "i"}]}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    admin.create(pods, {"metadata": {"name": "p"}, "spec": spec})
    node = until(lambda: admin.get(f"{pods}/p")["spec"].get("nodeName"), scheduler.log_tail)
    assert node == "n"
    scheduler.stop()
    assert not scheduler.is_running
    admin.delete("/api/v1/nodes")
