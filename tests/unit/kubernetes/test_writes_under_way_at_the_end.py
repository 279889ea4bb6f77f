"""A status or a nomination that is being written when the scheduler stops is waited for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gangsched.events import PodAdded
from gangsched.kubernetes._api import Response
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._requests import Requests
from gangsched.kubernetes.extender._nominator import Nominator
from gangsched.model import NodeName, Pod, PodUID
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until

P = PodUID("p")


class Slow(MemoryApi):
    """An API server that carries a patch out only when it is told to.

    ``begun`` has the statuses of the patches that have begun.
    """

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[dict[str, Any]] = []
        self.go_on = asyncio.Event()

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if method == "PATCH" and path.endswith("/p/status"):
            self.begun.append(json.loads(named["body"])["status"])
            await self.go_on.wait()
        return await super().request(method, path, **named)


def pending() -> tuple[Slow, Cache]:
    """Return an API server with one pending pod, and a cache that has read it."""
    api, cache = Slow(), Cache(None)
    given = pod_json("p")
    given["metadata"]["uid"] = P
    api.put(PODS, given)
    cache.cluster.apply(PodAdded(Pod(name="p", uid=P)))
    return api, cache


async def at_once(_queued_at: float) -> None:
    await asyncio.sleep(0)


@on_a_loop
async def test_status_that_is_being_written_counts() -> None:
    api, cache = pending()
    status = StatusWriter(Requests(api), cache, at_once)
    work = asyncio.create_task(status.run())
    status.unschedulable(P, "no node")
    await until(lambda: api.begun)
    assert len(status) == 1
    api.go_on.set()
    await until(lambda: not len(status))
    (condition,) = api.objects[PODS]["default/p"]["status"]["conditions"]
    assert condition["message"] == "no node"
    work.cancel()


@on_a_loop
async def test_nomination_that_is_being_written_counts_until_its_last_patch() -> None:
    api, cache = pending()
    cache.nominated[P] = "n"
    nominator = Nominator(Requests(api), cache)
    work = asyncio.create_task(nominator.run())
    nominator.put(P, NodeName("n"))
    await until(lambda: api.begun)
    assert len(nominator) == 1
    api.go_on.set()
    await until(lambda: not len(nominator))
    assert [each["nominatedNodeName"] for each in api.begun] == [None, "n"]
    work.cancel()


@on_a_loop
async def test_scheduler_that_stops_waits_for_a_status_that_is_being_written() -> None:
    api = Slow()
    api.put(NODES, node_json("n", gpu=1))
    api.put(PODS, pod_json("p", gpu=2))
    async with running(api) as stop:
        await until(lambda: api.begun)
        stop.set()
        await asyncio.sleep(0.3)
        api.go_on.set()
    (condition,) = api.objects[PODS]["default/p"]["status"]["conditions"]
    assert "Insufficient nvidia.com/gpu" in condition["message"]
