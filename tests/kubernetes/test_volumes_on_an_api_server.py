"""Claims, volumes and budgets on a real API server, with the volume controller of Kubernetes.

No provisioner runs: the test makes the volumes that are to be provisioned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, field

from support.cluster_objects import CLASSES, VOLUMES, storage_class_json, uses_claim, volume_json
from support.control_plane import ApiError, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.memory_api import refused
from support.priority_class import urgent_class
from support.running import on_a_loop
from support.scheduled_cluster import Cluster, cluster, eventually, scheduling

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

SELECTED = "volume.kubernetes.io/selected-node"
CONTROLLER = "persistentvolume-binder-controller"


@pytest.fixture(scope="module", autouse=True)
def volume_controller(control_plane: ControlPlane) -> Iterator[None]:
    need_control_plane("kube-controller-manager")
    process = control_plane.start_controller_manager(CONTROLLER)
    yield
    process.stop()


@define(eq=False)
class Storage:
    """The storage classes and volumes of one test."""

    cluster: Cluster
    made: list[str] = field(factory=list)

    @property
    def admin(self) -> Any:
        return self.cluster.plane.admin

    def storage_class(self, kind: str, **named: Any) -> str:
        name = f"{kind}-{self.cluster.namespace}"
        self.admin.create(CLASSES, storage_class_json(name, **named))
        self.made.append(f"{CLASSES}/{name}")
        return name

    def volume(self, name: str, **spec: Any) -> str:
        name = f"{self.cluster.namespace}-{name}"
        self.admin.create(VOLUMES, volume_json(name, **spec))
        self.made.append(f"{VOLUMES}/{name}")
        return name

    def provision(self, claim: str) -> str:
        """Do what an external provisioner does for the node that was selected."""
        found = self.admin.get(self.cluster.claims(claim))
        metadata, spec = found["metadata"], found["spec"]
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            **{name: metadata[name] for name in ("namespace", "name", "uid")},
        }
        node = metadata["annotations"][SELECTED]
        name = f"pvc-{claim}"
        return self.volume(
            name, nodes=(node,), claimRef=reference, storageClassName=spec["storageClassName"]
        )

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(f"{VOLUMES}/{name}")
        return found


@pytest.fixture
def storage(cluster: Cluster) -> Iterator[Storage]:
    found = Storage(cluster)
    yield found
    admin = cluster.plane.admin
    free = {"metadata": {"finalizers": None}}
    claims = [each["metadata"]["name"] for each in admin.items(cluster.claims())]
    for path in (*map(cluster.claims, claims), *found.made):
        try:
            admin.delete(path)
            admin.patch(path, free)
        except ApiError as error:
            if error.status != 404:
                raise


def uses(claim: str) -> dict[str, Any]:
    return {"volumes": uses_claim(claim)}


@on_a_loop
async def test_gang_is_bound_when_its_claims_are_provisioned(
    cluster: Cluster, storage: Storage
) -> None:
    cluster.add_nodes(2)
    fast = storage.storage_class("fast")
    for n in range(2):
        cluster.add_claim(f"c{n}", storageClassName=fast)
        cluster.add_pod(f"g-{n}", group="g", **uses(f"c{n}"))
    cluster.add_pod("g-2", group="g")
    cluster.add_group("g", 3)
    async with scheduling(cluster):
        await eventually(lambda: cluster.selected_node("c0") and cluster.selected_node("c1"))
        await asyncio.to_thread(storage.provision, "c0")
        await asyncio.sleep(0.5)
        assert not any(cluster.placed().values())
        await asyncio.to_thread(storage.provision, "c1")
        await eventually(lambda: cluster.all_bound(3))
    assert cluster.placed()["g-0"] == cluster.selected_node("c0")
    assert cluster.placed()["g-1"] == cluster.selected_node("c1")


@on_a_loop
async def test_volumes_that_exist_are_bound_before_the_gang(
    cluster: Cluster, storage: Storage
) -> None:
    cluster.add_nodes(2)
    local = storage.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    names = [
        storage.volume(f"v{n}", nodes=(node,), storageClassName=local)
        for n, node in enumerate(cluster.nodes)
    ]
    for n in range(2):
        cluster.add_claim(f"c{n}", storageClassName=local)
        cluster.add_pod(f"g-{n}", group="g", **uses(f"c{n}"))
    cluster.add_group("g", 2)
    await eventually(lambda: all(storage.get(n)["status"]["phase"] == "Available" for n in names))
    async with scheduling(cluster):
        await eventually(lambda: cluster.all_bound(2))
    assert set(cluster.placed().values()) == set(cluster.nodes)
    for name in names:
        volume = storage.get(name)
        claim = volume["spec"]["claimRef"]
        assert (
            claim["uid"]
            == cluster.plane.admin.get(cluster.claims(claim["name"]))["metadata"]["uid"]
        )
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


@on_a_loop
async def test_pod_goes_where_its_bound_volume_is(cluster: Cluster, storage: Storage) -> None:
    cluster.add_nodes(3)
    class_name = storage.storage_class("now", provisioner="none.example.com", waits=False)
    storage.volume("v", nodes=(cluster.nodes[2],), storageClassName=class_name)
    cluster.add_claim("c", storageClassName=class_name)
    cluster.add_pod("p", **uses("c"))
    async with scheduling(cluster):
        await eventually(lambda: cluster.all_bound(1))
    assert cluster.placed() == {"p": cluster.nodes[2]}


@on_a_loop
async def test_no_member_is_bound_when_a_claim_is_not_bound_in_time(
    cluster: Cluster, storage: Storage
) -> None:
    cluster.add_nodes(2)
    fast = storage.storage_class("fast")
    for n in range(2):
        cluster.add_claim(f"c{n}", storageClassName=fast)
        cluster.add_pod(f"g-{n}", group="g", **uses(f"c{n}"))
    cluster.add_group("g", 2)
    settings = cluster.settings(profile={"args": {"VolumeBinding": {"bindTimeoutSeconds": 1}}})
    async with scheduling(cluster, settings) as (api, _stop):
        await eventually(lambda: cluster.selected_node("c0"))
        await asyncio.to_thread(storage.provision, "c0")
        await asyncio.sleep(2.0)
        assert not any(cluster.placed().values())
        await eventually(lambda: cluster.selected_node("c1"))
        await asyncio.to_thread(storage.provision, "c1")
        await eventually(lambda: cluster.all_bound(2))
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_gang_is_bound_by_the_next_replica_when_the_first_stops_in_between(
    cluster: Cluster, storage: Storage
) -> None:
    cluster.add_nodes(3)
    fast = storage.storage_class("fast")
    cluster.add_claim("c0", storageClassName=fast)
    cluster.add_pod("g-0", group="g", **uses("c0"))
    cluster.add_pod("g-1", group="g")
    cluster.add_group("g", 2)
    async with scheduling(cluster):
        await eventually(lambda: cluster.selected_node("c0"))
    node = cluster.selected_node("c0")
    async with scheduling(cluster):
        await asyncio.to_thread(storage.provision, "c0")
        await eventually(lambda: cluster.all_bound(2))
    assert cluster.placed()["g-0"] == node


@on_a_loop
async def test_choice_is_written_once_when_requests_fail(
    cluster: Cluster, storage: Storage
) -> None:
    cluster.add_nodes(2)
    fast = storage.storage_class("fast")
    cluster.add_claim("c0", storageClassName=fast)
    cluster.add_pod("g-0", group="g", **uses("c0"))
    cluster.add_group("g", 1)
    faults = [refused(500), refused(409, "modified"), refused(429, retry_after="0")]

    def fault(method: str, _path: str) -> Any:
        return faults.pop() if method == "PATCH" and _path.endswith("/c0") and faults else None

    async with scheduling(cluster) as (api, _stop):
        api.fault = fault
        await eventually(lambda: cluster.selected_node("c0"))
        await asyncio.to_thread(storage.provision, "c0")
        await eventually(lambda: cluster.all_bound(1))
    assert not faults


@pytest.mark.parametrize("resource", ["persistentvolumeclaims", "csidrivers"])
@on_a_loop
async def test_pod_with_a_claim_is_held_when_the_role_is_too_small(
    cluster: Cluster, storage: Storage, resource: str
) -> None:
    cluster.add_nodes(1)
    cluster.add_claim("c", storageClassName=storage.storage_class("fast"))
    cluster.add_pod("held", **uses("c"))
    cluster.add_pod("plain")
    async with scheduling(cluster, without=resource):
        await eventually(lambda: cluster.placed()["plain"])
        # what is not listed in time has another message until it is refused
        await eventually(
            lambda: (
                "cannot be read"
                in (cluster.condition("held", "PodScheduled") or {}).get("message", "")
            )
        )
    assert cluster.placed()["held"] is None
    assert not cluster.selected_node("c")


@on_a_loop
async def test_victims_are_those_that_no_budget_protects(cluster: Cluster) -> None:
    cluster.add_nodes(2, gpu=2)
    admin = cluster.plane.admin
    for n, node in enumerate(cluster.nodes):
        cluster.add_pod(f"low-{n}", scheduler="other", nodeName=node, gpu=2)
        admin.patch(cluster.path(f"low-{n}"), {"metadata": {"labels": {"n": str(n)}}})
    budgets = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"n": "0"}}}
    admin.create(budgets, {"metadata": {"name": "b"}, "spec": spec})
    cluster.add_gang("g", 2, priorityClassName=urgent_class(admin))
    settings = cluster.settings(profile={"args": {"DefaultPreemption": {}}})
    async with scheduling(cluster, settings):
        await eventually(lambda: cluster.condition("low-1", "DisruptionTarget"))
        admin.delete(cluster.path("low-1"), gracePeriodSeconds=0)
        await eventually(lambda: all(cluster.placed()[f"g-{n}"] for n in range(2)))
    assert cluster.condition("low-0", "DisruptionTarget") is None
