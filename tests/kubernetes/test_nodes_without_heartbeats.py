"""Nodes that kube-controller-manager taints, because their kubelet is silent or not ready."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from support.control_plane import ApiError, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.running import on_a_loop
from support.scheduled_cluster import Cluster, eventually, scheduling

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_PATIENCE = "8s"
"""How long the controller waits for a heartbeat; by default it is 50 s."""


class Kubelets:
    """Renews the Lease of each node, as its kubelet does, and reports whether it is ready."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._nodes: dict[str, str] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def run(self, node: str, *, ready: str = "True") -> None:
        self._beat(node, ready)
        self._nodes[node] = ready

    def silence(self, node: str) -> None:
        del self._nodes[node]

    def _run(self) -> None:
        while not self._ends.wait(0.5):
            for node, ready in list(self._nodes.items()):
                with suppress(ApiError, OSError):  # a kubelet goes on with the next beat
                    self._beat(node, ready)

    def _beat(self, node: str, ready: str) -> None:
        now = datetime.now(UTC)
        spec = {
            "holderIdentity": node,
            "leaseDurationSeconds": 40,
            "renewTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        lease = {"metadata": {"name": node}, "spec": spec}
        status, _body = self._plane.admin.raw("POST", _LEASES, lease)
        if status == 409:
            self._plane.admin.patch(f"{_LEASES}/{node}", {"spec": spec})
        at = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "Kubelet",
            "message": "reported",
            "lastHeartbeatTime": at,
            "lastTransitionTime": at,
        }
        conditions = {"status": {"conditions": [condition]}}
        self._plane.admin.patch(f"/api/v1/nodes/{node}/status", conditions, "strategic")


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    need_control_plane("kube-controller-manager")
    with ControlPlane(tmp_path_factory.mktemp("nodes")) as running:
        yield running


@pytest.fixture
def kubelets(plane: ControlPlane) -> Iterator[Kubelets]:
    plane.admin.raw("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}})
    running = Kubelets(plane)
    yield running
    running.stop()


def taints_of(plane: ControlPlane, node: str) -> set[tuple[str, str]]:
    spec: dict[str, Any] = plane.admin.get(f"/api/v1/nodes/{node}")["spec"]
    return {(each["key"], each["effect"]) for each in spec.get("taints", ())}


async def sees_nodes(cluster: Cluster, kubelets: Kubelets) -> None:
    """Wait until the scheduler has seen the taints: it uses a node that was created after them.

    All nodes have one watch, and pods another one.
    """
    cluster.add_nodes(1, gpu=0)
    later = cluster.nodes[-1]
    kubelets.run(later)
    cluster.add_pod("probe", gpu=0, nodeSelector={"kubernetes.io/hostname": later})
    await eventually(lambda: cluster.placed()["probe"])


@on_a_loop
async def test_gang_waits_for_nodes_that_the_node_controller_has_tainted(
    plane: ControlPlane, kubelets: Kubelets
) -> None:
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": "heartbeats"}})
    cluster = Cluster(plane, "heartbeats")
    cluster.add_nodes(3, gpu=2)
    alive, silent, unready = cluster.nodes
    for node in cluster.nodes:
        kubelets.run(node)
    plane.start_controller_manager(
        "nodelifecycle",
        f"--node-monitor-grace-period={_PATIENCE}",
        f"--node-startup-grace-period={_PATIENCE}",
        "--node-monitor-period=500ms",
    )
    async with scheduling(cluster):
        kubelets.silence(silent)
        kubelets.run(unready, ready="False")
        unreachable = ("node.kubernetes.io/unreachable", "NoSchedule")
        not_ready = ("node.kubernetes.io/not-ready", "NoSchedule")
        await eventually(lambda: unreachable in taints_of(plane, silent))
        await eventually(lambda: not_ready in taints_of(plane, unready))
        await eventually(lambda: not taints_of(plane, alive))
        await sees_nodes(cluster, kubelets)
        cluster.add_gang("small", 2)
        cluster.add_gang("large", 4)
        await eventually(lambda: cluster.reasons("large"))
        await eventually(lambda: all(cluster.placed()[f"small-{n}"] for n in range(2)))
        placed = cluster.placed()
        assert [placed[f"small-{n}"] for n in range(2)] == [alive, alive]
        assert not any(placed[f"large-{n}"] for n in range(4))
        kubelets.run(silent)
        kubelets.run(unready)
        await eventually(lambda: cluster.all_bound(7))
    placed = cluster.placed()
    assert {placed[f"large-{n}"] for n in range(4)} == {silent, unready}
