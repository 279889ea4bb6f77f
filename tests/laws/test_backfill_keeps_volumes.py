"""A volume outlives the pod that bound its claim, so backfill leaves those that a plan needs."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
)
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from gangsched.cluster_objects.claims_of_pods import written
from gangsched.constraints import VolumeClaim
from gangsched.events import Event, ObjectChanged
from support.reserved_worlds import GROUP, MINIMUM, SECONDS, backfilling

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")

GIB = {"storage": "1Gi"}
OF_CLASS: dict[str, Any] = {"storage_class": "slow", "access_modes": ["ReadWriteMany"]}


class Host:
    """A host that writes what a bind chooses."""

    def __init__(self, volumes: int, claims: int) -> None:
        self.cluster = InMemoryCluster()
        self.now = 0.0
        provisioner = "kubernetes.io/no-provisioner"
        objects: list[Any] = [StorageClass(name="slow", provisioner=provisioner, waits=True)]
        objects += [
            PersistentVolume(name=f"v{n}", capacity=GIB, **OF_CLASS) for n in range(volumes)
        ]
        for n in range(claims):
            name = f"c{n}"
            objects.append(PersistentVolumeClaim(name=name, uid=name, requests=GIB, **OF_CLASS))
        for each in objects:
            self.cluster.apply(ObjectChanged(each))
        self.cluster.apply(NodeAdded(Node(name="n", allocatable={"cpu": 3, "pods": 9})))
        self.scheduler = backfilling(self.cluster)
        self.scheduler.rebuild(now=0.0)
        self.bound: list[str] = []

    def tell(self, event: Event) -> None:
        self._perform(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def pod(self, name: str, cpu: int, seconds: int, claim: str = "", **labels: str) -> None:
        self.tell(
            PodAdded(
                Pod(
                    name=name,
                    uid=PodUID(name),
                    labels=labels,
                    requests={"cpu": cpu},
                    annotations={SECONDS: str(seconds)},
                    volume_claims=[VolumeClaim(claim)] if claim else [],
                )
            )
        )

    def decide(self) -> None:
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self._perform(effects)

    def _perform(self, effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                for choice in effect.volumes:
                    for each in written(self.cluster.objects, choice):
                        self.tell(ObjectChanged(each))
                self.bound.append(effect.uid)
                self.tell(Bound(effect.uid, effect.node, effect.attempt))


def _reserved(volumes: int) -> Host:
    """Return a gang of two that waits for a pod to end at 10, and needs a volume."""
    host = Host(volumes, claims=2)
    host.pod("old", cpu=2, seconds=10)
    host.decide()
    labels = {GROUP: "g", MINIMUM: "2"}
    host.pod("g-0", cpu=1, seconds=5, claim="c0", **labels)
    host.pod("g-1", cpu=1, seconds=5, **labels)
    host.decide()
    held = host.scheduler.reservation
    assert held is not None
    assert held.starts_at == 10
    return host


def _ends(host: Host, *names: str) -> None:
    host.now = 10.0
    host.scheduler.advance(now=10.0)
    for name in names:
        host.tell(PodDeleted(PodUID(name)))
    host.decide()


def test_short_pod_leaves_the_volume_that_a_reserved_gang_needs() -> None:
    """It ends in time; but its claim would keep the volume."""
    host = _reserved(volumes=1)
    host.pod("short", cpu=1, seconds=5, claim="c1")
    host.decide()
    assert host.bound == ["old"]
    _ends(host, "old")
    assert set(host.bound) == {"old", "g-0", "g-1"}


def test_short_pod_takes_a_volume_that_is_left_over() -> None:
    host = _reserved(volumes=2)
    host.pod("short", cpu=1, seconds=5, claim="c1")
    host.decide()
    assert host.bound == ["old", "short"]
    _ends(host, "old", "short")
    assert set(host.bound) == {"old", "short", "g-0", "g-1"}


def test_long_pod_leaves_the_volume_that_a_reserved_gang_needs() -> None:
    host = _reserved(volumes=1)
    host.pod("long", cpu=1, seconds=500, claim="c1")
    host.decide()
    assert host.bound == ["old"]
    _ends(host, "old")
    assert set(host.bound) == {"old", "g-0", "g-1"}
