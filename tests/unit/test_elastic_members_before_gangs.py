"""Elastic members are evicted before a gang is ended that would free as much alone."""

from __future__ import annotations

from gangsched import SchedulingUnit
from support.preemption_host import EACH_UNIT, Host, runs


@EACH_UNIT
def test_elastic_members_of_two_gangs_are_evicted_before_one_gang(unit: SchedulingUnit) -> None:
    host = Host(2, 2, 2, unit=unit)
    runs(host, "whole", 0, 0)
    for name, node in (("a", 1), ("b", 2)):
        runs(host, name, node, node, min_available=1)
    host.gang("high", 2, 5)
    assert set(host.evicted) == {"a-1", "b-1"}
