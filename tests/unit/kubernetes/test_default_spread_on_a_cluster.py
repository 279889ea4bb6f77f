"""Services and controllers on a cluster: watched if a profile scores by them, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched import InvalidValueError, Pod
from gangsched.configuration import make_scheduler
from gangsched.configuration.scheduler import objects_scored
from gangsched.events import ObjectDeleted
from gangsched.kubernetes import Settings, read_event, read_settings
from gangsched.kubernetes._decode import PodDecoder
from gangsched.memory import InMemoryCluster
from support.api_objects import pod, raw
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, running, until

SERVICES = "/api/v1/services"
SETS = "/apis/apps/v1/replicasets"
SCORED = (SERVICES, "/api/v1/replicationcontrollers", SETS, "/apis/apps/v1/statefulsets")


def configured(**args: Any) -> Settings:
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    return evolve(ALONE, profile=read_settings({"profiles": [profile]}).profile)


def served() -> MemoryApi:
    """Return a cluster with a service, one of its pods on the node that other scores prefer."""
    api = MemoryApi()
    api.put(NODES, node_json("a"))
    api.put(NODES, node_json("b"))
    for n in range(8):
        api.put(PODS, pod_json(f"busy-{n}", nodeName="b", gpu=0))
    service: dict[str, Any] = {"metadata": {"name": "web", "namespace": "default"}}
    service["spec"] = {"selector": {"app": "web"}}
    api.put(SERVICES, service)
    for n in range(2):
        running = pod_json(f"r{n}", nodeName="a", gpu=0)
        running["metadata"]["labels"] = {"app": "web"}
        api.put(PODS, running)
    pending = pod_json("p", gpu=0)
    pending["metadata"]["labels"] = {"app": "web"}
    api.put(PODS, pending)
    return api


def asked(api: MemoryApi) -> set[str]:
    return {path.partition("?")[0] for _method, path in api.requests}


async def placed(api: MemoryApi, settings: Settings) -> str | None:
    seen: set[str] = set()

    def watched(method: str, path: str) -> None:
        if method == "WATCH":
            seen.add(path.partition("?")[0])

    api.fault = watched
    async with asyncio.timeout(HANG), running(api, settings):
        await until(lambda: api.pods()["default/p"])
    assert seen.issuperset(SCORED) is bool(settings.profile.args)
    assert seen.isdisjoint(SCORED) is not bool(settings.profile.args)
    return api.pods()["default/p"]


@on_a_loop
async def test_services_are_watched_and_spread_pods_if_the_profile_scores_by_them() -> None:
    weighted = configured()
    profile = evolve(weighted.profile, weights={"PodTopologySpread": 100})
    assert await placed(served(), evolve(weighted, profile=profile)) == "b"


@on_a_loop
async def test_services_are_not_watched_without_such_a_profile() -> None:
    assert await placed(served(), ALONE) == "a"


@on_a_loop
async def test_services_that_must_not_be_read_hold_no_pod() -> None:
    api = served()
    api.fault = lambda _method, path: refused(403) if path.startswith(SERVICES) else None
    async with asyncio.timeout(HANG), running(api, configured()):
        await until(lambda: api.pods()["default/p"])
    assert api.pods()["default/p"] == "a"


def test_deleted_service_and_controller_are_known_by_namespace_and_name() -> None:
    for version, kind in (
        ("v1", "Service"),
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
    ):
        gone = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}}
        assert read_event({"type": "DELETED", "object": gone}) == ObjectDeleted(kind, "ns/x")


@pytest.mark.parametrize(
    ("owners", "controller"),
    [
        ([], ""),
        ([("apps/v1", "ReplicaSet", "a", True)], "apps/v1/ReplicaSet/a"),
        (
            [("v1", "ReplicationController", "a", None), ("batch/v1", "Job", "b", True)],
            "batch/v1/Job/b",
        ),
        ([("v1", "Node", "a", False)], ""),
    ],
)
def test_controller_of_a_pod_is_read_with_its_owners(
    owners: list[tuple[str, str, str, bool | None]], controller: str
) -> None:
    document = pod()
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": is_controller}
        for version, kind, name, is_controller in owners
    ]
    decode = PodDecoder()
    for place in range(2):  # the first is read slowly, the second is a copy
        document["metadata"]["name"] = f"w-{place}"
        found: Pod = decode(raw(document)).pod
        assert found.controller == controller
        assert found.owners == tuple(name for _version, _kind, name, _is in owners)
    assert decode.fast == 1


PATH = "profiles[0].pluginConfig[PodTopologySpread].args"
ONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ({"defaultingType": "Other"}, "defaultingType", "Other"),
        ({"defaultConstraints": [ONE]}, "defaultConstraints", ["zone"]),
        ({"defaultingType": "List", "defaultConstraints": 3}, "defaultConstraints", 3),
        ({"defaultingType": "List", "defaultConstraints": [3]}, "defaultConstraints[0]", 3),
        (
            {"defaultingType": "List", "defaultConstraints": [ONE, {**ONE, "maxSkew": 0}]},
            "defaultConstraints[1].maxSkew",
            0,
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ONE, "topologyKey": ""}]},
            "defaultConstraints[0].topologyKey",
            "",
        ),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": [{**ONE, "whenUnsatisfiable": "DoNotSchedule"}],
            },
            "defaultConstraints[0].whenUnsatisfiable",
            "DoNotSchedule",
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ONE, "labelSelector": {}}]},
            "defaultConstraints[0].labelSelector",
            {},
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ONE, "nodeTaintsPolicy": "No"}]},
            "defaultConstraints[0].nodeTaintsPolicy",
            "No",
        ),
        ({"defaulting": "System"}, "defaulting", "System"),
    ],
)
def test_malformed_argument_is_refused_by_its_path(
    args: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make_scheduler(configured(**args), InMemoryCluster())
    assert (caught.value.field, caught.value.value) == (f"{PATH}.{field}", value)


def test_objects_are_scored_only_with_default_constraints() -> None:
    assert objects_scored(ALONE) == frozenset()
    assert objects_scored(configured(defaultingType="List")) == frozenset()
    assert len(objects_scored(configured())) == 4
    listed = configured(defaultingType="List", defaultConstraints=[ONE])
    assert objects_scored(listed) == objects_scored(configured())
