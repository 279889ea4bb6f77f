"""The event ``BelowMinimum`` of a group, on an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import Settings
from support.cluster_objects import GROUPS, NODES, PODS, node_json, pod_json, put_gang
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until
from support.stepped_loop import on_a_stepped_loop

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
WITHOUT_STATUS = evolve(ALONE, write_group_status=False)
QUIET = 5.0
"""Seconds after which an event would have been created."""


def events(api: MemoryApi, reason: str = "BelowMinimum") -> list[dict[str, Any]]:
    return [each for each in api.objects.get(EVENTS, {}).values() if each["reason"] == reason]


def cluster(size: int = 3, *, minimum: int | None = None) -> MemoryApi:
    """Return a cluster with a native group of *size* pods."""
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, "g", size, minimum)
    return api


def labelled(size: int) -> MemoryApi:
    """Return a cluster with a group of labels alone."""
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    for n in range(size):
        pod = pod_json(f"g-{n}")
        pod["metadata"]["labels"] = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": str(size),
        }
        api.put(PODS, pod)
    return api


async def placed(api: MemoryApi) -> None:
    """Wait until every pod is on a node, and the reports of the binds were read."""
    await until(lambda: all(api.pods().values()))
    await asyncio.sleep(0.3)


def change(api: MemoryApi, name: str, part: str, **fields: Any) -> None:
    pod = api.get(PODS, f"default/{name}")
    assert pod is not None
    pod[part] |= fields
    api.put(PODS, pod)


def terminate(api: MemoryApi, name: str) -> None:
    """Delete a pod whose containers still stop."""
    change(api, name, "metadata", deletionTimestamp="2026-01-31T12:00:30Z")


@pytest.mark.parametrize("settings", [ALONE, WITHOUT_STATUS], ids=["status", "no status"])
@on_a_stepped_loop
async def test_group_that_falls_below_its_minimum_gets_one_event(settings: Settings) -> None:
    api = cluster()
    async with running(api, settings):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await until(lambda: len(events(api)) == 1)
        api.remove(PODS, "default/g-1")
        await asyncio.sleep(QUIET)
    (found,) = events(api)
    assert (found["regarding"]["kind"], found["regarding"]["name"]) == ("PodGroup", "g")
    assert found["type"] == "Warning"
    assert found["note"] == "2 of 3 members hold a node or have succeeded"
    assert "series" not in found, "once"


@on_a_stepped_loop
async def test_group_that_has_recovered_gets_the_event_again_when_all_its_members_fail() -> None:
    api = cluster(2)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await until(lambda: len(events(api)) == 1)
        api.put(PODS, pod_json("g-2", group="g"))
        await placed(api)
        for n in (1, 2):
            change(api, f"g-{n}", "status", phase="Failed")
        await until(lambda: events(api)[0].get("series", {}).get("count") == 2)


@on_a_stepped_loop
async def test_job_that_is_deleted_and_group_that_loses_elastic_members_get_no_event() -> None:
    """Pods of a job are deleted one by one: the group is below its minimum at the first."""
    api, elastic = cluster(), cluster(3, minimum=2)
    async with running(api, WITHOUT_STATUS), running(elastic, WITHOUT_STATUS):
        await placed(api)
        await placed(elastic)
        elastic.remove(PODS, "default/g-0")
        for n in range(3):
            terminate(api, f"g-{n}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(QUIET)
        assert events(api) == [], "all are terminating"
        for n in range(3):
            api.remove(PODS, f"default/g-{n}")
        await asyncio.sleep(QUIET)
    assert events(api) == events(elastic) == []


@on_a_stepped_loop
async def test_group_without_an_object_is_reported_by_its_first_member_that_stays() -> None:
    api = labelled(3)
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
    api = labelled(2)
    api.put(NODES, node_json("n", gpu=1))
    change(api, placed_one, "spec", nodeName="n")
    async with running(api, evolve(WITHOUT_STATUS, partial_bound=0.3)):
        await until(lambda: len(events(api, "PartlyBound")) == 2)
        await asyncio.sleep(0.7)
    stays, found = sorted(events(api, "PartlyBound"), key=lambda event: event["note"])
    for event in (found, stays):
        assert "series" not in event, "once"
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Pod", placed_one)
    placed_in_part = "1 of 2 members of pod group default/g are on nodes, "
    assert found["note"].startswith(f"{placed_in_part}as an earlier scheduler has left them")
    assert stays["note"].startswith(f"{placed_in_part}and the others were not placed")
    assert api.pods() == {f"default/{placed_one}": "n", f"default/{other}": None}


@on_a_loop
async def test_group_that_is_restarted_gets_both_events_though_its_members_are_evicted() -> None:
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    policy = {"restart-policy": "BelowMinimum", "restart-backoff-seconds": "1"}
    annotations = {f"gangsched.io/{name}": value for name, value in policy.items()}
    metadata = {"name": "g", "namespace": "default", "annotations": annotations}
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    api.put(COSCHEDULING, {**kind, "metadata": metadata, "spec": {"minMember": 2}})
    for n in range(2):
        pod = pod_json(f"g-{n}")
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
        api.put(PODS, pod)
    async with running(api, WITHOUT_STATUS):
        await placed(api)
        api.remove(PODS, "default/g-0")
        await until(lambda: not api.pods())
        await until(lambda: len(events(api)) == len(events(api, "Restarted")) == 1)


@on_a_stepped_loop
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


def left(kept: int, *, native: bool = True, was_whole: bool = True) -> MemoryApi:
    """Return a cluster as a scheduler has left it, with *kept* of a gang's three bound pods."""
    api = cluster(3) if native else labelled(3)
    if native and was_whole:
        condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
        condition["lastTransitionTime"] = "2026-01-31T12:00:00Z"
        api.objects[GROUPS]["default/g"]["status"] = {"conditions": [condition]}
    for n in range(3):
        change(api, f"g-{n}", "spec", nodeName="n")
        change(api, f"g-{n}", "status", phase="Running")
        if was_whole and not native:
            whole = {"gangsched.io/gang-was-whole": "true"}
            change(api, f"g-{n}", "metadata", annotations=whole)
    for n in range(kept, 3):
        api.remove(PODS, f"default/g-{n}")
    return api


