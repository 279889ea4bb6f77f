"""A group of a composite pod group, with the alpha gates of Kubernetes 1.37, is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.running import on_a_loop
from support.scheduled_cluster import GROUPS, Cluster, eventually, scheduling

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

FEATURES = {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}
FIELD = "spec.parentCompositePodGroupName"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with groups in trees."""
    need_control_plane()
    with ControlPlane(tmp_path / "plane", features=FEATURES) as plane:
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": "trees"}})
        yield Cluster(plane, "trees")


@on_a_loop
async def test_group_with_a_parent_is_held_and_a_group_beside_it_starts(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    reference = {"workloadName": "w", "templateName": "workers"}
    cluster.add_gang("held", 2, grouped=False)
    cluster.add_group("held", 2, parentCompositePodGroupName="tree", workloadRef=reference)
    cluster.add_gang("free", 2)

    def of_group() -> str:
        path = f"{GROUPS}/namespaces/{cluster.namespace}/podgroups/held"
        conditions = cluster.plane.admin.get(path).get("status", {}).get("conditions", ())
        return next((each["message"] for each in conditions), "")

    def of_pod() -> str:
        return str((cluster.condition("held-0", "PodScheduled") or {}).get("message", ""))

    async with scheduling(cluster):
        await eventually(lambda: FIELD in of_group())
        await eventually(lambda: FIELD in of_pod())
        await eventually(lambda: "FailedScheduling" in cluster.reasons("held"))
        await eventually(lambda: all(cluster.placed()[f"free-{n}"] for n in range(2)))
    assert not any(cluster.placed()[f"held-{n}"] for n in range(2))
