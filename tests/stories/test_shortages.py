"""The reason of a gang with roles says what fits, and beside what."""

from __future__ import annotations

import pytest

from gangsched import Node, NodeAdded, NodeName, PodGroup, PodGroupAdded, Topology, presets
from gangsched.explain import NoNodeFits, Shortage
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way


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
