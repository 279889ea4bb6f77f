"""What a plugin decides about whole groups when a pod found no node: its own, others, none."""

from __future__ import annotations

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
    PodAdded,
    PodDeleted,
    PodRejected,
    PodUID,
    PodUnschedulable,
    Profile,
    RejectGroup,
    Scheduler,
    Unschedulable,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.fingerprint import fingerprint
from support.odd import Odd

G = GroupKey("default/g")
URGENT = make_pod("urgent", cpu=4, priority=9)
FULL = PodUnschedulable(URGENT.uid, "0/1 nodes are available: 1 Insufficient cpu.")


class Host:
    """One node of four, and a plugin that is asked first what follows from a failed cycle."""

    def __init__(self) -> None:
        self.cluster, self.odd, self.now = InMemoryCluster(), Odd("post_filter"), 0.0
        profile = Profile(self.odd, Coscheduling(), NodeResources(), DefaultBinder())
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
        """Let time pass until somebody has rested."""
        due = self.scheduler.next_deadline()
        assert due is not None
        self.now = due

    def gone(self) -> list[str]:
        """Decide until there is nothing to decide; return who goes."""
        return [effect.uid for effect in self.decide() if isinstance(effect, Bind)]

    def fail(self, verdict: Any) -> list[Effect]:
        """Let a pod come that fits nowhere, and the plugin say what follows."""
        self.odd.answers["post_filter"] = verdict
        self.tell(PodAdded(URGENT))
        effects = self.decide()
        self.odd.answers.clear()
        return effects


def running(*bound: str) -> Host:
    """Return a gang of two that was let go, of which some are bound and the others being so."""
    host = Host()
    for name in "ab":
        host.tell(PodAdded(make_pod(name, group="g", min_available=2, cpu=2)))
    host.decide(bound=bound)
    return host


# Nobody's group -------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup, EvictGroup])
def test_a_verdict_on_a_group_that_nobody_knows_is_a_no_and_nothing_else(verdict: Any) -> None:
    one, other = running("a", "b"), running("a", "b")
    unknown = verdict(GroupKey("default/unknown"), "make room")
    assert one.fail(unknown) == other.fail(Unschedulable("no")) == [FULL]
    assert fingerprint(one.cluster, one.scheduler) == fingerprint(other.cluster, other.scheduler)


# Another's group ------------------------------------------------------------------------------


def evictions(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(effect.uid, effect.reason) for effect in effects if isinstance(effect, Evict)]


@pytest.mark.parametrize("bound", [(), ("a",), ("a", "b")], ids=repr)
def test_a_plugin_may_end_another_group_and_its_nodes_are_for_who_is_urgent(
    bound: tuple[str, ...],
) -> None:
    host = running(*bound)
    effects = host.fail(EvictGroup(G, "make room"))
    assert evictions(effects) == [("default/a", "make room"), ("default/b", "make room")]
    assert effects[0] == FULL
    assert len(host.scheduler.queue) == 1, "whom room is made for waits for it"
    for name in "ab":
        assert host.decide() == [], "nobody is ended twice, nor is the node free"
        host.tell(PodDeleted(PodUID(f"default/{name}")))
    host.rest()
    assert host.gone() == [URGENT.uid]


@pytest.mark.parametrize("verdict", [RejectGroup, HoldGroup])
def test_a_group_that_runs_gives_nothing_back_because_its_attempt_is_turned_down(
    verdict: Any,
) -> None:
    host = running("a", "b")
    effects = host.fail(verdict(G, "make room"))
    rejected = [effect for effect in effects if isinstance(effect, GroupRejected)]
    assert [(each.group, each.reason) for each in rejected] == [(G, "make room")]
    assert not evictions(effects)
    assert not [effect for effect in effects if isinstance(effect, PodRejected)]
    assert len(host.scheduler.queue) == 1, "nobody of it is pending"
    (info,) = host.scheduler.registry
    assert (info.assigned, info.was_scheduled) == (2, True)


# Its own group --------------------------------------------------------------------------------


def test_a_member_that_cannot_be_placed_may_take_along_the_group_that_runs() -> None:
    host = running("a", "b")
    host.odd.answers["post_filter"] = EvictGroup(G, "all or nothing")
    host.tell(PodAdded(make_pod("late", group="g", min_available=2, cpu=2)))
    effects = host.decide()
    assert isinstance(effects[0], PodUnschedulable)
    assert evictions(effects) == [("default/a", "all or nothing"), ("default/b", "all or nothing")]
    assert effects[-1] == GroupIncomplete(G, 1, 2), "who is left is too few to be tried"
    host.odd.answers.clear()
    for name in "ab":
        host.tell(PodDeleted(PodUID(f"default/{name}")))
    assert host.decide() == []
    host.tell(PodAdded(make_pod("later", group="g", min_available=2, cpu=2)))
    assert host.decide() == [], "it has failed, and rests"
    host.rest()
    assert host.gone() == ["default/late", "default/later"]
