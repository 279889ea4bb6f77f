"""Gangs in racks and blocks: what kube-scheduler places, this library places from the same state.

kube-scheduler decides about one gang after the other, with the gates for topologies and trees. The
library is asked about each of them, with the nodes and pods of that moment. Where kube-scheduler
finds no place, the library may find one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest
from attrs import frozen

from gangsched import (
    Bind,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Topology,
    presets,
)
from support.cluster_objects import composite_json, node_json
from support.control_plane import ApiError, ControlPlane
from support.control_plane.cluster import GANG_FEATURES, TREE_FEATURES
from support.control_plane.fixtures import need_control_plane
from support.patience import until
from support.scheduled_cluster import GROUPS, Cluster

pytestmark = pytest.mark.once("compares whole gangs")

BLOCK: Final = "topology.example/block"
RACK: Final = "topology.example/rack"
GPU: Final = "nvidia.com/gpu"
PARENTS: Final = "/apis/scheduling.k8s.io/v1alpha3"
ZERO: Final = {"gracePeriodSeconds": 0}
_WRITTEN: Final = "PodGroupInitiallyScheduled"


@frozen
class Asked:
    """A gang, or two gangs below one parent.

    Attributes:
        name: Its name.
        key: The label of which its pods share one value; of two gangs, each has a rack.
        gpus: The GPUs of each pod, of each gang.
    """

    name: str
    key: str
    gpus: tuple[tuple[int, ...], ...]

    @property
    def gangs(self) -> list[str]:
        """The names of its groups of pods."""
        return [f"{self.name}-{n}" for n in range(len(self.gpus))]


def asked(seed: int, number: int) -> Iterator[Asked]:
    """Yield gangs of like and of unlike pods, in racks, in blocks, and in racks of a block."""
    draws = random.Random(seed)
    for n in range(number):
        parts = []
        for _ in range(draws.choice([1, 1, 2])):
            size, least = draws.randint(1, 5), draws.choice([1, 2])
            is_like = draws.random() < 0.5
            parts.append(tuple(least if is_like else draws.randint(1, 4) for _ in range(size)))
        key = RACK if len(parts) == 1 and draws.random() < 0.7 else BLOCK
        yield Asked(f"g{seed}x{n}", key, tuple(parts))


class World:
    """A namespace with racks of its own, and kube-scheduler."""

    def __init__(self, plane: ControlPlane, seed: int) -> None:
        self.admin: Final = plane.admin
        self.cluster: Final = Cluster(plane, f"levels-{seed}")
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": self.cluster.namespace}})
        self.nodes: Final[list[Node]] = []
        draws = random.Random(seed)
        for block, rack, _node in itertools.product("ab", "01", "xyz"):
            self._add_node({BLOCK: block, RACK: f"{block}{rack}"}, draws.choice([2, 4, 6]))

    def _add_node(self, labels: Mapping[str, str], gpus: int) -> None:
        namespace = self.cluster.namespace
        name = f"{namespace}-{len(self.nodes)}"
        body = node_json(name, gpu=gpus)
        labels = {**labels, "test": namespace, "kubernetes.io/hostname": name}
        body["metadata"]["labels"] = labels
        self.admin.create("/api/v1/nodes", body)
        self.cluster.nodes.append(name)
        offered: dict[str, str | int] = {"cpu": 32, "memory": "256Gi", "pods": 110, GPU: gpus}
        self.nodes.append(Node(name=name, labels=labels, allocatable=offered))

    def close(self) -> None:
        """Delete what there is."""
        self.admin.delete(self.cluster.path(), ZERO)
        for node in self.cluster.nodes:
            self.admin.delete(f"/api/v1/nodes/{node}")

    def decide(self, one: Asked) -> bool:
        """Let kube-scheduler decide about a gang; return whether all of it is bound."""
        parent = ""
        if len(one.gpus) > 1:
            parent = one.name
            constraint: dict[str, Any] = {"topology": [{"key": BLOCK}]}
            namespace = self.cluster.namespace
            body = composite_json(
                parent, len(one.gpus), namespace=namespace, schedulingConstraints=constraint
            )
            self.admin.create(f"{PARENTS}/namespaces/{namespace}/compositepodgroups", body)
        for name, gpus in zip(one.gangs, one.gpus, strict=True):
            spec: dict[str, Any] = {
                "schedulingConstraints": {"topology": [{"key": RACK if parent else one.key}]}
            }
            if parent:
                spec["parentCompositePodGroupName"] = parent
                spec["workloadRef"] = {"workloadName": "w", "templateName": name}
            self.cluster.add_group(name, len(gpus), **spec)
            for n, gpu in enumerate(gpus):
                pod = {"group": name, "gpu": gpu, "scheduler": "default-scheduler"}
                self.cluster.add_pod(f"{name}-{n}", **pod)
        until(lambda: all(self._said(name) or self._is_bound(name) for name in one.gangs))
        return all(self._is_bound(name) for name in one.gangs)

    def _said(self, name: str) -> str:
        """Return whether the group was scheduled, as kube-scheduler says; "" for not yet."""
        path = f"{GROUPS}/namespaces/{self.cluster.namespace}/podgroups/{name}"
        found = self.admin.get(path).get("status", {}).get("conditions", ())
        of: dict[str, str] = {each["type"]: each["status"] for each in found}
        # that it is scheduled is said before its pods are bound
        return of.get(_WRITTEN, "").replace("True", "")

    def _is_bound(self, name: str) -> bool:
        placed = self.cluster.placed()
        mine = [node for pod, node in placed.items() if pod.rpartition("-")[0] == name]
        return bool(mine) and all(mine)

    def remove(self, one: Asked) -> None:
        """Delete a gang that found no place."""
        for name, gpus in zip(one.gangs, one.gpus, strict=True):
            path = f"{GROUPS}/namespaces/{self.cluster.namespace}/podgroups/{name}"
            for n in range(len(gpus)):
                with suppress(ApiError):
                    self.admin.delete(self.cluster.path(f"{name}-{n}"), ZERO)
            self.admin.patch(path, {"metadata": {"finalizers": None}})
            self.admin.delete(path)


def placed_by_us(nodes: Sequence[Node], running: Sequence[Pod], one: Asked) -> dict[str, str]:
    """Return where the library puts the pods of a gang, beside those that run."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, levels=[BLOCK, RACK])
    events: list[Any] = [*map(NodeAdded, nodes), *map(PodAdded, running)]
    parent = None
    if len(one.gpus) > 1:
        parent = GroupKey(f"default/{one.name}")
        family = PodGroup(name=one.name, min_groups=len(one.gpus), topology=Topology(BLOCK))
        events.append(PodGroupAdded(family))
    for name, gpus in zip(one.gangs, one.gpus, strict=True):
        topology = Topology(one.key if parent is None else RACK)
        spec = PodGroup(name=name, min_available=len(gpus), parent=parent, topology=topology)
        events.append(PodGroupAdded(spec))
        for n, gpu in enumerate(gpus):
            events.append(PodAdded(_pod(f"{name}-{n}", gpu, group=name)))
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    found: dict[str, str] = {}
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        found |= {e.uid.partition("/")[2]: e.node for e in effects if isinstance(e, Bind)}
    return found


