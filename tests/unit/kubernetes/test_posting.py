"""Requests that are repeated, events that are aggregated, and what waits behind binds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest

from gangsched import Pod
from gangsched.kubernetes._api import ConnectionLost, Response
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._facts import PodFacts
from gangsched.kubernetes._give_way import GiveWay
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import RequestError, Requests
from gangsched.kubernetes._server import Page, Server
from gangsched.kubernetes.extender._nominator import Nominator
from gangsched.model import NodeName, PodUID
from support.cluster_objects import PODS, pod_json
from support.memory_api import MemoryApi, refused
from support.memory_cluster import cluster, events, notes, scheduled
from support.running import on_a_loop, running, until
from support.stepped_loop import on_a_stepped_loop

POD = Regarding("v1", "Pod", "default", "p", "p-uid")


class Answers:
    """An API server that gives one answer after the other."""

    def __init__(self, answers: Iterable[Response | None]) -> None:
        self.left = list(answers)

    async def request(self, method: str, path: str, **_named: Any) -> Response:
        answer = self.left.pop(0)
        if answer is None:
            raise ConnectionLost(method, path, "cut", sent=True)
        return answer


def answer(status: int, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, b'{"message":"said"}')


async def send(answers: list[Response | None], **named: Any) -> tuple[int, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    api: Any = Answers(answers)
    response = await Requests(api, sleep=sleep, draw=lambda: 0.0).send("GET", "/x", **named)
    return response.status, pauses


@on_a_loop
async def test_request_is_repeated_until_its_answer_is_about_the_object() -> None:
    answers = [None, answer(429, retry_after="7"), answer(503), answer(403), answer(404)]
    assert await send(answers) == (404, [0.1, 7.0, 0.4, 0.8])
    pauses = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert await send([*[answer(500)] * 8, answer(200)]) == (200, pauses)


@on_a_loop
async def test_forbidden_is_believed_after_half_a_minute_and_patience_ends() -> None:
    status, pauses = await send([answer(403)] * 100)
    assert status == 403
    assert 30.0 <= sum(pauses) <= 35.0
    status, pauses = await send([answer(500)] * 100, patience=1.0)
    assert status == 500
    assert 1.0 <= sum(pauses) < 2.0
    with pytest.raises(RequestError, match="GET /x: no answer"):
        await send([None] * 100, patience=1.0)


# Events -----------------------------------------------------------------------------------------


async def at_once(_queued_at: float) -> None:
    await asyncio.sleep(0)


def recorder(api: MemoryApi, **named: Any) -> EventRecorder:
    given = {"controller": "gangsched", "clock": lambda: 1_800_000_000.0, **named}
    return EventRecorder(Requests(api), given.pop("give_way", at_once), **given)


@on_a_loop
async def test_repeated_event_is_one_object_with_a_series() -> None:
    api, now = MemoryApi(), [1_800_000_000.0]
    recorded = recorder(api, clock=lambda: now[0])
    work = asyncio.create_task(recorded.run())

    def record() -> None:
        recorded.record(POD, "Warning", "FailedScheduling", "Scheduling", "no node")

    for _ in range(4):
        record()
        await until(lambda: not len(recorded))
        await asyncio.sleep(0.01)
    (found,) = events(api)
    assert found["series"]["count"] == 2
    assert (found["action"], found["reportingController"]) == ("Scheduling", "gangsched")
    now[0] += 61.0
    record()
    await until(lambda: events(api)[0]["series"]["count"] == 5)
    now[0] += 400.0
    record()
    await until(lambda: len(events(api)) == 2)
    work.cancel()


@on_a_loop
async def test_oldest_event_is_dropped_when_too_many_wait() -> None:
    api = MemoryApi()
    recorded = recorder(api, limit=3)
    for n in range(5):
        recorded.record(POD, "Normal", "Scheduled", "Binding", f"note {n}")
    assert (len(recorded), recorded.dropped) == (3, 2)
    work = asyncio.create_task(recorded.run())
    await until(lambda: len(events(api)) == 3)
    work.cancel()
    assert {*notes(api)} == {f"note {n}" for n in (2, 3, 4)}


@on_a_loop
async def test_note_is_cut_and_a_refused_event_is_dropped() -> None:
    api = MemoryApi()
    recorded = recorder(api)
    left = [refused(422, "invalid")]
    api.fault = lambda _method, _path: left.pop() if left else None
    work = asyncio.create_task(recorded.run())
    recorded.record(POD, "Normal", "Scheduled", "Binding", "refused")
    recorded.record(POD, "Normal", "Scheduled", "Binding", "n" * 2000)
    await until(lambda: events(api))
    work.cancel()
    assert [len(note) for note in notes(api)] == [1024]
    assert recorded.dropped == 1


@on_a_stepped_loop
async def test_events_are_written_behind_a_constant_stream_of_binds() -> None:
    waiting, api = [1], MemoryApi()
    give_way = GiveWay(lambda: waiting[0], longest=0.2)
    recorded = recorder(api, give_way=give_way, workers=2)
    work = asyncio.create_task(recorded.run())
    began = time.monotonic()
    for n in range(40):
        recorded.record(POD, "Normal", "Scheduled", "Binding", f"note {n}")
    await until(lambda: len(events(api)) == 40)
    assert 0.15 <= time.monotonic() - began < 1.5
    work.cancel()
    waiting[0] = 0
    began = time.monotonic()
    await give_way(began)
    assert time.monotonic() - began < 0.02


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
    cluster(api=api)
    for name in ("first", "second"):
        api.put(PODS, pod_json(name))
    async with running(api):
        api.free.add("first")
        await until(lambda: api.pods()["default/first"])
        await asyncio.sleep(0.1)
        assert not events(api)
        api.free.add("second")
        await until(lambda: len(events(api)) == 2)


# Conditions and nominations ---------------------------------------------------------------------


class Slow(MemoryApi):
    """An API server that carries a patch of a status out only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[dict[str, Any]] = []
        self.go_on = asyncio.Event()

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if method == "PATCH" and path.endswith("/p/status"):
            self.begun.append(json.loads(named["body"])["status"])
            await self.go_on.wait()
        return await super().request(method, path, **named)


