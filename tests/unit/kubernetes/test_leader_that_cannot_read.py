"""A leader that must not read a kind: its metrics, its answers and its log say so."""

from __future__ import annotations

import asyncio
import builtins
import logging
from typing import Any

import pytest

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, sample

pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

ELECTED = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))
BINDING = 'pods "{}" is forbidden: User "s" cannot create resource "pods/binding" in API group ""'


def forbidding(collection: str) -> MemoryApi:
    api = MemoryApi()
    api.fault = lambda _method, path: (
        refused(403, "nodes is forbidden") if path.startswith(collection) else None
    )
    return api


@on_a_loop
async def test_leader_without_the_right_on_nodes_is_not_ready_and_says_why() -> None:
    api, (port,) = forbidding(NODES), free_ports(1)

    async def page(target: str) -> str:
        return await asyncio.to_thread(fetch, port, target)

    async with running(api, ELECTED, serve=("127.0.0.1", port)):
        async with asyncio.timeout(HANG):
            while "forbidden" not in await page("/readyz"):
                await asyncio.sleep(0.02)
        shown = await page("/metrics")
        assert sample(shown, "leader_election_master_status") == 1
        assert sample(shown, "gangsched_ready") == 0
        assert sample(shown, "rest_client_requests_total", 'code="403"') >= 1
        answer = await page("/gangs")
    assert "leads" not in answer
    assert "it does not schedule yet: Node are not listed yet" in answer
    assert "nodes is forbidden" in answer


@on_a_loop
async def test_replica_that_schedules_is_ready() -> None:
    api, (port,) = MemoryApi(), free_ports(1)
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("p"))
    async with running(api, ELECTED, serve=("127.0.0.1", port)):
        await until(lambda: api.pods()["default/p"])
        shown = await asyncio.to_thread(fetch, port, "/metrics")
    assert sample(shown, "gangsched_ready") == 1


def test_replica_that_waits_to_lead_is_ready_although_it_must_get_no_requests() -> None:
    pages = Measures(ALONE).pages(lambda: ["another replica leads"], of_replica=list)
    assert pages["/readyz"]().status == 503
    assert sample(pages["/metrics"]().body.decode(), "gangsched_ready") == 1


@on_a_loop
async def test_forbidden_request_is_logged_at_the_first_refusal_and_once_a_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = MemoryApi()

    def fault(method: str, path: str) -> Any:
        if not path.endswith("/binding"):
            return None
        return refused(403, BINDING.format(path.split("/")[-2]))

    async def no_pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    api.fault = fault
    requests = Requests(api, sleep=no_pause)
    caplog.set_level(logging.WARNING)
    for name in ("a", "b"):
        response = await requests.send(
            "POST", f"/api/v1/namespaces/default/pods/{name}/binding", body=b"{}", patience=0.0
        )
        assert response.status == 403
    told = [each.getMessage() for each in caplog.records if "forbidden" in each.getMessage()]
    assert told == ["a request is forbidden: " + BINDING.format("a")]
    other = BINDING.format("a").replace("binding", "eviction")
    api.fault = lambda _method, _path: refused(403, other)
    await requests.send("POST", "/x", body=b"{}", patience=0.0)
    assert caplog.records[-1].getMessage() == f"a request is forbidden: {other}"


@on_a_loop
async def test_other_refusals_are_not_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    api = MemoryApi()
    api.fault = lambda _method, _path: refused(503, "it starts")
    caplog.set_level(logging.WARNING)
    await Requests(api).send("POST", "/x", body=b"{}", patience=0.0)
    assert caplog.records == []


@on_a_loop
async def test_log_names_the_pages_that_are_served(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    (port,) = free_ports(1)
    async with running(MemoryApi(), serve=("127.0.0.1", port)):
        await until(lambda: "serving /healthz, /readyz and /metrics at" in caplog.text)
    found = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "prometheus_client":
            raise ModuleNotFoundError(name)
        return found(name, *more, **named)

    caplog.clear()
    monkeypatch.setattr(builtins, "__import__", without)
    (port,) = free_ports(1)
    async with running(MemoryApi(), serve=("127.0.0.1", port)):
        await until(lambda: "serving /healthz and /readyz, and no metrics" in caplog.text)
    assert "/metrics at" not in caplog.text
    assert Measures(ALONE).pages(list)["/metrics"]().status == 404


@on_a_loop
async def test_deleted_job_is_not_counted_as_a_fall_and_a_lost_member_is() -> None:
    api, (port,) = MemoryApi(), free_ports(1)
    api.put(NODES, node_json("n"))
    for name in ("deleted", "robbed"):
        api.put(GROUPS, group_json(name, 2))
        for n in range(2):
            api.put(PODS, pod_json(f"{name}-{n}", group=name))

    async def falls() -> float:
        shown = await asyncio.to_thread(fetch, port, "/metrics")
        return sample(shown, "gangsched_groups_below_minimum_total")

    async with running(api, serve=("127.0.0.1", port)):
        await until(lambda: all(api.pods().values()))
        await asyncio.sleep(0.3)
        for n in range(2):
            api.remove(PODS, f"default/deleted-{n}")
        await asyncio.sleep(1.6)
        assert await falls() == 0
        api.remove(PODS, "default/robbed-0")
        async with asyncio.timeout(HANG):
            while await falls() != 1:
                await asyncio.sleep(0.05)
