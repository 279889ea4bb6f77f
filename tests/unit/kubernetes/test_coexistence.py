"""Beside another scheduler, as the page about coexistence has it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from support.cluster_objects import NODES, PODS, node_json, pod_json, put_gang
from support.documents import ROOT
from support.memory_api import Fault, MemoryApi
from support.running import running, until
from support.stepped_loop import on_a_stepped_loop

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

PAGE = ROOT / "docs" / "how-to" / "coexist-on-kubernetes.md"


def manifest(name: str) -> dict[str, Any]:
    """Return a manifest of the page."""
    text = PAGE.read_text("utf-8")
    (found,) = re.findall(rf"<!-- manifest: {name} -->\n```yaml\n(.*?)```", text, re.DOTALL)
    document: dict[str, Any] = yaml.safe_load(found)
    return document


def cluster(*, with_pool: bool = False) -> MemoryApi:
    """Return a cluster with a node of the pool, if that is said, and one of its rest."""
    api = MemoryApi()
    api.put(NODES, node_json("rest", cpu=8))
    if with_pool:
        given = manifest("node of the pool")
        node = node_json(given["metadata"]["name"], cpu=8, **given["spec"])
        node["metadata"]["labels"].update(given["metadata"]["labels"])
        api.put(NODES, node)
    return api


def put(api: MemoryApi, name: str, size: int) -> None:
    put_gang(api, name, size, gpu=0)


def put_in_pool(api: MemoryApi) -> None:
    put(api, "in", 2)
    for pod in api.objects[PODS].values():
        pod["spec"].update(manifest("pod of a gang")["spec"])


def nodes(api: MemoryApi, name: str) -> set[str | None]:
    return {node for key, node in api.pods().items() if key.startswith(f"default/{name}-")}


def reasons(api: MemoryApi) -> list[str]:
    return [e["reason"] for e in api.objects.get("/apis/events.k8s.io/v1/events", {}).values()]


@on_a_stepped_loop
async def test_pool_takes_the_gangs_that_the_page_describes_and_no_others() -> None:
    api = cluster(with_pool=True)
    put_in_pool(api)
    put(api, "out", 9)
    async with running(api):
        await until(lambda: nodes(api, "in") == {"gpu-node-0"})
        await until(lambda: "FailedScheduling" in reasons(api))
    assert nodes(api, "out") == {None}, "8 CPUs are for it"


@on_a_stepped_loop
async def test_gang_of_the_pool_does_not_use_the_rest_of_the_cluster() -> None:
    api = cluster()
    put_in_pool(api)
    async with running(api):
        await until(lambda: "FailedScheduling" in reasons(api))
    assert nodes(api, "in") == {None}


@on_a_stepped_loop
async def test_bound_pods_of_another_scheduler_count_and_its_pending_ones_do_not() -> None:
    api = cluster()
    api.put(PODS, pod_json("bound", scheduler="other", gpu=0, cpu=6, nodeName="rest"))
    api.put(PODS, pod_json("pending", scheduler="other", gpu=0, cpu=6, priority=1000))
    put(api, "large", 3)
    put(api, "small", 2)
    async with running(api):
        await until(lambda: nodes(api, "small") == {"rest"})
        await until(lambda: "FailedScheduling" in reasons(api))
    assert api.pods()["default/pending"] is None
    assert nodes(api, "large") == {None}


@on_a_stepped_loop
async def test_member_that_a_kubelet_refuses_is_reported_and_its_replacement_is_placed() -> None:
    api = cluster()
    put(api, "g", 2)
    async with running(api):
        await until(lambda: all(api.pods().values()))
        await asyncio.sleep(0.3)  # the reports of the binds
        refused = api.get(PODS, "default/g-1")
        assert refused is not None
        refused["status"] = {"phase": "Failed", "reason": "OutOfcpu"}
        api.put(PODS, refused)
        await until(lambda: "BelowMinimum" in reasons(api))
        api.put(PODS, pod_json("g-2", group="g", gpu=0))
        await until(lambda: api.pods()["default/g-2"] == "rest")
    assert api.pods()["default/g-0"] == "rest", "the other member runs on"
    assert "GangReleased" not in reasons(api)


@on_a_stepped_loop
async def test_pod_that_another_program_has_bound_is_taken_as_it_is() -> None:
    api = cluster(with_pool=True)
    put(api, "g", 2)

    def bound_by_another(_method: str, path: str) -> Fault | None:
        pod = api.get(PODS, "default/g-0")
        if path.endswith("/g-0/binding") and pod is not None and not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = "gpu-node-0"
            api.put(PODS, pod)
        return None

    api.fault = bound_by_another
    async with running(api):
        await until(lambda: all(api.pods().values()))
        await asyncio.sleep(5.0)
    assert api.pods() == {"default/g-0": "gpu-node-0", "default/g-1": "rest"}
    assert "GangReleased" not in reasons(api)
