"""Beside another scheduler, as the page about coexistence has it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.documents import ROOT
from support.memory_api import Fault, MemoryApi
from support.running import on_a_loop, running, until
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


def cluster(*, with_pool: bool = True) -> MemoryApi:
    """Return a cluster with a node of the pool, and one of its rest."""
    api = MemoryApi()
    api.put(NODES, node_json("rest", cpu=8))
    if with_pool:
        given = manifest("node of the pool")
        node = node_json(given["metadata"]["name"], cpu=8, **given["spec"])
        node["metadata"]["labels"].update(given["metadata"]["labels"])
        api.put(NODES, node)
    return api


def put_gang(api: MemoryApi, name: str, size: int, *, in_pool: bool) -> None:
    spec = manifest("pod of a gang")["spec"] if in_pool else {"schedulerName": "gangsched"}
    api.put(GROUPS, group_json(name, size))
    for n in range(size):
        pod = pod_json(f"{name}-{n}", group=name, gpu=0)
        pod["spec"].update(spec)
        api.put(PODS, pod)


def reasons(api: MemoryApi) -> list[str]:
    return [e["reason"] for e in api.objects.get("/apis/events.k8s.io/v1/events", {}).values()]


@on_a_loop
async def test_pool_takes_the_gangs_that_the_page_describes_and_no_others() -> None:
    api = cluster()
    put_gang(api, "in", 2, in_pool=True)
    put_gang(api, "out", 9, in_pool=False)
    async with running(api):
        await until(lambda: api.pods()["default/in-0"] and api.pods()["default/in-1"])
        await until(lambda: "FailedScheduling" in reasons(api))
    assert {api.pods()[f"default/in-{n}"] for n in range(2)} == {"gpu-node-0"}
    assert {api.pods()[f"default/out-{n}"] for n in range(9)} == {None}, "8 CPUs are for it"


@on_a_loop
async def test_gang_of_the_pool_does_not_use_the_rest_of_the_cluster() -> None:
    api = cluster(with_pool=False)
    put_gang(api, "in", 2, in_pool=True)
    async with running(api):
        await until(lambda: "FailedScheduling" in reasons(api))
    assert set(api.pods().values()) == {None}


@on_a_loop
async def test_bound_pods_of_another_scheduler_count_and_its_pending_ones_do_not() -> None:
    api = cluster(with_pool=False)
    api.put(PODS, pod_json("bound", scheduler="other", gpu=0, cpu=6, nodeName="rest"))
    api.put(PODS, pod_json("pending", scheduler="other", gpu=0, cpu=6, priority=1000))
    put_gang(api, "large", 3, in_pool=False)
    put_gang(api, "small", 2, in_pool=False)
    async with running(api):
        await until(lambda: api.pods()["default/small-0"] and api.pods()["default/small-1"])
        await until(lambda: "FailedScheduling" in reasons(api))
    assert api.pods()["default/pending"] is None
    assert {api.pods()[f"default/large-{n}"] for n in range(3)} == {None}


@on_a_stepped_loop
async def test_member_that_a_kubelet_refuses_is_reported_and_its_replacement_is_placed() -> None:
    api = cluster(with_pool=False)
    put_gang(api, "g", 2, in_pool=False)
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


@on_a_loop
async def test_pod_that_another_program_has_bound_is_taken_as_it_is() -> None:
    api = cluster()
    put_gang(api, "g", 2, in_pool=False)

    def bound_by_another(method: str, path: str) -> Fault | None:
        pod = api.get(PODS, "default/g-0")
        if path.endswith("/g-0/binding") and pod is not None and not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = "gpu-node-0"
            api.put(PODS, pod)
        return None

    api.fault = bound_by_another
    async with running(api):
        await until(lambda: all(api.pods().values()))
        await asyncio.sleep(0.5)
    assert api.pods() == {"default/g-0": "gpu-node-0", "default/g-1": "rest"}
    assert "GangReleased" not in reasons(api)
