"""The event ``BelowMinimum`` of a group, on an API server in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import Settings
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
WITHOUT_STATUS = evolve(ALONE, write_group_status=False)
QUIET = 1.6
"""Seconds after which an event would have been created."""


def events(api: MemoryApi, reason: str = "BelowMinimum") -> list[dict[str, Any]]:
    return [each for each in api.objects.get(EVENTS, {}).values() if each["reason"] == reason]


def cluster(size: int = 3, *, minimum: int | None = None) -> MemoryApi:
    """Return a cluster with a native group of *size* pods."""
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", size if minimum is None else minimum))
    for n in range(size):
        api.put(PODS, pod_json(f"g-{n}", group="g"))
    return api


def labelled(size: int, *, with_object: bool, **notes: str) -> MemoryApi:
    """Return a cluster with a group of scheduling.x-k8s.io, or of labels alone."""
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    labels = {LABEL: "g"}
    if with_object:
        named = {f"gangsched.io/{name.replace('_', '-')}": text for name, text in notes.items()}
        body: dict[str, Any] = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        body["metadata"] = {"name": "g", "namespace": "default", "annotations": named}
        body["spec"] = {"minMember": size}
        api.put(COSCHEDULING, body)
    else:
        labels = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": str(size),
        }
    for n in range(size):
        found = pod_json(f"g-{n}")
        found["metadata"]["labels"] = labels
        api.put(PODS, found)
    return api


async def placed(api: MemoryApi) -> None:
    """Wait until every pod is on a node, and the reports of the binds were read."""
    await until(lambda: all(api.pods().values()))
    await asyncio.sleep(0.3)


def set_phase(api: MemoryApi, name: str, phase: str) -> None:
    found = api.get(PODS, f"default/{name}")
    assert found is not None
    found["status"]["phase"] = phase
    api.put(PODS, found)


def terminate(api: MemoryApi, name: str) -> None:
    """Delete a pod whose containers still stop."""
    found = api.get(PODS, f"default/{name}")
    assert found is not None
    found["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:30Z"
    api.put(PODS, found)


@pytest.mark.parametrize("settings", [ALONE, WITHOUT_STATUS], ids=["status", "no status"])
def test_group_that_falls_below_its_minimum_gets_one_event(settings: Settings) -> None:
    async def run() -> None:
        api = cluster()
        async with running(api, settings):
            await placed(api)
            api.remove(PODS, "default/g-0")
            await until(lambda: len(events(api)) == 1)
            api.remove(PODS, "default/g-1")
            await asyncio.sleep(QUIET)
        (found,) = events(api)
        assert found["regarding"]["kind"] == "PodGroup"
        assert found["regarding"]["name"] == "g"
        assert found["type"] == "Warning"
        assert found["note"] == "2 of 3 members hold a node or have succeeded"
        assert "series" not in found, "once"

    on_a_loop(run)()


@on_a_loop
async def test_group_that_has_recovered_gets_the_event_again() -> None:
    api = cluster(2)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await until(lambda: len(events(api)) == 1)
        api.put(PODS, pod_json("g-2", group="g"))
        await placed(api)
        api.remove(PODS, "default/g-1")
        await until(lambda: events(api)[0].get("series", {}).get("count") == 2)


@on_a_loop
async def test_group_whose_members_all_fail_gets_the_event() -> None:
    api = cluster(2)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        for n in range(2):
            set_phase(api, f"g-{n}", "Failed")
        await until(lambda: len(events(api)) == 1)


@on_a_loop
async def test_job_that_is_deleted_gets_no_event() -> None:
    """Its pods are deleted one after another, and the group is below its minimum at the first."""
    api = cluster()
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        for n in range(3):
            terminate(api, f"g-{n}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(QUIET)
        assert events(api) == [], "all are terminating"
        for n in range(3):
            api.remove(PODS, f"default/g-{n}")
        await asyncio.sleep(QUIET)
    assert events(api) == []


@on_a_loop
async def test_group_that_loses_elastic_members_gets_no_event() -> None:
    api = cluster(3, minimum=2)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await asyncio.sleep(QUIET)
    assert events(api) == []


@on_a_loop
async def test_group_without_an_object_is_reported_by_its_first_member_that_is_left() -> None:
    api = labelled(2, with_object=False)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await until(lambda: len(events(api)) == 1)
    (found,) = events(api)
    assert (found["regarding"]["kind"], found["regarding"]["name"]) == ("Pod", "g-1")


@on_a_loop
async def test_group_without_an_object_is_not_reported_by_a_member_that_is_deleted() -> None:
    api = labelled(3, with_object=False)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        terminate(api, "g-0")
        api.remove(PODS, "default/g-1")
        await until(lambda: len(events(api)) == 1)
    (found,) = events(api)
    assert (found["regarding"]["kind"], found["regarding"]["name"]) == ("Pod", "g-2")


@pytest.mark.parametrize("number", [0, 1])
@on_a_loop
async def test_group_without_an_object_that_was_found_partly_on_nodes_is_reported(
    number: int,
) -> None:
    """Its members were bound by another program, so its pods do not say whether it was whole."""
    placed_one, other = f"g-{number}", f"g-{1 - number}"
    api = labelled(2, with_object=False)
    api.put(NODES, node_json("n", gpu=1))
    bound = api.get(PODS, f"default/{placed_one}")
    assert bound is not None
    bound["spec"]["nodeName"] = "n"
    api.put(PODS, bound)
    async with running(api, evolve(WITHOUT_STATUS, partial_bound=0.3)):
        await until(lambda: len(events(api, "PartlyBound")) == 2)
        await asyncio.sleep(0.7)
    found, stays = sorted(events(api, "PartlyBound"), key=lambda event: event["note"], reverse=True)
    for event in (found, stays):
        assert "series" not in event, "once"
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Pod", placed_one)
    placed_in_part = "1 of 2 members of pod group default/g are on nodes, "
    assert found["note"].startswith(f"{placed_in_part}as an earlier scheduler has left them")
    assert stays["note"].startswith(f"{placed_in_part}and the others were not placed")
    assert api.pods() == {f"default/{placed_one}": "n", f"default/{other}": None}


@on_a_loop
async def test_group_that_is_restarted_gets_both_events_though_its_members_are_evicted() -> None:
    policy = {"restart_policy": "BelowMinimum", "restart_backoff_seconds": "1"}
    api = labelled(2, with_object=True, **policy)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await until(lambda: not api.pods())
        await until(lambda: len(events(api)) == 1)
        await until(lambda: len(events(api, "Restarted")) == 1)


@on_a_loop
async def test_scheduler_that_stops_has_reported_what_it_knew_and_the_next_what_it_finds() -> None:
    api = cluster(2)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await asyncio.sleep(0.2)
    assert len(events(api)) == 1
    async with running(api, WITHOUT_STATUS):
        await until(lambda: len(events(api)) == 2)
        await asyncio.sleep(QUIET)
    notes = sorted(each["note"] for each in events(api))
    counts = "1 of 2 members hold a node or have succeeded"
    assert notes == [counts, f"{counts}; it was whole before this scheduler began"]
    assert not any("series" in each for each in events(api)), "once from each"


# Before the scheduler began ---------------------------------------------------------------------


def left(kept: int, *, native: bool = True, was_whole: bool = True, size: int = 3) -> MemoryApi:
    """Return a cluster as a scheduler has left it, with *kept* of a gang's bound pods."""
    api = cluster(size) if native else labelled(size, with_object=False)
    if native and was_whole:
        group = api.get(GROUPS, "default/g")
        assert group is not None
        condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        condition["lastTransitionTime"] = "2026-01-31T12:00:00Z"
        group["status"] = {"conditions": [condition]}
        api.put(GROUPS, group)
    for n in range(size):
        found = api.get(PODS, f"default/g-{n}")
        assert found is not None
        found["spec"]["nodeName"] = "n"
        found["status"]["phase"] = "Running"
        if was_whole and not native:
            found["metadata"]["annotations"] = {"gangsched.io/gang-was-whole": "true"}
        api.put(PODS, found)
    for n in range(kept, size):
        api.remove(PODS, f"default/g-{n}")
    return api


