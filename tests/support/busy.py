"""A busy scheduler, for tests that inspect all of its state."""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Profile,
    Scheduler,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod

__all__ = ["NOW", "busy_scheduler", "tell"]

NOW = 2.6
"""The last instant of ``busy_scheduler``."""


def tell(cluster: InMemoryCluster, scheduler: Scheduler, event: Event, *, now: float) -> None:
    """Apply an event, and pass it to the scheduler."""
    scheduler.handle(cluster.apply(event), now=now)


def busy_scheduler(*plugins: object) -> tuple[InMemoryCluster, Scheduler]:
    """Return a cluster and a scheduler with entities in every state and queue.

    One pod is bound, and the bind of one is in flight. Two members wait, because the third does
    not fit. One group is incomplete, and one has no members. Pods are gated, refused and finished.
    Others are in an equivalence queue, in backoff, and active.

    Args:
        plugins: Plugins besides the gang policy, the resources and the binder.
    """
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(permit_timeout=50.0), NodeResources(), *plugins, DefaultBinder())
    scheduler = Scheduler(cluster, profile, strict_priorities=True)
    arrivals: list[Event] = [
        NodeAdded(Node(name=NodeName("n1"), allocatable={"cpu": 4})),
        NodeAdded(Node(name=NodeName("n2"), allocatable={"cpu": 4})),
        PodAdded(make_pod("bound", cpu=1, priority=9)),
        PodAdded(make_pod("binding", cpu=1, priority=8)),
        PodAdded(make_pod("i-0", group="incomplete", min_available=4)),
        PodGroupAdded(PodGroup(name="empty", min_available=2, schedule_timeout=3.5)),
        PodGroupAdded(PodGroup(name="spec", min_available=2, priority=1)),
        PodAdded(make_pod("s-0", group="spec", priority=1)),
        PodAdded(make_pod("contradicts", group="spec", priority=7)),
        PodAdded(make_pod("refused", group="r", min_available=0)),
        PodAdded(evolve(make_pod("gated"), scheduling_gates=("hold",))),
        PodAdded(evolve(make_pod("done"), node_name=NodeName("n2"), phase="Succeeded")),
        PodAdded(make_pod("large", cpu=9)),
        PodAdded(make_pod("as-large", cpu=9)),
        PodAdded(make_pod("resting", requests={"memory": "1Gi"})),
    ]
    for event in arrivals:
        tell(cluster, scheduler, event, now=1.0)
    reported = False
    while (effects := scheduler.schedule_one(now=2.0)) is not None:
        for effect in effects:
            if isinstance(effect, Bind) and not reported:
                reported = True
                bound = Bound(effect.uid, effect.node, effect.attempt)
                tell(cluster, scheduler, bound, now=2.0)
    bigger = Node(name=NodeName("n3"), allocatable={"memory": "2Gi"})
    tell(cluster, scheduler, NodeAdded(bigger), now=2.5)
    for number in range(3):
        pod = make_pod(f"w-{number}", group="w", min_available=3, cpu=3)
        tell(cluster, scheduler, PodAdded(pod), now=2.5)
    for _turn in range(3):
        scheduler.schedule_one(now=2.5)
    for number in range(2):
        pod = make_pod(f"active-{number}", cpu="10m", created_at=NOW)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    scheduler._check()
    return cluster, scheduler
