"""Histories that broke a law once, in the words of the library alone."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Backoff,
    Bind,
    BindFailed,
    Bound,
    Event,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Scheduler,
)
from gangsched.testing import make_pod
from support.shown import binds as would_bind
from support.units import coscheduling


def node(name: str, gpu: int) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"nvidia.com/gpu": gpu}))


def tell(cluster: InMemoryCluster, scheduler: Scheduler, now: float, *events: Event) -> None:
    """Apply events to the cluster, and report them."""
    for event in events:
        scheduler.handle(cluster.apply(event), now=now)


def decide(cluster: InMemoryCluster, scheduler: Scheduler, now: float) -> list[Bind]:
    """Decide, perform every bind, and return them."""
    binds: list[Bind] = []
    while (effects := scheduler.schedule_one(now=now)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                binds.append(effect)
                done = Bound(effect.uid, effect.node, effect.attempt)
                scheduler.handle(cluster.apply(done), now=now)
    return binds


def gang(*names: str) -> list[Pod]:
    return [make_pod(name, group="g", min_available=2, gpu=1) for name in names]


def test_gang_of_which_every_bind_failed_is_a_gang_again() -> None:
    """Law 1: a rival takes half of the capacity meanwhile, so no member may start."""
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster)
    tell(
        cluster,
        scheduler,
        0.0,
        node("n0", 1),
        node("n1", 1),
        *(PodAdded(pod) for pod in gang("a", "b")),
    )
    binds = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        binds += [effect for effect in effects if isinstance(effect, Bind)]
    assert len(binds) == 2
    for bind in binds:
        scheduler.handle(BindFailed(bind.uid, bind.attempt, "no route"), now=0.0)
    rival = make_pod("rival", gpu=1, priority=9)
    scheduler.handle(cluster.apply(PodAdded(rival)), now=0.0)
    assert [bind.uid for bind in decide(cluster, scheduler, 100.0)] == [rival.uid]
    scheduler.handle(cluster.apply(PodDeleted(rival.uid)), now=200.0)
    assert len(decide(cluster, scheduler, 300.0)) == 2


def test_members_that_replace_all_of_a_gang_are_a_gang_again() -> None:
    """Law 1: a rolling restart, in the middle of which a rival takes half of the capacity."""
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster)
    old, new = gang("u0", "u1"), gang("v0", "v1")
    tell(cluster, scheduler, 0.0, node("n0", 1), node("n1", 1), *(PodAdded(pod) for pod in old))
    assert len(decide(cluster, scheduler, 0.0)) == 2
    scheduler.handle(cluster.apply(PodAdded(new[0])), now=1.0)
    for pod in old:
        scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=1.0)
    rival = make_pod("rival", gpu=1, priority=9)
    scheduler.handle(cluster.apply(PodAdded(rival)), now=1.0)
    scheduler.handle(cluster.apply(PodAdded(new[1])), now=1.0)
    assert [bind.uid for bind in decide(cluster, scheduler, 100.0)] == [rival.uid]


def test_gang_that_fits_starts_in_one_instant_with_a_permit_timeout_of_zero() -> None:
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster)
    group = PodGroup(name="g", min_available=2, schedule_timeout=0)
    pods = [evolve(make_pod(name, gpu=1), pod_group="g") for name in ("a", "b")]
    tell(
        cluster,
        scheduler,
        5.0,
        node("n", 2),
        PodGroupAdded(group),
        *(PodAdded(pod) for pod in pods),
    )
    assert len(decide(cluster, scheduler, 5.0)) == 2


@pytest.mark.pod_by_pod("the permit timeout")
def test_gang_that_does_not_fit_holds_nothing_and_is_tried_a_bounded_number_of_times() -> None:
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster, permit_timeout=0.0)
    tell(cluster, scheduler, 5.0, node("n", 1), *(PodAdded(pod) for pod in gang("a", "b")))
    assert decide(cluster, scheduler, 5.0) == []
    assert scheduler.next_deadline() == 5.0
    scheduler.advance(now=5.0)
    assert len(scheduler.waiting) == 0
    for _turn in range(3):
        due = scheduler.next_deadline()
        if due is not None:
            scheduler.advance(now=due)
            assert decide(cluster, scheduler, due) == []
    assert scheduler.next_deadline() is None


@pytest.mark.once("makes no scheduler")
def test_backoff_of_zero_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="initial"):
        Backoff(0, 0)


def test_claim_of_a_departed_member_does_not_bind_the_others() -> None:
    """Law 10: a scheduler that starts now would start this gang, so this one does."""
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster)
    typo = make_pod("typo", group="g", min_available=5, gpu=1)
    silent = evolve(make_pod("m0", gpu=1), labels={"scheduling.x-k8s.io/pod-group": "g"})
    right = make_pod("m1", group="g", min_available=2, gpu=1)
    tell(cluster, scheduler, 0.0, node("n", 4), PodAdded(typo), PodAdded(silent), PodAdded(right))
    assert decide(cluster, scheduler, 0.0) == []
    scheduler.handle(cluster.apply(PodDeleted(typo.uid)), now=1.0)
    assert {bind.uid for bind in decide(cluster, scheduler, 1.0)} == {silent.uid, right.uid}


def test_pod_shown_as_bound_before_its_event_counts_once() -> None:
    """Law 8, F15: two binds are done, and something else makes the scheduler look at the node."""
    cluster = InMemoryCluster()
    scheduler = coscheduling(cluster)
    tell(cluster, scheduler, 0.0, node("n", 3), *(PodAdded(pod) for pod in gang("a", "b")))
    binds: list[Bind] = []
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        binds += [effect for effect in effects if isinstance(effect, Bind)]
    reports = [cluster.apply(Bound(bind.uid, bind.node, bind.attempt)) for bind in binds]
    facts: list[Event] = [node("n", 3), *reversed(reports)]
    for fact in facts:
        scheduler.handle(fact, now=0.0)
        scheduler._check()
        assert would_bind(scheduler, make_pod("one", gpu=1))
        assert not would_bind(scheduler, make_pod("two", gpu=2))
    third = make_pod("third", gpu=1)
    tell(cluster, scheduler, 0.0, PodAdded(third))
    assert [bind.uid for bind in decide(cluster, scheduler, 0.0)] == [third.uid]
