"""Restarts on an API server in memory: annotations, evictions, events, the next leader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gangsched.errors import ManifestError
from gangsched.kubernetes.convert import read_event
from gangsched.model import RestartPolicy
from gangsched.objects.restarts import restart_annotations
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import Fault, MemoryApi, refused
from support.running import on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
OWN = "gangsched.io/"


def group_json(**notes: str) -> dict[str, Any]:
    named = {OWN + name.replace("_", "-"): value for name, value in notes.items()}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "annotations": named},
        "spec": {"minMember": 2},
    }


def read(**notes: str) -> Any:
    event: Any = read_event({"type": "ADDED", "object": group_json(**notes)})
    return event.group


def put_pod(api: MemoryApi, name: str) -> None:
    found = pod_json(name)
    found["metadata"]["labels"] = {LABEL: "g"}
    api.put(PODS, found)


def notes_of(api: MemoryApi) -> dict[str, str]:
    found = api.get(GROUPS, "default/g")
    assert found is not None
    notes: dict[str, str] = found["metadata"].get("annotations", {})
    return {name.removeprefix(OWN): text for name, text in notes.items()}


def reasons(api: MemoryApi) -> list[str]:
    return [e["reason"] for e in api.objects.get("/apis/events.k8s.io/v1/events", {}).values()]


# The annotations --------------------------------------------------------------------------------


def test_policy_is_read_from_annotations() -> None:
    assert read().restart is None
    assert read(restart_policy="Never", max_restarts="3").restart is None
    assert read(restart_policy="BelowMinimum").restart == RestartPolicy()
    found = read(
        restart_policy="BelowMinimum",
        max_restarts="3",
        restart_backoff_seconds="20",
        longest_restart_backoff_seconds="40",
    )
    assert found.restart == RestartPolicy(max_restarts=3, backoff=20.0, longest_backoff=40.0)


def test_status_that_is_written_is_read_back() -> None:
    notes = restart_annotations(2, 1000.0)
    texts = {name.removeprefix(OWN).replace("-", "_"): str(text) for name, text in notes.items()}
    found = read(**texts)
    assert (found.restarts, found.restarting_until) == (2, 1000.0)
    assert restart_annotations(2, None) == {OWN + "restarts": "2", OWN + "restarting-until": None}


@pytest.mark.parametrize(
    "notes",
    [
        {"restart_policy": "Always"},
        {"restart_policy": "BelowMinimum", "max_restarts": "0"},
        {"restart_policy": "BelowMinimum", "restart_backoff_seconds": "1.5"},
        {
            "restart_policy": "BelowMinimum",
            "restart_backoff_seconds": "10",
            "longest_restart_backoff_seconds": "5",
        },
        {"restarts": "-1"},
        {"restarting_until": "soon"},
        {"restarting_until": "2026-01-31T12:00:00Z"},
    ],
)
def test_malformed_annotation_is_refused_with_its_name(notes: dict[str, str]) -> None:
    with pytest.raises(ManifestError, match=r"gangsched\.io/"):
        read(**notes)


# The scheduler ----------------------------------------------------------------------------------


@on_a_loop
async def test_restart_is_written_before_the_other_members_are_evicted() -> None:
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json(restart_policy="BelowMinimum", restart_backoff_seconds="1"))
    for n in range(2):
        put_pod(api, f"a-{n}")
    async with running(api):
        await until(lambda: set(api.pods().values()) == {"n"})
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, "default/a-0")
        await until(lambda: "default/a-1" not in api.pods())
        asked = [
            (method, path.rpartition("/")[2])
            for method, path in api.requests
            if (method == "PATCH" and path.endswith("/podgroups/g")) or method == "DELETE"
        ]
        assert asked[:2] == [("PATCH", "g"), ("DELETE", "a-1")]
        assert notes_of(api)["restarts"] == "1"
        assert notes_of(api)["restarting-until"].isdigit()
        for n in range(2):
            put_pod(api, f"b-{n}")
        await until(lambda: set(api.pods().values()) == {"n"})
        await until(lambda: "restarting-until" not in notes_of(api))
        await until(lambda: "Restarted" in reasons(api))
    assert notes_of(api)["restarts"] == "1"


@on_a_loop
async def test_eviction_waits_until_the_restart_is_written() -> None:
    """The API server refuses the first write, so that the eviction could overtake it."""
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json(restart_policy="BelowMinimum", restart_backoff_seconds="1"))
    refusals, at_deletion = [refused(503, **{"Retry-After": "1"})], list[dict[str, str]]()

    def fault(method: str, path: str) -> Fault | None:
        if method == "DELETE":
            at_deletion.append(notes_of(api))
        is_count = method == "PATCH" and path.endswith("/podgroups/g")
        return refusals.pop() if is_count and refusals else None

    api.fault = fault
    for n in range(2):
        put_pod(api, f"a-{n}")
    async with running(api):
        await until(lambda: set(api.pods().values()) == {"n"})
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, "default/a-0")
        await until(lambda: "default/a-1" not in api.pods())
    assert not refusals
    assert [notes["restarts"] for notes in at_deletion] == ["1"]


@on_a_loop
async def test_next_leader_counts_on_and_ends_at_the_limit() -> None:
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    policy = {"restart_policy": "BelowMinimum", "max_restarts": "2", "restarts": "2"}
    api.put(GROUPS, group_json(**policy))
    for n in range(2):
        put_pod(api, f"a-{n}")
    async with running(api):
        await until(lambda: set(api.pods().values()) == {"n"})
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, "default/a-0")
        await until(lambda: "RestartLimitReached" in reasons(api))
    assert api.pods() == {"default/a-1": "n"}


@on_a_loop
async def test_next_leader_goes_on_with_a_restart_that_was_begun() -> None:
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    begun = {"restarts": "1", "restarting_until": "1767225600"}
    api.put(GROUPS, group_json(restart_policy="BelowMinimum", **begun))
    old = pod_json("old", nodeName="n")
    old["metadata"]["labels"] = {LABEL: "g"}
    api.put(PODS, old)
    for n in range(2):
        put_pod(api, f"b-{n}")
    async with running(api):
        await until(lambda: api.pods() == {"default/b-0": "n", "default/b-1": "n"})
        await until(lambda: "restarting-until" not in notes_of(api))
    assert notes_of(api)["restarts"] == "1", "it is not counted again"


@on_a_loop
async def test_note_of_a_leader_that_ended_too_early_is_taken_back_from_a_gang_that_runs() -> None:
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json(restarts="1", restarting_until="1767225600"))
    for name in ("a", "b"):
        found = pod_json(name)
        found["metadata"]["labels"] = {LABEL: "g"}
        found["spec"]["nodeName"] = "n"
        found["status"] = {"phase": "Running"}
        api.put(PODS, found)
    async with running(api):
        await until(lambda: "restarting-until" not in notes_of(api))
    assert notes_of(api) == {"restarts": "1"}
