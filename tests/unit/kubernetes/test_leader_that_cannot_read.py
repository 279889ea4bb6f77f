"""What a leader that must not read, or loses members, says in its metrics, answers and log."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json, put_gang
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.patience import eventually
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, sample

pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

ELECTED = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))
BINDING = 'pods "{}" is forbidden: User "s" cannot create resource "pods/binding" in API group ""'


@asynccontextmanager
async def paged(api: MemoryApi, settings: Settings = ALONE) -> AsyncIterator[Callable[..., Any]]:
    """Run a scheduler; yields what reads a page of it."""
    (port,) = free_ports(1)
    async with running(api, settings, serve=("127.0.0.1", port)):
        yield lambda target="/metrics": fetch(port, target)


@on_a_loop
async def test_leader_without_the_right_on_nodes_is_not_ready_and_says_why() -> None:
    api = MemoryApi()
    api.fault = lambda _method, path: (
        refused(403, "nodes is forbidden") if path.startswith(NODES) else None
    )
    async with paged(api, ELECTED) as page:
        await eventually(lambda: "forbidden" in page("/readyz"))
        shown = await asyncio.to_thread(page)
        assert sample(shown, "leader_election_master_status") == 1
        assert sample(shown, "gangsched_ready") == 0
        assert sample(shown, "rest_client_requests_total", 'code="403"') >= 1
        answer = await asyncio.to_thread(page, "/gangs")
    assert "leads" not in answer
    assert "it does not schedule yet: Node are not listed yet" in answer
    assert "nodes is forbidden" in answer


def test_replica_that_waits_to_lead_is_ready_although_it_must_get_no_requests() -> None:
    pages = Measures(ALONE).pages(lambda: ["another replica leads"], of_replica=list)
    assert pages["/readyz"]().status == 503
    assert sample(pages["/metrics"]().body.decode(), "gangsched_ready") == 1


@on_a_loop
async def test_forbidden_request_is_logged_at_the_first_refusal_and_once_a_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = MemoryApi()
    caplog.set_level(logging.WARNING)

    async def no_pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    async def post(problem: str, status: int = 403) -> None:
        api.fault = lambda _method, _path: refused(status, problem)
        await requests.send("POST", "/x", body=b"{}", patience=0.0)

    requests = Requests(api, sleep=no_pause)
    other = BINDING.format("a").replace("binding", "eviction")
    for problem in (BINDING.format("a"), BINDING.format("b"), other):
        await post(problem)
    await post("it starts", 503)
    expected = [f"a request is forbidden: {problem}" for problem in (BINDING.format("a"), other)]
    assert [each.getMessage() for each in caplog.records] == expected


@on_a_loop
async def test_log_names_the_pages_that_are_served(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    async with paged(MemoryApi()):
        await until(lambda: "serving /healthz, /readyz and /metrics at" in caplog.text)
    found = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "prometheus_client":
            raise ModuleNotFoundError(name)
        return found(name, *more, **named)

    caplog.clear()
    monkeypatch.setattr(builtins, "__import__", without)
    async with paged(MemoryApi()):
        await until(lambda: "serving /healthz and /readyz, and no metrics" in caplog.text)
    assert "/metrics at" not in caplog.text
    assert Measures(ALONE).pages(list)["/metrics"]().status == 404


@on_a_loop
async def test_deleted_job_is_not_counted_as_a_fall_and_a_lost_member_is() -> None:
    api, name = MemoryApi(), "gangsched_groups_below_minimum_total"
    api.put(NODES, node_json("n"))
    for group in ("deleted", "robbed"):
        put_gang(api, group, 2)
    async with paged(api, ELECTED) as page:
        await until(lambda: all(api.pods().values()))
        await asyncio.sleep(0.3)
        for n in range(2):
            api.remove(PODS, f"default/deleted-{n}")
        await asyncio.sleep(1.6)
        shown = await asyncio.to_thread(page)
        assert (sample(shown, "gangsched_ready"), sample(shown, name)) == (1, 0)
        api.remove(PODS, "default/robbed-0")
        await eventually(lambda: sample(page(), name) == 1)


@on_a_loop
async def test_member_that_is_released_is_counted_as_an_eviction() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=1))
    begun = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable"}
    api.put(GROUPS, {**group_json("g", 2), "status": {"conditions": [begun]}})
    api.put(PODS, pod_json("g-0", group="g"))
    api.put(PODS, pod_json("g-1", group="g", nodeName="n"))
    async with paged(api, evolve(ALONE, partial_bound=0.3)) as page:
        await until(lambda: "default/g-1" not in api.pods())
        await eventually(lambda: sample(page(), "gangsched_evictions_total") == 1)
