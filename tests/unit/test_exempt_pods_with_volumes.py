"""A pod that ends in time is exempt from a reservation unless its claim may take a volume of it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import Backfill, ObjectChanged, PodAdded
from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from gangsched.constraints import VolumeClaim
from gangsched.testing import make_pod
from support.backfill_host import EXACT, Host, running

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")

_OF_CLASS: dict[str, Any] = {"storage_class": "slow", "access_modes": ["ReadWriteOnce"]}


def with_volumes() -> Host:
    """Return a node of 3, two cpus of which are held until 100, three volumes and claims."""
    host = Host(Backfill(EXACT), a=3)
    storage = StorageClass(name="slow", provisioner="kubernetes.io/no-provisioner", waits=True)
    host.tell(ObjectChanged(storage))
    for number in range(3):
        size = {"storage": "1Gi"}
        volume = PersistentVolume(name=f"v{number}", capacity=size, **_OF_CLASS)
        claim = PersistentVolumeClaim(
            name=f"c{number}", uid=f"c{number}", requests=size, **_OF_CLASS
        )
        host.tell(ObjectChanged(volume))
        host.tell(ObjectChanged(claim))
    host.pod("old", 100, cpu=2)
    host.decide()
    return host


def add(host: Host, name: str, seconds: str, claim: str = "", **more: Any) -> None:
    claims = (VolumeClaim(claim),) if claim else ()
    pod = evolve(make_pod(name, cpu=1, **more), volume_claims=claims)
    host.tell(PodAdded(running(pod, seconds)))


@pytest.mark.parametrize("of_gang", ["", "c0"])
@pytest.mark.parametrize("of_pod", ["", "c1"])
def test_short_pod_waits_only_if_it_and_the_reserved_gang_bind_volumes(
    of_gang: str, of_pod: str
) -> None:
    host = with_volumes()
    for number in range(3):
        claim = of_gang if number == 2 else ""
        add(host, f"big-{number}", "10", claim, group="big", min_available=3)
    host.decide()
    assert host.reservation.starts_at == 100.0
    add(host, "short", "10", of_pod)
    is_kept = bool(of_gang and of_pod)
    assert host.decide() == ([] if is_kept else ["short"])
