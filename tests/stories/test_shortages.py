"""The reason of a gang says what fits, beside what, and for whom capacity is kept."""

from __future__ import annotations

from functools import partial

import pytest

from gangsched import (
    Backfill,
    Node,
    NodeAdded,
    NodeName,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
    Topology,
    presets,
)
from gangsched.explain import NoNodeFits, Shortage
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way
from support.story_presets import GANG_PRESETS, Preset, each_of


def gang_with_roles(way: Way, ps: int, worker: int) -> NoNodeFits:
    """A parameter server, a worker and two loggers, of which two suffice, on 4 CPUs."""
    story = Story(presets.gang, way)
    allocatable = {"cpu": 4, "pods": 10}
    story.tell(NodeAdded(Node(name=NodeName("n0"), allocatable=allocatable)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles={"ps": 1, "worker": 1})))
    for name, cpu in (("ps", ps), ("worker", worker), ("log", 1), ("log-1", 1)):
        story.add(make_pod(name, group="g", role=name.partition("-")[0], cpu=cpu))
    story.run(until=100.0)
    story.interrupt()
    story.run(until=200.0)
    why = story.scheduler.why("default/g")
    assert isinstance(why, NoNodeFits)
    return why


def shortage(why: NoNodeFits) -> Shortage:
    assert why.unschedulable_member is not None
    proof = why.unschedulable_member.proof
    assert isinstance(proof, Shortage)
    return proof


@each_way
def test_role_that_fits_alone_is_said_not_to_fit_beside_the_other_roles(way: Way) -> None:
    why = gang_with_roles(way, ps=3, worker=2)
    assert (shortage(why).fits, shortage(why).beside_others) == (0, True)
    text = "at most 0 of 1 members of role worker fit beside the other roles: cpu is short"
    assert text in str(why)


@each_way
def test_role_that_does_not_fit_alone_is_said_not_to_fit(way: Way) -> None:
    why = gang_with_roles(way, ps=3, worker=5)
    assert not shortage(why).beside_others
    assert "beside" not in str(why)


@pytest.mark.parametrize(
    ("proof", "text"),
    [
        (
            Shortage(4, 2, True, beside_others=True),
            "at most 2 of 4 members fit beside the roles' minima at once",
        ),
        (
            Shortage(2, 0, True, role="ps", within="rack=a", beside_others=True),
            "at most 0 of 2 members of role ps fit within rack=a beside the other roles at once",
        ),
    ],
)
def test_sentence_of_a_shortage_beside_others(proof: Shortage, text: str) -> None:
    assert str(proof) == text


@each_way
@pytest.mark.parametrize(
    ("nodes", "members", "expected"),
    [
        pytest.param(
            [(2, "r0"), (2, "r0"), (2, "r1"), (2, "r1")],
            (2, 2, 1),
            "at most 2 of 3 members fit within rack=r0: cpu is short",
            id="each kind of member fits by itself",
        ),
        pytest.param(
            [(4, "r0"), (3, "r1"), (2, "r1")],
            (4, 3, 2),
            "at most 2 of 3 members fit within rack=r1: cpu is short",
            id="each member fits alone in the other rack",
        ),
        pytest.param(
            [(1, "r0"), (2, None)],
            (2, 2),
            "no node that can take it has the label rack",
            id="a member fits outside alone",
        ),
        pytest.param(
            [(1, "r0"), (1, None)],
            (2, 2),
            "0/2 nodes are available: 2 Insufficient cpu",
            id="a member fits nowhere",
        ),
    ],
)
def test_gang_that_fits_within_no_rack_says_what_does(
    way: Way, nodes: list[tuple[int, str | None]], members: tuple[int, ...], expected: str
) -> None:
    story = Story(presets.gang, way)
    for n, (cpu, rack) in enumerate(nodes):
        labels = {} if rack is None else {"rack": rack}
        story.tell(NodeAdded(make_node(f"n{n}", cpu=cpu, labels=labels)))
    group = PodGroup(name="g", min_available=len(members), topology=Topology("rack"))
    story.tell(PodGroupAdded(group))
    story.add(*(make_pod(f"g-{n}", group="g", cpu=cpu) for n, cpu in enumerate(members)))
    story.run(until=100.0)
    story.interrupt()
    story.run(until=200.0)
    assert expected in str(story.scheduler.why("default/g"))


@each_way
@each_of(GANG_PRESETS)
@pytest.mark.parametrize("likes", [[1] * 10, [1, 2] * 5], ids=["like", "unlike"])
def test_gang_that_prefers_a_rack_says_how_many_of_it_fit(
    preset: Preset, likes: list[int], way: Way
) -> None:
    """In the cluster as a whole: more than within any rack."""
    story = Story(preset, way)
    for name, cpu, rack in (("a", 3, "a"), ("b", 2, "b"), ("c", 2, "b")):
        story.tell(NodeAdded(make_node(name, cpu=cpu, labels={"rack": rack})))
    topology = Topology("rack", required=False)
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=10, topology=topology)))
    story.add(*(make_pod(f"g-{n}", group="g", cpu=cpu) for n, cpu in enumerate(likes)))
    story.run(until=60)
    story.interrupt()
    story.run(until=120)
    expected = f"at most {7 if likes[1] == 1 else 6} of 10 members fit: cpu is short"
    if likes[1] == 2 and preset not in (presets.gang, presets.coscheduling):
        expected = "not all of 10 members fit at once"  # plugins that read pods place them
    assert expected in str(story.scheduler.why("default/g"))
    assert expected in story.of(PodUnschedulable)[-1].reason


@each_way
def test_reservation_that_withholds_capacity_is_named(way: Way) -> None:
    """Of two nodes of 2 CPUs, three CPUs are free; all are reserved for a gang of 4."""
    story = Story(partial(presets.gang, backfill=Backfill()), way)
    story.tell(*(NodeAdded(make_node(name, cpu=2)) for name in "ab"))
    story.add(make_pod("runs", cpu=1))
    story.decide()
    story.gang("first", 4, priority=5)
    story.run(until=60)
    story.interrupt()
    story.add(make_pod("pod", cpu=1))
    story.gang("pair", 2)
    story.run(until=120)
    assert story.bound.keys() == {"runs"}
    named = "node(s) whose free capacity is reserved for pod group default/first"
    expected = f"0/2 nodes are available: 2 {named}."
    assert expected in str(story.scheduler.why(story.uid("pod")))
    assert expected in str(story.scheduler.why("default/pair"))
    assert expected in {each.reason for each in story.of(PodUnschedulable)}


@each_way
def test_reservation_that_withholds_some_of_the_capacity_is_named_after_what_fits(
    way: Way,
) -> None:
    """The first gang needs 9 CPUs, so 2 of 3 nodes are drained; 2 CPUs of each are free."""
    story = Story(partial(presets.gang, backfill=Backfill(least_members=3)), way)
    story.tell(*(NodeAdded(make_node(name, cpu=6)) for name in "abc"))
    story.add(*(make_pod(f"runs-{n}", cpu=4) for n in range(3)))
    story.decide()
    story.gang("first", 3, cpu=3, priority=5)
    story.run(until=60)
    story.interrupt()
    story.gang("pair", 4)
    story.run(until=120)
    short = "at most 2 of 4 members fit: cpu is short; free capacity of 2 nodes is reserved for"
    assert f"{short} pod group default/first" in str(story.scheduler.why("default/pair"))
