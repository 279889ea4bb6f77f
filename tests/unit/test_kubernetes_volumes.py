"""Claims and volumes of the running scheduler, on an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched.kubernetes import ProfileSettings
from support.cluster_objects import (
    CLAIMS,
    CLASSES,
    GROUPS,
    NODES,
    PODS,
    VOLUMES,
    claim_json,
    group_json,
    node_json,
    pod_json,
    storage_class_json,
    uses_claim,
    volume_json,
)
from support.memory_api import Fault, MemoryApi, lost_after, refused
from support.running import ALONE, on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"
SELECTED = "volume.kubernetes.io/selected-node"


def cluster(nodes: int = 2, **node: Any) -> MemoryApi:
    api = MemoryApi()
    for n in range(nodes):
        api.put(NODES, node_json(f"n{n}", **node))
    api.put(CLASSES, storage_class_json())
    return api


def gang(api: MemoryApi, size: int, *claims: str) -> None:
    for n in range(size):
        spec: dict[str, Any] = {"volumes": uses_claim(claims[n])} if n < len(claims) else {}
        api.put(PODS, pod_json(f"g-{n}", group="g", **spec))
    api.put(GROUPS, group_json("g", size))


def selected(api: MemoryApi, name: str) -> str:
    found = api.get(CLAIMS, f"default/{name}")
    assert found is not None
    node: str = found["metadata"].get("annotations", {}).get(SELECTED, "")
    return node


def bind_claim(api: MemoryApi, name: str, volume: str) -> None:
    """Do what the volume controller does."""
    found = api.get(CLAIMS, f"default/{name}")
    assert found is not None
    found["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
    found["spec"]["volumeName"] = volume
    found["status"] = {"phase": "Bound"}
    api.put(CLAIMS, found)


def provision(api: MemoryApi, name: str) -> None:
    """Do what a provisioner and the volume controller do."""
    found = api.get(CLAIMS, f"default/{name}")
    assert found is not None
    reference = {"namespace": "default", "name": name, "uid": found["metadata"]["uid"]}
    made = volume_json(f"pv-{name}", nodes=(selected(api, name),), claimRef=reference)
    api.put(VOLUMES, {**made, "status": {"phase": "Bound"}})
    bind_claim(api, name, f"pv-{name}")


def said(api: MemoryApi, pod: str) -> str:
    found = api.get(PODS, f"default/{pod}")
    conditions = [] if found is None else found.get("status", {}).get("conditions", [])
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")


def faulty(method: str, ends: str, fault: Callable[[], Fault], times: int = 1) -> Any:
    left = [fault() for _ in range(times)]

    def decide(given: str, path: str) -> Fault | None:
        hit = given in method and path.partition("?")[0].endswith(ends) and left
        return left.pop() if hit else None

    return decide


@on_a_loop
async def test_gang_is_bound_when_its_claims_are_provisioned() -> None:
    api = cluster()
    for name in ("c0", "c1"):
        api.put(CLAIMS, claim_json(name))
    gang(api, 3, "c0", "c1")
    async with running(api):
        await until(lambda: selected(api, "c0") and selected(api, "c1"))
        provision(api, "c0")
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        provision(api, "c1")
        await until(lambda: all(api.pods().values()))
    assert api.pods()["default/g-0"] == selected(api, "c0")
    assert api.pods()["default/g-1"] == selected(api, "c1")


@on_a_loop
async def test_volume_that_exists_is_bound_to_the_claim() -> None:
    api = cluster()
    api.put(CLASSES, storage_class_json("local", provisioner="kubernetes.io/no-provisioner"))
    api.put(VOLUMES, volume_json("v1", nodes=("n1",), storageClassName="local"))
    api.put(CLAIMS, claim_json("c0", storageClassName="local"))
    gang(api, 2, "c0")
    async with running(api):
        await until(lambda: "claimRef" in (api.get(VOLUMES, "v1") or {})["spec"])
        bind_claim(api, "c0", "v1")
        await until(lambda: all(api.pods().values()))
    volume, claim = api.get(VOLUMES, "v1"), api.get(CLAIMS, "default/c0")
    assert volume is not None
    assert claim is not None
    reference = volume["spec"]["claimRef"]
    assert reference["uid"] == claim["metadata"]["uid"]
    assert (reference["kind"], reference["namespace"]) == ("PersistentVolumeClaim", "default")
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert api.pods()["default/g-0"] == "n1"


@pytest.mark.parametrize(
    "fault",
    [lost_after, lambda: refused(429), lambda: refused(500)],
    ids=["answer lost", "429", "500"],
)
@on_a_loop
async def test_choice_is_written_after_a_request_failed(
    fault: Callable[[], Fault], caplog: pytest.LogCaptureFixture
) -> None:
    api = cluster()
    api.put(CLAIMS, claim_json("c0"))
    api.fault = faulty("PATCH", "/c0", fault, times=2)
    gang(api, 2, "c0")
    async with running(api):
        await until(lambda: selected(api, "c0"))
        await asyncio.sleep(0.3)
        provision(api, "c0")
        await until(lambda: all(api.pods().values()))
    assert "were not written" not in caplog.text


@on_a_loop
async def test_choice_is_written_to_a_claim_that_changed_meanwhile() -> None:
    api = cluster()
    api.put(CLAIMS, claim_json("c0"))
    api.fault = faulty("PATCH", "/c0", lambda: refused(409, "modified"))
    gang(api, 2, "c0")
    async with running(api):
        await until(lambda: selected(api, "c0"))
        provision(api, "c0")
        await until(lambda: all(api.pods().values()))


@on_a_loop
async def test_no_member_is_bound_when_a_volume_is_not_written() -> None:
    api = cluster()
    for name in ("c0", "c1"):
        api.put(CLAIMS, claim_json(name))
    api.fault = faulty("PATCH", "/c1", lambda: refused(422, "invalid"), times=100)
    gang(api, 3, "c0", "c1")
    async with running(api):
        await until(lambda: selected(api, "c0"))
        provision(api, "c0")
        await asyncio.sleep(0.3)
        assert not any(api.pods().values())
        api.fault = lambda _method, _path: None
        await until(lambda: selected(api, "c1"))
        provision(api, "c1")
        await until(lambda: all(api.pods().values()))
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_gang_is_decided_anew_when_the_provisioner_gives_up() -> None:
    api = cluster()
    api.put(CLAIMS, claim_json("c0"))
    gang(api, 2, "c0")
    settings = evolve(ALONE, initial_backoff=0.05, maximum_backoff=0.05)
    async with running(api, settings):
        await until(lambda: selected(api, "c0"))
        await asyncio.sleep(0.1)
        found = api.get(CLAIMS, "default/c0")
        assert found is not None
        del found["metadata"]["annotations"][SELECTED]
        api.put(CLAIMS, found)
        await until(lambda: selected(api, "c0"))
        provision(api, "c0")
        await until(lambda: all(api.pods().values()))


@on_a_loop
async def test_gang_is_tried_again_when_its_claims_are_not_bound_in_time() -> None:
    api = cluster()
    api.put(CLAIMS, claim_json("c0"))
    gang(api, 2, "c0")
    profile = ProfileSettings(args={"VolumeBinding": {"bindTimeoutSeconds": 1}})
    settings = evolve(ALONE, profile=profile, initial_backoff=0.05, maximum_backoff=0.05)
    async with running(api, settings):
        await until(lambda: selected(api, "c0"))
        node = selected(api, "c0")
        await asyncio.sleep(1.5)
        assert not any(api.pods().values())
        provision(api, "c0")
        await until(lambda: all(api.pods().values()))
    assert api.pods()["default/g-0"] == node


@on_a_loop
async def test_pod_waits_for_a_claim_that_comes_later() -> None:
    api = cluster()
    gang(api, 2, "c0")
    async with running(api):
        await until(lambda: 'persistentvolumeclaim "c0" not found' in said(api, "g-0"))
        api.put(CLAIMS, claim_json("c0"))
        await until(lambda: selected(api, "c0"))
        provision(api, "c0")
        await until(lambda: all(api.pods().values()))


# What cannot be read ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404])
@on_a_loop
async def test_pods_with_claims_are_held_when_a_kind_cannot_be_read(status: int) -> None:
    api = cluster()
    denied = faulty("WATCH GET", "/csidrivers", lambda: refused(status), times=1000)
    api.fault = denied
    api.put(CLAIMS, claim_json("c0"))
    gang(api, 2, "c0")
    api.put(PODS, pod_json("plain"))
    async with running(api):
        await until(lambda: api.pods()["default/plain"])
        await until(lambda: "CSIDriver" in said(api, "g-0"))
        assert not selected(api, "c0")
        api.fault = lambda _method, _path: None
        await until(lambda: selected(api, "c0"))
        provision(api, "c0")
        await until(lambda: all(api.pods().values()))


@on_a_loop
async def test_no_pod_is_preempted_when_budgets_cannot_be_read() -> None:
    api = cluster(1, gpu=2)
    api.fault = faulty("WATCH GET", "/poddisruptionbudgets", lambda: refused(403), times=1000)
    api.put(PODS, pod_json("low", scheduler="other", nodeName="n0", gpu=2))
    api.put(PODS, pod_json("high", priority=10))
    profile = ProfileSettings(args={"DefaultPreemption": {}})
    async with running(api, evolve(ALONE, profile=profile)):
        await until(lambda: said(api, "high"))
        await asyncio.sleep(0.2)
    assert "default/low" in api.pods()
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_victim_that_no_budget_protects_is_preferred() -> None:
    api = cluster(2, gpu=2)
    for n in range(2):
        low = pod_json(f"low-{n}", scheduler="other", nodeName=f"n{n}", gpu=2)
        low["metadata"]["labels"] = {"n": str(n)}
        api.put(PODS, low)
    budget: dict[str, Any] = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"n": "0"}}},
        "status": {"disruptionsAllowed": 0},
    }
    api.put("/apis/policy/v1/poddisruptionbudgets", budget)
    api.put(PODS, pod_json("high", priority=10))
    profile = ProfileSettings(args={"DefaultPreemption": {}})
    async with running(api, evolve(ALONE, profile=profile)):
        await until(lambda: "default/low-1" not in api.pods())
        await until(lambda: api.pods()["default/high"] == "n1")
    assert "default/low-0" in api.pods()
