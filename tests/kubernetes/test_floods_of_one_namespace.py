"""A namespace is flooded with gangs that never fit; a gang of another one is placed meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gangsched.kubernetes._decision_log import LOGGER
from support.control_plane import ControlPlane
from support.running import on_a_loop
from support.scheduled_cluster import Cluster, cluster, eventually, scheduling

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

FLOOD = 400
NAME = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


@pytest.fixture
def loud(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """Make a second namespace."""
    name = f"loud-{namespace}"
    control_plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.admin.delete(f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
    control_plane.admin.delete(f"/api/v1/namespaces/{name}")


def add_flooding(cluster: Cluster, namespace: str, number: int) -> None:
    """Create a gang of one pod, unlike all others, that is larger than any node."""
    requests = {"cpu": "1", "memory": str(2**50 + number)}
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    labels = {NAME: f"f{number}", MINIMUM: "1", "flood": f"x{number}"}
    pod: dict[str, Any] = {
        "metadata": {"name": f"f{number}", "labels": labels},
        "spec": {"schedulerName": cluster.name, "containers": containers},
    }
    cluster.plane.admin.create(f"/api/v1/namespaces/{namespace}/pods", pod)


@on_a_loop
async def test_gang_starts_before_the_flood_of_another_namespace_is_decided(
    cluster: Cluster, loud: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All pods are there before the scheduler reads the first: what is created blocks its loop."""
    caplog.set_level(logging.INFO, logger=LOGGER)
    cluster.add_nodes(1, gpu=4)
    settings = cluster.settings(profile={"args": {"Backfill": {}}})
    async with scheduling(cluster, settings):
        cluster.add_gang("first", 1)
        await eventually(lambda: cluster.all_bound(1))
        for number in range(FLOOD):
            add_flooding(cluster, loud, number)
        cluster.add_gang("fits", 2)
        await eventually(lambda: cluster.all_bound(3))
        await eventually(lambda: len(rejected(caplog)) >= FLOOD)
        before = rejected(caplog, until="fits")
        # the last one of the flood has its condition, too
        await eventually(lambda: is_told(cluster, loud, f"f{FLOOD - 1}"))
    assert len(before) < 0.75 * FLOOD


def rejected(caplog: pytest.LogCaptureFixture, until: str = "") -> list[str]:
    """Return the flooding gangs that were rejected, before a gang was scheduled if one is named."""
    found: list[str] = []
    for record in caplog.records:
        if record.name != LOGGER:
            continue
        group: str = getattr(record, "group", "")
        if until and record.message == "gang scheduled" and group.endswith(f"/{until}"):
            break
        if record.message == "gang rejected" and group.startswith("loud-"):
            found.append(group)
    return found


def is_told(cluster: Cluster, namespace: str, name: str) -> bool:
    pod = cluster.plane.admin.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))
