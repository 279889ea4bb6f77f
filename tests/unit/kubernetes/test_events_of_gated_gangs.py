"""What is written of a group that lacks members, if some have scheduling gates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gangsched.kubernetes import _effects
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
GATE = "example.com/quota"
SAID = f"1 of 2 members is gated: {GATE}"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_effects, "_INCOMPLETE_AFTER", 0.05)


def cluster(minimum: int, *, gated: int) -> MemoryApi:
    """Return a cluster with a native group of one pod without a gate, and some with one."""
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", minimum))
    for n in range(1 + gated):
        pod = pod_json(f"g-{n}", group="g")
        if n:
            pod["spec"]["schedulingGates"] = [{"name": GATE}]
        api.put(PODS, pod)
    return api


def events(api: MemoryApi) -> list[dict[str, Any]]:
    return list(api.objects.get(EVENTS, {}).values())


def said_of(api: MemoryApi, resource: str, key: str) -> list[str]:
    found = api.get(resource, key) or {}
    return [each["message"] for each in found.get("status", {}).get("conditions", ())]


async def first_event(api: MemoryApi) -> dict[str, Any]:
    """Return the event of the group; each pending member has the same one."""
    async with running(api):
        await until(lambda: events(api))
        await until(lambda: said_of(api, PODS, "default/g-0"))
        await until(lambda: said_of(api, GROUPS, "default/g"))
    (found,) = [each for each in events(api) if each["regarding"]["kind"] == "PodGroup"]
    pods = len(api.objects[PODS])
    same = ("type", "reason", "note")
    alike = [each for each in events(api) if all(each[name] == found[name] for name in same)]
    assert len(alike) == len(events(api)) == pods + 1
    return found


@on_a_loop
async def test_event_of_a_partly_gated_gang_names_the_gates() -> None:
    api = cluster(2, gated=1)
    event = await first_event(api)
    assert (event["type"], event["reason"]) == ("Normal", "SchedulingGated")
    assert event["note"] == SAID
    assert said_of(api, PODS, "default/g-0") == [SAID]
    assert said_of(api, GROUPS, "default/g") == [SAID]


@on_a_loop
async def test_event_of_a_gang_that_lacks_members_counts_the_gated_ones() -> None:
    api = cluster(4, gated=2)
    event = await first_event(api)
    assert (event["type"], event["reason"]) == ("Warning", "Incomplete")
    assert event["note"] == "waiting for 3 more members: 1 of 4 exist, 2 more gated"
    assert said_of(api, PODS, "default/g-0") == [event["note"]]


@on_a_loop
async def test_event_of_a_gang_without_gated_members_has_no_gates() -> None:
    event = await first_event(cluster(2, gated=0))
    assert event["note"] == "waiting for 1 more member: 1 of 2 exist"


@on_a_loop
async def test_gang_that_is_gated_as_a_whole_has_no_event() -> None:
    """Its controller has not admitted it: nothing has failed."""
    api = cluster(2, gated=2)
    api.remove(PODS, "default/g-0")
    async with running(api):
        await asyncio.sleep(0.5)
    assert events(api) == []
