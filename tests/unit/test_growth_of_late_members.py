"""What a node costs that takes one of many late members: counted, not timed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodUnschedulable,
    Scheduler,
    presets,
)
from gangsched.model import Node
from gangsched.testing import make_pod
from support.calls import lines_for


def late(name: str, cpu: int = 1) -> Pod:
    return make_pod(name, group="g", min_available=1, cpu=cpu)


def node(name: str, cpu: int = 1) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"cpu": cpu}))


class Host:
    """A started group on a full node, with late members that wait."""

    def __init__(self, waiting: Sequence[Pod]) -> None:
        self.cluster = InMemoryCluster()
        self.cluster.apply(node("n"))
        self.cluster.apply(PodAdded(evolve(late("first"), node_name=NodeName("n"))))
        for pod in waiting:
            self.cluster.apply(PodAdded(pod))
        self.scheduler: Scheduler = presets.coscheduling(self.cluster)
        self.now = 0.0
        self.effects: list[Effect] = list(self.scheduler.rebuild(now=0.0))
        self.decide()

    def tell(self, event: Event) -> None:
        self.now += 1000.0  # any backoff is over
        self.effects += self.scheduler.handle(self.cluster.apply(event), now=self.now)
        self.decide()

    def decide(self) -> None:
        while (found := self.scheduler.schedule_one(now=self.now)) is not None:
            self.effects += found
            for effect in found:
                if isinstance(effect, Bind):
                    report = Bound(effect.uid, effect.node, effect.attempt)
                    self.effects += self.scheduler.handle(self.cluster.apply(report), now=self.now)

    def bound(self) -> list[str]:
        return [effect.uid for effect in self.effects if isinstance(effect, Bind)]


def steps_of_a_node(host: Host) -> int:
    """Return how many lines run from the event of a node to the end of the decisions."""
    for number in range(3):  # what is made once is made
        host.tell(node(f"before-{number}"))
    return lines_for(lambda: host.tell(node("another")))


@pytest.mark.parametrize("shapes", [1, 3])
def test_node_for_one_of_many_late_members_costs_the_same_for_any_number(shapes: int) -> None:
    """Each node had every waiting member marked, sorted and told again."""
    few, many = (
        steps_of_a_node(Host([late(f"l{k}", 1 + k % shapes) for k in range(number)]))
        for number in (20, 400)
    )
    assert many < 1.2 * few


def test_late_members_of_several_classes_start_in_order_of_arrival() -> None:
    host = Host([late(f"l{k}", 1 + k % 2) for k in range(12)])
    for number in range(4):
        host.tell(node(f"small-{number}"))
        host.scheduler._check()
    assert host.bound() == [f"default/l{k}" for k in (0, 2, 4, 6)]
    host.tell(node("large", cpu=3))
    host.scheduler._check()
    assert host.bound()[4:] == ["default/l1", "default/l8"]


def test_late_member_that_was_told_otherwise_is_told_the_common_reason_once() -> None:
    """A member that is tried itself is told; those like it only if they know another reason."""
    host = Host([late(f"l{k}") for k in range(6)])
    told = [e.uid for e in host.effects if isinstance(e, PodUnschedulable)]
    assert sorted(set(told)) == [f"default/l{k}" for k in range(6)]
    host.effects.clear()
    host.tell(node("m"))  # it takes l0, and l1 is tried next
    again = [e for e in host.effects if isinstance(e, PodUnschedulable)]
    assert [e.uid for e in again] == ["default/l1"]
