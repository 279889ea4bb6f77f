"""Verdicts of plugins after a failed cycle, and pods that they let wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    Effect,
    Evict,
    EvictGroup,
    GroupIncomplete,
    GroupKey,
    GroupRejected,
    HoldGroup,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodRejected,
    PodUID,
    PodUnschedulable,
    PodWaiting,
    Profile,
    RejectGroup,
    Scheduler,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_pod
from support.faulty_plugin import FaultyPlugin
from support.shown import known

# Verdicts of a plugin after a failed cycle: on the pod's own group, another, an unknown one

G = GroupKey("default/g")
URGENT = make_pod("urgent", cpu=4, priority=9)
FULL = PodUnschedulable(URGENT.uid, "0/1 nodes are available: 1 Insufficient cpu.")


class Host:
    """One node of four, and a plugin that is asked first what follows from a failed cycle."""

    def __init__(self, *points: str) -> None:
        self.cluster, self.now = InMemoryCluster(), 0.0
        self.faulty = FaultyPlugin("post_filter", *points)
        profile = Profile(self.faulty, Coscheduling(), NodeResources(), DefaultBinder())
        self.scheduler = Scheduler(self.cluster, profile)
        self.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})))

    def tell(self, event: Any) -> tuple[Effect, ...]:
        effects = self.scheduler.handle(self.cluster.apply(event), now=self.now)
        self.scheduler._check()
        return effects

    def decide(self, *, bound: tuple[str, ...] = ()) -> list[Effect]:
        """Decide until there is nothing to decide; report the binds of those that are named."""
        told: list[Effect] = []
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            told += effects
            self.scheduler._check()
        for bind in [effect for effect in told if isinstance(effect, Bind)]:
            if bind.uid in {f"default/{name}" for name in bound}:
                told += self.tell(Bound(bind.uid, bind.node, bind.attempt))
        return told

    def rest(self) -> None:
        """Let time pass until a backoff ends."""
        due = self.scheduler.next_deadline()
        assert due is not None
        self.now = due

    def gone(self) -> list[str]:
        """Run cycles until none is left; return the pods that are bound."""
        return [effect.uid for effect in self.decide() if isinstance(effect, Bind)]

    def fail(self, verdict: Any) -> list[Effect]:
        """Let a pod come that fits nowhere, and the plugin say what follows."""
        self.faulty.answers["post_filter"] = verdict
        self.tell(PodAdded(URGENT))
        effects = self.decide()
        self.faulty.answers.clear()
        return effects


def running(*bound: str, points: Sequence[str] = ()) -> Host:
    """Return a released gang of two, of which some are bound and the others are being bound."""
    host = Host(*points)
    for name in "ab":
        host.tell(PodAdded(make_pod(name, group="g", min_available=2, cpu=2)))
    host.decide(bound=bound)
    return host


# No known group -------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup, EvictGroup])
def test_verdict_on_an_unknown_group_counts_as_unschedulable(verdict: Any) -> None:
    one, other = running("a", "b"), running("a", "b")
    unknown = verdict(GroupKey("default/unknown"), "make room")
    assert one.fail(unknown) == other.fail(Unschedulable("no")) == [FULL]
    assert known(one.cluster, one.scheduler) == known(other.cluster, other.scheduler)


# Another's group ------------------------------------------------------------------------------


def evictions(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(effect.uid, effect.reason) for effect in effects if isinstance(effect, Evict)]


@pytest.mark.parametrize("bound", [(), ("a",), ("a", "b")], ids=repr)
def test_plugin_rejects_another_group_and_its_nodes_become_free(
    bound: tuple[str, ...],
) -> None:
    host = running(*bound)
    effects = host.fail(EvictGroup(G, "make room"))
    assert evictions(effects) == [(f"default/{name}", "make room") for name in bound]
    assert effects[0] == FULL
    for name in [name for name in "ab" if name not in bound]:
        done = Bound(PodUID(f"default/{name}"), NodeName("n"), 1)
        assert evictions([*host.tell(done)]) == [(f"default/{name}", "make room")]
    assert len(host.scheduler.queue) == 1, "the urgent pod waits for the node"
    for name in "ab":
        assert host.decide() == [], "no pod is evicted twice, and the node is not free"
        host.tell(PodDeleted(PodUID(f"default/{name}")))
    assert host.gone() == [URGENT.uid], "it goes where these were, at once"


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup])
def test_running_group_releases_nothing_when_an_attempt_is_rejected(
    verdict: Any,
) -> None:
    host = running("a", "b")
    effects = host.fail(verdict(G, "make room"))
    rejected = [effect for effect in effects if isinstance(effect, GroupRejected)]
    assert [(each.group, each.reason) for each in rejected] == [(G, "make room")]
    assert not evictions(effects)
    assert not [effect for effect in effects if isinstance(effect, PodRejected)]
    assert len(host.scheduler.queue) == 1, "the group has no pending member"
    (info,) = host.scheduler.registry
    assert (info.assigned, info.was_scheduled) == (2, True)


# Its own group --------------------------------------------------------------------------------


def test_verdict_on_a_failed_member_may_evict_the_running_group() -> None:
    host = running("a", "b")
    host.faulty.answers["post_filter"] = EvictGroup(G, "all or nothing")
    host.tell(PodAdded(make_pod("late", group="g", min_available=2, cpu=2)))
    effects = host.decide()
    assert isinstance(effects[0], PodUnschedulable)
    assert evictions(effects) == [("default/a", "all or nothing"), ("default/b", "all or nothing")]
    assert GroupIncomplete(G, 1, 2) in effects, "too few members are left"
    host.faulty.answers.clear()
    for name in "ab":
        host.tell(PodDeleted(PodUID(f"default/{name}")))
    assert host.decide() == []
    host.tell(PodAdded(make_pod("later", group="g", min_available=2, cpu=2)))
    assert host.decide() == [], "it has failed, and rests"
    host.rest()
    assert host.gone() == ["default/late", "default/later"]


# Pods that a plugin lets wait, and of which no policy says what becomes of their group

N = NodeName("n")
NODE = Node(name=N, allocatable={"cpu": 4})


class Waiter:
    """Lets every pod wait until it is patient no more."""

    name = "Waiter"

    def __init__(self) -> None:
        self.waits = True

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Wait(5.0) if self.waits else Success()


class WaitingHost:
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
    host = WaitingHost(policy)
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


def test_complete_gang_waits_while_a_permit_plugin_returns_wait() -> None:
    host = WaitingHost(Coscheduling(permit_timeout=50.0))
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
    host = WaitingHost()
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
