"""A scheduler on a cluster takes its levels from objects of another project, and begins anew."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched.kubernetes import _peers
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import Fault, MemoryApi, refused
from support.memory_cluster import all_bound, scheduled
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

TOPOLOGIES: Final = "/apis/kueue.x-k8s.io/v1beta2/topologies"
HYPER_NODES: Final = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
OF_KUEUE: Final = evolve(ALONE, levels_from="kueue")
OF_VOLCANO: Final = evolve(ALONE, levels_from="volcano")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_peers, "_LOOK_AT_LEVELS", 0.05)
    monkeypatch.setattr(_peers, "_AGAIN", 0.05)


def topology(api: MemoryApi, *labels: str, name: str = "t") -> None:
    levels = [{"nodeLabel": label} for label in labels]
    api.put(TOPOLOGIES, {"metadata": {"name": name}, "spec": {"levels": levels}})


def cluster(group: str) -> MemoryApi:
    """Return one with two racks of one name, and a gang for which only both together have room."""
    api = MemoryApi()
    api.served |= {f"{group}/v1beta2" if group == "kueue.x-k8s.io" else f"{group}/v1alpha1"}
    for name, block in (("a1", "a"), ("b1", "b")):
        node = node_json(name, gpu=2)
        node["metadata"]["labels"] |= {"block": block, "rack": "r1"}
        api.put(NODES, node)
    api.put(GROUPS, group_json("g", 3, schedulingConstraints={"topology": [{"key": "rack"}]}))
    for n in range(3):
        api.put(PODS, pod_json(f"g-{n}", group="g"))
    return api


@on_a_loop
async def test_rack_is_one_of_its_block_if_a_topology_of_kueue_says_so() -> None:
    api = cluster("kueue.x-k8s.io")
    topology(api, "block", "rack")
    async with running(api, OF_KUEUE):
        await until(lambda: "rack" in str(scheduled(api, "g-0")))
        assert not any(api.pods().values())
        node = node_json("b2", gpu=1)
        node["metadata"]["labels"] |= {"block": "b", "rack": "r1"}
        api.put(NODES, node)
        await until(lambda: all_bound(api))
    assert set(api.pods().values()) == {"b1", "b2"}


@on_a_loop
async def test_without_objects_each_label_stands_alone(caplog: pytest.LogCaptureFixture) -> None:
    api = cluster("kueue.x-k8s.io")
    with caplog.at_level(logging.INFO, "gangsched.kubernetes"):
        async with running(api, OF_KUEUE):
            await until(lambda: all_bound(api))
    assert "levels of kueue: none" in caplog.text


@on_a_loop
async def test_scheduler_begins_again_with_other_levels(caplog: pytest.LogCaptureFixture) -> None:
    api = cluster("kueue.x-k8s.io")
    topology(api, "block", "rack")
    async with running(api, OF_KUEUE):
        await until(lambda: "rack" in str(scheduled(api, "g-0")))
        api.remove(TOPOLOGIES, "t")  # Kueue's levels cannot change, but the object can go
        await until(lambda: all_bound(api))
    assert "the levels of kueue are others now: the scheduler begins again" in caplog.text
    assert caplog.text.count("begins again") == 1


@on_a_loop
async def test_nothing_is_placed_before_the_levels_are_read() -> None:
    api = cluster("kueue.x-k8s.io")

    def forbid(_method: str, path: str) -> Fault | None:
        return refused(403, "no right") if path.startswith(TOPOLOGIES) else None

    topology(api, "block", "rack", "zone")
    api.fault = forbid
    async with running(api, OF_KUEUE):
        await until(lambda: api.requests.count(("GET", TOPOLOGIES)) > 2)
        assert not [path for _method, path in api.requests if "/pods" in path]
        api.fault = lambda _method, _path: None
        await until(lambda: "rack" in str(scheduled(api, "g-0")))


@on_a_loop
async def test_objects_are_not_read_unless_the_configuration_says_so() -> None:
    api = cluster("kueue.x-k8s.io")
    topology(api, "block", "rack")
    async with running(api, ALONE):
        await until(lambda: all_bound(api))
    assert not [path for _method, path in api.requests if "kueue" in path]


# HyperNodes ---------------------------------------------------------------------------------------


def hyper_node(api: MemoryApi, name: str, tier: int, *nodes: str) -> None:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    api.put(HYPER_NODES, {"metadata": {"name": name}, "spec": {"tier": tier, "members": members}})


def volcano_group(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3, **spec},
    }


@on_a_loop
async def test_gang_of_volcano_is_in_one_hyper_node_and_a_node_may_join_it() -> None:
    api = MemoryApi()
    api.served = {"scheduling.volcano.sh/v1beta1", "topology.volcano.sh/v1alpha1"}
    for name in ("a", "b", "c"):
        api.put(NODES, node_json(name, gpu=2))
    hyper_node(api, "s0", 1, "a")
    hyper_node(api, "s1", 1, "b")
    group = volcano_group(networkTopology={"mode": "hard", "highestTierAllowed": 1})
    api.put("/apis/scheduling.volcano.sh/v1beta1/podgroups", group)
    for n in range(3):
        pod = pod_json(f"g-{n}")
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        api.put(PODS, pod)
    async with running(api, OF_VOLCANO):
        await until(lambda: "tier-1" in str(scheduled(api, "g-0")))
        assert not any(api.pods().values())
        hyper_node(api, "s1", 1, "b", "c")
        await until(lambda: all_bound(api))
    assert set(api.pods().values()) == {"b", "c"}
