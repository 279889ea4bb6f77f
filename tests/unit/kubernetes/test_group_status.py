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

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
NEW = GroupStatus("", (0, 0, 0), "")


def pod(n: int, phase: str = "Pending", *, node: bool = False) -> Pod:
    return Pod(
        name=f"g-{n}",
        labels={LABEL: "g"},
        phase=PodPhase(phase),
        node_name="n" if node else None,
        owners=("job",),
    )


def group(minimum: int = 2) -> PodGroup:
    return PodGroup(name="g", min_available=minimum)


# The pure part ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "before", "phase"),
    [
        ([], "", "Pending"),
        ([pod(0)], "", "Pending"),
        ([pod(0), pod(1)], "Pending", "Scheduling"),
        ([pod(0, node=True), pod(1)], "Scheduling", "Scheduling"),
        ([pod(0, node=True), pod(1, node=True)], "Scheduling", "Scheduled"),
        ([pod(0, "Running", node=True), pod(1, node=True)], "Scheduled", "Scheduled"),
        ([pod(0, "Running", node=True), pod(1, "Running", node=True)], "Scheduled", "Running"),
        ([pod(0, "Running", node=True), pod(1)], "Running", "Unknown"),
        ([pod(0, "Running", node=True)], "Running", "Unknown"),
        ([pod(0, "Running", node=True), pod(1)], "Unknown", "Unknown"),
        ([pod(0), pod(1)], "Running", "Scheduling"),
        ([pod(0, "Succeeded", node=True), pod(1, "Running", node=True)], "Running", "Running"),
        ([pod(0, "Succeeded"), pod(1, "Succeeded")], "Running", "Finished"),
        ([], "Finished", "Finished"),
        ([pod(0, "Failed", node=True), pod(1, "Running", node=True)], "Running", "Failed"),
        ([pod(0), pod(1)], "PreScheduling", "Scheduling"),
    ],
)
def test_phase_follows_from_the_members_and_the_phase_before(
    members: list[Pod], before: str, phase: str
) -> None:
    assert status_of(group(), members, evolve(NEW, phase=before)).phase == phase


def test_roles_must_hold_nodes_too() -> None:
    roles = PodGroup(name="g", min_available=2, roles={"worker": 1})
    assert status_of(roles, [pod(0, node=True), pod(1, node=True)], NEW).phase == "Pending"


PODS_OF_A_GROUP = st.lists(
    st.tuples(st.sampled_from([phase.value for phase in PodPhase]), st.booleans()), max_size=5
)
PHASES = st.sampled_from(["", "Pending", "Scheduling", "Scheduled", "Running", "Unknown", "Failed"])


@given(PODS_OF_A_GROUP, PHASES, st.integers(1, 4))
def test_status_is_stable_and_whole_phases_need_members_on_nodes(
    drawn: list[tuple[str, bool]], before: str, minimum: int
) -> None:
    members = [pod(n, phase, node=node) for n, (phase, node) in enumerate(drawn)]
    found = status_of(group(minimum), members, evolve(NEW, phase=before))
    assert status_of(group(minimum), members, found) == found
    assert sum(found.counts) <= len(members)
    holding = [
        each
        for each in members
        if each.phase is PodPhase.SUCCEEDED or (each.node_name and not each.is_finished)
    ]
    if found.phase == "Scheduled":
        assert len(holding) >= minimum
    if found.phase == "Unknown":
        assert before in WHOLE_PHASES
        assert 0 < len(holding) < minimum


# The writer -------------------------------------------------------------------------------------


def put_gang(api: MemoryApi, size: int, *, minimum: int | None = None) -> None:
    api.served.add("scheduling.x-k8s.io/v1alpha1")
    body: dict[str, Any] = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    body["metadata"] = {"name": "g", "namespace": "default"}
    body["spec"] = {"minMember": size if minimum is None else minimum}
    api.put(GROUPS, body)
    for n in range(size):
        put_pod(api, n)


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
    found = api.get(GROUPS, "default/g")
    assert found is not None
    given: dict[str, Any] = found.get("status", {})
    return given


def patches(api: MemoryApi) -> int:
    return sum(method == "PATCH" and "podgroups" in path for method, path in api.requests)


def reasons(api: MemoryApi) -> list[str]:
    return [e["reason"] for e in api.objects.get("/apis/events.k8s.io/v1/events", {}).values()]


@on_a_loop
async def test_status_follows_a_gang_from_its_start_to_its_end() -> None:
    api = MemoryApi()
    put_gang(api, 2)
    async with running(api):
        await until(lambda: status(api).get("phase") == "Scheduling")
        api.put(NODES, node_json("n"))
        await until(lambda: status(api).get("phase") == "Scheduled")
        for n in range(2):
            set_phase(api, n, "Running")
        await until(lambda: status(api).get("phase") == "Running")
        assert status(api)["running"] == 2
        for n in range(2):
            set_phase(api, n, "Succeeded")
        await until(lambda: status(api) == {"phase": "Finished", "succeeded": 2})
        for n in range(2):
            api.remove(PODS, f"default/g-{n}")
        await until(lambda: not api.pods())
    assert status(api) == {"phase": "Finished", "succeeded": 2}


