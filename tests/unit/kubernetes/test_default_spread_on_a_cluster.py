"""Services and controllers on a cluster: watched if a profile scores by them, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched import InvalidValueError
from gangsched.configuration import make_scheduler
from gangsched.configuration.scheduler import objects_scored
from gangsched.events import ObjectDeleted
from gangsched.kubernetes import Settings, read_event, read_settings
from gangsched.memory import InMemoryCluster
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi, refused
from support.running import ALONE, on_a_loop, running, until

SERVICES = "/api/v1/services"
SETS = "/apis/apps/v1/replicasets"
SCORED = (SERVICES, "/api/v1/replicationcontrollers", SETS, "/apis/apps/v1/statefulsets")


def configured(weight: int = 1, **args: Any) -> Settings:
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    read = read_settings({"profiles": [profile]}).profile
    return evolve(ALONE, profile=evolve(read, weights={"PodTopologySpread": weight}))


def served() -> MemoryApi:
    """Return a cluster with a service, two of its pods on the node that other scores prefer."""
    api = MemoryApi()
    for name in ("a", "b"):
        api.put(NODES, node_json(name))
    for n in range(8):
        api.put(PODS, pod_json(f"busy-{n}", nodeName="b", gpu=0))
    metadata = {"name": "web", "namespace": "default"}
    api.put(SERVICES, {"metadata": metadata, "spec": {"selector": {"app": "web"}}})
    for name in ("r0", "r1", "p"):
        pod = pod_json(name, gpu=0)
        pod["spec"] |= {} if name == "p" else {"nodeName": "a"}
        pod["metadata"]["labels"] = {"app": "web"}
        api.put(PODS, pod)
    return api


@pytest.mark.parametrize(
    ("settings", "is_forbidden", "node"),
    [(configured(100), False, "b"), (ALONE, False, "a"), (configured(), True, "a")],
    ids=["scored", "not scored", "forbidden"],
)
@on_a_loop
async def test_services_are_watched_and_spread_pods_if_the_profile_scores_by_them(
    settings: Settings, is_forbidden: bool, node: str
) -> None:
    api, watched = served(), set[str]()

    def fault(method: str, path: str) -> Any:
        collection = path.partition("?")[0]
        if method == "WATCH":
            watched.add(collection)
        return refused(403) if is_forbidden and collection == SERVICES else None

    api.fault = fault
    async with running(api, settings):
        await until(lambda: api.pods()["default/p"])
    assert api.pods()["default/p"] == node
    assert watched & {*SCORED} == ({*SCORED} if settings.profile.args else set())


def test_deleted_service_and_controller_are_known_by_namespace_and_name() -> None:
    for version, kind in (
        ("v1", "Service"),
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
    ):
        gone = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}}
        assert read_event({"type": "DELETED", "object": gone}) == ObjectDeleted(kind, "ns/x")


ONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


@pytest.mark.parametrize(
    ("constraints", "field", "value"),
    [
        (3, "", 3),
        ([3], "[0]", 3),
        ([ONE, {**ONE, "maxSkew": 0}], "[1].maxSkew", 0),
        ([{**ONE, "topologyKey": ""}], "[0].topologyKey", ""),
        ([{**ONE, "whenUnsatisfiable": "DoNotSchedule"}], "[0].whenUnsatisfiable", "DoNotSchedule"),
        ([{**ONE, "labelSelector": {}}], "[0].labelSelector", {}),
        ([{**ONE, "nodeTaintsPolicy": "No"}], "[0].nodeTaintsPolicy", "No"),
    ],
)
def test_malformed_constraint_is_refused_by_its_path(
    constraints: object, field: str, value: object
) -> None:
    args = {"defaultingType": "List", "defaultConstraints": constraints}
    assert_refused(args, f"defaultConstraints{field}", value)


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        ({"defaultingType": "Other"}, "defaultingType", "Other"),
        ({"defaultConstraints": [ONE]}, "defaultConstraints", ["zone"]),
        ({"defaulting": "System"}, "defaulting", "System"),
    ],
)
def test_malformed_argument_is_refused_by_its_path(
    args: dict[str, Any], field: str, value: object
) -> None:
    assert_refused(args, field, value)


def assert_refused(args: dict[str, Any], field: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make_scheduler(configured(**args), InMemoryCluster())
    path = f"profiles[0].pluginConfig[PodTopologySpread].args.{field}"
    assert (caught.value.field, caught.value.value) == (path, value)


def test_objects_are_scored_only_with_default_constraints() -> None:
    assert objects_scored(ALONE) == frozenset()
    assert objects_scored(configured(defaultingType="List")) == frozenset()
    assert len(objects_scored(configured())) == 4
    listed = configured(defaultingType="List", defaultConstraints=[ONE])
    assert objects_scored(listed) == objects_scored(configured())
