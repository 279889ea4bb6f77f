"""Nominations: only a change of ``nominatedNodeName`` wakes a pod of kube-scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gangsched.events import PodAdded, PodUpdated
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._requests import Requests
from gangsched.kubernetes.extender._nominator import Nominator
from gangsched.model import NodeName, Pod, PodUID
from support.cluster_objects import PODS, pod_json
from support.memory_api import MemoryApi, refused
from support.running import on_a_loop, until

A = PodUID("a")
N, M = NodeName("n"), NodeName("m")


class Recorded(MemoryApi):
    """An API server in memory that keeps what nominations are written."""

    async def request(self, method: str, path: str, **named: Any) -> Any:
        if method == "PATCH":
            self.written.append(json.loads(named["body"])["status"]["nominatedNodeName"])
        return await super().request(method, path, **named)

    @property
    def written(self) -> list[str | None]:
        found: list[str | None] = self.__dict__.setdefault("_written", [])
        return found


@asynccontextmanager
async def nominating() -> AsyncIterator[tuple[Recorded, Cache, Nominator]]:
    api, cache = Recorded(), Cache(None)
    given = pod_json("a")
    given["metadata"]["uid"] = "a"
    api.put(PODS, given)
    cache.cluster.apply(PodAdded(Pod(name="a", uid=A)))
    nominator = Nominator(Requests(api), cache, workers=2)
    task = asyncio.create_task(nominator.run())
    try:
        yield api, cache, nominator
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@on_a_loop
async def test_node_that_the_pod_has_already_is_taken_away_first() -> None:
    async with nominating() as (api, _cache, nominator):
        nominator.put(A, N)
        await until(lambda: api.written == ["n"])
        nominator.put(A, N)
        await until(lambda: api.written == ["n", None, "n"])
        nominator.put(A, M)
        await until(lambda: api.written == ["n", None, "n", "m"])


@on_a_loop
async def test_nomination_that_the_watch_has_shown_is_taken_away_first() -> None:
    async with nominating() as (api, cache, nominator):
        cache.nominated[A] = "n"  # of an earlier process
        nominator.put(A, N)
        await until(lambda: api.written == [None, "n"])


@pytest.mark.parametrize(
    ("problem", "is_said"),
    [
        ("Forbidden: may not be set on pods that are already bound to a node", False),
        ("Invalid value: must be a DNS name", True),
    ],
)
@on_a_loop
async def test_nomination_of_a_pod_that_was_bound_meanwhile_is_no_problem(
    problem: str, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with nominating() as (api, _cache, nominator):
        message = f"Pod is invalid: status.nominatedNodeName: {problem}"
        api.fault = lambda method, _path: refused(422, message) if method == "PATCH" else None
        nominator.put(A, N)
        await until(lambda: api.written and not len(nominator))
    assert (problem in caplog.text) is is_said


@on_a_loop
async def test_withdrawal_before_the_write_writes_no_node() -> None:
    async with nominating() as (api, _cache, nominator):
        nominator.put(A, N)
        nominator.put(A, None)
        assert len(nominator) == 1
        await until(lambda: not len(nominator))
        await asyncio.sleep(0.02)
        assert "n" not in api.written


@on_a_loop
async def test_pod_without_a_nomination_is_not_written_when_it_is_withdrawn() -> None:
    async with nominating() as (api, _cache, nominator):
        nominator.put(A, None)
        await asyncio.sleep(0.02)
        assert api.written == []


@on_a_loop
async def test_bound_pod_is_not_nominated() -> None:
    async with nominating() as (api, cache, nominator):
        cache.cluster.apply(PodUpdated(Pod(name="a", uid=A, node_name="n")))
        nominator.put(A, N)
        await until(lambda: not len(nominator))
        await asyncio.sleep(0.02)
        assert api.written == []


@on_a_loop
async def test_refused_nomination_does_not_end_the_writer() -> None:
    async with nominating() as (api, _cache, nominator):
        api.fault = lambda _method, _path: refused(422)
        nominator.put(A, N)
        await until(lambda: api.written == ["n"])
        api.fault = lambda _method, _path: None
        nominator.put(A, M)
        await until(lambda: api.written == ["n", "m"])
