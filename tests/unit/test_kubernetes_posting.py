"""Requests that are repeated, events that are aggregated, conditions that wait behind binds."""

from __future__ import annotations

import asyncio
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
from support.cluster_objects import PODS, pod_json
from support.memory_api import MemoryApi, refused
from support.running import on_a_loop, until
from support.stepped_loop import on_a_stepped_loop

EVENTS = "/apis/events.k8s.io/v1/events"
POD = Regarding("v1", "Pod", "default", "p", "p-uid")


class Answers:
    """An API server that gives one answer after the other."""

    def __init__(self, answers: Iterable[Response | None]) -> None:
        self.left = list(answers)
        self.bodies: list[bytes | None] = []

    async def request(self, method: str, path: str, **named: Any) -> Response:
        self.bodies.append(named["body"])
        answer = self.left.pop(0)
        if answer is None:
            raise ConnectionLost(method, path, "cut", sent=True)
        return answer


def answer(status: int, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, b'{"message":"said"}')


async def send(answers: list[Response | None], **named: Any) -> tuple[Response, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    api: Any = Answers(answers)
    requests = Requests(api, sleep=sleep, draw=lambda: 0.0)
    return await requests.send("GET", "/x", **named), pauses


@on_a_loop
async def test_request_is_repeated_until_its_answer_is_about_the_object() -> None:
    answers = [None, answer(429, retry_after="7"), answer(503), answer(403), answer(404)]
    response, pauses = await send(answers)
    assert response.status == 404
    assert pauses == [0.1, 7.0, 0.4, 0.8]


@on_a_loop
async def test_pauses_grow_to_five_seconds() -> None:
    _response, pauses = await send([*[answer(500)] * 8, answer(200)])
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@on_a_loop
async def test_forbidden_is_believed_after_half_a_minute() -> None:
    response, pauses = await send([answer(403)] * 100)
    assert response.status == 403
    assert 30.0 <= sum(pauses) <= 35.0


@on_a_loop
async def test_patience_ends_with_the_last_answer_or_with_an_error() -> None:
    response, pauses = await send([answer(500)] * 100, patience=1.0)
    assert response.status == 500
    assert 1.0 <= sum(pauses) < 2.0
    with pytest.raises(RequestError, match="GET /x: no answer"):
        await send([None] * 100, patience=1.0)


# Events -----------------------------------------------------------------------------------------


def recorder(api: MemoryApi, **named: Any) -> EventRecorder:
    async def at_once(queued_at: float) -> None:
        await asyncio.sleep(0)

    given = {"controller": "gangsched", "clock": lambda: 1_800_000_000.0, **named}
    return EventRecorder(Requests(api), given.pop("give_way", at_once), **given)


@on_a_loop
async def test_repeated_event_is_one_object_with_a_series() -> None:
    api, now = MemoryApi(), [1_800_000_000.0]
    events = recorder(api, clock=lambda: now[0])
    work = asyncio.create_task(events.run())
    for _ in range(4):
        events.record(POD, "Warning", "FailedScheduling", "Scheduling", "no node")
        await until(lambda: not len(events))
        await asyncio.sleep(0.01)
    (found,) = api.objects[EVENTS].values()
    assert found["series"]["count"] == 2
    assert (found["action"], found["reportingController"]) == ("Scheduling", "gangsched")
    now[0] += 61.0
    events.record(POD, "Warning", "FailedScheduling", "Scheduling", "no node")
    await until(lambda: found is not None and series_of(api)["count"] == 5)
    now[0] += 400.0
    events.record(POD, "Warning", "FailedScheduling", "Scheduling", "no node")
    await until(lambda: len(api.objects[EVENTS]) == 2)
    work.cancel()


def series_of(api: MemoryApi) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(api.objects[EVENTS].values()))["series"]
    return found


@on_a_loop
async def test_oldest_event_is_dropped_when_too_many_wait() -> None:
    api = MemoryApi()
    events = recorder(api, limit=3)
    for n in range(5):
        events.record(POD, "Normal", "Scheduled", "Binding", f"note {n}")
    assert (len(events), events.dropped) == (3, 2)
    work = asyncio.create_task(events.run())
    await until(lambda: len(api.objects.get(EVENTS, {})) == 3)
    work.cancel()
    assert {each["note"] for each in api.objects[EVENTS].values()} == {
        f"note {n}" for n in (2, 3, 4)
    }


