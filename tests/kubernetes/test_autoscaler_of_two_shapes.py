"""An autoscaler with two kinds of nodes, until the members of GPU and of CPU-only gangs all run.

Every part is real but the kubelets, which kwok plays, and the autoscaler, which adds the nodes that
``gangsched_pending_demand`` asks for.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, evolve

from gangsched.kubernetes._client import connect
from support.cluster_objects import group_json, node_json, pod_json
from support.control_plane import Account, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.control_plane.training_operator import kwok_stages
from support.patience import until
from support.running import ALONE, on_a_loop, running
from support.scheduled_cluster import GROUPS, documented_rights, eventually
from support.scraping import fetch

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

Object = dict[str, Any]

PODS: Final = "/api/v1/namespaces/default/pods"
SHAPES: Final[dict[str, dict[str, int]]] = {
    "gpu-node": {"cpu": 8, "gpu": 4},
    "cpu-node": {"cpu": 32, "gpu": 0},
}
"""The nodes by what their names begin with. A member of a CPU-only gang fits on no GPU node."""
GANGS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "train": (8, {"cpu": 1, "gpu": 1}),
    "tune": (6, {"cpu": 1, "gpu": 1}),
    "encode": (6, {"cpu": 15, "gpu": 0}),
}
"""The number of members by gang, and what each of them requests. No gang fits on one node."""
NEEDED: Final = {"gpu-node": 4, "cpu-node": 3}
"""14 GPUs, four on a node; 6 members of 15 CPUs, two on a node."""
SAMPLE: Final = re.compile(
    r'^gangsched_pending_demand\{.*like="(?P<like>[^"]+)".*\} (?P<n>[\d.]+)$', re.M
)


@define(eq=False)
class Scaled:
    """A control plane with kwok, and the nodes that were added to it."""

    plane: ControlPlane
    nodes: Counter[str]

    def add(self, shape: str, count: int) -> None:
        for _ in range(count):
            node = node_json(f"{shape}-{self.nodes[shape]}", **SHAPES[shape])
            self.nodes[shape] += 1
            self.plane.admin.create("/api/v1/nodes", node)

    def submit(self) -> None:
        for name, (size, request) in GANGS.items():
            group = group_json(name, size)
            self.plane.admin.create(f"{GROUPS}/namespaces/default/podgroups", group)
            for n in range(size):
                pod = pod_json(f"{name}-{n}", group=name, **request)
                del pod["status"]
                self.plane.admin.create(PODS, pod)

    def pods(self) -> list[Object]:
        return self.plane.admin.items(PODS)

    def phases(self) -> Counter[str]:
        return Counter(pod["status"]["phase"] for pod in self.pods())

    def is_reported(self) -> bool:
        """Return whether every member has the condition that an autoscaler looks for."""
        return all(_unschedulable(pod) for pod in self.pods())


def _unschedulable(pod: Object) -> bool:
    wanted = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    conditions: list[Object] = pod["status"].get("conditions", [])
    return any(wanted.items() <= each.items() for each in conditions)


@pytest.fixture
def scaled(tmp_path: Path) -> Iterator[Scaled]:
    need_control_plane("kwok")
    pytest.importorskip("prometheus_client")
    with ControlPlane(tmp_path / "control-plane") as plane:
        plane.start_kwok(kwok_stages(plane))
        found = Scaled(plane, Counter())
        for shape in SHAPES:
            found.add(shape, 1)
        yield found


def demand(port: int) -> dict[str, int]:
    """Return how many more nodes are asked for, by what the name of the node begins with."""
    text = until(lambda: fetch(port, "/metrics"))  # a busy scheduler may give none in time
    found = {each["like"]: int(float(each["n"])) for each in SAMPLE.finditer(text)}
    return {like.rpartition("-")[0]: count for like, count in found.items()}


@on_a_loop
async def test_nodes_of_two_shapes_are_added_until_all_members_run(scaled: Scaled) -> None:
    size = sum(count for count, _request in GANGS.values())
    (port,) = free_ports(1)
    account = Account.create(scaled.plane.admin, "documented", documented_rights())
    api = await connect(kubeconfig=str(scaled.plane.kubeconfig("scheduler", account.token)))
    await asyncio.to_thread(scaled.submit)
    async with running(api, evolve(ALONE, demand_interval=0.2), serve=("127.0.0.1", port)):
        await eventually(scaled.is_reported)
        assert scaled.phases() == {"Pending": size}
        assert scaled.nodes == dict.fromkeys(SHAPES, 1)
        # a figure of before the last gang was tried asks for fewer nodes
        missing = {shape: count - scaled.nodes[shape] for shape, count in NEEDED.items()}
        await eventually(lambda: demand(port) == missing)
        while await asyncio.to_thread(scaled.phases) != {"Running": size}:
            asked = await asyncio.to_thread(demand, port)
            for shape, count in asked.items():
                await asyncio.to_thread(scaled.add, shape, count)
            # with all of the nodes nothing more is asked for; until then the figures are old
            await eventually(lambda: not demand(port))
    await api.aclose()
    assert scaled.nodes == NEEDED
    shapes = {pod["metadata"]["name"]: _shape_of(pod) for pod in scaled.pods()}
    for name in GANGS:
        expected = "cpu-node" if name == "encode" else "gpu-node"
        assert {on for pod, on in shapes.items() if pod.startswith(name)} == {expected}


def _shape_of(pod: Object) -> str:
    node: str = pod["spec"]["nodeName"]
    return node.rpartition("-")[0]
