"""A preemptor is not tried again for capacity that does not help while only pending pods are lower.

A pending pod of a lower priority holds nothing, so evicting it would free nothing.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import PodUnschedulable, PodUpdated, SchedulingUnit
from gangsched.model import PodPhase
from gangsched.testing import make_pod
from support.preemption_host import EACH_UNIT, Host


def full(unit: SchedulingUnit) -> Host:
    """Return a host with 3 nodes of 2 CPUs: running and pending pods above 0, and a gang of 4."""
    host = Host(2, 2, 2, unit=unit)
    host.pods(*(make_pod(f"same-{n}", cpu=2, priority=5) for n in range(3)))
    host.gang("high", 4, 5)
    host.pods(make_pod("low", cpu=2, priority=0))
    assert len(host.where) == 3
    return host


def tries(host: Host) -> int:
    return sum(each.uid.startswith("default/high") for each in host.told(PodUnschedulable))


@EACH_UNIT
def test_freed_capacity_that_does_not_help_tries_no_preemptor(unit: SchedulingUnit) -> None:
    host = full(unit)
    before = tries(host)
    host.at(100.0)
    host.end("same-0")  # 2 of the 4 CPUs that the gang needs
    assert host.where["low"] == "n0"
    assert tries(host) == before
    assert host.evicted == []


@EACH_UNIT
def test_preemptor_is_tried_once_a_pod_of_lower_priority_runs(unit: SchedulingUnit) -> None:
    host = full(unit)
    host.at(100.0)
    host.end("same-0")
    assert host.where["low"] == "n0"
    host.at(200.0)
    host.end("same-1")  # 2 CPUs are free, and low has 2 more
    assert host.evicted == ["low"]
    host.end("low")
    assert {name for name in host.where if name.startswith("high")} == {
        f"high-{n}" for n in range(4)
    }


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_pod_that_has_finished_is_no_victim(phase: PodPhase) -> None:
    host = Host(2, 2)
    host.pods(make_pod("low", cpu=2, priority=0), make_pod("same", cpu=2, priority=5))
    low = host.cluster.pod(make_pod("low").uid)
    assert low is not None
    assert host.scheduler._state.pods.priorities == {0: 1, 5: 1}
    host.tell(PodUpdated(evolve(low, phase=phase)))
    assert host.scheduler._state.pods.priorities == {5: 1}


def test_terminating_pod_still_counts() -> None:
    host = Host(2, 2)
    host.pods(make_pod("low", cpu=2, priority=0))
    low = host.cluster.pod(make_pod("low").uid)
    assert low is not None
    host.tell(PodUpdated(evolve(low, deleted_at=0.0)))
    assert host.scheduler._state.pods.priorities == {0: 1}
    host.end("low")
    assert host.scheduler._state.pods.priorities == {}
