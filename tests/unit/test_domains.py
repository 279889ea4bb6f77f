"""``Scheduler.domains``: what each rack and block takes of a gang, and what it lacks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Role,
    Topology,
    UnknownPodError,
    gang,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost
from support.level_worlds import BLOCK, LEVELS, RACK, WorldHost, places, worlds


class Racks(ImmediateHost):
    """Nodes by block and rack, such as ``b1_r2_x``, of some CPUs."""

    def __init__(self, **nodes: int) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, levels=LEVELS)
        for name, cpu in nodes.items():
            block, rack, _node = name.split("_")
            labels = {"block": block, "rack": rack}
            self.tell(NodeAdded(make_node(name, cpu=cpu, labels=labels)))

    def add(self, name: str, **spec: Any) -> None:
        """Add a gang, and decide."""
        self.tell(*gang(name, **{"cpu": 1, **spec}).events())
        self.decide()

    def rows(self, name: str) -> list[tuple[str, int, int, str]]:
        """Return the domain, both numbers and the reason of each row."""
        rows = self.scheduler.domains(f"default/{name}")
        return [(row.domain, row.fits, row.needed, row.why) for row in rows]


def test_each_rack_says_what_it_lacks_the_best_one_first() -> None:
    racks = Racks(b1_r1_x=4, b1_r2_x=2, b1_r2_y=6, b2_r1_x=3, b2_r1_y=3, b2_r1_z=3)
    racks.add("alone", workers=1, topology=Topology("rack", exclusive="rack"))
    racks.add("g", workers=5, cpu=2, topology=Topology("rack"))
    assert racks.rows("g") == [
        ("b1/r2", 4, 5, "short by 2 cpu"),
        ("b2/r1", 3, 5, "short by 1 cpu"),
        ("b1/r1", 0, 5, "within a rack that another gang has for itself"),
    ]
    racks.add("pieces", workers=2, cpu=4, topology=Topology("rack"))
    assert ("b2/r1", 0, 2, "its nodes refuse the pods") not in racks.rows("pieces")
    assert ("b2/r1", 0, 2, "what is free is in pieces that are too small") in racks.rows("pieces")
    lines = str(racks.scheduler.domains("default/g")).splitlines()
    assert lines[0].split() == ["PART", "DOMAIN", "FITS", "NEEDED", "WHY"]
    assert lines[1].split() == ["-", "rack=b1/r2", "4", "5", "short", "by", "2", "cpu"]


def test_blocks_count_whole_slices_and_the_first_slice_is_asked_about() -> None:
    racks = Racks(b1_r1_x=5, b1_r2_x=4, b2_r1_x=3, b2_r2_x=3, b2_r3_x=8)
    racks.add("g", workers=12, topology=Topology("block", slices={"rack": 4}))
    rows = racks.scheduler.domains("default/g")
    blocks = [(row.part, row.domain, row.fits) for row in rows if row.level == "block"]
    assert blocks == [("", "b1", 8), ("", "b2", 8)]
    assert {row.part for row in rows if row.level == "rack"} == {"slice-0"}
    assert [row.domain for row in rows if row.level == "rack" and not row.why] == [
        *("b1/r1", "b1/r2", "b2/r3"),
    ]


def test_slices_of_a_role_are_counted_as_those_of_a_group() -> None:
    racks = Racks(b1_r1_x=5, b1_r2_x=3)
    role = Role(8, topology=Topology(slices={"rack": 4}))
    racks.add("g", roles={"w": role, "ps": 1}, topology=Topology("block"))
    (row,) = [row for row in racks.scheduler.domains("default/g") if row.level == "block"]
    assert (row.fits, row.needed, row.why) == (5, 9, "short by 1 cpu")
    racks = Racks(b1_r1_x=6, b1_r2_x=3)
    racks.add("g", roles={"w": role}, topology=Topology("block"))
    (row,) = [row for row in racks.scheduler.domains("default/g") if row.level == "block"]
    assert (row.fits, row.needed) == (4, 8)
    assert row.why == "what is free is in pieces that are too small"


def test_nothing_is_said_of_gangs_that_run_or_require_no_level() -> None:
    racks = Racks(b1_r1_x=4)
    racks.add("runs", workers=1, topology=Topology("rack"))
    racks.add("free", workers=9)
    assert racks.rows("runs") == racks.rows("free") == []
    racks.tell(PodGroupAdded(PodGroup(name="empty", min_available=1, topology=Topology("rack"))))
    assert racks.rows("empty") == []
    with pytest.raises(UnknownPodError):
        racks.scheduler.domains("default/other")


def test_only_the_rack_of_those_that_run_is_listed_and_a_parent_is_asked_for_its_children() -> None:
    racks = Racks(b1_r1_x=2, b1_r2_x=1)
    racks.add("g", workers=2, topology=Topology("rack"))
    spec = PodGroup(name="g", min_available=3, topology=Topology("rack"))
    racks.tell(PodGroupAdded(spec), PodAdded(make_pod("g-2", group="g", cpu=1)))
    racks.decide()
    assert racks.rows("g") == [("b1/r1", 0, 1, "short by 1 cpu")]
    parent = PodGroup(name="p", min_groups=1, topology=Topology("block"))
    child = PodGroup(name="c", parent=parent.key, min_available=4)
    pods = [PodAdded(make_pod(f"c-{n}", group="c", cpu=1)) for n in range(4)]
    racks.tell(PodGroupAdded(parent), PodGroupAdded(child), *pods)
    racks.decide()
    assert racks.rows("p") == [("b1", 1, 4, "short by 3 cpu")]


def test_role_that_requires_a_rack_is_named() -> None:
    racks = Racks(b1_r1_x=2, b1_r2_x=1)
    racks.add("g", roles={"w": 1, "ps": Role(3, topology=Topology("rack"))})
    (first, _second) = racks.scheduler.domains("default/g")
    assert (first.part, first.domain, first.fits, first.needed) == ("ps", "b1/r1", 2, 3)


@given(worlds(), st.sampled_from([BLOCK, RACK]), st.integers(1, 8), st.integers(1, 3))
def test_gang_of_like_members_starts_exactly_if_a_domain_takes_enough(
    world: Any, level: str, number: int, cpu: int
) -> None:
    host = WorldHost(world)
    host.tell(*gang("g", workers=number, cpu=cpu, topology=Topology(level)).events())
    rows = {row.domain: row for row in host.scheduler.domains("default/g")}
    expected = {}
    for path, names in places(world, level):
        fits = sum(world.free[name] // cpu for name in names)
        expected["/".join(path)] = min(fits, number)
    assert {domain: row.fits for domain, row in rows.items()} == expected
    assert all(bool(row.why) == (row.fits < number) for row in rows.values())
    assert bool(host.decide()) == any(row.fits == number for row in rows.values())
