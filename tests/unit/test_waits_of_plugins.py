"""Pods that a plugin lets wait, and of which no policy says what becomes of their group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from gangsched import (
    Bind,
    Effect,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodRejected,
    PodUID,
    PodWaiting,
    Profile,
    Scheduler,
    Success,
    Wait,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_pod

N = NodeName("n")
NODE = Node(name=N, allocatable={"cpu": 4})


class Waiter:
    """Lets every pod wait until it is patient no more."""

    name = "Waiter"

    def __init__(self) -> None:
        self.waits = True

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Wait(5.0) if self.waits else Success()


class Host:
    """One node, a waiter, and a policy or none."""

    def __init__(self, policy: object = None) -> None:
        self.cluster, self.waiter = InMemoryCluster(), Waiter()
        profile = Profile(policy or PrioritySort(), self.waiter, NodeResources(), DefaultBinder())
        self.scheduler = Scheduler(self.cluster, profile)
        self.tell(NodeAdded(NODE))

    def tell(self, event: Any, now: float = 0.0) -> tuple[Effect, ...]:
        effects = self.scheduler.handle(self.cluster.apply(event), now=now)
        self.scheduler._check()
        return effects

    def decide(self, now: float = 0.0) -> list[Effect]:
        """Decide until there is nothing to decide."""
        told: list[Effect] = []
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            told += effects
            self.scheduler._check()
        return told


def of(kind: type[Any], effects: Iterable[Effect]) -> list[PodUID]:
    return [effect.uid for effect in effects if isinstance(effect, kind)]


POLICIES = pytest.mark.parametrize("policy", [None, Coscheduling()], ids=["none", "gangs"])


@POLICIES
def test_pod_whose_wait_expires_backs_off_and_is_tried_again(
    policy: object,
) -> None:
    host = Host(policy)
    host.tell(PodAdded(make_pod("p", cpu=4)))
    assert of(PodWaiting, host.decide()) == ["default/p"]
    assert host.scheduler.next_deadline() == 5.0
    (rejected,) = host.scheduler.advance(now=5.0)
    reason = "timed out after waiting 5s on permit"
    assert rejected == PodRejected(PodUID("default/p"), N, reason)
    host.scheduler._check()
    assert host.decide(now=5.0) == [], "it rests"
    host.waiter.waits = False
    due = host.scheduler.next_deadline()
    assert due is not None
    assert of(Bind, host.decide(now=due)) == ["default/p"]


@POLICIES
def test_node_of_an_expired_wait_is_free_for_another_pod(policy: object) -> None:
    """Law 4."""
    host = Host(policy)
    host.tell(PodAdded(make_pod("p", cpu=4, priority=9)))
    host.tell(PodAdded(make_pod("q", cpu=3)))
    assert of(PodWaiting, host.decide()) == ["default/p"]
    host.waiter.waits = False
    host.scheduler.advance(now=5.0)
    assert of(Bind, host.decide(now=5.0)) == ["default/q"]


@POLICIES
def test_waiting_pod_is_tried_again_when_its_node_is_deleted(policy: object) -> None:
    host = Host(policy)
    host.tell(PodAdded(make_pod("p", cpu=4)))
    host.decide()
    effects = host.tell(NodeDeleted(N), now=1.0)
    assert effects == (PodRejected(PodUID("default/p"), N, "node n is gone"),)
    host.waiter.waits = False
    host.tell(NodeAdded(NODE), now=2.0)
    due = host.scheduler.next_deadline()
    assert of(Bind, host.decide(now=2.0 if due is None else due)) == ["default/p"]


def test_complete_gang_waits_while_a_permit_plugin_returns_wait() -> None:
    host = Host(Coscheduling(permit_timeout=50.0))
    for name in "ab":
        host.tell(PodAdded(make_pod(name, group="g", min_available=2, cpu=1)))
    assert of(PodWaiting, host.decide()) == ["default/a", "default/b"]
    group = PodGroup(name="g", min_available=2, schedule_timeout=9.0)
    assert host.tell(PodGroupAdded(group), now=1.0) == ()
    assert len(host.scheduler.queue) == 0
    assert len(host.scheduler.waiting) == 2
    host.waiter.waits = False
    effects = host.tell(PodGroupUpdated(PodGroup(name="g", min_available=1)), now=2.0)
    assert of(Bind, effects) == ["default/a", "default/b"]


def test_gang_without_a_policy_is_tried_again_after_its_waits_expire() -> None:
    host = Host()
    for name in "ab":
        host.tell(PodAdded(make_pod(name, group="g", min_available=2, cpu=1)))
    assert of(PodWaiting, host.decide()) == ["default/a", "default/b"]
    effects = host.scheduler.advance(now=5.0)
    assert of(PodRejected, effects) == ["default/a", "default/b"]
    (fallen,) = [effect for effect in effects if isinstance(effect, GroupRejected)]
    assert (fallen.group, fallen.attempt) == ("default/g", 1)
    host.scheduler._check()
    (info,) = host.scheduler.registry
    assert info.attempt_started_at is None
    assert (info.failures, info.backoff_until) == (1, 6.0)
    host.waiter.waits = False
    due = host.scheduler.next_deadline()
    assert due is not None
    assert of(Bind, host.decide(now=due)) == ["default/a", "default/b"]


def test_gang_with_elastic_members_is_rejected_once_when_waits_expire() -> None:
    host = Host(Coscheduling(permit_timeout=50.0))
    for name in "abc":
        host.tell(PodAdded(make_pod(name, group="g", min_available=2, cpu=1)))
    assert len(of(PodWaiting, host.decide())) == 3
    effects = host.scheduler.advance(now=5.0)
    assert len(of(PodRejected, effects)) == 3
    assert sum(isinstance(effect, GroupRejected) for effect in effects) == 1
    host.scheduler._check()
    (info,) = host.scheduler.registry
    assert (info.failures, info.backoff_until) == (1, 6.0)