@pytest.mark.parametrize("native", [True, False], ids=["group", "labels"])
def test_gang_that_lost_a_member_while_no_scheduler_ran_gets_the_event(native: bool) -> None:
    async def run() -> None:
        api = left(2, native=native)
        async with running(api, WITHOUT_STATUS):
            await until(lambda: len(events(api)) == 1)
            await asyncio.sleep(QUIET)
        (found,) = events(api)
        assert found["regarding"]["kind"] == ("PodGroup" if native else "Pod")
        assert found["note"].startswith(
            "2 of 3 members hold a node or have succeeded; it was whole"
        )
        assert "series" not in found, "once"
        assert events(api, "PartlyBound") == []

    on_a_loop(run)()


@pytest.mark.parametrize(
    "api",
    [left(3), left(0), left(3, native=False), left(2, was_whole=False)],
    ids=["whole", "gone", "whole by labels", "never whole"],
)
def test_gang_that_did_not_fall_while_no_scheduler_ran_gets_no_event(api: MemoryApi) -> None:
    async def run() -> None:
        async with running(api, WITHOUT_STATUS):
            await asyncio.sleep(QUIET)
        assert events(api) == []

    on_a_loop(run)()


@on_a_loop
async def test_gang_whose_pods_end_while_no_scheduler_runs_gets_no_event() -> None:
    api = left(3)
    for n, phase in enumerate(("Succeeded", "Succeeded", "Running")):
        set_phase(api, f"g-{n}", phase)
    async with running(api, WITHOUT_STATUS):
        await asyncio.sleep(QUIET)
    assert events(api) == []


@on_a_loop
async def test_job_that_is_deleted_while_no_scheduler_runs_gets_no_event() -> None:
    api = left(2)
    for n in range(2):
        terminate(api, f"g-{n}")
    async with running(api, WITHOUT_STATUS):
        await asyncio.sleep(QUIET)
    assert events(api) == []