def pending(api: MemoryApi, uid: str | None = None) -> tuple[PodUID, Cache]:
    """Add a pod; return its UID, and a cache that has read it, perhaps with another UID."""
    stored, cache = api.put(PODS, pod_json("p")), Cache(["ours"])
    pod = Pod(name="p", uid=uid or stored["metadata"]["uid"])
    identity = Identity("default/p", pod.uid, "1")
    facts = PodFacts(pod=pod, identity=identity, scheduler_name="ours")
    cache.pod(Delta("added", identity, facts))
    return pod.uid, cache


@on_a_loop
async def test_of_one_pod_only_the_latest_condition_is_written() -> None:
    api = MemoryApi()
    uid, cache = pending(api)
    status = StatusWriter(Requests(api), cache, at_once)
    for n in (0, 1, 2, 2):
        status.unschedulable(uid, f"reason {n}")
    work = asyncio.create_task(status.run())
    await until(lambda: not len(status) and len(api.requests) == 1)
    status.unschedulable(uid, "reason 2")
    await asyncio.sleep(0.02)
    work.cancel()
    assert scheduled(api, "p")["message"] == "reason 2"
    assert len(api.requests) == 1


@on_a_loop
async def test_condition_of_a_recreated_pod_is_not_written() -> None:
    api = MemoryApi()
    uid, cache = pending(api, "another")
    status = StatusWriter(Requests(api), cache, at_once)
    status.unschedulable(uid, "reason")
    work = asyncio.create_task(status.run())
    await until(lambda: api.requests)
    await asyncio.sleep(0.02)
    work.cancel()
    assert not scheduled(api, "p")


@pytest.mark.parametrize("kind", ["status", "nomination"])
@on_a_loop
async def test_write_under_way_counts_until_it_is_done(kind: str) -> None:
    api = Slow()
    uid, cache = pending(api)
    if kind == "status":
        writer: Any = StatusWriter(Requests(api), cache, at_once)
        writer.unschedulable(uid, "no node")
    else:
        cache.nominated[uid] = "n"
        writer = Nominator(Requests(api), cache)
        writer.put(uid, NodeName("n"))
    work = asyncio.create_task(writer.run())
    await until(lambda: api.begun)
    assert len(writer) == 1
    api.go_on.set()
    await until(lambda: not len(writer))
    work.cancel()
    if kind == "status":
        assert scheduled(api, "p")["message"] == "no node"
    else:
        assert [each["nominatedNodeName"] for each in api.begun] == [None, "n"]


@on_a_loop
async def test_scheduler_that_stops_waits_for_a_status_that_is_being_written() -> None:
    api = Slow()
    cluster(api=api, gpu=1)
    api.put(PODS, pod_json("p", gpu=2))
    async with running(api) as stop:
        await until(lambda: api.begun)
        stop.set()
        await asyncio.sleep(0.3)
        api.go_on.set()
    assert "Insufficient nvidia.com/gpu" in scheduled(api, "p")["message"]


# Pages ------------------------------------------------------------------------------------------


async def page(port: int, head: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n\r\n".encode())
    answered = (await reader.read()).decode()
    writer.close()
    first, _, body = answered.partition("\r\n\r\n")
    return int(first.split(" ")[1]) if first else 0, body


@on_a_loop
async def test_server_answers_get_only() -> None:
    def fails() -> Page:
        raise RuntimeError("broken")

    server = Server({"/readyz": lambda: Page(b"no", 503), "/fails": fails})
    port = await server.start("127.0.0.1", 0)
    assert await page(port, "GET /readyz?verbose HTTP/1.1") == (503, "no")
    for head, status in {
        "GET /else HTTP/1.1": 404,
        "POST /readyz HTTP/1.1": 405,
        "nonsense": 400,
        "GET /fails HTTP/1.1": 500,
        f"GET /{'x' * 20_000} HTTP/1.1": 0,
    }.items():
        assert (await page(port, head))[0] == status
    await server.stop()
