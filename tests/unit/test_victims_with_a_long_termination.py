"""Victims that may terminate for longer than the grace: no other pod is evicted in their place."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import NominationLapsed, PodUID, PodUpdated, Preemption, SchedulingUnit
from gangsched.testing import make_pod
from support.preemption_host import EACH_UNIT, Host

GRACE = 60.0


def terminate(host: Host, name: str, until: float) -> None:
    """Report that a pod is being deleted, with the instant until which its containers may run."""
    pod = host.cluster.pod(PodUID(f"default/{name}"))
    assert pod is not None
    host.tell(PodUpdated(evolve(pod, deleted_at=until)))
    host.decide()


def preempting(unit: SchedulingUnit, *, until: float) -> Host:
    """Return two nodes, each held by a gang of two; a gang of two has evicted one of the gangs.

    Its members may terminate until the given instant.
    """
    host = Host(2, 2, unit=unit)
    host.gang("low", 2, 0)
    host.gang("other", 2, 0)
    host.gang("high", 2, 5)
    assert len(host.evicted) == 2
    for name in host.evicted:
        terminate(host, name, until=until)
    return host


@EACH_UNIT
def test_victims_that_may_still_terminate_are_counted_on_after_the_grace(
    unit: SchedulingUnit,
) -> None:
    host = preempting(unit, until=600.0)
    victims = host.evicted
    for at in range(int(GRACE), 600, int(GRACE)):
        host.at(float(at))
    assert host.evicted == victims, "the other gang runs on"
    assert host.kept == ["high-0", "high-1"]
    assert not host.told(NominationLapsed)
    host.end(*victims)
    assert {"high-0", "high-1"} <= {*host.where}


@EACH_UNIT
def test_victims_are_overdue_when_their_own_time_is_over(unit: SchedulingUnit) -> None:
    host = preempting(unit, until=90.0)
    host.at(GRACE)
    assert len(host.evicted) == 2
    host.at(2 * GRACE)
    assert len(host.evicted) == 4
    assert host.told(NominationLapsed)[-1].reason == "2 pods did not terminate in time"


@EACH_UNIT
def test_nomination_lapses_if_one_of_its_victims_is_overdue(unit: SchedulingUnit) -> None:
    """Later plans count on the other one."""
    host = preempting(unit, until=600.0)
    late, slow = host.evicted[:2]
    terminate(host, late, until=30.0)
    host.at(GRACE)
    assert host.told(NominationLapsed)[0].reason == "2 pods did not terminate in time"
    overdue = host.scheduler._state.reservations.overdue
    assert overdue == {PodUID(f"default/{late}")}
    assert slow != late


@EACH_UNIT
def test_victim_that_is_gone_is_not_overdue(unit: SchedulingUnit) -> None:
    """Only the other one is left, and it may still terminate."""
    host = preempting(unit, until=600.0)
    host.end(host.evicted[0])
    host.at(GRACE)
    assert not host.told(NominationLapsed)
    assert len(host.evicted) == 2


@EACH_UNIT
def test_gang_takes_a_node_that_becomes_free_while_its_victims_terminate(
    unit: SchedulingUnit,
) -> None:
    host = preempting(unit, until=600.0)
    victims = host.evicted
    left = sorted({"low-0", "low-1", "other-0", "other-1"} - {*victims})
    host.end(*left)
    host.at(GRACE)
    assert {"high-0", "high-1"} <= {*host.where}


@EACH_UNIT
@pytest.mark.parametrize("grace", [0.0, 0.5])
def test_short_grace_does_not_repeat_the_deadline_at_one_instant(
    unit: SchedulingUnit, grace: float
) -> None:
    host = Host(1, unit=unit, preemption=Preemption(grace=grace))
    host.pods(make_pod("low", cpu=1))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == ["low"]
    terminate(host, "low", until=600.0)
    deadlines = 0
    while (due := host.scheduler.next_deadline()) is not None and due <= 10.0:
        host.at(due)
        deadlines += 1
        assert deadlines <= 12, "one a second"
    assert deadlines
    assert host.evicted == ["low"]
    host.end("low")
    assert host.where == {"high": "n0"}
