"""Late members that wait behind one like them are told of a new reason, not of each new count."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeUpdated,
    PodAdded,
    PodUnschedulable,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.framework.lifecycle import notices
from gangsched.testing import make_node, make_pod

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))


class Host:
    """A cluster of full nodes, where a started group has late members."""

    def __init__(self, unit: SchedulingUnit, late: int) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.coscheduling(self.cluster, unit=unit)
        self.now = 0.0
        self.tell(NodeAdded(make_node("n", cpu=1)))
        self.tell(PodAdded(make_pod("first", group="g", min_available=1, cpu=1)))
        self.told = [
            reason
            for n in range(late)
            for _uid, reason in self.tell(
                PodAdded(make_pod(f"late-{n}", group="g", min_available=1, cpu=1))
            )
        ]

    def tell(self, event: Event) -> list[tuple[str, str]]:
        """Handle an event and decide; return which pods were told what."""
        self.now += 1000.0
        effects: list[Effect] = []
        effects += self.scheduler.handle(self.cluster.apply(event), now=self.now)
        while (more := self.scheduler.schedule_one(now=self.now)) is not None:
            effects += more
            for effect in more:
                if isinstance(effect, Bind):
                    report = Bound(effect.uid, effect.node, effect.attempt)
                    effects += self.scheduler.handle(self.cluster.apply(report), now=self.now)
        self.scheduler._check()
        return [(e.uid, e.reason) for e in effects if isinstance(e, PodUnschedulable)]


@EACH_UNIT
def test_each_late_member_is_told_once_when_it_arrives(unit: SchedulingUnit) -> None:
    host = Host(unit, 5)
    assert host.told == ["0/1 nodes are available: 1 Insufficient cpu."] * 5


@EACH_UNIT
def test_node_that_takes_one_late_member_tells_only_the_one_that_is_tried_next(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit, 20)
    for n in range(10):
        told = host.tell(NodeAdded(make_node(f"m{n}", cpu=1)))
        assert told == [
            (f"default/late-{n + 1}", f"0/{n + 2} nodes are available: {n + 2} Insufficient cpu.")
        ]
        assert f"0/{n + 2} nodes" in str(host.scheduler.why("default/late-19"))


@EACH_UNIT
def test_late_members_are_told_when_another_reason_comes(unit: SchedulingUnit) -> None:
    host = Host(unit, 4)
    host.tell(NodeAdded(make_node("m", cpu=1)))
    cordoned = evolve(make_node("m", cpu=1), unschedulable=True)
    told = host.tell(NodeUpdated(cordoned))
    told += host.tell(NodeAdded(make_node("o", cpu=1)))
    assert {uid for uid, _reason in told} >= {"default/late-2", "default/late-3"}
    assert any("unschedulable" in reason for _uid, reason in told)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("0/1 nodes are available: 1 full.", "0/12 nodes are available: 12 full.", True),
        ("0/9 nodes are available: 8 a, 1 b.", "0/9 nodes are available: 2 a, 7 b.", True),
        ("0/9 nodes are available: 8 a, 1 b.", "0/9 nodes are available: 9 a.", False),
        ("0/1 nodes are available: 1 no a100.", "0/1 nodes are available: 1 no h200.", False),
        ("0/1 nodes are available: 1 t {k: v1}.", "0/1 nodes are available: 1 t {k: v2}.", False),
        ("needs 2 gpus", "needs 3 gpus", False),
        ("no nodes available to schedule pods", "0/1 nodes are available: 1 full.", False),
    ],
)  # fmt: skip
def test_reasons_are_compared_without_numbers_of_nodes(one: str, other: str, is_same: bool) -> None:
    assert (notices._without_counts(one) == notices._without_counts(other)) == is_same
