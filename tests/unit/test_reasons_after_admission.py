"""The reason of a failed attempt, after the entity was not admitted for a while."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    Evict,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    PodUpdated,
    Preemption,
    Scheduler,
    gang,
    presets,
)
from gangsched.explain import BackingOff, NotAdmitted

LOW = GroupKey("default/low")


class Host:
    """A scheduler and a cluster of one node; evicted pods are deleted at once."""

    def __init__(self) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster, preemption=Preemption())
        self.gone: list[Pod] = []
        self.tell(NodeAdded(Node(name="a", allocatable={"cpu": 2})), 0.0)

    def tell(self, event: Event, now: float) -> None:
        self.perform(self.scheduler.handle(self.cluster.apply(event), now=now), now)
        self.scheduler._check()

    def perform(self, effects: tuple[Effect, ...], now: float) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.tell(Bound(effect.uid, effect.node, effect.attempt), now)
            elif isinstance(effect, Evict):
                pod = self.cluster.pod(effect.uid)
                assert pod is not None
                self.gone.append(pod)
                self.tell(PodDeleted(effect.uid), now)

    def decide(self, now: float) -> None:
        self.perform(self.scheduler.advance(now=now), now)
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            self.perform(effects, now)

    def preempt(self) -> None:
        """Start a gang at 0.0 and preempt it at 0.1."""
        for event in gang("low", workers=2, cpu=1).events():
            self.tell(event, 0.0)
        self.decide(0.0)
        self.tell(PodAdded(Pod(name="high", priority=9, requests={"cpu": 2})), 0.1)
        self.decide(0.1)
        assert len(self.gone) == 2

    def recreate(self, now: float) -> None:
        for pod in self.gone:
            self.tell(PodAdded(evolve(pod, uid=PodUID(f"{pod.uid}#1"), node_name=None)), now)


def test_preempted_gang_names_its_preemptor_once_its_pods_exist_again() -> None:
    host = Host()
    host.preempt()
    host.recreate(0.2)
    why = host.scheduler.why(LOW)
    assert why == BackingOff(1.1, 1, "preempted by pod default/high")
    assert isinstance(why, BackingOff)
    assert why.tried_at == 0.1
    assert str(why).endswith("after 1 attempt: as of 0.1: preempted by pod default/high")


def test_preempted_gang_names_its_preemptor_after_a_restart() -> None:
    host = Host()
    host.preempt()
    data = json.loads(json.dumps(host.scheduler.snapshot()))
    host.scheduler = presets.gang(host.cluster, preemption=Preemption())
    host.scheduler.restore(data)
    host.recreate(0.2)
    assert host.scheduler.why(LOW) == BackingOff(1.1, 1, "preempted by pod default/high")


def test_gang_without_pods_forgets_its_preemptor_after_the_grace_period() -> None:
    host = Host()
    host.preempt()
    host.decide(100.0)
    host.recreate(100.0)
    assert host.scheduler.why(LOW) != BackingOff(1.1, 1, "preempted by pod default/high")
    assert "preempted" not in str(host.scheduler.why(LOW))


@pytest.mark.parametrize("restored", [False, True])
def test_pod_that_was_gated_in_backoff_has_the_reason_of_its_attempt(restored: bool) -> None:
    host = Host()
    pod = Pod(name="big", requests={"cpu": 9})
    host.tell(PodAdded(pod), 0.0)
    host.decide(0.0)
    assert "Insufficient cpu" in str(host.scheduler.why(pod))
    host.tell(PodUpdated(evolve(pod, scheduling_gates=("g",))), 0.1)
    assert isinstance(host.scheduler.why(pod), NotAdmitted)
    if restored:
        host.scheduler = _restored(host.scheduler, host.cluster)
        assert "g" in str(host.scheduler.why(pod))
    host.tell(PodUpdated(pod), 0.2)
    assert "Insufficient cpu" in str(host.scheduler.why(pod))


def _restored(scheduler: Scheduler, cluster: InMemoryCluster) -> Scheduler:
    data = json.loads(json.dumps(scheduler.snapshot()))
    fresh = presets.gang(cluster, preemption=Preemption())
    fresh.restore(data)
    return fresh
