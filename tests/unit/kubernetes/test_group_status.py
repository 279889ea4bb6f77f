"""The status of PodGroups of scheduling.x-k8s.io, as it is computed and as it is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched.kubernetes._group_status import WHOLE_PHASES, GroupStatus, status_of
from gangsched.model import Pod, PodGroup, PodPhase
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi, refused
from support.running import ALONE, on_a_loop, running, until
from support.stepped_loop import on_a_stepped_loop

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
NEW = GroupStatus("", (0, 0, 0), "")

# The pure part: a member is the letter of its phase, a capital one if it has a node --------------

LETTERS = {"p": "Pending", "r": "Running", "s": "Succeeded", "f": "Failed", "u": "Unknown"}


def members(letters: str) -> list[Pod]:
    return [
        Pod(
            name=f"g-{n}",
            labels={LABEL: "g"},
            phase=PodPhase(LETTERS[letter.lower()]),
            node_name="n" if letter.isupper() else None,
            owners=("job",),
        )
        for n, letter in enumerate(letters)
    ]


def group(minimum: int = 2, **roles: int) -> PodGroup:
    return PodGroup(name="g", min_available=minimum, roles=roles)


@pytest.mark.parametrize(
    ("letters", "before", "phase"),
    [
        ("", "", "Pending"),
        ("p", "", "Pending"),
        ("pp", "Pending", "Scheduling"),
        ("Pp", "Scheduling", "Scheduling"),
        ("PP", "Scheduling", "Scheduled"),
        ("RP", "Scheduled", "Scheduled"),
        ("RR", "Scheduled", "Running"),
        ("Rp", "Running", "Unknown"),
        ("R", "Running", "Unknown"),
        ("Rp", "Unknown", "Unknown"),
        ("pp", "Running", "Scheduling"),
        ("SR", "Running", "Running"),
        ("ss", "Running", "Finished"),
        ("", "Finished", "Finished"),
        ("FR", "Running", "Failed"),
        ("pp", "PreScheduling", "Scheduling"),
    ],
)
def test_phase_follows_from_the_members_and_the_phase_before(
    letters: str, before: str, phase: str
) -> None:
    assert status_of(group(), members(letters), evolve(NEW, phase=before)).phase == phase


def test_roles_must_hold_nodes_too() -> None:
    assert status_of(group(worker=1), members("PP"), NEW).phase == "Pending"


PHASES = st.sampled_from(["", "Pending", "Scheduling", "Scheduled", "Running", "Unknown", "Failed"])


@given(st.text("prsfuPRSFU", max_size=5), PHASES, st.integers(1, 4))
def test_status_is_stable_and_whole_phases_need_members_on_nodes(
    letters: str, before: str, minimum: int
) -> None:
    pods = members(letters)
    found = status_of(group(minimum), pods, evolve(NEW, phase=before))
    assert status_of(group(minimum), pods, found) == found
    assert sum(found.counts) <= len(pods)
    holding = sum(letter in "sSPRU" for letter in letters)
    if found.phase == "Scheduled":
        assert holding >= minimum
    if found.phase == "Unknown":
        assert before in WHOLE_PHASES
        assert 0 < holding < minimum


# The writer -------------------------------------------------------------------------------------


def cluster(size: int = 2, *, nodes: int = 1, gpu: int = 8, minimum: int = 2) -> MemoryApi:
    api = MemoryApi()
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    body: dict[str, Any] = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    body["metadata"] = {"name": "g", "namespace": "default"}
    api.put(GROUPS, {**body, "spec": {"minMember": minimum}})
    for n in range(size):
        put_pod(api, n)
    for _ in range(nodes):
        api.put(NODES, node_json("n", gpu=gpu))
    return api


def put_pod(api: MemoryApi, n: int, **spec: Any) -> None:
    found = pod_json(f"g-{n}", **spec)
    found["metadata"]["labels"] = {LABEL: "g"}
    api.put(PODS, found)


def set_phase(api: MemoryApi, n: int, phase: str) -> None:
    found = api.get(PODS, f"default/g-{n}")
    assert found is not None
    found["status"]["phase"] = phase
    api.put(PODS, found)


def status(api: MemoryApi) -> dict[str, Any]:
    found: dict[str, Any] = api.objects[GROUPS]["default/g"].get("status", {})
    return found


async def becomes(api: MemoryApi, phase: str) -> None:
    await until(lambda: status(api).get("phase") == phase)


def reasons(api: MemoryApi) -> list[str]:
    return [e["reason"] for e in api.objects.get("/apis/events.k8s.io/v1/events", {}).values()]


@on_a_stepped_loop
async def test_status_follows_a_gang_from_its_start_to_its_end() -> None:
    api = cluster(nodes=0)
    async with running(api):
        await becomes(api, "Scheduling")
        api.put(NODES, node_json("n"))
        await becomes(api, "Scheduled")
        for n in range(2):
            set_phase(api, n, "Running")
        await becomes(api, "Running")
        assert status(api)["running"] == 2
        for n in range(2):
            set_phase(api, n, "Succeeded")
        await until(lambda: status(api) == {"phase": "Finished", "succeeded": 2})
        for n in range(2):
            api.remove(PODS, f"default/g-{n}")
        await asyncio.sleep(2.0)
    assert status(api) == {"phase": "Finished", "succeeded": 2}


@on_a_stepped_loop
async def test_group_that_falls_below_its_minimum_is_reported_once_until_it_recovers() -> None:
    api = cluster()
    async with running(api):
        await becomes(api, "Scheduled")
        api.remove(PODS, "default/g-1")
        await becomes(api, "Unknown")
        await until(lambda: reasons(api).count("BelowMinimum") == 1)
        put_pod(api, 1)
        await becomes(api, "Scheduled")
        api.remove(PODS, "default/g-0")
        await becomes(api, "Unknown")
    assert api.pods()["default/g-1"] == "n"


@on_a_loop
async def test_gang_that_was_whole_is_not_released_by_a_restarted_scheduler() -> None:
    api, short = cluster(gpu=2), evolve(ALONE, partial_bound=0.3)
    async with running(api, short):
        await becomes(api, "Scheduled")
        api.remove(PODS, "default/g-1")
        await becomes(api, "Unknown")
    api.remove(NODES, "n")
    async with running(api, short):
        await asyncio.sleep(1.5)
    assert api.pods() == {"default/g-0": "n"}


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled", None])
@on_a_loop
async def test_phase_of_a_group_says_whether_its_partial_gang_is_evicted(phase: str | None) -> None:
    """A scheduler finds one of two members on a node, and the other does not fit."""
    api = cluster(gpu=1)
    api.objects[PODS]["default/g-1"]["spec"]["nodeName"] = "n"
    if phase is not None:
        api.objects[GROUPS]["default/g"]["status"] = {"phase": phase}
    async with running(api, evolve(ALONE, partial_bound=0.3, write_group_status=False)):
        if phase == "Scheduling":
            await until(lambda: "default/g-1" not in api.pods())
        elif phase is None:
            await until(lambda: "PartlyBound" in reasons(api))
        else:
            await asyncio.sleep(1.0)
    assert ("PartlyBound" in reasons(api)) is (phase != "Scheduled")
    assert ("default/g-1" in api.pods()) is (phase != "Scheduling")


@on_a_stepped_loop
async def test_status_follows_when_the_labels_of_a_member_name_another_group() -> None:
    api = cluster(nodes=0)
    async with running(api):
        await becomes(api, "Scheduling")
        await asyncio.sleep(0.6)  # the echo of the patch has been looked at
        moved = api.get(PODS, "default/g-1")
        assert moved is not None
        moved["metadata"]["labels"] = {LABEL: "other"}
        api.put(PODS, moved)
        await becomes(api, "Pending")


@on_a_stepped_loop
async def test_status_that_is_right_is_not_written_again() -> None:
    api = cluster()

    def patches() -> int:
        return sum(method == "PATCH" and "podgroups" in path for method, path in api.requests)

    async with running(api):
        await becomes(api, "Scheduled")
    written = patches()
    api.watchers.clear()
    async with running(api):
        await until(lambda: api.watchers.get(GROUPS))
        await asyncio.sleep(5.0)
    assert patches() == written


@on_a_stepped_loop
async def test_conflict_is_repeated_with_what_the_watch_has_brought() -> None:
    api = cluster(nodes=0)
    conflicts = [refused(409, "the object has been modified") for _ in range(3)]

    def fault(method: str, path: str) -> Any:
        is_status = method == "PATCH" and path.endswith("/podgroups/g/status")
        return conflicts.pop() if is_status and conflicts else None

    api.fault = fault
    async with running(api):
        await becomes(api, "Scheduling")
    assert not conflicts


@on_a_stepped_loop
async def test_status_is_left_to_another_controller_on_request_and_to_another_scheduler() -> None:
    api = cluster()
    async with running(api, evolve(ALONE, write_group_status=False)):
        await until(lambda: all(api.pods().values()))
        await asyncio.sleep(5.0)
    theirs = cluster(0)
    for n in range(2):
        put_pod(theirs, n, scheduler="other")
    theirs.put(PODS, pod_json("ours"))
    async with running(theirs):
        await until(lambda: theirs.pods()["default/ours"])
        await asyncio.sleep(5.0)
    assert status(api) == status(theirs) == {}
