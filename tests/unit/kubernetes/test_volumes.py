"""Claims and volumes of the running scheduler: what is chosen, and the requests that say so."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from attrs import evolve

from gangsched import InvalidValueError, NodeName, VolumeChoice
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.kubernetes import ProfileSettings, Settings, node_selection, volume_binding
from support.cluster_objects import (
    CLAIMS,
    CLASSES,
    PODS,
    VOLUMES,
    claim_json,
    pod_json,
    storage_class_json,
    uses_claim,
    volume_json,
)
from support.memory_api import Fault, MemoryApi, lost_after, refused
from support.memory_cluster import all_bound, change, cluster, put_gang, scheduled, striking
from support.running import ALONE, on_a_loop, running, until

SELECTED = "volume.kubernetes.io/selected-node"


def with_claims(*claims: str, **claim: Any) -> MemoryApi:
    """Return a cluster with a gang of three, of which the first pods use these claims."""
    api = cluster(2)
    api.put(CLASSES, storage_class_json())
    put_gang(api)
    for n, name in enumerate(claims):
        api.put(CLAIMS, claim_json(name, **claim))
        change(api, PODS, f"default/g-{n}", spec={"volumes": uses_claim(name)})
    return api


def settings(plugin: str, **args: Any) -> Settings:
    return evolve(
        ALONE,
        profile=ProfileSettings(args={plugin: args}),
        initial_backoff=0.05,
        maximum_backoff=0.05,
    )


def selected(api: MemoryApi, name: str) -> str:
    found = api.get(CLAIMS, f"default/{name}") or {}
    node: str = found["metadata"].get("annotations", {}).get(SELECTED, "")
    return node


def bind_claim(api: MemoryApi, name: str, volume: str) -> None:
    """Do what the volume controller does."""
    notes = {SELECTED: selected(api, name), "pv.kubernetes.io/bind-completed": "yes"}
    done: dict[str, Any] = {"metadata": {"annotations": notes}, "status": {"phase": "Bound"}}
    change(api, CLAIMS, f"default/{name}", spec={"volumeName": volume}, **done)


def provision(api: MemoryApi, name: str) -> None:
    """Do what a provisioner and the volume controller do."""
    found = api.get(CLAIMS, f"default/{name}") or {}
    reference = {"namespace": "default", "name": name, "uid": found["metadata"]["uid"]}
    made = volume_json(f"pv-{name}", nodes=(selected(api, name),), claimRef=reference)
    api.put(VOLUMES, {**made, "status": {"phase": "Bound"}})
    bind_claim(api, name, f"pv-{name}")


async def until_provisioned(api: MemoryApi, *names: str) -> None:
    await until(lambda: all(selected(api, name) for name in names))
    for name in names:
        provision(api, name)
    await until(lambda: all_bound(api))


def said(api: MemoryApi, pod: str) -> str:
    return str(scheduled(api, pod).get("message", ""))


@on_a_loop
async def test_gang_is_bound_when_its_claims_are_provisioned() -> None:
    api = with_claims("c0", "c1")
    async with running(api):
        await until(lambda: selected(api, "c0") and selected(api, "c1"))
        provision(api, "c0")
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        provision(api, "c1")
        await until(lambda: all_bound(api))
    for n in range(2):
        assert api.pods()[f"default/g-{n}"] == selected(api, f"c{n}")


@on_a_loop
async def test_volume_that_exists_is_bound_to_the_claim() -> None:
    api = with_claims("c0", storageClassName="local")
    api.put(CLASSES, storage_class_json("local", provisioner="kubernetes.io/no-provisioner"))
    api.put(VOLUMES, volume_json("v1", nodes=("n1",), storageClassName="local"))
    async with running(api):
        await until(lambda: "claimRef" in (api.get(VOLUMES, "v1") or {})["spec"])
        bind_claim(api, "c0", "v1")
        await until(lambda: all_bound(api))
    volume, claim = api.get(VOLUMES, "v1") or {}, api.get(CLAIMS, "default/c0") or {}
    reference = volume["spec"]["claimRef"]
    assert reference["uid"] == claim["metadata"]["uid"]
    assert (reference["kind"], reference["namespace"]) == ("PersistentVolumeClaim", "default")
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert api.pods()["default/g-0"] == "n1"


@pytest.mark.parametrize(
    "faults",
    [[lost_after(), lost_after()], [refused(429)], [refused(500)], [refused(409, "modified")]],
    ids=["answer lost", "429", "500", "changed meanwhile"],
)
@on_a_loop
async def test_choice_is_written_after_a_request_failed(
    faults: list[Fault], caplog: pytest.LogCaptureFixture
) -> None:
    api = with_claims("c0")
    api.fault = striking(*faults, method="PATCH", ends="/c0")
    async with running(api):
        await until_provisioned(api, "c0")
    assert "were not written" not in caplog.text


@on_a_loop
async def test_no_member_is_bound_when_a_volume_is_not_written() -> None:
    api = with_claims("c0", "c1")
    api.fault = striking(*[refused(422, "invalid")] * 100, method="PATCH", ends="/c1")
    async with running(api):
        await until(lambda: selected(api, "c0"))
        provision(api, "c0")
        await asyncio.sleep(0.3)
        assert not any(api.pods().values())
        api.fault = lambda _method, _path: None
        await until_provisioned(api, "c1")
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_gang_is_tried_again_when_its_claims_are_not_bound_in_time() -> None:
    api = with_claims("c0")
    async with running(api, settings("VolumeBinding", bindTimeoutSeconds=1)):
        await until(lambda: selected(api, "c0"))
        node = selected(api, "c0")
        await asyncio.sleep(1.2)
        assert not any(api.pods().values())
        await until_provisioned(api, "c0")
    assert api.pods()["default/g-0"] == node


@on_a_loop
async def test_pod_waits_for_a_claim_that_comes_later() -> None:
    api = with_claims("c0")
    api.remove(CLAIMS, "default/c0")
    async with running(api):
        await until(lambda: 'persistentvolumeclaim "c0" not found' in said(api, "g-0"))
        api.put(CLAIMS, claim_json("c0"))
        await until_provisioned(api, "c0")


# What cannot be read ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404])
@on_a_loop
async def test_pods_with_claims_are_held_when_a_kind_cannot_be_read(status: int) -> None:
    api = with_claims("c0")
    api.fault = striking(*[refused(status)] * 1000, method="WATCH GET", ends="/csidrivers")
    api.put(PODS, pod_json("plain"))
    async with running(api):
        await until(lambda: api.pods()["default/plain"])
        await until(lambda: "CSIDriver" in said(api, "g-0"))
        assert not selected(api, "c0")
        api.fault = lambda _method, _path: None
        await until_provisioned(api, "c0")


BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


@pytest.mark.parametrize("are_read", [True, False])
@on_a_loop
async def test_budgets_choose_the_victim_and_no_pod_is_preempted_without_them(
    are_read: bool,
) -> None:
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
    api.put(BUDGETS, budget)
    api.put(PODS, pod_json("high", priority=10))
    if not are_read:
        api.fault = striking(*[refused(403)] * 1000, method="WATCH GET", ends="budgets")
    async with running(api, settings("DefaultPreemption")):
        if are_read:
            await until(lambda: api.pods().get("default/high") == "n1")
        else:
            await until(lambda: said(api, "high"))
            await asyncio.sleep(0.2)
    assert "default/low-0" in api.pods()
    assert ("default/low-1" in api.pods()) is not are_read


# The choice of a volume as bodies of requests ---------------------------------------------------

ON_N1 = VolumeChoice("team/c", NodeName("n1"))
CLAIM = PersistentVolumeClaim(name="c", namespace="team", uid="u-1")
ANY: Any = "v"


def test_free_volume_is_bound_and_marked_as_bound_by_a_controller() -> None:
    patch = volume_binding(PersistentVolume(name="v"), CLAIM, version="7", claim_version="5")
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "team", "name": "c"}
    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {"claimRef": {**claim, "uid": "u-1", "resourceVersion": "5"}},
    }


def test_volume_that_its_owner_reserved_is_not_marked() -> None:
    patch = volume_binding(PersistentVolume(name="v", claim="team/c"), CLAIM)
    assert patch["metadata"] == {}
    assert patch["spec"]["claimRef"]["uid"] == "u-1"


def test_claim_is_annotated_with_the_node_it_is_provisioned_for() -> None:
    patch = node_selection(ON_N1, version="3")
    assert patch == {"metadata": {"resourceVersion": "3", "annotations": {SELECTED: "n1"}}}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: volume_binding(PersistentVolume(name="v", claim="team/other"), CLAIM), "volume"),
        (
            lambda: volume_binding(
                PersistentVolume(name="v", claim="team/c", claim_uid="u-0"), CLAIM
            ),
            "volume",
        ),
        (lambda: volume_binding(ANY, CLAIM), "volume"),
        (lambda: volume_binding(PersistentVolume(name="v"), cast("Any", "c")), "claim"),
        (lambda: node_selection(ANY), "choice"),
        (lambda: node_selection(evolve(ON_N1, volume="v")), "choice"),
    ],
    ids=["other claim", "older claim", "no volume", "no claim", "no choice", "has a volume"],
)
def test_wrong_argument_is_named(call: Any, name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name} must be"):
        call()
