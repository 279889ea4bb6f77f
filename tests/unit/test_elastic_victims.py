"""Elastic members are evicted before a whole gang, also where it takes those of several gangs."""

from __future__ import annotations

import pytest

from gangsched import PodGroup, PodGroupAdded, SchedulingUnit
from gangsched.testing import make_pod
from support.faulty_plugin import FaultyPlugin
from support.preemption_host import EACH_UNIT, Host, runs


@EACH_UNIT
@pytest.mark.parametrize("is_signed", [True, False])
def test_elastic_members_of_two_gangs_are_evicted_before_a_whole_gang(
    unit: SchedulingUnit, is_signed: bool
) -> None:
    host = Host(4, unit=unit, faulty=None if is_signed else FaultyPlugin("filter"))
    runs(host, "a", 0, 0, min_available=1)
    runs(host, "b", 0, 0, min_available=1)
    host.pods(make_pod("high", cpu=2, priority=5))
    assert sorted(host.evicted) == ["a-1", "b-1"]


@EACH_UNIT
def test_elastic_members_of_three_gangs_are_evicted_for_a_gang(unit: SchedulingUnit) -> None:
    host = Host(6, unit=unit)
    for name in ("a", "b", "c"):
        runs(host, name, 0, 0, min_available=1)
    host.gang("high", 1, 5, cpu=3)
    assert sorted(host.evicted) == ["a-1", "b-1", "c-1"]


@EACH_UNIT
def test_only_the_elastic_members_that_are_needed_are_evicted(unit: SchedulingUnit) -> None:
    """The third gang was created first; of equal gangs the youngest give up members."""
    host = Host(6, unit=unit)
    for name, created_at in (("a", 2), ("b", 3), ("c", 1)):
        runs(host, name, 0, 0, min_available=1, created_at=created_at)
    host.pods(make_pod("high", cpu=2, priority=5, created_at=9))
    assert sorted(host.evicted) == ["a-1", "b-1"]


@EACH_UNIT
def test_elastic_members_on_one_node_are_evicted_where_only_these_free_enough(
    unit: SchedulingUnit,
) -> None:
    """The members that came last are on different nodes, and free too little on each."""
    host = Host(2, 2, unit=unit)
    runs(host, "a", 0, 1, min_available=1)
    runs(host, "b", 1, 0, min_available=1)
    host.pods(make_pod("high", cpu=2, priority=5))
    assert len(host.evicted) == 2
    assert {name.partition("-")[0] for name in host.evicted} == {"a", "b"}
    where = host.where
    assert len({where[name] for name in host.evicted}) == 1


@EACH_UNIT
def test_gang_keeps_its_role_minimum_where_members_on_one_node_are_evicted(
    unit: SchedulingUnit,
) -> None:
    host = Host(3, 1, unit=unit)
    host.tell(PodGroupAdded(PodGroup(name="a", min_available=1, roles={"ps": 1})))
    runs(host, "a", 0, min_available=None, role="ps")
    host.pods(make_pod("a-1", group="a", cpu=1, role="worker"))
    host.pods(make_pod("a-2", group="a", cpu=1, role="worker"))
    host.pods(make_pod("a-3", group="a", cpu=1, role="worker"))
    on_n0 = sorted(name for name, node in host.where.items() if node == "n0")
    host.pods(make_pod("high", cpu=2, priority=5))
    assert sorted(host.evicted) == [name for name in on_n0 if name != "a-0"]


@EACH_UNIT
def test_whole_gang_is_evicted_where_all_elastic_members_are_not_enough(
    unit: SchedulingUnit,
) -> None:
    host = Host(5, unit=unit)
    runs(host, "a", 0, 0, min_available=1)
    runs(host, "b", 0, 0, 0, min_available=3)
    host.pods(make_pod("high", cpu=3, priority=5))
    assert sorted(host.evicted) == ["b-0", "b-1", "b-2"]
