"""Restarts on an API server in memory: annotations, evictions, events, the next leader."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

from gangsched.errors import ManifestError
from gangsched.kubernetes.convert import read_event
from gangsched.manifests.restarts import restart_annotations
from gangsched.model import PodGroup, RestartPolicy
from support.cluster_objects import PODS, pod_json
from support.memory_api import Fault, MemoryApi, refused
from support.memory_cluster import change, cluster, reasons
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


def notes_of(api: MemoryApi) -> dict[str, str]:
    found = api.get(GROUPS, "default/g")
    assert found is not None
    notes: dict[str, str] = found["metadata"].get("annotations", {})
    return {name.removeprefix(OWN): text for name, text in notes.items()}


# The annotations --------------------------------------------------------------------------------


def test_policy_is_read_from_annotations() -> None:
    assert read().restart is None
    assert read(restart_policy="Never", max_restarts="3").restart is None
    assert read(restart_policy="BelowMinimum").restart == RestartPolicy()
    assert read(restart_policy="Repair").restart == RestartPolicy(repair=True)
    found = read(
        restart_policy="BelowMinimum",
        max_restarts="3",
        restart_backoff_seconds="20",
        longest_restart_backoff_seconds="40",
    )
    assert found.restart == RestartPolicy(max_restarts=3, backoff=20.0, longest_backoff=40.0)


def test_status_that_is_written_is_read_back() -> None:
    copies = {"decode/1": (1, 1000.0), "decode/2": (3, None)}
    group = PodGroup(name="g", min_available=2, restarts=2, restarting_until=1000.0)
    notes = restart_annotations(evolve(group, copy_restarts=copies))
    texts = {name.removeprefix(OWN).replace("-", "_"): str(text) for name, text in notes.items()}
    found = read(**texts)
    assert (found.restarts, found.restarting_until) == (2, 1000.0)
    assert found.copy_restarts == copies
    assert restart_annotations(evolve(group, restarting_until=None)) == {
        OWN + "restarts": "2",
        OWN + "restarting-until": None,
        OWN + "copy-restarts": None,
    }


@pytest.mark.parametrize(
    "notes",
    [
        {"restart_policy": "Always"},
        {"restart_policy": "BelowMinimum", "max_restarts": "0"},
        {"restart_policy": "BelowMinimum", "restart_backoff_seconds": "1.5"},
        {"restart_policy": "BelowMinimum", "longest_restart_backoff_seconds": "5"},
        {"restarts": "-1"},
        {"restarting_until": "soon"},
        {"restarting_until": "2026-01-31T12:00:00Z"},
        {"copy_restarts": "[]"},
        {"copy_restarts": "{"},
        {"copy_restarts": '{"decode/1": 1}'},
        {"copy_restarts": '{"decode/1": [0, null]}'},
        {"copy_restarts": '{"": [1, null]}'},
        {"copy_restarts": '{"decode/1": [1, "soon"]}'},
    ],
)
def test_malformed_annotation_is_refused_with_its_name(notes: dict[str, str]) -> None:
    with pytest.raises(ManifestError, match=r"gangsched\.io/"):
        read(**notes)


# The scheduler ----------------------------------------------------------------------------------


def put_pods(api: MemoryApi, *names: str, **spec: Any) -> None:
    for name in names:
        pod = pod_json(name, **spec)
        pod["metadata"]["labels"] = {LABEL: "g"}
        api.put(PODS, pod)


def with_group(**notes: str) -> MemoryApi:
    api = cluster()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    api.put(GROUPS, group_json(**notes))
    return api


async def lose_a_member(api: MemoryApi) -> None:
    """Wait until the gang runs, and delete one of its two pods."""
    await until(lambda: set(api.pods().values()) == {"n0"})
    await asyncio.sleep(0.3)  # the reports of the binds
    api.remove(PODS, "default/a-0")


@pytest.mark.parametrize("is_refused", [False, True])
@on_a_loop
async def test_restart_is_written_before_the_other_members_are_evicted(is_refused: bool) -> None:
    """The API server may refuse the first write, so that the eviction could overtake it."""
    api = with_group(restart_policy="BelowMinimum", restart_backoff_seconds="1")
    refusals = [refused(503, **{"Retry-After": "1"})] * is_refused
    at_deletion: list[str] = []

    def fault(method: str, path: str) -> Fault | None:
        if method == "DELETE":
            at_deletion.append(notes_of(api)["restarts"])
        is_count = method == "PATCH" and path.endswith("/podgroups/g")
        return refusals.pop() if is_count and refusals else None

    api.fault = fault
    put_pods(api, "a-0", "a-1")
    async with running(api):
        await lose_a_member(api)
        await until(lambda: "default/a-1" not in api.pods())
        assert not refusals
        assert at_deletion == ["1"]
        assert notes_of(api)["restarting-until"].isdigit()
        put_pods(api, "b-0", "b-1")
        await until(lambda: set(api.pods().values()) == {"n0"})
        await until(lambda: "restarting-until" not in notes_of(api))
        await until(lambda: "Restarted" in reasons(api))
    assert notes_of(api)["restarts"] == "1"


@on_a_loop
async def test_next_leader_counts_on_and_ends_at_the_limit() -> None:
    api = with_group(restart_policy="BelowMinimum", max_restarts="2", restarts="2")
    put_pods(api, "a-0", "a-1")
    async with running(api):
        await lose_a_member(api)
        await until(lambda: "RestartLimitReached" in reasons(api))
    assert api.pods() == {"default/a-1": "n0"}


BEGUN = {"restarts": "1", "restarting_until": "1767225600"}


@on_a_loop
async def test_next_leader_goes_on_with_a_restart_that_was_begun() -> None:
    api = with_group(restart_policy="BelowMinimum", **BEGUN)
    put_pods(api, "old", nodeName="n0")
    put_pods(api, "b-0", "b-1")
    async with running(api):
        await until(lambda: api.pods() == {"default/b-0": "n0", "default/b-1": "n0"})
        await until(lambda: "restarting-until" not in notes_of(api))
    assert notes_of(api)["restarts"] == "1", "it is not counted again"


@on_a_loop
async def test_note_of_a_leader_that_ended_too_early_is_taken_back_from_a_gang_that_runs() -> None:
    api = with_group(**BEGUN)
    put_pods(api, "a", "b", nodeName="n0")
    for key in api.pods():
        change(api, PODS, key, status={"phase": "Running"})
    async with running(api):
        await until(lambda: "restarting-until" not in notes_of(api))
    assert notes_of(api) == {"restarts": "1"}
