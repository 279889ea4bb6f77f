"""Whether a plan stays valid is asked at the instant of the decision, not of the reservation."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    LabelSelector,
    Node,
    NodeAdded,
    Outcome,
    Pod,
    PodAdded,
    PodAffinityTerm,
    Scheduler,
    Success,
    presets,
)
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
from support.backfill_host import BIG, Host, running
from support.constrained_worlds import HOST, ZONE

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")

APART = PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector({"app": "web"}))


class Clock:
    """Notes at which instants it was asked about which pod before nodes are looked at."""

    name = "Clock"

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    def pod_signature(self, pod: Pod) -> None:
        return None

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        self.asked.append((pod.name, now))
        return Success()


class Clocked(Host):
    """A host of a scheduler with this plugin."""

    def make(self) -> Scheduler:
        self.clock = Clock()
        return presets.gang(self.cluster, backfill=self.policy, plugins=(self.clock,))


def test_members_of_the_plan_are_checked_at_the_instant_of_the_decision() -> None:
    host = Clocked()
    for number in range(2):
        labels = {HOST: f"n{number}", ZONE: f"z{number}"}
        node = Node(name=f"n{number}", allocatable={"cpu": 2, "pods": 9}, labels=labels)
        host.tell(NodeAdded(node))
        full = Pod(name=f"full-{number}", requests={"cpu": 2}, node_selector={HOST: node.name})
        host.tell(PodAdded(running(full, "100")))
        host.tell(PodAdded(running(Pod(name=f"more-{number}"), "100")))
    host.decide()
    for number in range(2):
        pod = make_pod(f"big-{number}", cpu=1, group="big", min_available=2)
        pod = evolve(pod, labels={**pod.labels, "app": "web"}, pod_anti_affinity=(APART,))
        host.tell(PodAdded(running(pod, "10")))
    host.decide()
    assert host.reservation.group == BIG
    host.at(7.0)
    host.clock.asked.clear()
    long = Pod(name="long", labels={"app": "web"})
    host.tell(PodAdded(running(long, "500")))
    assert host.decide() == []
    asked = host.clock.asked
    assert {name for name, _now in asked} > {"long"}
    assert {now for _name, now in asked} == {7.0}
