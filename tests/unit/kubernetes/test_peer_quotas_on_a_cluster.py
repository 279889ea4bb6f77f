"""A scheduler on a cluster takes its quotas from objects of another project, and follows them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched.kubernetes import _peers
from support.cluster_objects import NODES, PODS, node_json, pod_json, put_gang
from support.extender_client import extending
from support.memory_api import Fault, MemoryApi, refused
from support.memory_cluster import all_bound, scheduled
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GPU: Final = "nvidia.com/gpu"
CLUSTER_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
LOCAL_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta2/localqueues"
QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
VOLCANO_GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
CONFIG_MAPS: Final = "/api/v1/configmaps"
OF_KUEUE: Final = evolve(ALONE, quotas_from="kueue")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_peers, "_LOOK_AT_QUOTAS", 0.05)
    monkeypatch.setattr(_peers, "_AGAIN", 0.05)


def cluster_queue(api: MemoryApi, name: str, gpus: int, **spec: Any) -> None:
    resources = [{"name": GPU, "nominalQuota": gpus}]
    groups = [{"flavors": [{"name": "x", "resources": resources}]}]
    given: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    api.put(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": given})


def local_queue(api: MemoryApi, name: str, target: str) -> None:
    metadata = {"name": name, "namespace": "default"}
    api.put(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": target}})


def pod(name: str, queue: str, key: str = "kueue.x-k8s.io/queue-name") -> dict[str, Any]:
    found = pod_json(name)
    found["metadata"]["labels"] = {key: queue}
    return found


def cluster(*served: str) -> MemoryApi:
    api = MemoryApi()
    api.served |= set(served)
    api.put(NODES, node_json("n", gpu=8))
    return api


@on_a_loop
async def test_pods_are_limited_by_the_cluster_queue_of_their_local_queue() -> None:
    api = cluster("kueue.x-k8s.io/v1beta2")
    cluster_queue(api, "a", 1)
    local_queue(api, "q", "a")
    for n in range(2):
        api.put(PODS, pod(f"p-{n}", "q"))
    api.put(PODS, pod("lost", "gone"))
    async with running(api, OF_KUEUE):
        await until(lambda: "exceeded quota a: " in str(scheduled(api, "p-1")))
        await until(lambda: "queue default/gone does not exist" in str(scheduled(api, "lost")))
        assert [name for name, node in api.pods().items() if node] == ["default/p-0"]


@on_a_loop
async def test_quotas_are_followed_and_what_runs_stays() -> None:
    api = cluster("kueue.x-k8s.io/v1beta2")
    cluster_queue(api, "a", 1)
    local_queue(api, "q", "a")
    for n in range(2):
        api.put(PODS, pod(f"p-{n}", "q"))
    api.put(PODS, pod("late", "r"))
    async with running(api, OF_KUEUE):
        await until(lambda: "exceeded quota a: " in str(scheduled(api, "p-1")))
        cluster_queue(api, "a", 2)
        await until(lambda: bool(api.pods()["default/p-1"]))
        assert not api.pods()["default/late"]
        cluster_queue(api, "b", 4)
        local_queue(api, "r", "b")
        await until(lambda: all_bound(api))
        cluster_queue(api, "a", 0, stopPolicy="HoldAndDrain")
        api.put(PODS, pod("next", "q"))
        await until(lambda: "queue default/q does not exist" in str(scheduled(api, "next")))
        assert [name for name, node in api.pods().items() if not node] == ["default/next"]


@on_a_loop
async def test_nothing_is_placed_before_the_quotas_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = cluster("kueue.x-k8s.io/v1beta2")
    cluster_queue(api, "a", 1, queueingStrategy="StrictFIFO")
    local_queue(api, "q", "a")
    api.put(PODS, pod("p", "q"))

    def forbid(_method: str, path: str) -> Fault | None:
        return refused(403, "no right") if path.startswith(LOCAL_QUEUES) else None

    api.fault = forbid
    async with running(api, OF_KUEUE):
        await until(lambda: api.requests.count(("GET", LOCAL_QUEUES)) > 2)
        assert not [path for _method, path in api.requests if "/pods" in path]
        api.fault = lambda _method, _path: None
        await until(lambda: all_bound(api))
        api.fault = forbid  # what is known stays
        await until(lambda: caplog.text.count("the quotas of kueue are not read") > 1)
        api.put(PODS, pod("p-2", "q"))
        await until(lambda: "exceeded quota a: " in str(scheduled(api, "p-2")))
    assert f"{CLUSTER_QUEUES}/a: document 1: ClusterQueue a: spec.queueingStrategy" in caplog.text
    assert caplog.text.count("spec.queueingStrategy") == 1


@on_a_loop
async def test_gang_of_volcano_is_in_the_queue_of_its_group() -> None:
    api = cluster()
    api.served = {"scheduling.volcano.sh/v1beta1"}
    api.put(QUEUES, {"metadata": {"name": "a"}, "spec": {"deserved": {GPU: 1}}})
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2, "queue": "a"},
    }
    api.put(VOLCANO_GROUPS, group)
    for n in range(2):
        member = pod_json(f"g-{n}")
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        api.put(PODS, member)
    async with running(api, evolve(ALONE, quotas_from="volcano")):
        await until(lambda: "exceeded quota a: " in str(scheduled(api, "g-0")))
        api.put(QUEUES, {"metadata": {"name": "a"}, "spec": {"deserved": {GPU: 2}}})
        await until(lambda: all_bound(api))


@on_a_loop
async def test_queues_of_yunikorn_are_read_from_its_config_map_only() -> None:
    pytest.importorskip("yaml")
    api = cluster()
    text = "partitions: [{queues: [{name: a, resources: {max: {nvidia.com/gpu: 0}}}]}]"
    metadata = {"name": "yunikorn-configs", "namespace": "yunikorn"}
    api.put(CONFIG_MAPS, {"metadata": metadata, "data": {"queues.yaml": text}})
    api.put(
        CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "y"}, "data": {"queues.yaml": "{"}}
    )
    api.put(PODS, pod("p", "root.a", "queue"))
    async with running(api, evolve(ALONE, quotas_from="yunikorn")):
        await until(lambda: "exceeded quota root.a: " in str(scheduled(api, "p")))
    asked = {path for _method, path in api.requests if path.startswith(CONFIG_MAPS)}
    assert {path.partition("metadata.name%3D")[2] for path in asked} == {
        "yunikorn-configs",
        "yunikorn-defaults",
    }


@on_a_loop
async def test_objects_are_not_read_unless_the_configuration_says_so() -> None:
    api = cluster("kueue.x-k8s.io/v1beta2")
    cluster_queue(api, "a", 0)
    local_queue(api, "q", "a")
    api.put(PODS, pod("p", "q"))
    async with running(api, ALONE):
        await until(lambda: all_bound(api))
    assert not [path for _method, path in api.requests if "kueue" in path]


@on_a_loop
async def test_extender_follows_the_quotas_too() -> None:
    api = cluster("kueue.x-k8s.io/v1beta2")
    cluster_queue(api, "a", 1)
    local_queue(api, "q", "a")
    names = put_gang(api, "g", 2)
    for name in names:
        member = api.objects[PODS][f"default/{name}"]
        member["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    async with extending(api, OF_KUEUE) as asking:
        assert await asking.filter(names[0], ["n"]) == []
        cluster_queue(api, "a", 2)
        binds = [asking.bind(name, await asking.decided(name, ["n"])) for name in names]
        assert await asyncio.gather(*binds) == ["", ""]
