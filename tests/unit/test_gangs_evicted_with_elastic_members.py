"""A gang that is evicted whole, after its elastic members were not enough, is evicted once."""

from __future__ import annotations

from gangsched import PodGroup, PodGroupAdded, SchedulingUnit, Topology
from gangsched.testing import make_pod
from support.preemption_host import EACH_UNIT, Host, runs


@EACH_UNIT
def test_elastic_members_of_a_gang_that_is_evicted_are_evicted_once(unit: SchedulingUnit) -> None:
    host = Host(3, unit=unit)
    runs(host, "a", 0, 0, 0, min_available=2)
    host.gang("high", 3, 5)
    assert sorted(host.evicted) == ["a-0", "a-1", "a-2"]


@EACH_UNIT
def test_gang_counts_its_elastic_members_once_where_gangs_are_compared(
    unit: SchedulingUnit,
) -> None:
    """Both have three pods, each gang on its rack, and the younger is evicted."""
    host = Host(3, 3, unit=unit)
    runs(host, "rigid", 0, 0, 0, min_available=3, created_at=1)
    runs(host, "elastic", 1, 1, 1, min_available=2, created_at=2)
    topology = Topology("rack", required=True)
    host.tell(PodGroupAdded(PodGroup(name="high", min_available=3, topology=topology)))
    host.pods(*[make_pod(f"high-{n}", group="high", cpu=1, priority=5) for n in range(3)])
    assert sorted(host.evicted) == ["elastic-0", "elastic-1", "elastic-2"]
