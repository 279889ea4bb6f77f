"""The event ``NominationLapsed`` of a preemptor, and victims that take long to terminate."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.kubernetes import Settings, read_settings
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("reads events of pods and groups")

EVENTS: Final = "/apis/events.k8s.io/v1/events"
GRACE: Final = 0.4


def settings() -> Settings:
    preemption = {"name": "DefaultPreemption", "args": {"graceSeconds": GRACE}}
    return read_settings(
        {
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": "gangsched", "pluginConfig": [preemption]}],
        }
    )


def events(api: MemoryApi, reason: str) -> list[dict[str, Any]]:
    return [each for each in api.objects.get(EVENTS, {}).values() if each["reason"] == reason]


def cluster() -> MemoryApi:
    """Return two nodes of one GPU, each held by a pod of priority 0."""
    api = MemoryApi()
    api.fault = lambda method, path: refused(500) if _evicts(method, path) else None
    for name in ("n0", "n1"):
        api.put(NODES, node_json(name, gpu=1))
        api.put(PODS, pod_json(f"low-{name}", nodeName=name))
    return api


def _evicts(method: str, path: str) -> bool:
    return "/pods/" in path and (method == "DELETE" or path.endswith("/eviction"))


def terminate(api: MemoryApi, name: str, seconds: float) -> None:
    found = api.get(PODS, f"default/{name}")
    assert found is not None
    instant = time.gmtime(time.time() + seconds)
    found["metadata"]["deletionTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", instant)
    api.put(PODS, found)


@pytest.mark.parametrize("group", [None, "g"])
@on_a_loop
async def test_preemptor_whose_victims_stay_gets_an_event(group: str | None) -> None:
    api = cluster()
    async with asyncio.timeout(HANG), running(api, settings()):
        if group is not None:
            api.put(GROUPS, group_json("g", 1))
        api.put(PODS, pod_json("high", priority=5, group=group))
        await until(lambda: events(api, "NominationLapsed"))
        api.fault = lambda _method, _path: None
    found = events(api, "NominationLapsed")[0]
    kind = ("Pod", "high") if group is None else ("PodGroup", "g")
    assert (found["regarding"]["kind"], found["regarding"]["name"]) == kind
    assert found["type"] == "Warning"
    assert found["note"] == "Its nodes are nominated no longer: 1 pod did not terminate in time"


@on_a_loop
async def test_pod_whose_nomination_has_lapsed_names_no_node() -> None:
    """Its victim is overdue, and there is no other."""
    api = cluster()
    api.remove(PODS, "default/low-n1")
    api.remove(NODES, "n1")

    def nominated() -> str | None:
        found: str | None = api.objects[PODS]["default/high"]["status"].get("nominatedNodeName")
        return found

    async with asyncio.timeout(HANG), running(api, settings()):
        api.put(PODS, pod_json("high", priority=5))
        await until(lambda: nominated() == "n0")
        await until(lambda: nominated() is None)
        api.fault = lambda _method, _path: None


@on_a_loop
async def test_victim_that_may_still_terminate_is_counted_on_after_the_grace() -> None:
    """Its ``deletionTimestamp`` is to come: no other pod is evicted in its place."""
    api = cluster()
    async with asyncio.timeout(HANG), running(api, settings()):
        api.put(PODS, pod_json("high", priority=5))
        await until(lambda: events(api, "Preempted"))
        (first,) = events(api, "Preempted")
        victim = first["regarding"]["name"]
        terminate(api, victim, 600.0)
        await asyncio.sleep(5 * GRACE)
        assert len(events(api, "Preempted")) == 1
        assert events(api, "NominationLapsed") == []
        api.fault = lambda _method, _path: None
        api.remove(PODS, f"default/{victim}")
        await until(lambda: api.pods()["default/high"])
