"""Every request is counted: lists, watches, Lease requests, repetitions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._api import Api, ConnectionLost, Response, WatchRefused
from gangsched.kubernetes._client import TransportName, connect_client
from gangsched.kubernetes._configuration import Credentials
from gangsched.kubernetes._counted import CountedApi
from gangsched.kubernetes._measure import Measures
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi, refused
from support.running import on_a_loop, running, until
from support.scripted_api import reply, run, scripted_api, stream

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ELECTED = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))
Counts = Counter[tuple[str, int]]


class CutOff(Api):
    """An API server that is never reached."""

    async def request(self, method: str, path: str, **_named: Any) -> Response:
        raise ConnectionLost(method, path, "cut off", sent=False)

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        for each in await self.request("GET", path, timeout=timeout), path:
            yield (str(each).encode(),)

    async def aclose(self) -> None:
        pass


def recorded(counts: Counts) -> object:
    def request(_measures: Measures, method: str, status: int) -> None:
        counts[method, status] += 1

    return request


@on_a_loop
async def test_list_watch_and_lease_requests_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, api = Counts(), MemoryApi()
    monkeypatch.setattr(Measures, "request", recorded(counts))
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("p"))
    async with running(api, ELECTED):
        await until(lambda: api.pods()["default/p"])
        await until(lambda: counts["POST", 201])
    assert counts["GET", 404] >= 1, "the Lease that does not exist yet, and APIs"
    assert counts["GET", 200] >= 8, "a watch of each kind"
    sent = Counter(method for method, _path in api.requests if method != "WATCH")
    for method in ("POST", "PUT", "PATCH"):
        counted = sum(n for (each, _status), n in counts.items() if each == method)
        assert counted == sent[method], method
    assert any(method == "POST" and path.startswith(LEASES) for method, path in api.requests)


@on_a_loop
async def test_refused_watch_of_nodes_is_counted_with_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts, api = Counts(), MemoryApi()
    monkeypatch.setattr(Measures, "request", recorded(counts))
    api.fault = lambda _method, path: refused(403, "no") if path.startswith(NODES) else None
    async with running(api, ELECTED):
        await until(lambda: counts["GET", 403] >= 2)


@on_a_loop
async def test_watch_that_is_cut_off_before_its_answer_is_counted_as_an_error() -> None:
    counts, api = Counts(), CutOff()

    def seen(method: str, status: int) -> None:
        counts[method, status] += 1

    counted = CountedApi(api, seen)
    with pytest.raises(ConnectionLost):
        async for _lines in counted.watch(f"{PODS}?watch=true", timeout=1.0):
            pass
    with pytest.raises(ConnectionLost):
        await counted.request("PATCH", PODS)
    assert counts == {("GET", 0): 1, ("PATCH", 0): 1}


@pytest.mark.parametrize("transport", ["aiohttp", "httptools"])
def test_repetition_and_watch_without_events_are_counted_by_the_client(
    transport: TransportName,
) -> None:
    pytest.importorskip(transport)

    async def story() -> None:
        counts = Counts()

        def seen(method: str, status: int) -> None:
            counts[method, status] += 1

        async with scripted_api() as server:
            credentials = Credentials(lambda: server.access)
            client = await connect_client(transport=transport, credentials=credentials, seen=seen)
            server.answers(reply(429, {}, {"Retry-After": "0"}), reply(200, {}))
            assert (await client.request("PUT", "/x", body=b"{}")).status == 200
            assert counts == {("PUT", 429): 1, ("PUT", 200): 1}
            server.answers(stream(ends=False))
            batches = client.watch("/y?watch=true", timeout=60.0)
            first = asyncio.ensure_future(anext(batches))
            await until(lambda: counts["GET", 200])
            assert not first.done(), "the beginning of an answer is no batch"
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            server.answers(reply(410, {}))
            with pytest.raises(WatchRefused):
                await anext(client.watch("/y?watch=true", timeout=60.0))
            assert counts["GET", 410] == 1
            await client.aclose()

    run(story())
