"""A host of a scheduler with backfill, and a cluster full enough for a reservation."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Reservation,
    Scheduler,
    group_key,
    presets,
)
from gangsched.testing import make_pod
from support.immediate_host import ImmediateHost

__all__ = [
    "BIG",
    "EXACT",
    "YOUNG",
    "Host",
    "crowded",
    "draining",
    "running",
]

SECONDS = "example.com/seconds"
EXACT = AnnotatedRunTimes(SECONDS)
BIG = group_key("default", "big")
YOUNG = group_key("default", "young")


def running(pod: Pod, seconds: str | None) -> Pod:
    """Return a pod with its run time as an annotation."""
    return pod if seconds is None else evolve(pod, annotations={SECONDS: seconds})


class Host(ImmediateHost):
    """A scheduler with backfill, and its cluster."""

    def __init__(self, policy: Backfill | None = None, **nodes: int) -> None:
        super().__init__()
        self.policy = Backfill(EXACT) if policy is None else policy
        self.scheduler = self.make()
        for name, cpu in nodes.items():
            self.tell(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu})))

    def make(self) -> Scheduler:
        return presets.gang(self.cluster, backfill=self.policy)

    def pod(self, name: str, seconds: float | None = None, cpu: int = 1, **more: Any) -> None:
        pod = make_pod(name, cpu=cpu, created_at=self.now, **more)
        self.tell(PodAdded(running(pod, None if seconds is None else str(seconds))))

    def gang(self, name: str, count: int, seconds: float | None = 10, **more: Any) -> None:
        for n in range(count):
            self.pod(f"{name}-{n}", seconds, group=name, min_available=count, **more)

    @property
    def reservation(self) -> Reservation:
        found = self.scheduler.reservation
        assert found is not None
        return found


def crowded(policy: Backfill | None = None) -> Host:
    """Return two nodes of size 2, one half full until 100, and a rejected gang of 4."""
    host = Host(policy, a=2, b=2)
    host.pod("old", 100)
    host.decide()
    host.gang("big", 4)
    host.decide()
    return host


def draining(drain_for: float = 50.0) -> Host:
    """Return a full node of size 3, an older gang of 3, and a younger one with a reservation."""
    host = Host(Backfill(drain_for=drain_for), a=3)
    for name in ("p", "q", "r"):
        host.pod(name)
    host.decide()
    host.gang("young", 3, None)
    host.decide()
    for n in range(3):
        pod = make_pod(f"elder-{n}", group="elder", min_available=3, cpu=1, created_at=-1.0)
        host.tell(PodAdded(pod))
    host.decide()
    assert host.reservation.group == YOUNG
    return host