@on_a_loop
async def test_group_that_falls_below_its_minimum_is_reported_once_until_it_recovers() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, 2)
    async with running(api):
        await until(lambda: status(api).get("phase") == "Scheduled")
        api.remove(PODS, "default/g-1")
        await until(lambda: status(api).get("phase") == "Unknown")
        await until(lambda: reasons(api).count("BelowMinimum") == 1)
        put_pod(api, 1)
        await until(lambda: status(api).get("phase") == "Scheduled")
        api.remove(PODS, "default/g-0")
        await until(lambda: status(api).get("phase") == "Unknown")
    assert api.pods()["default/g-1"] == "n"


@on_a_loop
async def test_group_of_which_all_members_fail_at_once_is_reported() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, 2)
    async with running(api):
        await until(lambda: status(api).get("phase") == "Scheduled")
        for n in range(2):
            set_phase(api, n, "Failed")
        await until(lambda: reasons(api).count("BelowMinimum") == 1)


@on_a_loop
async def test_gang_that_was_whole_is_not_released_by_a_restarted_scheduler() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=2))
    put_gang(api, 2)
    short = evolve(ALONE, partial_bound=0.3)
    async with running(api, short):
        await until(lambda: status(api).get("phase") == "Scheduled")
        api.remove(PODS, "default/g-1")
        await until(lambda: status(api).get("phase") == "Unknown")
    api.remove(NODES, "n")
    requests = len(api.requests)
    async with running(api, short):
        await until(lambda: len(api.requests) > requests)

        await asyncio.sleep(1.0)
    assert api.pods() == {"default/g-0": "n"}


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled", None])
@on_a_loop
async def test_phase_of_a_group_says_whether_its_partial_gang_is_evicted(phase: str | None) -> None:
    """A scheduler finds one of two members on a node, and the other does not fit."""
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=1))
    put_gang(api, 2)
    bound = api.get(PODS, "default/g-1")
    assert bound is not None
    bound["spec"]["nodeName"] = "n"
    api.put(PODS, bound)
    if phase is not None:
        group = api.get(GROUPS, "default/g")
        assert group is not None
        api.put(GROUPS, {**group, "status": {"phase": phase}})
    async with running(api, evolve(ALONE, partial_bound=0.3, write_group_status=False)):
        if phase == "Scheduling":
            await until(lambda: "default/g-1" not in api.pods())
        elif phase is None:
            await until(lambda: "PartlyBound" in reasons(api))
        else:
            await asyncio.sleep(1.0)
    assert ("PartlyBound" in reasons(api)) is (phase != "Scheduled")
    assert ("default/g-1" in api.pods()) is (phase != "Scheduling")


@on_a_loop
async def test_status_follows_when_the_labels_of_a_member_name_another_group() -> None:
    api = MemoryApi()
    put_gang(api, 2)
    async with running(api):
        await until(lambda: status(api).get("phase") == "Scheduling")
        await asyncio.sleep(0.6)  # the echo of the patch has been looked at
        moved = api.get(PODS, "default/g-1")
        assert moved is not None
        moved["metadata"]["labels"] = {LABEL: "other"}
        api.put(PODS, moved)
        await until(lambda: status(api).get("phase") == "Pending")


@on_a_loop
async def test_status_that_is_right_is_not_written_again() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, 2)
    async with running(api):
        await until(lambda: status(api).get("phase") == "Scheduled")
    written = patches(api)
    async with running(api):
        await until(lambda: any(path == GROUPS or "podgroups" in path for _m, path in api.requests))

        await asyncio.sleep(0.8)
    assert patches(api) == written


@on_a_loop
async def test_conflict_is_repeated_with_what_the_watch_has_brought() -> None:
    api = MemoryApi()
    put_gang(api, 2)
    conflicts = [refused(409, "the object has been modified") for _ in range(3)]

    def fault(method: str, path: str) -> Any:
        is_status = method == "PATCH" and path.endswith("/podgroups/g/status")
        return conflicts.pop() if is_status and conflicts else None

    api.fault = fault
    async with running(api):
        await until(lambda: status(api).get("phase") == "Scheduling")
    assert not conflicts


@on_a_loop
async def test_status_is_left_to_another_controller_on_request() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, 2)
    async with running(api, evolve(ALONE, write_group_status=False)):
        await until(lambda: all(api.pods().values()))
    assert status(api) == {}


@on_a_loop
async def test_group_of_another_scheduler_is_not_touched() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    put_gang(api, 0, minimum=2)
    for n in range(2):
        put_pod(api, n, scheduler="other")
    api.put(PODS, pod_json("ours"))
    async with running(api):
        await until(lambda: api.pods()["default/ours"])

        await asyncio.sleep(0.6)
    assert status(api) == {}
