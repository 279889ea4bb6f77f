"""Groups of a bundle are evicted together, as long as they name each other."""

from __future__ import annotations

from gangsched import GroupKey, PodGroup, PodGroupAdded, PodGroupUpdated, SchedulingUnit
from gangsched.testing import make_pod
from support.preemption_host import EACH_UNIT, Host


def bundled(unit: SchedulingUnit) -> Host:
    """Return a host on which the groups of a bundle run, one pod each."""
    host = Host(2, unit=unit)
    for name, other in (("a", "b"), ("b", "a")):
        spec = PodGroup(name=name, min_available=1, bundle=[GroupKey(f"default/{other}")])
        host.tell(PodGroupAdded(spec))
    host.pods(make_pod("a-0", group="a", cpu=1), make_pod("b-0", group="b", cpu=1))
    assert set(host.where) == {"a-0", "b-0"}
    return host


@EACH_UNIT
def test_groups_of_a_bundle_are_evicted_together(unit: SchedulingUnit) -> None:
    host = bundled(unit)
    host.pods(make_pod("high", cpu=1, priority=5))
    assert sorted(host.evicted) == ["a-0", "b-0"]


@EACH_UNIT
def test_group_that_has_left_a_bundle_is_not_evicted_with_it(unit: SchedulingUnit) -> None:
    """The other group still names it."""
    host = bundled(unit)
    host.tell(PodGroupUpdated(PodGroup(name="b", min_available=1)))
    host.pods(make_pod("high", cpu=1, priority=5))
    assert len(host.evicted) == 1