@on_a_loop
async def test_note_is_cut_and_a_refused_event_is_dropped() -> None:
    api = MemoryApi()
    events = recorder(api)
    left = [refused(422, "invalid")]
    api.fault = lambda _method, _path: left.pop() if left else None
    work = asyncio.create_task(events.run())
    events.record(POD, "Normal", "Scheduled", "Binding", "refused")
    events.record(POD, "Normal", "Scheduled", "Binding", "n" * 2000)
    await until(lambda: len(api.objects.get(EVENTS, {})) == 1)
    work.cancel()
    (found,) = api.objects[EVENTS].values()
    assert len(found["note"]) == 1024
    assert events.dropped == 1


@on_a_stepped_loop
async def test_events_wait_while_binds_wait_and_not_for_ever() -> None:
    waiting = [1]
    give_way = GiveWay(lambda: waiting[0], longest=0.2)
    began = time.monotonic()
    await give_way(began)
    assert 0.15 <= time.monotonic() - began < 1.0
    waiting[0] = 0
    began = time.monotonic()
    await give_way(began)
    assert time.monotonic() - began < 0.02


@on_a_stepped_loop
async def test_queue_of_events_is_written_behind_a_constant_stream_of_binds() -> None:
    api = MemoryApi()
    events = recorder(api, give_way=GiveWay(lambda: 1, longest=0.2), workers=2)
    work = asyncio.create_task(events.run())
    began = time.monotonic()
    for n in range(40):
        events.record(POD, "Normal", "Scheduled", "Binding", f"note {n}")
    await until(lambda: len(api.objects.get(EVENTS, {})) == 40)
    assert 0.15 <= time.monotonic() - began < 1.5
    work.cancel()


# Conditions -------------------------------------------------------------------------------------


@on_a_loop
async def test_of_one_pod_only_the_latest_condition_is_written() -> None:
    api, cache = MemoryApi(), Cache(["ours"])
    stored = api.put(PODS, pod_json("p"))
    pod = Pod(name="p", uid=stored["metadata"]["uid"])
    identity = Identity("default/p", pod.uid, "1")
    facts = PodFacts(pod=pod, identity=identity, scheduler_name="ours")
    cache.pod(Delta("added", identity, facts))

    async def at_once(queued_at: float) -> None:
        await asyncio.sleep(0)

    status = StatusWriter(Requests(api), cache, at_once)
    for n in range(5):
        status.unschedulable(pod.uid, f"reason {n}")
    status.unschedulable(pod.uid, "reason 4")
    work = asyncio.create_task(status.run())
    await until(lambda: not len(status) and len(api.requests) == 1)
    status.unschedulable(pod.uid, "reason 4")
    await asyncio.sleep(0.02)
    work.cancel()
    (condition,) = api.objects[PODS]["default/p"]["status"]["conditions"]
    assert condition["message"] == "reason 4"
    assert len(api.requests) == 1


@on_a_loop
async def test_condition_of_a_recreated_pod_is_not_written() -> None:
    api, cache = MemoryApi(), Cache(["ours"])
    api.put(PODS, pod_json("p"))
    pod = Pod(name="p", uid="another")
    identity = Identity("default/p", pod.uid, "1")
    facts = PodFacts(pod=pod, identity=identity, scheduler_name="ours")
    cache.pod(Delta("added", identity, facts))

    async def at_once(queued_at: float) -> None:
        await asyncio.sleep(0)

    status = StatusWriter(Requests(api), cache, at_once)
    status.unschedulable(pod.uid, "reason")
    work = asyncio.create_task(status.run())
    await until(lambda: api.requests)
    await asyncio.sleep(0.02)
    work.cancel()
    assert "conditions" not in api.objects[PODS]["default/p"]["status"]


# Pages ------------------------------------------------------------------------------------------


async def page(port: int, head: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode())
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
    assert await page(port, "GET /readyz?verbose HTTP/1.1\r\n\r\n") == (503, "no")
    assert (await page(port, "GET /else HTTP/1.1\r\n\r\n"))[0] == 404
    assert (await page(port, "POST /readyz HTTP/1.1\r\n\r\n"))[0] == 405
    assert (await page(port, "nonsense\r\n\r\n"))[0] == 400
    assert (await page(port, "GET /fails HTTP/1.1\r\n\r\n"))[0] == 500
    assert (await page(port, f"GET /{'x' * 20_000} HTTP/1.1\r\n\r\n"))[0] == 0
    await server.stop()
