"""Whole gangs: one that belongs within one value of a label is there, whole, or waits."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Coscheduling,
    GroupRejected,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    PodDeleted,
    PodGroupAdded,
    PodGroupUpdated,
    Profile,
    Scheduler,
    Topology,
    Wait,
    WhenBlocked,
    presets,
)
from gangsched.explain import Shortage
from gangsched.plugins import DefaultBinder, NodeResources
from support.driver import Driver
from support.examples import one_in
from support.faulty_plugin import FaultyPlugin
from support.gangs import (
    GPU,
    gang_driver,
    members,
    node,
    place,
    specify,
    unschedulable,
    where,
)

pytestmark = pytest.mark.once("says itself which unit it is about")

RACK = Topology("rack")
LIKED = Topology("rack", required=False)
seats = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["r1", "r2", "r3", None])), min_size=1, max_size=6
)


def rack_driver(*seats: tuple[int, str | None]) -> Driver:
    """Return a driver with nodes: how much cpu, and in which rack."""
    return gang_driver(*(node(f"n{n}", cpu, rack=rack) for n, (cpu, rack) in enumerate(seats)))


def racks(driver: Driver) -> set[str | None]:
    """Return the racks with a pod."""
    labels = {each.name: each.labels.get("rack") for each in driver.cluster.nodes()}
    return {labels[NodeName(name)] for name in where(driver).values()}


def room(seats: list[tuple[int, str | None]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for cpu, rack in seats:
        if rack is not None and cpu:
            counts[rack] += cpu
    return counts


@one_in(2)
@given(seats, st.integers(1, 6))
def test_gang_starts_within_one_value_exactly_where_one_has_capacity(
    seats: list[tuple[int, str | None]], size: int
) -> None:
    """And in the value with the least sufficient capacity: larger ones are for larger gangs."""
    driver = rack_driver(*seats)
    place(driver, *members("g", size, cpu=1), spec=specify("g", size, RACK))
    fitting = {rack: cpu for rack, cpu in room(seats).items() if cpu >= size}
    assert len(where(driver)) == (size if fitting else 0)
    if fitting:
        (rack,) = racks(driver)
        assert fitting[rack or ""] == min(fitting.values())


@one_in(2)
@given(seats, st.integers(1, 6), st.integers(1, 3))
def test_late_member_goes_to_the_value_of_its_gang_or_nowhere(
    seats: list[tuple[int, str | None]], size: int, more: int
) -> None:
    driver = rack_driver(*seats)
    place(driver, *members("g", size, cpu=1), spec=specify("g", size, RACK))
    driver.add(*members("g", more, size, prefix="late-", cpu=1))
    driver.settle()
    if not where(driver):
        return
    (rack,) = racks(driver)
    assert len(where(driver)) == min(size + more, room(seats)[rack or ""])


def test_member_bound_to_a_value_does_not_keep_other_gangs_parked() -> None:
    """They ask for the same, and one of them has fewer places to go."""
    driver = rack_driver((1, "r1"))
    place(driver, *members("g", 1, cpu=1), spec=specify("g", 1, RACK))
    driver.add(*members("g", 1, 1, prefix="late-", cpu=1))
    driver.settle()
    place(driver, *members("h", 1, cpu=1), spec=specify("h", 1, RACK))
    driver.tell(node("n1", 1, rack="r2"))
    driver.settle()
    assert set(where(driver).values()) == {"n0", "n1"}


@pytest.mark.parametrize(("topology", "free"), [(RACK, 2), (RACK, 1), (LIKED, 2), (LIKED, 1)])
def test_gang_starts_in_the_domain_of_its_running_member(topology: Topology, free: int) -> None:
    """As after a restart; or elsewhere, if the label is only preferred and there is no capacity."""
    driver = rack_driver((9, "r2"), (1 + free, "r1"))
    pods = members("g", 3, cpu=1)
    runs = evolve(pods[0], node_name=NodeName("n1"))
    place(driver, runs, *pods[1:], spec=specify("g", 3, topology))
    others = {node for name, node in where(driver).items() if name != runs.name}
    elsewhere = set() if topology.required else {"n0", "n1"}
    assert others == ({"n1"} if free == 2 else elsewhere)


@one_in(2)
@given(seats, st.integers(1, 6))
def test_preferred_label_does_not_keep_members_from_running(
    seats: list[tuple[int, str | None]], size: int
) -> None:
    driver = rack_driver(*seats)
    place(driver, *members("g", size, cpu=1), spec=specify("g", size, LIKED))
    assert len(where(driver)) == (size if sum(cpu for cpu, _rack in seats) >= size else 0)
    if any(cpu >= size for cpu in room(seats).values()):
        assert len(racks(driver)) == 1


@one_in(2)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["r1", "r2"])), min_size=1, max_size=4)
)
def test_unlike_members_are_placed_within_one_value(seats: list[tuple[int, str]]) -> None:
    """Two of two processors and two of one: as far as they fit within a rack, in any way."""
    driver = rack_driver(*seats)
    pods = [*members("g", 2, 4, cpu=2), *members("g", 2, 4, prefix="s-", cpu=1)]
    place(driver, *pods, spec=specify("g", 4, RACK))
    assert len(where(driver)) in (0, 4)
    assert len(racks(driver)) <= 1
    fits = any(
        sum(cpu for cpu, each in seats if each == rack) >= 6
        and sum(cpu // 2 for cpu, each in seats if each == rack) >= 2
        for rack in ("r1", "r2")
    )
    assert bool(where(driver)) is fits


def test_proof_names_the_value_that_comes_closest() -> None:
    driver = rack_driver((2, "r1"), (2, "r2"), (1, "r2"), (9, None))
    place(driver, *members("g", 4, cpu=1), spec=specify("g", 4, RACK))
    proof = unschedulable(driver, "g").proof
    assert isinstance(proof, Shortage)
    assert (proof.needed, proof.fits, proof.exact, proof.within) == (4, 3, True, "rack=r2")
    assert str(proof) == "at most 3 of 4 members fit within rack=r2: cpu is short"
    assert str(proof) in str(driver.scheduler.why(specify("g", 4, RACK)))


def test_nodes_that_refuse_a_member_are_not_named_beside_the_value_that_comes_closest() -> None:
    cordoned = Node(name=NodeName("c"), labels={"rack": "r2"}, unschedulable=True)
    driver = gang_driver(node("n", 4, rack="r1"), NodeAdded(cordoned))
    place(driver, *members("g", 3, cpu=2), spec=specify("g", 3, RACK))
    found = unschedulable(driver, "g")
    assert found.reason == "at most 2 of 3 members fit within rack=r1: cpu is short"


def test_missing_topology_label_on_all_nodes_is_reported() -> None:
    driver = rack_driver((9, None), (9, None))
    place(driver, *members("g", 2, cpu=1), spec=specify("g", 2, RACK))
    found = unschedulable(driver, "g")
    assert found.reason == "no node that can take it has the label rack"
    assert found.proof == Shortage(2, 0, True, within="rack")


def test_nodes_are_named_when_no_node_takes_a_member() -> None:
    driver = rack_driver((1, None), (1, None))
    place(driver, *members("g", 2, cpu=2), spec=specify("g", 2, RACK))
    assert unschedulable(driver, "g").reason == "0/2 nodes are available: 2 Insufficient cpu."


def test_gang_starts_when_a_node_gets_the_label() -> None:
    """Law 4: a label is a fact like any other."""
    driver = rack_driver((2, "r1"), (2, None))
    place(driver, *members("g", 4, cpu=1), spec=specify("g", 4, RACK))
    assert where(driver) == {}
    changed = Node(name=NodeName("n1"), allocatable={"cpu": 2}, labels={"rack": "r1"})
    driver.tell(NodeUpdated(changed))
    driver.settle()
    assert len(where(driver)) == 4


def test_gang_whose_node_is_relabelled_grows_where_its_members_are_now() -> None:
    driver = rack_driver((2, "r1"), (2, "r2"))
    place(driver, *members("g", 2, cpu=1), spec=specify("g", 2, RACK))
    (name,) = set(where(driver).values())
    other = "r2" if racks(driver) == {"r1"} else "r1"
    moved = Node(name=NodeName(name), allocatable={"cpu": 2, GPU: 0}, labels={"rack": other})
    driver.tell(NodeUpdated(moved))
    driver.add(*members("g", 1, 2, prefix="late-", cpu=1))
    driver.settle()
    assert racks(driver) == {other}
    assert len(where(driver)) == 3


def test_late_member_is_held_when_no_member_is_on_a_labelled_node() -> None:
    """It runs on a node that has lost the label, or never had it: no node is in one domain with it.

    Once it has ended, the late members go within one value.
    """
    driver = rack_driver((1, None), (1, None), (1, "r1"))
    driver.tell(PodGroupAdded(specify("g", 1, RACK)))
    (runs,) = members("g", 1, cpu=1)
    driver.add(evolve(runs, node_name=NodeName("n0")))
    driver.add(*members("g", 2, 1, prefix="late-", cpu=1))
    driver.settle()
    assert set(where(driver).values()) == {"n0"}
    driver.tell(PodDeleted(runs.uid))
    driver.settle()
    assert set(where(driver).values()) == {"n2"}


def test_gang_within_one_label_starts_whole_in_the_other_unit() -> None:
    """A single pod does not show which rack has capacity for all."""
    driver = Driver(presets.coscheduling)
    driver.tell(node("a", 2, rack="r1"), node("b", 3, rack="r2"))
    driver.tell(PodGroupAdded(specify("g", 3, RACK)))
    driver.add(*members("g", 3, cpu=1))
    driver.settle()
    assert set(where(driver).values()) == {"b"}
    assert list(driver.scheduler.waiting) == []


def holds_nodes(*seats: tuple[int, str | None], running: int = 0) -> Driver:
    """Return a driver in which members of a gang of three wait on nodes, pod by pod.

    Two members take two cpu each, in the order of the nodes; the first ones run there already. The
    third fits nowhere.
    """
    driver = Driver(partial(presets.coscheduling, when_blocked=WhenBlocked.UNTIL_TIMEOUT))
    driver.tell(*(node(f"n{n}", cpu, rack=rack) for n, (cpu, rack) in enumerate(seats)))
    driver.tell(PodGroupAdded(specify("g", 3)))
    pods = members("g", 2, 3, cpu=2)
    for number in range(running):
        pods[number] = evolve(pods[number], node_name=NodeName(f"n{number}"))
    driver.add(*pods, *members("g", 1, 3, prefix="large-", cpu=99))
    driver.drain()
    assert len(driver.scheduler.waiting) == 2 - running
    return driver


def relabel(driver: Driver, name: str, cpu: int, rack: str) -> None:
    driver.tell(NodeUpdated(node(name, cpu, rack=rack).node))


@pytest.mark.parametrize("minimum", [2, 3])
def test_waiting_members_on_two_values_are_rejected_when_one_is_required(
    minimum: int,
) -> None:
    """Law 1: whether there is a quorum by then, or there is none yet."""
    driver = holds_nodes((2, "r1"), (2, "r2"))
    driver.tell(PodGroupUpdated(specify("g", minimum, RACK)))
    (fallen,) = [e for e in driver.log[-1].effects if isinstance(e, GroupRejected)]
    assert fallen.reason == "belongs within one rack now"
    assert list(driver.scheduler.waiting) == []
    assert where(driver) == {}
    driver.add(*members("g", 1, minimum, prefix="late-", cpu=2))
    driver.tell(node("n2", 2 * minimum, rack="r3"))
    driver.settle()
    assert len(where(driver)) == minimum
    assert racks(driver) == {"r3"}


@pytest.mark.parametrize(
    ("seats", "running", "starts"),
    [
        ([(2, "r1"), (2, "r1")], 0, True),
        ([(2, "r1"), (2, None)], 0, False),
        ([(2, None), (2, None)], 0, False),
        ([(2, "r1"), (2, "r1")], 1, True),
        ([(2, "r1"), (2, "r2")], 1, False),
        ([(2, None), (2, "r2")], 1, True),
    ],
)
def test_waiting_members_within_one_value_start_when_it_is_required(
    seats: list[tuple[int, str | None]], running: int, starts: bool
) -> None:
    """Running members decide the value; those on a node without the label do not count."""
    driver = holds_nodes(*seats, running=running)
    driver.tell(PodGroupUpdated(specify("g", 2, RACK)))
    assert len(where(driver)) == (2 if starts else running)
    assert list(driver.scheduler.waiting) == []


def test_waiting_members_are_rejected_when_the_value_of_a_node_changes() -> None:
    """The next member would have made it whole, across two values."""
    driver = holds_nodes((2, "r1"), (4, "r1"))
    driver.tell(PodGroupUpdated(specify("g", 3, RACK)))
    assert len(driver.scheduler.waiting) == 2
    relabel(driver, "n0", 2, "r2")
    driver.add(*members("g", 1, 3, prefix="late-", cpu=2))
    driver.drain()
    assert where(driver) == {}
    assert list(driver.scheduler.waiting) == []
    relabel(driver, "n0", 2, "r1")
    driver.settle()
    assert len(where(driver)) == 3


def test_waiting_late_member_is_not_rejected_for_a_label() -> None:
    """A gang that has started is not taken for one that could not start."""
    faulty = FaultyPlugin("permit")
    driver = gang_driver(
        node("n0", 1, rack="r1"),
        node("n1", 1, rack="r1"),
        make=lambda cluster: Scheduler(
            cluster, Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder())
        ),
    )
    place(driver, *members("g", 1, cpu=1), spec=specify("g", 1, RACK))
    faulty.answers["permit"] = Wait(9.0)
    driver.add(*members("g", 1, prefix="late-", cpu=1))
    driver.drain()
    relabel(driver, "n0", 1, "r2")
    relabel(driver, "n1", 1, "r3")
    driver.tell(PodGroupUpdated(specify("g", 2, RACK)))
    assert [waiting.uid for waiting in driver.scheduler.waiting] == ["default/g-late-0"]
