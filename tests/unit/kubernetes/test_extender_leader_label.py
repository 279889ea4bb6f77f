"""The pod of the replica that leads has a label, by which a Service selects it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from gangsched.configuration import LeaderElection, Settings
from gangsched.kubernetes.extender import run_extender
from gangsched.kubernetes.extender._leader_label import LEADS, LeaderLabel
from support.cluster_objects import PODS, pod_json
from support.memory_api import MemoryApi, lost_before, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, until

KEY: Final = "default/replica"
SHORT: Final = LeaderElection(lease_duration=1.5, renew_deadline=1.0, retry_period=0.1)


def label(api: MemoryApi, key: str = KEY) -> str | None:
    pod = api.get(PODS, key)
    assert pod is not None
    found: str | None = pod["metadata"].get("labels", {}).get(LEADS)
    return found


def api_with(*names: str) -> MemoryApi:
    api = MemoryApi()
    for name in names:
        api.put(PODS, pod_json(name, scheduler="other", node="n"))
    return api


@asynccontextmanager
async def replica(
    api: MemoryApi, settings: Settings, pod: str | None = KEY, serve: bool = False
) -> AsyncIterator[asyncio.Event]:
    stop, ports = asyncio.Event(), list[int]()
    work = run_extender(
        settings,
        listen=("127.0.0.1", 0),
        stop=stop,
        api=api,
        listening=ports.append,
        pod=pod,
    )
    task = asyncio.create_task(work)
    try:
        await until(lambda: ports or task.done())
        yield stop
        stop.set()
        async with asyncio.timeout(HANG):
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@on_a_loop
async def test_replica_without_election_is_labelled_while_it_runs() -> None:
    api = api_with("replica")
    async with replica(api, ALONE):
        await until(lambda: label(api) == "true")
    assert label(api) == "false"


@on_a_loop
async def test_label_follows_the_lease() -> None:
    api = api_with("replica", "other")
    settings = Settings(leader_election=SHORT)
    async with replica(api, settings) as stop:
        await until(lambda: label(api) == "true")
        async with replica(api, settings, "default/other"):
            await until(lambda: label(api, "default/other") == "false")
            await asyncio.sleep(0.3)
            assert (label(api), label(api, "default/other")) == ("true", "false")
            stop.set()
            await until(lambda: label(api, "default/other") == "true")
            assert label(api) == "false"


@on_a_loop
async def test_label_is_taken_away_when_the_lease_is_lost() -> None:
    api = api_with("replica")
    async with replica(api, Settings(leader_election=SHORT)):
        await until(lambda: label(api) == "true")
        api.fault = lambda method, path: (
            refused(409) if method == "PUT" and "/leases" in path else None
        )
        await until(lambda: label(api) == "false")


@on_a_loop
async def test_label_of_a_process_that_was_killed_is_taken_away_by_the_next_one() -> None:
    """A container that restarts keeps the labels of its pod."""
    api = api_with("replica")
    pod = api.get(PODS, KEY)
    assert pod is not None
    pod["metadata"]["labels"] = {LEADS: "true", "app": "x"}
    api.put(PODS, pod)
    api.fault = lambda _method, path: refused(403) if "/leases" in path else None
    async with replica(api, Settings(leader_election=SHORT)):
        await until(lambda: label(api) == "false")
    pod = api.get(PODS, KEY)
    assert pod is not None
    assert pod["metadata"]["labels"] == {LEADS: "false", "app": "x"}


@on_a_loop
async def test_label_is_written_again_until_the_api_server_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gangsched.kubernetes.extender._leader_label._PAUSE", 0.01)
    api, faults = api_with("replica"), [lost_before(), refused(500), refused(403)]
    api.fault = lambda method, _path: faults.pop() if method == "PATCH" and faults else None
    async with replica(api, ALONE):
        await until(lambda: label(api) == "true")


@on_a_loop
async def test_nothing_is_written_without_a_pod() -> None:
    api = api_with("replica")
    async with replica(api, ALONE, None):
        await asyncio.sleep(0.1)
    assert not any(method == "PATCH" for method, _path in api.requests)


@pytest.mark.parametrize("pod", ["", "name", "a/b/c", "/b", "a/", "../x", "A/b"])
def test_pod_that_has_no_namespace_and_name_is_an_error(pod: str) -> None:
    with pytest.raises(ValueError, match=r"pod must be NAMESPACE/NAME, got "):
        LeaderLabel(pod)
