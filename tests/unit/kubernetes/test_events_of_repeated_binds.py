"""A pod whose bind is refused and repeated has its event at once, not when the repetition ends."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from gangsched import Bind, Node, NodeAdded, NodeName
from gangsched.kubernetes._bind import Binder
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._recorder import EventRecorder
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.patience import HANG
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
NOTE = "binding rejected: it must not"


def failing(answer: Fault, *, times: int = 1_000_000) -> MemoryApi:
    """Return a cluster with a gang of two, and an API server that refuses some binds."""
    api, left = MemoryApi(), [answer] * times
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", 2))
    for number in range(2):
        api.put(PODS, pod_json(f"g-{number}", group="g"))

    def fault(_method: str, path: str) -> Fault | None:
        return left.pop() if path.endswith("/binding") and left else None

    api.fault = fault
    return api


def all_bound(api: MemoryApi) -> bool:
    return all(api.pods().values())


def failures(api: MemoryApi) -> dict[str, Any]:
    """Return the notes of the failures, by the name of their pod."""
    events = api.objects.get(EVENTS, {}).values()
    return {
        each["regarding"]["name"]: each["note"]
        for each in events
        if each["reason"] == "FailedScheduling" and each["regarding"]["kind"] == "Pod"
    }


@pytest.mark.parametrize("status", [401, 403])
@on_a_loop
async def test_pod_whose_bind_is_forbidden_has_its_event_while_the_bind_is_repeated(
    status: int,
) -> None:
    api = failing(refused(status, "it must not"))
    async with asyncio.timeout(HANG), running(api):
        await until(lambda: len(failures(api)) == 2)
        assert failures(api) == {"g-0": NOTE, "g-1": NOTE}
        assert not any(api.pods().values())
        api.fault = lambda _method, _path: None  # the right is given: the bind itself goes on
        await until(lambda: all(api.pods().values()))
    assert len(api.objects[EVENTS]) == 5  # two failures, and what was placed: pods and group


@on_a_loop
async def test_pod_whose_bind_a_webhook_fails_for_a_second_has_its_event() -> None:
    api = failing(refused(500, "failed calling webhook"))
    async with asyncio.timeout(HANG), running(api):
        await until(lambda: len(failures(api)) == 2)
        api.fault = lambda _method, _path: None
        await until(lambda: all(api.pods().values()))
    assert set(failures(api).values()) == {"binding rejected: failed calling webhook"}


@on_a_loop
async def test_bind_that_was_done_although_the_answer_says_otherwise_is_no_failure() -> None:
    api, cache, decode = MemoryApi(), Cache(["gangsched"]), PodDecoder()
    cache.cluster.apply(NodeAdded(Node(name="n")))
    facts = decode(json.dumps(api.put(PODS, pod_json("p"))).encode())
    assert facts is not None
    cache.pod(Delta("added", facts.identity, facts))
    answers = [Fault(refused(503, "later", retry_after="2").response, done=True)]
    api.fault = lambda _method, _path: answers.pop() if answers else None
    told: list[str] = []
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    binder = Binder(
        Requests(api, sleep=pause),
        cache,
        decode,
        lambda _event: None,
        repeated=lambda _bind, problem: told.append(problem),
    )
    await binder(Bind(facts.pod.uid, NodeName("n"), 1))
    assert pauses == [2.0]
    assert api.requests[1] == ("POST", "/api/v1/namespaces/default/pods/p/binding")  # a 409
    assert told == []


@on_a_loop
async def test_bind_that_is_repeated_at_once_leaves_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded: list[str] = []
    record = EventRecorder.record

    def seen(self: EventRecorder, regarding: Any, kind: str, reason: str, *more: str) -> None:
        recorded.append(reason)
        record(self, regarding, kind, reason, *more)

    monkeypatch.setattr(EventRecorder, "record", seen)
    for answer in (refused(429, "later"), refused(503, "it starts"), lost_before()):
        api = failing(answer, times=2)
        async with running(api):
            await until(partial(all_bound, api))
    assert "FailedScheduling" not in recorded
    assert "Scheduled" in recorded


@on_a_loop
async def test_member_that_the_extender_may_not_bind_has_its_event() -> None:
    api = failing(refused(403, "it must not"))
    async with asyncio.timeout(HANG), extending(api) as asking:
        names = ("g-0", "g-1")
        nodes = {name: await asking.decided(name, ["n"]) for name in names}
        binds = [asyncio.create_task(asking.bind(name, node)) for name, node in nodes.items()]
        await until(lambda: len(failures(api)) == 2)
        assert not any(each.done() for each in binds)
        api.fault = lambda _method, _path: None
        assert await asyncio.gather(*binds) == ["", ""]
    assert failures(api) == dict.fromkeys(names, NOTE)
