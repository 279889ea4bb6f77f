"""Namespaces take turns: the flood of one delays and drops nothing of others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gangsched import Pod, PodAdded, PodUID
from gangsched.events import Effect, Event
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._facts import PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._requests import Requests
from gangsched.kubernetes._turns import Turns
from support.cluster_objects import pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, until


def waiting(*items: str) -> Turns[str, str]:
    """Return items that wait, each named after its namespace and a number."""
    turns: Turns[str, str] = Turns()
    for item in items:
        turns.put(item[0], item, item)
    return turns


def taken(turns: Turns[str, str]) -> list[str]:
    return [turns.take() for _item in range(len(turns))]


def test_namespaces_are_taken_in_turn_and_their_items_in_order() -> None:
    assert taken(waiting("a1", "a2", "a3", "b1", "a4", "c1", "b2")) == [
        *("a1", "b1", "c1", "a2", "b2", "a3", "a4")
    ]
    turns = waiting(*(f"a{n}" for n in range(1000)))
    assert turns.take() == "a0"
    turns.put("b", "b1", "b1")  # waits for one item of each other namespace
    assert [turns.take(), turns.take()] == ["a1", "b1"]


def test_item_replaces_the_one_of_the_same_key_in_its_place() -> None:
    turns = waiting("a1", "a2")
    turns.put("a", "a1", "later")
    assert (len(turns), turns.get("a", "a1")) == (2, "later")
    assert taken(turns) == ["later", "a2"]


def test_oldest_item_of_the_longest_namespace_is_dropped() -> None:
    turns = waiting("b1", "a1", "a2", "a3", "b2")
    assert [turns.drop(), turns.drop()] == ["a1", "b1"]
    assert taken(turns) == ["b2", "a2", "a3"]


def test_what_was_removed_or_is_not_kept_is_not_taken() -> None:
    turns = waiting("a1", "b1")
    assert turns.remove("a", "a1") == "a1"
    assert turns.remove("a", "a1") is turns.remove("a", "a2") is None
    assert turns.first() == "b1"
    assert taken(turns) == ["b1"]
    turns = waiting("a1", "b1", "a2", "c1")
    turns.keep(lambda item: item not in ("a1", "b1"))
    assert taken(turns) == ["a2", "c1"]


def test_nothing_is_taken_of_nothing() -> None:
    turns = waiting()
    assert turns.first() is None
    for take in (turns.take, turns.drop):
        with pytest.raises(LookupError, match="nothing waits"):
            take()


# Decisions and conditions -----------------------------------------------------------------------

FLOOD = [("flood", f"f{n}") for n in range(200)]
QUIET = ("quiet", "q")


def added(namespace: str, name: str) -> Delta[PodFacts]:
    pod = Pod(name=name, namespace=namespace, uid=PodUID(f"{namespace}-{name}"))
    identity = Identity(f"{namespace}/{name}", pod.uid, "1")
    return Delta("added", identity, PodFacts(pod=pod, identity=identity, scheduler_name="ours"))


class Told:
    """A scheduler that decides nothing, and remembers which pods it was told of."""

    def __init__(self) -> None:
        self.pods: list[str] = []

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        self.pods += [event.pod.key for event in events if isinstance(event, PodAdded)]
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
    owner, told, silent = Owner(Cache(["ours"]), lambda: 1.0), Told(), Silent()

    async def never(_effect: object) -> None:
        raise AssertionError

    act: Any = {"bind": never, "evict": never, "effects": silent}
    driver = owner.begin(told, **act, max_binds=1)
    owner.pods([added(*each) for each in [*FLOOD, QUIET]])
    running = asyncio.create_task(driver.run())
    await until(lambda: len(told.pods) == len(FLOOD) + 1)
    running.cancel()
    assert told.pods.index("quiet/q") < 32
    told.pods.remove("quiet/q")
    assert told.pods == ["/".join(each) for each in FLOOD]


@on_a_loop
async def test_condition_is_written_before_those_of_a_flooded_namespace_that_came_first() -> None:
    async def at_once(_queued_at: float) -> None:
        await asyncio.sleep(0)

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
