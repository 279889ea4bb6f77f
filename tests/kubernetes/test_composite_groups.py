"""Composite pod groups of Kubernetes 1.37 on an API server with their feature gate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pytest

from support.cluster_objects import composite_json
from support.control_plane import ApiError, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.running import on_a_loop
from support.scheduled_cluster import GROUPS, Cluster, eventually, scheduling

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

FEATURES: Final = {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}
ALPHA: Final = "/apis/scheduling.k8s.io/v1alpha3"
WRITTEN: Final = "CompositePodGroupInitiallyScheduled"
ZERO: Final = {"gracePeriodSeconds": 0}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with groups in trees."""
    need_control_plane()
    with ControlPlane(tmp_path_factory.mktemp("trees"), features=FEATURES) as started:
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
