"""A namespace that is flooded delays and drops nothing of others: events, conditions, decisions."""

from __future__ import annotations

import asyncio
from typing import Any

from gangsched import Pod, PodAdded, PodUID
from gangsched.events import Effect, Event
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._facts import PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import Requests
from support.cluster_objects import pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, until

FLOOD = [("flood", f"f{n}") for n in range(200)]
QUIET = ("quiet", "q")


def added(namespace: str, name: str) -> Delta[PodFacts]:
    pod = Pod(name=name, namespace=namespace, uid=PodUID(f"{namespace}-{name}"))
    identity = Identity(f"{namespace}/{name}", pod.uid, "1")
    return Delta("added", identity, PodFacts(pod=pod, identity=identity, scheduler_name="ours"))


async def at_once(_queued_at: float) -> None:
    await asyncio.sleep(0)


class Told:
    """A scheduler that decides nothing, and remembers which pods it was told of."""

    def __init__(self) -> None:
        self.pods: list[str] = []

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        assert isinstance(event, PodAdded)
        self.pods.append(event.pod.key)
        return ()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        return ()

    def schedule_one(self, *, now: float) -> None:
        return None

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        return ()

    def next_deadline(self) -> None:
        return None


class Silent:
    """An observer that does nothing."""

    def event(self, event: Event, now: float) -> None: ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None: ...

    def settled(self, now: float) -> None: ...


@on_a_loop
async def test_pod_is_told_before_the_flood_of_another_namespace_that_came_first() -> None:
    owner, told, effects = Owner(Cache(["ours"]), lambda: 1.0), Told(), Silent()
    given: Any = effects

    async def never(_effect: object) -> None:
        raise AssertionError

    bind: Any = never
    driver = owner.begin(told, bind=bind, evict=never, effects=given, max_binds=1)
    owner.pods([added(*each) for each in [*FLOOD, QUIET]])
    running = asyncio.create_task(driver.run())
    await until(lambda: len(told.pods) == len(FLOOD) + 1)
    running.cancel()
    assert told.pods.index("quiet/q") < 32
    of_the_flood = [pod for pod in told.pods if pod != "quiet/q"]
    assert of_the_flood == [f"{namespace}/{name}" for namespace, name in FLOOD]


@on_a_loop
async def test_only_events_of_the_flooded_namespace_are_dropped_and_they_are_counted() -> None:
    api = MemoryApi()
    events = EventRecorder(
        Requests(api), at_once, controller="ours", clock=lambda: 1.8e9, limit=50, workers=1
    )
    for namespace, name in [QUIET, *FLOOD, QUIET]:
        regarding = Regarding("v1", "Pod", namespace, name, f"{namespace}-{name}")
        events.record(regarding, "Warning", "FailedScheduling", "Scheduling", f"of {name}")
    assert (len(events), events.dropped) == (50, len(FLOOD) + 1 - 50)
    work = asyncio.create_task(events.run())
    await until(lambda: len(created(api)) == 50)
    work.cancel()
    assert "quiet" in created(api)[:2]


def created(api: MemoryApi) -> list[str]:
    """Return the namespaces of the events that were created, in order."""
    return [path.split("/")[5] for method, path in api.requests if method == "POST"]


@on_a_loop
async def test_condition_is_written_before_those_of_a_flooded_namespace_that_came_first() -> None:
    api, cache = MemoryApi(), Cache(["ours"])
    status = StatusWriter(Requests(api), cache, at_once, workers=1)
    for namespace, name in [*FLOOD, QUIET]:
        body = pod_json(name, namespace=namespace)
        body["metadata"]["uid"] = f"{namespace}-{name}"
        api.put(f"/api/v1/namespaces/{namespace}/pods", body)
        cache.pod(added(namespace, name))
        status.unschedulable(PodUID(f"{namespace}-{name}"), "no node")
    work = asyncio.create_task(status.run())
    await until(lambda: not len(status))
    work.cancel()
    patched = [path.split("/")[4] for method, path in api.requests if method == "PATCH"]
    assert len(patched) == len(FLOOD) + 1
    assert patched.index("quiet") < 2
