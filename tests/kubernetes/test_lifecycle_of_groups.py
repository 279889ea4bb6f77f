"""Restarts, quotas and the end of owners on a real API server, with its garbage collector."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from gangsched import Quota
from support.cluster_objects import group_json
from support.control_plane import ApiError, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.running import on_a_loop
from support.scheduled_cluster import GROUPS, Cluster, cluster, eventually, scheduling

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

OWN = "gangsched.io/"
COLLECTOR = "garbage-collector-controller"


@pytest.fixture(scope="module")
def garbage_collector(control_plane: ControlPlane) -> Iterator[None]:
    need_control_plane("kube-controller-manager")
    process = control_plane.start_controller_manager(COLLECTOR)
    yield
    process.stop()


def add_group(cluster: Cluster, name: str, size: int, **metadata: Any) -> None:
    body = group_json(name, size, namespace=cluster.namespace)
    body["metadata"].update(metadata)
    cluster.plane.admin.create(f"{GROUPS}/namespaces/{cluster.namespace}/podgroups", body)


def group_path(cluster: Cluster, name: str) -> str:
    return f"{GROUPS}/namespaces/{cluster.namespace}/podgroups/{name}"


def notes(cluster: Cluster, name: str) -> dict[str, str]:
    found: dict[str, str] = (
        cluster.plane.admin.get(group_path(cluster, name))["metadata"].get("annotations") or {}
    )
    return {key.removeprefix(OWN): text for key, text in found.items()}


def has_event(cluster: Cluster, name: str, reason: str) -> bool:
    return reason in cluster.reasons(name)


async def decides(cluster: Cluster, probe: str) -> None:
    """Wait until the scheduler has listed the cluster, so that it sees what is lost from now on."""
    cluster.add_pod(probe, gpu=0, terminationGracePeriodSeconds=0)
    await eventually(lambda: cluster.placed()[probe])
    cluster.plane.admin.delete(cluster.path(probe), gracePeriodSeconds=0)


def is_deleted(cluster: Cluster, path: str) -> bool:
    """Return whether a group is gone, or goes; its finalizer has a controller of its own."""
    try:
        return "deletionTimestamp" in cluster.plane.admin.get(path)["metadata"]
    except ApiError as error:
        if error.status == 404:
            return True
        raise


@on_a_loop
async def test_gang_that_lost_a_member_is_restarted_and_the_next_leader_counts_on(
    cluster: Cluster,
) -> None:
    policy = {OWN + "restart-policy": "BelowMinimum", OWN + "restart-backoff-seconds": "1"}
    cluster.add_nodes(2)
    add_group(cluster, "g", 3, annotations=policy)
    for n in range(3):
        cluster.add_pod(f"a-{n}", group="g", terminationGracePeriodSeconds=0)
    for restarts, (old, new) in enumerate([("a", "b"), ("b", "c")], start=1):
        async with scheduling(cluster):  # a new leader each time
            await eventually(lambda: cluster.all_bound(3))
            await eventually(lambda: "restarting-until" not in notes(cluster, "g"))
            await decides(cluster, f"probe-{restarts}")
            cluster.plane.admin.delete(cluster.path(f"{old}-1"), gracePeriodSeconds=0)
            await eventually(lambda: not cluster.placed())
            assert notes(cluster, "g")["restarts"] == str(restarts)
            assert "restarting-until" in notes(cluster, "g")
            for n in range(3):
                cluster.add_pod(f"{new}-{n}", group="g", terminationGracePeriodSeconds=0)
            await eventually(lambda: cluster.all_bound(3))
            await eventually(lambda: "restarting-until" not in notes(cluster, "g"))
            await eventually(partial(has_event, cluster, "g", "Restarted"))
            await eventually(partial(has_event, cluster, f"{old}-0", "GangReleased"))


@on_a_loop
async def test_group_that_exceeds_its_quota_starts_when_the_owner_of_another_is_deleted(
    cluster: Cluster, garbage_collector: None
) -> None:
    del garbage_collector
    admin, space = cluster.plane.admin, cluster.namespace
    maps = f"/api/v1/namespaces/{space}/configmaps"
    owner = admin.create(maps, {"metadata": {"name": "job"}})
    named = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "job",
        "uid": owner["metadata"]["uid"],
    }
    cluster.add_nodes(1)
    add_group(cluster, "first", 2, ownerReferences=[named])
    add_group(cluster, "second", 2)
    for name in ("first", "second"):
        for n in range(2):
            cluster.add_pod(f"{name}-{n}", group=name, terminationGracePeriodSeconds=0)
            if name == "first":
                reference = {"metadata": {"ownerReferences": [named]}}
                admin.patch(cluster.path(f"{name}-{n}"), reference)
    quota = Quota(name="team", namespaces=[space], hard={"cpu": 3})
    async with scheduling(cluster, cluster.settings(quotas=(quota,))):
        await eventually(lambda: cluster.placed()["first-0"] and cluster.placed()["first-1"])
        reason = "exceeded quota team: requested cpu=2, used cpu=2, limited cpu=3"
        await eventually(
            lambda: (cluster.condition("second-1", "PodScheduled") or {}).get("message") == reason
        )
        assert cluster.placed()["second-0"] is None
        admin.delete(f"{maps}/job")
        await eventually(lambda: cluster.all_bound(2))
        await eventually(lambda: is_deleted(cluster, group_path(cluster, "first")))
    assert set(cluster.placed()) == {"second-0", "second-1"}
