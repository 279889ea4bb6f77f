"""A victim that did not terminate in time is forgotten when it is gone."""

from __future__ import annotations

from gangsched import PodUID, SchedulingUnit
from gangsched.testing import make_pod
from support.preemption_host import EACH_UNIT, Host


@EACH_UNIT
def test_overdue_victim_is_forgotten_when_it_is_gone(unit: SchedulingUnit) -> None:
    host = Host(1, unit=unit)
    host.pods(make_pod("low", cpu=1))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert host.evicted == ["low"]
    deadline = host.scheduler.next_deadline()
    assert deadline is not None
    host.at(deadline + 1000.0)
    assert host.scheduler._state.reservations.overdue == {PodUID("default/low")}
    host.end("low")
    host.at(host.now + 1.0)
    assert host.scheduler._state.reservations.overdue == set()
