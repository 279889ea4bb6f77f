"""Preemption for late members of a gang that has started: each member gets capacity for itself."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    GroupKey,
    NodeUpdated,
    Nominated,
    Pod,
    Preemption,
    SchedulingUnit,
    Success,
    Unschedulable,
)
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host

EVICTS = Preemption(elastic_members=True)


def late(name: str, *, cpu: int = 1, gpu: int = 0) -> Pod:
    """Return a member of a gang of priority 5 that needs one member to start."""
    more: dict[str, Any] = {"gpu": gpu} if gpu else {}
    return make_pod(name, group="high", cpu=cpu, priority=5, min_available=1, **more)


def started(*, unit: SchedulingUnit, faulty: FaultyPlugin | None = None, victims: int = 1) -> Host:
    """Return a host where a gang has started, and pods of priority 0 hold all other capacity."""
    host = Host(1 + victims, unit=unit, faulty=faulty, preemption=EVICTS)
    host.pods(late("high-0"))
    for number in range(victims):
        host.pods(make_pod(f"low-{number}", cpu=1))
    assert len(host.where) == 1 + victims
    return host


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("names", [("small", "huge"), ("huge", "small")])
def test_late_member_is_nominated_beside_a_member_that_no_eviction_helps(
    unit: SchedulingUnit, is_signed: bool, names: tuple[str, str]
) -> None:
    host = started(unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    host.pods(*[late(name, cpu=99 if name == "huge" else 1) for name in names])
    assert (host.evicted, host.kept) == (["low-0"], ["small"])
    host.end("low-0")
    assert host.where["small"] == "n0"


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
def test_first_of_equal_late_members_is_nominated_first(
    unit: SchedulingUnit, is_signed: bool
) -> None:
    host = started(unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    host.pods(late("a"), late("b"), late("c"))
    assert (host.evicted, host.kept) == (["low-0"], ["a"])


@EACH_UNIT
def test_late_members_are_nominated_one_after_the_other(unit: SchedulingUnit) -> None:
    host = started(unit=unit, victims=2)
    host.pods(late("huge", cpu=99), late("a"), late("b"))
    host.end(*host.evicted)
    assert host.where["a"] == "n0"
    host.at(host.now + 5.0)
    host.end(*[name for name in host.evicted if name in host.where])
    assert host.where["b"] == "n0"
    assert sorted(host.evicted) == ["low-0", "low-1"]


@EACH_UNIT
def test_late_member_is_nominated_though_a_check_refuses_the_member_tried_last(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("pre_filter")
    host = started(unit=unit, faulty=faulty)
    faulty.answers["pre_filter"] = lambda _state, pod, *, now: (
        Unschedulable("quota is used") if pod.name == "refused" else Success()
    )
    host.pods(late("small"), late("refused"))
    assert (host.evicted, host.kept) == (["low-0"], ["small"])


@EACH_UNIT
def test_no_pod_is_evicted_for_late_members_that_only_a_check_refuses(
    unit: SchedulingUnit,
) -> None:
    faulty = FaultyPlugin("pre_filter")
    host = started(unit=unit, faulty=faulty)
    faulty.answers["pre_filter"] = Unschedulable("quota is used")
    host.pods(late("a"), late("b"))
    assert (host.evicted, host.told(Nominated)) == ([], [])


@EACH_UNIT
def test_no_capacity_is_nominated_for_a_late_member_that_fits_and_is_refused_by_reserve(
    unit: SchedulingUnit,
) -> None:
    """The node has free capacity for it: what refuses it is not a lack of capacity."""
    faulty = FaultyPlugin("reserve", "unreserve")
    host = started(unit=unit, faulty=faulty)
    host.tell(NodeUpdated(make_node("n0", cpu=3, labels={"rack": "r0"})))
    faulty.answers["reserve"] = Unschedulable("volume is busy")
    host.pods(late("a"), late("huge", cpu=99))
    assert (host.evicted, host.told(Nominated)) == ([], [])
    assert GroupKey("default/high") in host.scheduler._state.pods.entities