def _pod(name: str, gpu: int, *, group: str | None = None, node: str | None = None) -> Pod:
    requests: dict[str, str | int] = {"cpu": 1, "memory": "1Gi", GPU: gpu}
    where = None if node is None else NodeName(node)
    return Pod(name=name, pod_group=group, requests=requests, node_name=where)


@pytest.mark.parametrize("seed", range(3))
def test_library_places_what_kube_scheduler_places(plane: ControlPlane, seed: int) -> None:
    world = World(plane, seed)
    racks = {node.name: (node.labels[BLOCK], node.labels[RACK]) for node in world.nodes}
    running: list[Pod] = []
    both = 0
    try:
        for one in asked(seed, 12):
            ours = placed_by_us(world.nodes, running, one)
            pods = [
                f"{gang}-{n}"
                for gang, gpus in zip(one.gangs, one.gpus, strict=True)
                for n in range(len(gpus))
            ]
            for gang in one.gangs if ours else ():
                where = {
                    racks[NodeName(node)]
                    for pod, node in ours.items()
                    if pod.rpartition("-")[0] == gang
                }
                within = where if one.key == RACK or len(one.gpus) > 1 else {b for b, _ in where}
                assert len(within) == 1, (one, ours)
            assert sorted(ours) in ([], sorted(pods)), "a gang starts by half"
            if not world.decide(one):
                world.remove(one)
                continue
            assert ours, f"only kube-scheduler places {one}"
            both += 1
            placed = world.cluster.placed()
            sizes = dict(zip(pods, itertools.chain(*one.gpus), strict=True))
            running += [_pod(pod, sizes[pod], node=placed[pod]) for pod in pods]
    finally:
        world.close()
    assert both > 2


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with groups in trees, and a kube-scheduler that knows topologies."""
    need_control_plane()
    with ControlPlane(tmp_path_factory.mktemp("levels"), features=TREE_FEATURES) as started:
        scheduler = started.start_scheduler(features={**GANG_FEATURES, **TREE_FEATURES})
        try:
            yield started
        finally:
            scheduler.stop()
