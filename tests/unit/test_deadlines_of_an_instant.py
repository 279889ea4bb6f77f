"""Deadlines are applied with the first call at an instant, and with each ``advance``."""

from __future__ import annotations

from gangsched import (
    Effect,
    GroupRejected,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodRejected,
    Scheduler,
    WhenBlocked,
    presets,
)
from gangsched.testing import make_node, make_pod


def waiting(permit_timeout: float) -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler whose first of two members waits on permit since t=0."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(
        cluster, permit_timeout=permit_timeout, when_blocked=WhenBlocked.UNTIL_TIMEOUT
    )
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=1))), now=0.0)
    for name in ("g0", "g1"):
        pod = make_pod(name, group="g", min_available=2, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert len(scheduler.waiting) == 1
    return cluster, scheduler


def is_rejected(effects: tuple[Effect, ...] | None) -> bool:
    return {PodRejected, GroupRejected} <= {type(each) for each in effects or ()}


def test_wait_ends_with_the_first_call_after_its_deadline_whichever_it_is() -> None:
    _cluster, scheduler = waiting(5.0)
    assert not is_rejected(scheduler.schedule_one(now=4.0))
    assert is_rejected(scheduler.schedule_one(now=5.0))


def test_wait_without_a_timeout_survives_other_calls_of_its_instant_and_ends_with_advance() -> None:
    _cluster, scheduler = waiting(0.0)
    assert not is_rejected(scheduler.schedule_one(now=0.0))
    assert is_rejected(scheduler.advance(now=0.0))


def test_restored_wait_ends_at_an_instant_that_the_scheduler_had_reached_before() -> None:
    cluster, scheduler = waiting(5.0)
    taken = scheduler.snapshot()
    assert is_rejected(scheduler.schedule_one(now=5.0))
    other = presets.coscheduling(
        cluster, permit_timeout=5.0, when_blocked=WhenBlocked.UNTIL_TIMEOUT
    )
    other.advance(now=5.0)
    other.restore(taken)
    assert is_rejected(other.schedule_one(now=5.0))