@pytest.mark.parametrize("native", [True, False], ids=["group", "labels"])
@on_a_stepped_loop
async def test_gang_that_lost_a_member_while_no_scheduler_ran_gets_the_event(native: bool) -> None:
    api = left(2, native=native)
    async with running(api, WITHOUT_STATUS):
        await until(lambda: len(events(api)) == 1)
        await asyncio.sleep(QUIET)
    (found,) = events(api)
    assert found["regarding"]["kind"] == ("PodGroup" if native else "Pod")
    assert found["note"].startswith("2 of 3 members hold a node or have succeeded; it was whole")
    assert "series" not in found, "once"
    assert events(api, "PartlyBound") == []


@pytest.mark.parametrize("is_made_again", [False, True], ids=["raised", "made again"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "scheduler-plugins"])
@on_a_stepped_loop
async def test_gang_whose_podgroup_needs_more_than_runs_gets_the_event_and_goes_on(
    is_made_again: bool, native: bool
) -> None:
    """An object that was made again does not say that its gang was whole before."""
    api, kind = cluster(), GROUPS
    if not native:
        api, kind = labelled(0), COSCHEDULING
        api.served.add("scheduling.x-k8s.io/v1alpha1")
        named = {"name": "g", "namespace": "default"}
        api.put(kind, {"metadata": named, "spec": {"minMember": 3}})
        for n in range(3):
            pod = pod_json(f"g-{n}")
            pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
            api.put(PODS, pod)
    settings = evolve(ALONE, partial_bound=2.0)
    async with running(api, settings):
        await placed(api)
        await asyncio.sleep(QUIET)
        group = api.get(kind, "default/g")
        assert group is not None
        needs = {"minMember": 5} if not native else {"schedulingPolicy": {"gang": {"minCount": 5}}}
        if is_made_again:
            api.remove(kind, "default/g")
            group = {"metadata": {"name": "g", "namespace": "default"}}
        group["spec"] = needs
        api.put(kind, group)
        await until(lambda: events(api))
        await asyncio.sleep(QUIET)
    (found,) = events(api)
    assert found["note"] == (
        "3 of 5 members hold a node or have succeeded; no member was lost, its PodGroup has changed"
    )
    async with running(api, settings):
        await until(lambda: len(events(api)) == 2)
        await asyncio.sleep(QUIET)
    assert all(api.pods().values())
    assert len(api.pods()) == 3
    assert events(api, "PartlyBound") == []


def ended() -> MemoryApi:
    api = left(3)
    for n in range(2):
        change(api, f"g-{n}", "status", phase="Succeeded")
    return api


def deleted() -> MemoryApi:
    api = left(2)
    for n in range(2):
        terminate(api, f"g-{n}")
    return api


@pytest.mark.parametrize(
    "before",
    [
        lambda: left(3),
        lambda: left(0),
        lambda: left(3, native=False),
        lambda: left(2, was_whole=False),
        ended,
        deleted,
    ],
    ids=["whole", "gone", "whole by labels", "never whole", "ended", "deleted"],
)
@on_a_stepped_loop
async def test_gang_that_did_not_fall_while_no_scheduler_ran_gets_no_event(
    before: Callable[[], MemoryApi],
) -> None:
    api = before()
    async with running(api, WITHOUT_STATUS):
        await until(lambda: api.watchers.get(PODS))
        await asyncio.sleep(QUIET)
    assert events(api) == []
