"""Gangs that fall below their minimum while they run, and are restarted as a whole."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    Effect,
    Event,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupKey,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    PodUID,
    PodUpdated,
    Preemption,
    Profile,
    RestartLimitReached,
    RestartPolicy,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.explain import NotAdmitted
from gangsched.testing import make_node, make_pod

T = TypeVar("T")
G = GroupKey("default/g")
POLICY = RestartPolicy(max_restarts=2, backoff=10.0, longest_backoff=15.0)
both = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


class Host:
    """A scheduler and its cluster; the controller of the pods is the test."""

    def __init__(
        self,
        make: Any = presets.gang,
        *,
        size: int = 3,
        policy: RestartPolicy | None = POLICY,
        can_evict: bool = True,
        **spec: Any,
    ) -> None:
        self.cluster, self.now, self.effects = InMemoryCluster(), 0.0, list[Effect]()
        self.make = make
        self.scheduler: Scheduler = self.new(can_evict)
        self.tell(NodeAdded(make_node("n", cpu=9)))
        given: dict[str, Any] = {"min_available": 3, "restart": policy, **spec}
        self.group = PodGroup(name="g", **given)
        self.tell(PodGroupAdded(self.group))
        for number in range(size):
            self.add(f"a{number}")

    def new(self, can_evict: bool = True) -> Scheduler:
        made: Scheduler = self.make(self.cluster)
        if can_evict:
            made.allow_evictions()
        return made

    def add(self, name: str, **how: Any) -> None:
        self.tell(PodAdded(make_pod(name, group="g", cpu=1, **how)))

    def tell(self, event: Event) -> list[Effect]:
        return self.took(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def took(self, effects: tuple[Effect, ...]) -> list[Effect]:
        self.scheduler._check()
        self.effects += effects
        return list(effects)

    def run(self) -> int:
        """Decide and bind at this instant; return how many pods were bound."""
        count = 0
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self.took(effects)
            for bind in [each for each in effects if isinstance(each, Bind)]:
                self.tell(Bound(bind.uid, bind.node, bind.attempt))
                count += 1
        return count

    def wait(self, until: float) -> None:
        self.now = until
        self.took(self.scheduler.advance(now=until))

    def settle(self) -> None:
        """Let pass the second after which a lost member counts as lost."""
        self.wait(self.now + 1.0)

    def end(self, name: str, phase: PodPhase = PodPhase.FAILED) -> list[Effect]:
        pod = self.cluster.pod(PodUID(f"default/{name}"))
        assert pod is not None
        return self.tell(PodUpdated(evolve(pod, phase=phase)))

    def delete(self, name: str) -> list[Effect]:
        return self.tell(PodDeleted(PodUID(f"default/{name}")))

    def told(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def evicted(self) -> list[str]:
        return [each.uid.partition("/")[2] for each in self.told(Evict)]

    def on_nodes(self) -> set[str]:
        return {pod.name for pod in self.cluster.pods() if pod.node_name is not None}


@both
def test_lost_member_restarts_the_gang(make: Any) -> None:
    host = Host(make)
    assert host.run() == 3
    host.now = 99.0
    assert host.delete("a1") == []
    host.effects.clear()
    host.settle()
    effects = host.effects
    assert [type(each) for each in effects] == [
        *(GroupBelowMinimum, GroupRestarted, Evict, Evict, GroupRejected)
    ]
    assert effects[0] == GroupBelowMinimum(G, 2, 3)
    assert effects[1] == GroupRestarted(G, 1, 2, 110.0)
    assert host.evicted() == ["a0", "a2"]


@both
def test_restarted_gang_waits_for_its_old_pods_and_its_backoff(make: Any) -> None:
    host = Host(make)
    host.run()
    host.end("a1")
    host.settle()
    for number in range(3):
        host.add(f"b{number}")
    host.wait(11.0)
    assert host.run() == 0, "old pods are on nodes"
    assert isinstance(host.scheduler.why(G), NotAdmitted)
    assert "being restarted" in str(host.scheduler.why(G))
    host.delete("a0")
    assert host.run() == 0
    host.delete("a2")
    assert host.run() == 3
    assert host.on_nodes() >= {"b0", "b1", "b2"}
    assert host.told(GroupBound)[-1].bound == 3


@both
def test_backoff_keeps_a_complete_gang_from_starting(make: Any) -> None:
    host = Host(make)
    host.run()
    host.delete("a0")
    host.settle()
    for name in ("a1", "a2"):
        host.delete(name)
    for number in range(3):
        host.add(f"b{number}")
    assert host.run() == 0
    assert host.scheduler.next_deadline() == 11.0
    host.tell(NodeAdded(make_node("n2", cpu=9)))
    host.wait(10.9)
    assert host.run() == 0, "an event does not end it"
    host.wait(11.0)
    assert host.run() == 3


def test_gang_is_restarted_until_its_limit_and_then_keeps_its_members() -> None:
    host = Host()
    host.run()
    for turn in range(3):
        host.now += 99.0
        host.delete(f"{'abc'[turn]}0")
        host.settle()
        for uid in [each.uid for each in host.effects if isinstance(each, Evict)]:
            if host.cluster.pod(uid) is not None:
                host.tell(PodDeleted(uid))
        if turn == 2:
            break
        for number in range(3):
            host.add(f"{'bc'[turn]}{number}")
        host.wait(host.now + 50.0)
        assert host.run() == 3
    assert [each.until for each in host.told(GroupRestarted)] == [110.0, 265.0]
    assert host.told(RestartLimitReached) == [RestartLimitReached(G, 2)]
    assert host.on_nodes() == {"c1", "c2"}
    host.add("d0")
    assert host.run() == 1, "a late member, as without a policy"


def test_elastic_members_may_be_lost() -> None:
    host = Host(size=4)
    host.run()
    assert host.delete("a0") == []
    assert host.told(GroupBelowMinimum) == []


def test_gang_without_a_policy_is_reported_and_left_alone() -> None:
    host = Host(policy=None)
    host.run()
    assert host.delete("a0") == [GroupBelowMinimum(G, 2, 3)]
    assert host.delete("a1") == [], "once"


def test_gang_of_labels_is_reported_too() -> None:
    host = Host(policy=None)
    host.run()
    for name in ("x", "y"):
        pod = make_pod(name, group="h", min_available=2, cpu=1)
        host.tell(PodAdded(pod))
    host.run()
    assert host.delete("x") == [GroupBelowMinimum(GroupKey("default/h"), 1, 2)]
    assert host.delete("y") == [GroupRemoved(GroupKey("default/h"))]


def test_host_that_does_not_evict_is_told_only() -> None:
    host = Host(can_evict=False)
    host.run()
    assert host.delete("a0") == [GroupBelowMinimum(G, 2, 3)]


def test_members_that_succeed_do_not_make_a_gang_fall() -> None:
    host = Host()
    host.run()
    for name in ("a0", "a1", "a2"):
        host.end(name, PodPhase.SUCCEEDED)
        pod = host.cluster.pod(PodUID(f"default/{name}"))
        assert pod is not None
        host.tell(PodUpdated(evolve(pod, deleted_at=host.now)))
        host.delete(name)
    assert host.told(GroupBelowMinimum) == []
    assert host.told(Evict) == []


def test_succeeded_members_that_are_deleted_at_once_do_not_make_a_gang_fall() -> None:
    host = Host()
    host.run()
    for name in ("a0", "a1"):
        host.end(name, PodPhase.SUCCEEDED)
        host.delete(name)
    assert host.told(GroupBelowMinimum) == []
    host.end("a2")
    host.settle()
    assert host.told(GroupBelowMinimum) == [GroupBelowMinimum(G, 2, 3)]


def test_restart_from_the_status_waits_for_old_pods_though_the_host_does_not_evict() -> None:
    host = Host()
    host.run()
    host.delete("a0")
    begun = evolve(host.group, restarts=1, restarting_until=0.0)
    host.cluster.apply(PodGroupUpdated(begun))
    host.cluster.apply(PodDeleted(PodUID("default/a1")))
    host.scheduler, host.now = host.new(can_evict=False), 30.0
    host.effects.clear()
    host.took(host.scheduler.advance(now=30.0))
    for number in range(3):
        host.add(f"b{number}")
    assert host.told(Evict) == []
    assert host.run() == 0
    host.delete("a2")
    assert host.run() == 3


def test_lost_role_restarts_the_gang_though_enough_members_are_left() -> None:
    host = Host(size=0, min_available=3, roles={"ps": 1})
    host.add("ps", role="ps")
    for number in range(3):
        host.add(f"w{number}", role="worker")
    host.run()
    host.delete("ps")
    host.settle()
    assert host.told(GroupRestarted)
    assert host.evicted() == ["w0", "w1", "w2"]


def test_raised_minimum_restarts_nothing() -> None:
    host = Host()
    host.run()
    assert host.tell(PodGroupUpdated(evolve(host.group, min_available=4))) == []
    assert host.delete("a0") == []


def test_member_that_is_read_again_as_another_does_not_restart_the_gang() -> None:
    host = Host()
    host.run()
    pod = host.cluster.pod(PodUID("default/a0"))
    assert pod is not None
    labels = {**pod.labels, "pod-group.scheduling.sigs.k8s.io/role": "worker"}
    host.tell(PodUpdated(evolve(pod, labels=labels)))
    assert host.told(GroupBelowMinimum) == []


def test_gang_that_is_preempted_is_not_restarted() -> None:
    def make(cluster: InMemoryCluster) -> Scheduler:
        return presets.gang(cluster, preemption=Preemption())

    host = Host(make)
    host.run()
    host.tell(PodAdded(make_pod("high", cpu=8, priority=9)))
    host.run()
    assert host.evicted() == ["a0", "a1", "a2"]
    for number in range(3):
        host.delete(f"a{number}")
    assert host.told(GroupRestarted) == []
    assert host.told(GroupBelowMinimum) == []


def test_member_that_is_being_bound_is_evicted_after_its_bind() -> None:
    host = Host()
    host.run()
    host.add("late")
    effects = host.scheduler.schedule_one(now=host.now) or ()
    (bind,) = [each for each in effects if isinstance(each, Bind)]
    host.end("a0")
    assert host.evicted() == [], "three members hold nodes"
    host.end("a1")
    host.settle()
    assert host.evicted() == ["a2"]
    host.tell(Bound(bind.uid, bind.node, bind.attempt))
    assert host.evicted() == ["a2", "late"]


def test_new_scheduler_goes_on_with_a_restart_from_the_status() -> None:
    host = Host()
    host.run()
    host.end("a0")
    host.settle()
    (restarted,) = host.told(GroupRestarted)
    host.delete("a1")  # a2 was not evicted yet
    status = evolve(host.group, restarts=restarted.restarts, restarting_until=restarted.until)
    host.cluster.apply(PodGroupUpdated(status))
    for number in range(3):
        host.add(f"b{number}")
    host.effects.clear()
    host.scheduler = host.new()
    host.took(host.scheduler.advance(now=20.0))
    assert host.evicted() == ["a2"]
    assert host.told(GroupRestarted) == [], "it is not counted again"
    host.now = 20.0
    assert host.run() == 0
    host.delete("a2")
    host.wait(21.0)  # the backoff of an attempt that was taken back
    assert host.run() == 3
    host.now = 29.0
    host.delete("b0")
    host.settle()
    assert host.told(GroupRestarted) == [GroupRestarted(G, 2, 2, 45.0)]


def test_new_scheduler_leaves_a_gang_alone_that_has_come_back() -> None:
    host = Host()
    host.cluster.apply(PodGroupUpdated(evolve(host.group, restarts=1, restarting_until=10.0)))
    host.run()
    host.effects.clear()
    host.scheduler = host.new()
    host.took(host.scheduler.advance(now=20.0))
    assert host.told(Evict) == []


def test_listing_that_replaces_a_member_at_once_restarts_nothing() -> None:
    host = Host()
    host.run()
    host.cluster.apply(PodDeleted(PodUID("default/a0")))
    fresh = evolve(make_pod("b0", group="g", cpu=1), node_name="n")
    host.cluster.apply(PodAdded(fresh))
    host.took(host.scheduler.rebuild(now=1.0))
    assert host.told(GroupBelowMinimum) == []


@both
def test_restored_scheduler_goes_on_with_a_restart(make: Any) -> None:
    host = Host(make)
    host.run()
    host.end("a0")
    host.settle()
    host.delete("a1")
    for number in range(3):
        host.add(f"b{number}")
    data = json.loads(json.dumps(host.scheduler.snapshot()))
    assert data["restarts"] == [
        {
            "group": "default/g",
            "restarts": 1,
            "until": 11.0,
            "is_held": True,
            "failed_at": 0.0,
            "due_at": 11.0,
        }
    ]
    host.scheduler = host.new()
    host.scheduler.restore(data)
    host.scheduler._check()
    assert host.scheduler.next_deadline() == 11.0
    host.delete("a2")
    assert host.run() == 0
    host.wait(11.0)
    assert host.run() == 3


def test_what_if_sees_the_restart_and_changes_nothing() -> None:
    host = Host()
    host.run()
    before = host.scheduler.snapshot()
    seen = host.scheduler.what_if(PodDeleted(PodUID("default/a0")), until=1.0)
    kinds = [type(effect) for effect in seen.effects]
    assert kinds.count(Evict) == 2
    assert GroupRestarted in kinds
    assert host.scheduler.snapshot() == before


def test_group_whose_owner_is_gone_is_removed() -> None:
    host = Host()
    host.run()
    host.tell(PodGroupDeleted(G))
    assert host.told(GroupRemoved) == []
    for number in range(3):
        host.delete(f"a{number}")
    assert host.told(GroupRemoved) == [GroupRemoved(G)]
    assert host.told(GroupRestarted) == []
    assert len(host.scheduler._state.pods.restarts) == 0


def test_waiting_members_give_their_nodes_back_when_the_group_is_removed() -> None:
    def make(cluster: InMemoryCluster) -> Scheduler:
        profile = Profile(*presets.coscheduling_profile(Coscheduling()).plugins)
        return Scheduler(cluster, profile, unit=SchedulingUnit.POD)

    host = Host(make, size=3)
    for _member in range(2):
        host.took(host.scheduler.schedule_one(now=0.0) or ())
    assert len(host.scheduler.waiting) == 2
    host.tell(PodGroupDeleted(G))
    assert len(host.scheduler.waiting) == 0
