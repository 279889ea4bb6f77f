"""Levels as users meet them: options, what is not understood, and gangs that run and grow."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupKey,
    InvalidValueError,
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Preemption,
    Role,
    Topology,
    presets,
)
from gangsched.configuration import make_scheduler, read_settings
from gangsched.options.levels import Levels, as_levels
from gangsched.replay import Recipe
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost
from support.story import Story, Way, each_way

LEVELS = ("block", "rack", "kubernetes.io/hostname")
IN_BLOCK = Topology("block", prefer="rack")


def nodes(*places: str, cpu: int = 2) -> list[NodeAdded]:
    """Return nodes of 2 CPUs, given the block and the rack of each, as ``b0/r1``."""
    found: list[NodeAdded] = []
    for number, place in enumerate(places):
        labels = dict(zip(("block", "rack"), place.split("/"), strict=False))
        found.append(NodeAdded(make_node(f"n{number}", cpu=cpu, labels=labels)))
    return found


class Host(ImmediateHost):
    """Nodes of 2 CPUs, and a scheduler that knows blocks and racks."""

    def __init__(self, *places: str, levels: Any = LEVELS, **options: Any) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, levels=levels, **options)
        self.tell(*nodes(*places))

    def gang(self, size: int, topology: Topology, *, minimum: int | None = None) -> list[str]:
        """Add a gang of pods of one CPU; return the nodes that have a member, in order."""
        group = PodGroup(name="g", min_available=minimum or size, topology=topology)
        self.tell(PodGroupAdded(group))
        self.tell(*[PodAdded(make_pod(f"p{n}", group="g", cpu=1)) for n in range(size)])
        self.decide()
        return self.nodes()

    def nodes(self) -> list[str]:
        """Return the nodes that have a member, in order."""
        return sorted({pod.node_name for pod in self.cluster.pods() if pod.node_name})

    def why(self) -> str:
        """Return why the gang waits."""
        return str(self.scheduler.why("default/g"))


# Domains that are empty ---------------------------------------------------------------------------


def _interleaved(**options: Any) -> ImmediateHost:
    """Return eight nodes of eight GPUs, whose names alternate between two racks."""
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, **options)
    for n in range(8):
        labels = {"block": "b0", "rack": f"r{n % 2}"}
        host.tell(NodeAdded(make_node(f"n{n}", cpu=100, gpu=8, labels=labels)))
    return host


def _used(host: ImmediateHost) -> list[str]:
    return sorted({pod.node_name for pod in host.cluster.pods() if pod.node_name})


@pytest.mark.parametrize("alone", [True, False])
def test_pods_that_fill_nodes_leave_a_rack_to_a_gang(alone: bool) -> None:
    host = _interleaved(levels=LEVELS)
    host.tell(PodGroupAdded(PodGroup(name="s", min_available=15)))
    for n in range(16):
        host.tell(PodAdded(make_pod(f"s{n}", gpu=1, group=None if alone or not n else "s")))
        host.decide()
    assert _used(host) == ["n0", "n2"]
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=4, topology=Topology("rack"))))
    host.tell(*[PodAdded(make_pod(f"g{n}", group="g", gpu=8)) for n in range(4)])
    assert len(host.decide()) == 4


def test_daemons_leave_a_rack_empty() -> None:
    host = _interleaved(levels=LEVELS)
    daemon = evolve(make_pod("d", cpu=1), node_name="n0", controller="apps/v1/DaemonSet/logs")
    other = evolve(make_pod("o", cpu=1), node_name="n1")
    host.tell(PodAdded(daemon), PodAdded(other))
    host.tell(PodAdded(make_pod("s", gpu=1)))
    host.decide()
    assert _used(host) == ["n0", "n1"], "and not n0 alone, which is in an empty rack"


def test_gang_breaks_up_the_rack_that_is_in_use() -> None:
    host = _interleaved(levels=LEVELS)
    host.tell(PodAdded(evolve(make_pod("s", gpu=1), node_name="n1")))
    # three nodes in use of r1 take as many as three of r0, which is empty
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=3, topology=Topology("rack"))))
    host.tell(*[PodAdded(make_pod(f"g{n}", group="g", gpu=8)) for n in range(3)])
    host.decide()
    assert _used(host) == ["n1", "n3", "n5", "n7"]


# Domains ----------------------------------------------------------------------------------------


def test_racks_of_one_name_in_two_blocks_are_two_racks() -> None:
    places = ("b0/r0", "b1/r0")
    assert Host(*places).gang(4, Topology("rack")) == []
    assert Host(*places, levels=()).gang(4, Topology("rack")) == ["n0", "n1"]


def test_gang_shares_the_preferred_rack_of_its_block_if_it_can() -> None:
    assert Host("b0/r0", "b0/r1", "b0/r1").gang(4, IN_BLOCK) == ["n1", "n2"]


def test_gang_that_fits_in_no_rack_takes_few_racks_of_one_block() -> None:
    host = Host("b0/r0", "b0/r1", "b0/r2", "b1/r0", "b1/r0", "b1/r1")
    assert host.gang(6, IN_BLOCK) == ["n3", "n4", "n5"], "two racks of b1, and not three of b0"


def test_gang_that_fits_in_no_block_waits_or_goes_to_the_fewest() -> None:
    places = ("b0/r0", "b0/r1", "b1/r0", "b2/r0", "b2/r1")
    waits = Host(*places)
    assert waits.gang(6, IN_BLOCK) == []
    assert "block" in waits.why()
    starts = Host(*places)
    assert starts.gang(6, Topology("block", required=False)) in (
        ["n0", "n1", "n2"],
        ["n0", "n1", "n3"],
        ["n0", "n1", "n4"],
        ["n2", "n3", "n4"],
    )


def test_unlike_members_share_a_preferred_rack_that_takes_them_in_one_way_only() -> None:
    host = Host()
    host.tell(
        *nodes("b0/r0", "b0/r0", cpu=4), NodeAdded(make_node("m", cpu=9, labels={"block": "b0"}))
    )
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=4, topology=IN_BLOCK)))
    sizes = (1, 2, 3, 2)
    host.tell(*[PodAdded(make_pod(f"p{n}", group="g", cpu=c)) for n, c in enumerate(sizes)])
    host.decide()
    assert host.nodes() == ["n0", "n1"]


def test_reason_names_a_rack_with_its_block() -> None:
    host = Host("b0/r0", "b1/r0")
    assert host.gang(2, Topology("rack")) == ["n0"]
    host.tell(PodAdded(make_pod("late", group="g", cpu=1)))
    host.decide()
    assert "not within rack=b0/r0" in host.why()


# A gang that runs -------------------------------------------------------------------------------


def test_members_that_join_go_to_the_rack_of_the_others_and_stay_in_the_block() -> None:
    host = Host("b0/r0", "b0/r0", "b0/r1", "b1/r0")
    assert host.gang(2, IN_BLOCK) == ["n2"], "the smallest rack that takes both"
    host = Host("b0/r0", "b0/r0", "b0/r1", "b1/r0")
    assert host.gang(3, IN_BLOCK) == ["n0", "n1"]
    late = [make_pod(f"late{n}", group="g", cpu=1) for n in range(4)]
    host.tell(*map(PodAdded, late))
    host.decide()
    assert host.nodes() == ["n0", "n1", "n2"]
    assert sum(pod.node_name is None for pod in host.cluster.pods()) == 1
    assert "not within block=b0" in host.why()


@each_way
def test_member_of_a_preferred_rack_is_replaced_in_it(way: Way) -> None:
    story = Story(lambda c: presets.gang(c, levels=LEVELS), way)
    story.tell(*nodes("b0/r1", "b0/r1", "b0/r0"))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=4, topology=IN_BLOCK)))
    story.add(*[make_pod(f"p{n}", group="g", cpu=1) for n in range(4)])
    story.decide()
    assert set(story.bound.values()) == {"n0", "n1"}
    story.interrupt()
    story.delete("p0")
    story.add(make_pod("q0", group="g", cpu=1))
    story.interrupt()
    story.decide()
    assert story.bound["q0"] in ("n0", "n1")


def test_victims_are_evicted_within_the_required_level() -> None:
    host = Host("b0/r0", "b1/r0", "b1/r1", preemption=Preemption())
    others = [make_pod(f"x{n}", cpu=1) for n in range(6)]
    host.tell(*map(PodAdded, others))
    host.decide()
    group = PodGroup(name="g", min_available=4, topology=IN_BLOCK, priority=9)
    host.tell(PodGroupAdded(group))
    members = [make_pod(f"p{n}", group="g", cpu=1, priority=9) for n in range(4)]
    host.tell(*map(PodAdded, members))
    host.decide()
    evicted = {each.uid.partition("/")[2] for each in host.effects if isinstance(each, Evict)}
    host.end(*evicted)
    host.decide()
    placed = {pod.node_name for pod in host.cluster.pods() if pod.name.startswith("p")}
    assert placed == {"n1", "n2"}
    assert len(evicted) == 4


def test_role_has_a_rack_of_its_own_within_the_block_of_its_group() -> None:
    roles = {"decode": Role(2, roles={"worker": 2}, topology=Topology("rack"))}
    host = Host("b0/r0", "b1/r0", "b1/r1")
    spec = PodGroup(name="g", roles=roles, topology=Topology("block"))
    host.tell(PodGroupAdded(spec))
    for copy in range(2):
        for n in range(2):
            pod = make_pod(f"p{copy}{n}", group="g", role=f"decode/{copy}/worker", cpu=1)
            host.tell(PodAdded(pod))
    host.decide()
    assert host.nodes() == ["n1", "n2"]


# What is not understood -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "topology", "why"),
    [
        ((), IN_BLOCK, "rack is preferred within block, and the scheduler was given no levels"),
        (LEVELS, Topology("zone"), "zone is none of the levels of the scheduler: block, rack"),
        (LEVELS, Topology("rack", prefer="block"), "block is preferred, and is no finer level"),
        (
            [["block", "rack"], ["zone"]],
            Topology("zone", prefer="rack"),
            "no finer level than zone",
        ),
    ],
)
def test_gang_whose_levels_are_not_known_is_held_and_says_so(
    levels: Any, topology: Topology, why: str
) -> None:
    host = Host("b0/r0", levels=levels)
    assert host.gang(1, topology) == []
    assert why in host.why()
    spec = host.cluster.pod_group(GroupKey("default/g"))
    assert spec is not None
    host.tell(PodGroupUpdated(evolve(spec, topology=None)))
    host.decide()
    assert host.nodes() == ["n0"]


def test_topology_of_a_parent_that_is_not_known_holds_its_groups() -> None:
    host = Host("b0/r0")
    root = PodGroup(name="root", min_groups=1, topology=Topology("zone"))
    host.tell(PodGroupAdded(root))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=1, parent=root.key)))
    host.tell(PodAdded(make_pod("p", group="g", cpu=1)))
    assert host.decide() == []
    assert "root has a constraint that is not known: zone is none of the levels" in host.why()


@pytest.mark.parametrize("given", ["rack", 7, [""], [[]], [["rack"], "zone"], [7], ["a", "a"]])
def test_levels_that_are_malformed_are_refused(given: Any) -> None:
    with pytest.raises(InvalidValueError, match="levels"):
        as_levels(given)


@pytest.mark.parametrize("wrong", ["rack", "", 7])
def test_preferred_level_is_another_one(wrong: Any) -> None:
    with pytest.raises(InvalidValueError, match="prefer"):
        Topology("rack", prefer=wrong)


def test_levels_come_from_a_configuration_file_and_from_a_recipe() -> None:
    document = {"levels": ["block", "rack"]}
    assert read_settings(document).levels == Levels((("block", "rack"),))
    host = Host()
    host.scheduler = make_scheduler(read_settings(document), host.cluster)
    host.tell(*nodes("b0/r0", "b1/r0"))
    assert host.gang(4, Topology("rack")) == []
    recipe = Recipe("gang", levels=["block", "rack"])
    assert recipe.arguments["levels"] == (("block", "rack"),)
    with pytest.raises(InvalidValueError, match="levels"):
        read_settings({"levels": [["rack"], ["rack"]]})


def test_node_that_moves_to_another_block_is_another_domain() -> None:
    host = Host("b0/r0", "b0/r0")
    assert host.gang(1, Topology("rack")) == ["n0"]
    moved = make_node("n1", cpu=2, labels={"block": "b1", "rack": "r0"})
    host.tell(NodeAdded(moved))
    host.tell(PodAdded(make_pod("late", group="g", cpu=2)))
    host.decide()
    assert "not within rack=b0/r0" in host.why()


@pytest.mark.parametrize("levels", [(), LEVELS])
def test_rack_of_a_role_is_required_on_the_one_node_of_its_gang(levels: Any) -> None:
    host = Host(levels=levels)
    host.tell(NodeAdded(make_node("bare", cpu=9)))
    roles = {"x": Role(2, topology=Topology("rack"))}
    group = PodGroup(name="g", roles=roles, topology=Topology("kubernetes.io/hostname"))
    host.tell(PodGroupAdded(group))
    host.tell(*[PodAdded(make_pod(f"p{n}", group="g", role="x", cpu=1)) for n in range(2)])
    host.decide()
    assert host.nodes() == [], "its node is in no rack"
    host.tell(*nodes("b0/r0"))
    host.decide()
    assert host.nodes() == ["n0"]
