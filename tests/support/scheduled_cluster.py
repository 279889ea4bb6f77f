"""A scheduler in a namespace of a real API server, with the rights that the documentation names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field

from gangsched.kubernetes import LeaderElection, ProfileSettings, Settings
from gangsched.kubernetes._client import connect
from support.cluster_objects import claim_json, class_of, group_json, node_json, pod_json
from support.control_plane import Account, ApiError, ControlPlane, Rule
from support.faulty_api import FaultyApi
from support.patience import eventually
from support.running import running

__all__ = ["GROUPS", "Cluster", "cluster", "documented_rights", "eventually", "scheduling"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rights.md"
GROUPS = "/apis/scheduling.k8s.io/v1beta1"


def documented_rights() -> Iterator[Rule]:
    """Yield the rules of all roles in the documentation, for all namespaces and names."""
    yaml = pytest.importorskip("yaml")
    block = re.search(r"<!-- manifest: rights -->\n```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    for role in yaml.safe_load_all(block[1]):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                yield Rule(rule["verbs"], rule["resources"], group)


@define(eq=False)
class Cluster:
    """One namespace of the control plane, with a scheduler of its own name."""

    plane: ControlPlane
    namespace: str
    nodes: list[str] = field(factory=list)

    @property
    def name(self) -> str:
        return f"gangsched-{self.namespace}"

    def settings(self, **named: Any) -> Settings:
        profile = ProfileSettings(scheduler_names=(self.name,), **named.pop("profile", {}))
        alone = LeaderElection(leader_elect=False)
        return evolve(Settings(leader_election=alone, profile=profile), **named)

    def add_nodes(self, count: int, **node: Any) -> None:
        for n in range(count):
            name = f"{self.namespace}-{len(self.nodes)}"
            self.nodes.append(name)
            spec = node_json(name, **node)
            spec["metadata"]["labels"]["test"] = self.namespace
            self.plane.admin.create("/api/v1/nodes", spec)
            del n

    def add_group(self, name: str, size: int, **spec: Any) -> None:
        body = group_json(name, size, namespace=self.namespace, **spec)
        self.plane.admin.create(f"{GROUPS}/namespaces/{self.namespace}/podgroups", body)

    def pod(self, name: str, *, annotations: dict[str, str] | None = None, **pod: Any) -> Any:
        asked = {"scheduler": self.name, "namespace": self.namespace, **pod}
        spec = pod_json(name, **asked)
        spec["spec"].setdefault("nodeSelector", {"test": self.namespace})
        if annotations is not None:
            spec["metadata"]["annotations"] = annotations
        del spec["status"]
        return spec

    def add_pod(self, name: str, **pod: Any) -> None:
        self.plane.admin.create(self.path(), self.pod(name, **pod))

    def add_gang(self, name: str, size: int, *, grouped: bool = True, **pod: Any) -> None:
        for n in range(size):
            self.add_pod(f"{name}-{n}", group=name, **pod)
        if grouped:
            self.add_group(name, size, **class_of(pod))

    def path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods" + (f"/{name}" if name else "")

    def bind(self, name: str, node: str) -> None:
        target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": name}}
        self.plane.admin.create(f"{self.path(name)}/binding", target)

    def add_claim(self, name: str, **claim: Any) -> None:
        body = claim_json(name, namespace=self.namespace, **claim)
        self.plane.admin.create(self.claims(), body)

    def claims(self, name: str = "") -> str:
        path = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        return f"{path}/{name}" if name else path

    def selected_node(self, claim: str) -> str:
        found = self.plane.admin.get(self.claims(claim))["metadata"].get("annotations", {})
        node: str = found.get("volume.kubernetes.io/selected-node", "")
        return node

    def placed(self) -> dict[str, str | None]:
        pods = self.plane.admin.items(self.path())
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}

    def all_bound(self, count: int) -> bool:
        nodes = self.placed().values()
        return len(nodes) == count and all(nodes)

    def reasons(self, name: str) -> list[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events = self.plane.admin.items(path)
        return [each["reason"] for each in events if each["regarding"]["name"] == name]

    def condition(self, pod: str, kind: str) -> dict[str, Any] | None:
        conditions = self.plane.admin.get(self.path(pod))["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), None)


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str) -> Iterator[Cluster]:
    found = Cluster(control_plane, namespace)
    yield found
    for node in found.nodes:
        try:
            control_plane.admin.delete(f"/api/v1/nodes/{node}")
        except ApiError as error:
            if error.status != 404:
                raise


@asynccontextmanager
async def scheduling(
    cluster: Cluster, settings: Settings | None = None, *, without: str = "", **named: Any
) -> AsyncIterator[tuple[FaultyApi, asyncio.Event]]:
    """Run a scheduler with the documented rights; it must end well.

    Args:
        cluster: The cluster.
        settings: The configuration; None for the default.
        without: A resource that it has no rights on.
        named: Further arguments of the scheduler.
    """
    rules = (rule for rule in documented_rights() if without not in rule.resources)
    name = f"without-{without.replace('/', '-')}" if without else "documented"
    account = Account.create(cluster.plane.admin, name, rules)
    file = cluster.plane.kubeconfig(cluster.namespace, account.token)
    api = FaultyApi(await connect(kubeconfig=str(file)))
    try:
        chosen = cluster.settings() if settings is None else settings
        async with running(api, chosen, **named) as stop:
            yield api, stop
    finally:
        await api.aclose()
