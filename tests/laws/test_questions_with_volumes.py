"""Questions about pods with claims: a volume that one claim has in the forecast is taken."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodUID,
    Scheduler,
    Sufficient,
    presets,
)
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from gangsched.constraints import VolumeClaim
from gangsched.events import ObjectChanged

pytestmark = pytest.mark.once("is about whole gangs")

GIB = {"storage": "1Gi"}
SHARED = ["ReadWriteMany"]
PROVISIONED = "csi.example.com"
NONE = "kubernetes.io/no-provisioner"


def _waiting(claims: list[str], volumes: int, provisioner: str = NONE) -> Scheduler:
    """Return a scheduler with a gang of one member for each claim, without a node."""
    cluster = InMemoryCluster()
    of_class: dict[str, Any] = {"storage_class": "slow", "access_modes": SHARED}
    cluster.apply(ObjectChanged(StorageClass(name="slow", provisioner=provisioner, waits=True)))
    for n in range(volumes):
        volume = PersistentVolume(name=f"v{n}", capacity=GIB, **of_class)
        cluster.apply(ObjectChanged(volume))
    for name in dict.fromkeys(claims):
        claim = PersistentVolumeClaim(name=name, uid=name, requests=GIB, **of_class)
        cluster.apply(ObjectChanged(claim))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    for n, name in enumerate(claims):
        labels = {
            "pod-group.scheduling.sigs.k8s.io/name": f"g{n}",
            "pod-group.scheduling.sigs.k8s.io/min-available": "1",
        }
        pod = Pod(
            name=f"p{n}",
            uid=PodUID(f"p{n}"),
            labels=labels,
            requests={"cpu": 1},
            volume_claims=[VolumeClaim(name)],
        )
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    return scheduler


def _node(name: str, cpu: int) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": 9})


@pytest.mark.parametrize("volumes", [0, 1, 2, 3])
def test_forecast_gives_a_volume_to_one_claim_only(volumes: int) -> None:
    """Each gang starts in a decision of its own, after the claims before it were bound."""
    scheduler = _waiting(["a", "b", "c"], volumes)
    found = scheduler.what_if(NodeAdded(_node("n", 3)), now=0.0)
    binds = [each for each in found.effects if isinstance(each, Bind)]
    assert [[choice.volume for choice in each.volumes] for each in binds] == [
        [f"v{n}"] for n in range(volumes)
    ]


def test_forecast_follows_the_node_for_which_a_volume_is_provisioned() -> None:
    scheduler = _waiting(["a", "a", "b"], 0, PROVISIONED)
    added = (NodeAdded(_node("n", 1)), NodeAdded(_node("m", 1)))
    found = scheduler.what_if(*added, now=0.0)
    bound = {each.uid: each.node for each in found.effects if isinstance(each, Bind)}
    assert set(bound) == {"p0", "p2"}


def test_no_number_of_nodes_is_enough_without_a_volume() -> None:
    scheduler = _waiting(["a", "b"], 1)
    first = scheduler.smallest_change("default/g0", _node("n", 1), most=3)
    assert isinstance(first, Sufficient)
    assert not isinstance(
        scheduler.smallest_change("default/g1", _node("n", 1), most=3), Sufficient
    )
