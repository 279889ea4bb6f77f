"""A gang with a topology goes to the value that takes most of its members, then to the tightest."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Role,
    SchedulingUnit,
    Topology,
    gang,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.driver import Driver
from support.gangs import members, node, specify, where
from support.story import Story

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))


def placed(
    *racks: tuple[str, int],
    count: int,
    minimum: int,
    required: bool = True,
    unit: SchedulingUnit = SchedulingUnit.GROUP,
) -> Counter[str]:
    """Return how many members run in which rack; each rack is one node."""
    driver = Driver(lambda cluster: presets.coscheduling(cluster, unit=unit))
    for number, (rack, cpu) in enumerate(racks):
        driver.tell(node(f"n{number}", cpu, rack=rack))
    topology = Topology("rack", required=required)
    driver.tell(PodGroupAdded(specify("g", minimum, topology)))
    driver.add(*members("g", count, minimum, cpu=1))
    driver.settle()
    assert all(not isinstance(e, Bind) for e in driver.scheduler.schedule_one(now=driver.now) or ())
    names = {f"n{number}": rack for number, (rack, _cpu) in enumerate(racks)}
    return Counter(names[name] for name in where(driver).values())


@EACH_UNIT
@pytest.mark.parametrize("required", [True, False])
def test_gang_goes_to_the_value_that_takes_its_elastic_members_too(
    unit: SchedulingUnit, required: bool
) -> None:
    racks = (("rack-1", 2), ("rack-2", 4))
    found = placed(*racks, count=4, minimum=2, required=required, unit=unit)
    assert found == {"rack-2": 4}


@EACH_UNIT
def test_tightest_of_the_values_that_take_equally_many_is_taken(unit: SchedulingUnit) -> None:
    racks = (("big", 9), ("tight", 5), ("small", 3))
    assert placed(*racks, count=4, minimum=2, unit=unit) == {"tight": 4}


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(SchedulingUnit),
)
def test_as_many_members_start_as_any_value_takes(
    sizes: list[int], minimum: int, more: int, unit: SchedulingUnit
) -> None:
    count = minimum + more
    racks = [(f"r{number}", cpu) for number, cpu in enumerate(sizes)]
    found = placed(*racks, count=count, minimum=minimum, unit=unit)
    most = min(count, max(sizes))
    assert sum(found.values()) == (most if most >= minimum else 0)
    if found:
        ((rack, _count),) = found.items()
        enough = [cpu for cpu in sizes if cpu >= most]
        assert sizes[int(rack[1:])] == min(enough)


@pytest.mark.parametrize("inner", [Role(2, 1), Role(2, 1, roles={"part": 1})])
def test_member_or_copy_goes_elsewhere_once_the_preferred_domain_is_full(inner: Role) -> None:
    story = Story(presets.gang)
    for number, rack in enumerate("aab"):
        story.tell(NodeAdded(make_node(f"n{number}", cpu=2, labels={"rack": rack})))
    replica = Role(1, roles={"leader": 3, "worker": inner}, topology=Topology("rack", False))
    story.tell(*gang("serve", cpu=1, roles={"decode": replica}).events())
    story.decide()
    assert sorted(story.bound.values()) == ["n0", "n0", "n1", "n1", "n2"]


def test_elastic_member_of_a_further_child_goes_elsewhere_than_its_minimum() -> None:
    story = Story(presets.gang)
    for number, rack in enumerate("abc"):
        node = make_node(f"n{number}", cpu=2, labels={"rack": rack})
        story.tell(NodeAdded(node))
    family = PodGroup(name="family", min_groups=1)
    story.tell(PodGroupAdded(family))
    for name in ("first", "further"):
        topology = Topology("rack", required=False)
        group = PodGroup(name=name, parent=family.key, min_available=2, topology=topology)
        pods = [make_pod(f"{name}-{number}", cpu=1, group=name) for number in range(3)]
        story.tell(PodGroupAdded(group), *map(PodAdded, pods))
        story.decide()
    assert sorted(story.bound.values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]
