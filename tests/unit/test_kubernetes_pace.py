"""What the shell does beside binds comes later: events, and the collection of garbage."""

from __future__ import annotations

import asyncio
from typing import Any

from gangsched.kubernetes._api import Response
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"


class HeldBinds(MemoryApi):
    """Binds are carried out when their pod is in ``free``."""

    def __init__(self) -> None:
        super().__init__()
        self.free: set[str] = set()

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if path.endswith("/binding"):
            await until(lambda: path.split("/")[-2] in self.free)
        return await super().request(method, path, **named)


@on_a_loop
async def test_event_of_a_bind_waits_for_the_binds_under_way() -> None:
    api = HeldBinds()
    api.put(NODES, node_json("n"))
    for name in ("first", "second"):
        api.put(PODS, pod_json(name))
    async with running(api):
        api.free.add("first")
        await until(lambda: api.pods()["default/first"])
        await asyncio.sleep(0.1)
        assert not api.objects.get(EVENTS)
        api.free.add("second")
        await until(lambda: len(api.objects.get(EVENTS, {})) == 2)


@on_a_loop
async def test_first_settled_is_called_once_when_all_is_decided() -> None:
    api, bound = MemoryApi(), list[str | None]()
    for name in ("one", "two"):
        api.put(NODES, node_json(name))
        api.put(PODS, pod_json(name))
    async with running(api, first_settled=lambda: bound.append("settled")):
        await until(lambda: all(api.pods().values()))
        api.put(PODS, pod_json("three"))
        await until(lambda: all(api.pods().values()))
        await until(lambda: bound)
    assert bound == ["settled"]
