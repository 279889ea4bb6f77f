"""The extender in this process on an API server in memory, asked as kube-scheduler asks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from attrs import define

from gangsched.kubernetes import Settings
from gangsched.kubernetes.extender import Holding, run_extender
from support.cluster_objects import PODS
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import ALONE, until

__all__ = ["Asking", "extending"]

QUICK: Final = Holding(timeout=5.0, grace=0.0)


@define(eq=False)
class Asking:
    """Sends the requests of kube-scheduler.

    Attributes:
        api: The API server, whose pods are sent.
        session: The client.
        url: Where the extender is.
    """

    api: MemoryApi
    session: aiohttp.ClientSession
    url: str

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod as kube-scheduler knows it."""
        found = self.api.get(PODS, f"default/{name}")
        assert found is not None
        return found

    async def send(self, verb: str, body: object) -> tuple[int, Any]:
        """Send a request; return the status, and the answer as JSON or text."""
        async with self.session.post(f"{self.url}/{verb}", json=body) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())

    async def filter(self, name: str, nodes: Sequence[str]) -> list[str]:
        """Return which nodes are left for a pod."""
        body = {"Pod": self.pod(name), "NodeNames": list(nodes)}
        status, answer = await self.send("filter", body)
        assert status == 200, answer
        assert {*answer["NodeNames"], *answer["FailedAndUnresolvableNodes"]} == set(nodes)
        found: list[str] = answer["NodeNames"]
        return found

    async def bind(self, name: str, node: str) -> str:
        """Ask for a bind; return the problem, empty if the pod is bound."""
        metadata = self.pod(name)["metadata"]
        body = {"PodName": name, "PodNamespace": "default", "PodUID": metadata["uid"]}
        status, answer = await self.send("bind", {**body, "Node": node})
        assert status == 200, answer
        problem: str = answer["Error"]
        return problem

    async def decided(self, name: str, nodes: Sequence[str]) -> str:
        """Return the decided node of a pod, once there is one."""
        found: list[str] = []
        async with asyncio.timeout(HANG):
            while not found:
                found = await self.filter(name, nodes)
                await asyncio.sleep(0.005)
        (node,) = found
        return node


@asynccontextmanager
async def extending(
    api: MemoryApi,
    settings: Settings = ALONE,
    *,
    holding: Holding = QUICK,
    context: ssl.SSLContext | None = None,
    client: ssl.SSLContext | None = None,
    stop: asyncio.Event | None = None,
    **named: Any,
) -> AsyncIterator[Asking]:
    """Run the extender; yields what asks it, once everything is listed."""
    stop = asyncio.Event() if stop is None else stop
    ports: list[int] = []
    work = run_extender(
        settings,
        listen=("127.0.0.1", 0),
        context=context,
        holding=holding,
        stop=stop,
        api=api,
        listening=ports.append,
        **named,
    )
    task = asyncio.create_task(work)
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=True if client is None else client)
        ) as session:
            await until(lambda: ports or task.done())
            if task.done():
                task.result()
            scheme = "http" if context is None else "https"
            asking = Asking(api, session, f"{scheme}://localhost:{ports[0]}")
            async with asyncio.timeout(HANG):
                while (await asking.send("prioritize", {}))[0] == 503:
                    await asyncio.sleep(0.005)
            yield asking
            stop.set()
            async with asyncio.timeout(HANG):
                await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
