"""``minima_first``: elastic members wait until every gang of their priority has its minimum."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    Event,
    InvalidValueError,
    MatchPolicy,
    NodeAdded,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    SchedulingUnit,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

UNITS = pytest.mark.parametrize("unit", SchedulingUnit)


class Host(ImmediateHost):
    """A host whose scheduler may place the minima of gangs first."""

    def __init__(self, unit: SchedulingUnit, *, minima_first: bool = True, **how: Any) -> None:
        super().__init__()
        self.scheduler = presets.coscheduling(
            self.cluster, unit=unit, minima_first=minima_first, **how
        )


def gang(name: str, count: int, minimum: int, **more: Any) -> list[Event]:
    return [PodAdded(pod) for pod in pods(name, count, minimum, **more)]


def pods(name: str, count: int, minimum: int, **more: Any) -> list[Pod]:
    each: dict[str, Any] = {"cpu": 1, "min_available": minimum, **more}
    return [make_pod(f"{name}{number}", group=name, **each) for number in range(count)]


@UNITS
def test_minimum_of_a_younger_gang_goes_before_elastic_members(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=4)), *gang("a", 4, 2), *gang("b", 2, 2))
    assert host.decide() == ["a0", "a1", "b0", "b1"]


@UNITS
def test_elastic_members_go_first_without_the_option(unit: SchedulingUnit) -> None:
    host = Host(unit, minima_first=False)
    host.tell(NodeAdded(make_node("n", cpu=4)), *gang("a", 4, 2), *gang("b", 2, 2))
    assert host.decide() == ["a0", "a1", "a2", "a3"]


@UNITS
def test_higher_priority_goes_before_minima(unit: SchedulingUnit) -> None:
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=4)))
    host.tell(*gang("a", 4, 2, priority=5), *gang("b", 2, 2))
    assert host.decide() == ["a0", "a1", "a2", "a3"]


@UNITS
def test_replacement_of_a_member_that_the_minimum_needs_is_not_elastic(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit)
    host.tell(NodeAdded(make_node("n", cpu=4)), *gang("a", 2, 2), *gang("b", 2, 1))
    assert host.decide() == ["a0", "a1", "b0", "b1"]
    host.tell(PodAdded(make_pod("b2", group="b", min_available=1, cpu=1)))
    host.tell(PodAdded(make_pod("a2", group="a", min_available=2, cpu=1)))
    assert host.decide() == []
    host.now = 60.0  # no backoff is left
    host.scheduler.advance(now=host.now)
    assert host.decide() == []
    host.now = 120.0
    host.tell(PodDeleted(PodUID("default/a0")))
    assert host.decide() == ["a2"]


@UNITS
def test_minimum_of_each_role_is_placed_first(unit: SchedulingUnit) -> None:
    host = Host(unit)
    spec = PodGroup(name="a", min_available=2, roles={"ps": 1, "worker": 1})
    role = "pod-group.scheduling.sigs.k8s.io/role"
    members = [
        evolve(pod, labels={**pod.labels, role: name})
        for pod, name in zip(pods("a", 4, 2), ("worker", "worker", "ps", "ps"), strict=True)
    ]
    host.tell(NodeAdded(make_node("n", cpu=4)), PodGroupAdded(spec), *map(PodAdded, members))
    host.tell(*gang("b", 2, 2))
    assert sorted(host.decide()) == ["a0", "a2", "b0", "b1"]


def test_only_waiting_is_refused() -> None:
    wrong: Any = 1
    with pytest.raises(InvalidValueError, match="minima_first"):
        Coscheduling(minima_first=True, match_policy=MatchPolicy.ONLY_WAITING)
    with pytest.raises(InvalidValueError, match="minima_first"):
        Coscheduling(minima_first=wrong)


gangs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=5
)
"""Of each gang: its minimum, how many elastic members it has, and the size of its pods."""


@given(
    sizes=gangs,
    nodes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    grows=st.lists(st.integers(0, 9), max_size=3),
    unit=st.sampled_from(SchedulingUnit),
)
def test_no_elastic_member_is_placed_while_the_minimum_of_a_gang_would_fit(
    sizes: list[tuple[int, int, int]], nodes: list[int], grows: list[int], unit: SchedulingUnit
) -> None:
    """Pods of one gang are alike, so whether a minimum fits is a sum over nodes."""
    host = Host(unit, when_blocked="at_once")
    host.tell(*[NodeAdded(make_node(f"n{n}", cpu=cpu)) for n, cpu in enumerate(nodes)])
    for number, (minimum, more, size) in enumerate(sizes):
        host.tell(*gang(f"g{number}-", minimum + more, minimum, cpu=size))
    _decide_and_check(host, sizes)
    for number, cpu in enumerate(grows):
        name = f"n{number % len(nodes)}"
        host.tell(NodeUpdated(make_node(name, cpu=max(cpu, nodes[number % len(nodes)]))))
        _decide_and_check(host, sizes)


def _decide_and_check(host: Host, sizes: list[tuple[int, int, int]]) -> None:
    while True:
        free = {node.name: node.allocatable["cpu"] // 1000 for node in host.cluster.nodes()}
        for pod in host.cluster.pods():
            if pod.node_name:
                free[pod.node_name] -= pod.requests["cpu"] // 1000
        held = [
            sum(bool(pod.node_name) for pod in host.cluster.pods() if pod.name.startswith(f"g{n}-"))
            for n in range(len(sizes))
        ]
        queued = {entity.group.key for entity in host.scheduler.queue.active if entity.group}
        effects = host.scheduler.schedule_one(now=0.0)
        if effects is None:
            return
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        for bind in binds:
            host.tell(Bound(bind.uid, bind.node, bind.attempt))
        for bind in binds:
            number = int(bind.uid.partition("/g")[2].partition("-")[0])
            if held[number] < sizes[number][0]:
                assert len(binds) <= max(sizes[number][0] - held[number], 1), "the minimum only"
                continue
            for other, (minimum, _more, size) in enumerate(sizes):
                pending = held[other] == 0 and f"default/g{other}-" in queued
                fits = sum(cpu // size for cpu in free.values()) >= minimum
                assert not (pending and fits), f"{bind.uid} goes before the minimum of g{other}"
