"""Composite pod groups of Kubernetes 1.37 on an API server with their feature gate."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final

import pytest

from support.cluster_objects import composite_json
from support.control_plane import Account, ApiError, ControlPlane
from support.control_plane.cluster import GANG_FEATURES, TREE_FEATURES
from support.control_plane.fixtures import need_control_plane
from support.fault_proxy import Fault, FaultProxy, Order, Request
from support.patience import until
from support.running import on_a_loop
from support.scheduled_cluster import (
    GROUPS,
    Cluster,
    documented_rights,
    eventually,
    scheduling,
)
from support.scheduler_replicas import Replicas

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

ALPHA: Final = "/apis/scheduling.k8s.io/v1alpha3"
WRITTEN: Final = "CompositePodGroupInitiallyScheduled"
ZERO: Final = {"gracePeriodSeconds": 0}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with groups in trees."""
    need_control_plane()
    with ControlPlane(tmp_path_factory.mktemp("trees"), features=TREE_FEATURES) as started:
        yield started


class Trees(Cluster):
    """A namespace with groups of groups."""

    def add_parent(self, name: str, least: int, *, parent: str = "") -> None:
        body = composite_json(name, least, namespace=self.namespace, parent=parent)
        self.plane.admin.create(f"{self.alpha}/compositepodgroups", body)

    @property
    def alpha(self) -> str:
        return f"{ALPHA}/namespaces/{self.namespace}"

    @property
    def beta(self) -> str:
        return f"{GROUPS}/namespaces/{self.namespace}"

    def add_child(self, name: str, size: int, parent: str, **pod: Any) -> None:
        self.add_gang(name, size, grouped=False, **pod)
        reference = {"workloadName": "w", "templateName": name}
        self.add_group(name, size, parentCompositePodGroupName=parent, workloadRef=reference)

    def remove_child(self, name: str, size: int) -> None:
        path = f"{self.beta}/podgroups/{name}"
        for n in range(size):
            self.plane.admin.delete(self.path(f"{name}-{n}"), ZERO)
        # no controller takes the finalizer off
        self.plane.admin.patch(path, {"metadata": {"finalizers": None}})
        self.plane.admin.delete(path)

    def remove_parent(self, name: str) -> None:
        path = f"{self.alpha}/compositepodgroups/{name}"
        with suppress(ApiError):
            self.plane.admin.patch(path, {"metadata": {"finalizers": None}})
        self.plane.admin.delete(path)

    def running_groups(self) -> set[str]:
        """Return the groups of which each pod has a node."""
        found: dict[str, set[bool]] = {}
        for name, node in self.placed().items():
            found.setdefault(name.rpartition("-")[0], set()).add(node is not None)
        return {name for name, on_nodes in found.items() if on_nodes == {True}}

    def of_parent(self, name: str) -> dict[str, Any]:
        """Return the condition of a group of groups; empty if it has none."""
        return self._condition(f"{self.alpha}/compositepodgroups/{name}", WRITTEN)

    def of_group(self, name: str) -> dict[str, Any]:
        """Return the condition of a group of pods; empty if it has none."""
        return self._condition(f"{self.beta}/podgroups/{name}", "PodGroupInitiallyScheduled")

    def _condition(self, path: str, kind: str) -> dict[str, Any]:
        found = self.plane.admin.get(path).get("status", {}).get("conditions", ())
        return next((each for each in found if each["type"] == kind), {})

    def is_scheduled(self, parent: str) -> bool:
        return self.of_parent(parent).get("status") == "True"

    def regarding(self, name: str) -> list[dict[str, Any]]:
        """Return what events of a name are about."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = (each["regarding"] for each in self.plane.admin.items(path))
        return [each for each in found if each["name"] == name]

    def why(self, pod: str) -> str:
        return str((self.condition(pod, "PodScheduled") or {}).get("message", ""))


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Trees]:
    """A namespace of the running test."""
    namespace = f"trees-{next(_numbers)}"
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    found = Trees(plane, namespace)
    yield found
    plane.admin.delete(found.path(), ZERO)
    for node in found.nodes:
        plane.admin.delete(f"/api/v1/nodes/{node}")


def are_running(cluster: Trees, *names: str) -> Callable[[], bool]:
    return lambda: cluster.running_groups() == set(names)


@on_a_loop
async def test_k_of_n_groups_start_and_the_rest_joins_when_room_comes(cluster: Trees) -> None:
    cluster.add_nodes(1, gpu=5)
    cluster.add_parent("serve", 2)
    cluster.add_parent("decode", 1, parent="serve")
    cluster.add_child("decode-0", 3, "decode")
    cluster.add_child("decode-1", 3, "decode")
    cluster.add_child("prefill", 2, "serve")
    async with scheduling(cluster):
        await eventually(are_running(cluster, "decode-0", "prefill"))
        for parent in ("serve", "decode"):
            await eventually(partial(cluster.is_scheduled, parent))
        await eventually(lambda: cluster.of_group("decode-1").get("status") == "False")
        cluster.add_nodes(1, gpu=3)
        await eventually(are_running(cluster, "decode-0", "decode-1", "prefill"))
    assert cluster.of_parent("serve")["reason"] == "Scheduled"
    assert cluster.of_parent("serve")["lastTransitionTime"]


@on_a_loop
async def test_children_wait_for_their_parent_and_for_as_many_siblings_as_it_wants(
    cluster: Trees,
) -> None:
    cluster.add_nodes(1)
    cluster.add_child("a", 2, "tree")
    cluster.add_gang("free", 2)
    key = f"{cluster.namespace}/tree"
    async with scheduling(cluster):
        await eventually(are_running(cluster, "free"))
        absent = f"waiting for pod group {key}, a parent: it does not exist"
        await eventually(lambda: cluster.why("a-0") == absent)
        cluster.add_parent("tree", 2)
        lacks = f"waiting for pod groups whose parent is {key}: 1 of 2 can start"
        await eventually(lambda: lacks in cluster.why("a-0"))
        await eventually(lambda: lacks in cluster.of_parent("tree").get("message", ""))
        await eventually(lambda: "FailedScheduling" in cluster.reasons("tree"))
        assert cluster.of_parent("tree")["status"] == "False"
        cluster.add_child("b", 2, "tree")
        await eventually(are_running(cluster, "a", "b", "free"))
        await eventually(lambda: cluster.is_scheduled("tree"))


@on_a_loop
async def test_parent_that_is_made_again_with_another_minimum_counts_at_once(
    cluster: Trees,
) -> None:
    """The API server refuses to change a minimum, so a parent is made anew, with another UID."""
    cluster.add_nodes(1, gpu=4)
    cluster.add_parent("tree", 3)
    for name in ("a", "b"):
        cluster.add_child(name, 2, "tree")
    path = f"{cluster.alpha}/compositepodgroups/tree"
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    with pytest.raises(ApiError, match="immutable"):
        cluster.plane.admin.patch(path, {"spec": spec})
    async with scheduling(cluster):
        await eventually(lambda: "2 of 3 can start" in cluster.why("a-0"))
        cluster.remove_parent("tree")
        cluster.add_parent("tree", 2)
        await eventually(are_running(cluster, "a", "b"))
        await eventually(lambda: cluster.is_scheduled("tree"))
        cluster.remove_parent("tree")  # what runs goes on, with a larger minimum, too
        cluster.add_parent("tree", 5)
        cluster.add_gang("other", 1, gpu=0)
        await eventually(are_running(cluster, "a", "b", "other"))
    assert not cluster.is_scheduled("tree")


@on_a_loop
async def test_deleted_child_makes_way_for_a_sibling(cluster: Trees) -> None:
    cluster.add_nodes(1, gpu=4)
    cluster.add_parent("tree", 2)
    for name in ("a", "b", "c"):
        cluster.add_child(name, 2, "tree")
    async with scheduling(cluster):
        await eventually(are_running(cluster, "a", "b"))
        cluster.remove_child("a", 2)
        await eventually(are_running(cluster, "b", "c"))


# A leader that is killed in the start ------------------------------------------------------------


@pytest.fixture
def replica(cluster: Trees) -> Iterator[Replica]:
    """A scheduler as a process of its own, behind a proxy; it is started by the test."""
    with Replica(cluster) as found:
        yield found


class Replica:
    """A scheduler whose requests can be cut."""

    def __init__(self, cluster: Trees) -> None:
        self._cluster = cluster
        self._opened = ExitStack()
        plane = cluster.plane
        self._proxy = self._opened.enter_context(FaultProxy(plane.url, plane.ca, key=plane.key))
        account = Account.create(plane.admin, cluster.namespace, [*documented_rights()])
        self._file = plane.kubeconfig(cluster.namespace, account.token, self._proxy.url)
        self._replicas: Replicas | None = None

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, *_given: object) -> None:
        if self._replicas is not None:
            self._replicas.stop()
        self._opened.close()

    def start(self, cuts: Callable[[Request], bool]) -> Order:
        """Start it; requests that *cuts* says are never performed."""
        order = Order(cuts, Fault.CUT, 1_000_000)
        self._proxy.order(order)
        folder, name = self._cluster.plane.folder, self._cluster.name
        self._replicas = Replicas(folder, [self._file], name)
        return order

    def kill(self, order: Order) -> None:
        """Kill it, and start another one whose requests are performed."""
        assert self._replicas is not None
        self._replicas.kill(0)
        order.times = 0


def is_late(request: Request) -> bool:
    """Return whether a request places a pod of a later group, or tells of a tree."""
    is_told = request.method == "PATCH" and "compositepodgroups" in request.path
    return is_told or (request.is_binding and "/b-" in request.path)


def test_next_leader_completes_a_tree_whose_leader_was_killed_in_its_start(
    cluster: Trees, replica: Replica
) -> None:
    cluster.add_nodes(1, gpu=4)
    cluster.add_parent("tree", 2)
    for name in ("a", "b"):
        cluster.add_child(name, 2, "tree")
    order = replica.start(is_late)
    until(are_running(cluster, "a"))
    replica.kill(order)
    until(are_running(cluster, "a", "b"))
    until(lambda: cluster.is_scheduled("tree"))


def test_whole_child_is_released_if_the_rest_of_its_tree_does_not_fit_any_more(
    cluster: Trees, replica: Replica
) -> None:
    cluster.add_nodes(1, gpu=4)
    cluster.add_parent("tree", 2)
    for name in ("a", "b"):
        cluster.add_child(name, 2, "tree", terminationGracePeriodSeconds=0)
    order = replica.start(is_late)
    until(are_running(cluster, "a"))
    (node,) = cluster.nodes
    cluster.plane.admin.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    replica.kill(order)
    until(lambda: {*cluster.placed()} == {"b-0", "b-1"}, cluster.placed)
    until(lambda: "GangReleased" in cluster.reasons("a-0"))
    assert not cluster.is_scheduled("tree")


# Beside kube-scheduler ---------------------------------------------------------------------------


@on_a_loop
async def test_kube_scheduler_starts_its_trees_beside_those_of_this_scheduler(
    cluster: Trees,
) -> None:
    theirs, ours = {"scheduler": "default-scheduler"}, {"scheduler": cluster.name}
    gates = {**GANG_FEATURES, **TREE_FEATURES}
    kube_scheduler = await asyncio.to_thread(cluster.plane.start_scheduler, features=gates)
    cluster.add_nodes(2, gpu=4)
    for parent, names in (("theirs", theirs), ("ours", ours)):
        cluster.add_parent(parent, 2)
        for n in range(2):
            cluster.add_child(f"{parent}-{n}", 2, parent, **names)
    cluster.add_parent("short", 2)
    cluster.add_child("short-0", 1, "short", gpu=0, **theirs)
    cluster.add_child("lacking-0", 1, "short", gpu=99, **theirs)
    try:
        async with scheduling(cluster):
            started = ("theirs-0", "theirs-1", "ours-0", "ours-1")
            await eventually(are_running(cluster, *started))
            await eventually(lambda: cluster.is_scheduled("ours"))
            await eventually(lambda: cluster.of_group("short-0").get("status") == "False")
            assert are_running(cluster, *started)()
    finally:
        await asyncio.to_thread(kube_scheduler.stop)
    said = {name: cluster.of_parent(name) for name in ("theirs", "short")}
    assert said == {"theirs": {}, "short": {}}  # kube-scheduler tells groups of pods alone
    for n in range(2):
        assert cluster.of_group(f"theirs-{n}")["status"] == "True"


# What people look at -----------------------------------------------------------------------------


@on_a_loop
async def test_groups_of_one_name_are_held_and_both_objects_say_so(cluster: Trees) -> None:
    cluster.add_nodes(1)
    cluster.add_parent("x", 1)
    cluster.add_gang("x", 1)
    cluster.add_child("child", 1, "x")
    async with scheduling(cluster):
        await eventually(lambda: "a CompositePodGroup of the same name" in cluster.why("x-0"))
        await eventually(lambda: "rename one of them" in cluster.why("child-0"))
        kinds = {"PodGroup", "CompositePodGroup"}
        await eventually(lambda: {each["kind"] for each in cluster.regarding("x")} >= kinds)
    assert not any(cluster.placed().values())
