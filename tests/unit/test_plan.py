"""Planned nodes of the members of a gang: strategies, labels, and which member is reported."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    ClusterState,
    Coscheduling,
    GroupKey,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PlacementStrategy,
    Pod,
    PodDeleted,
    PodGroupAdded,
    PodUID,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
)
from gangsched.framework.placement import topology
from gangsched.framework.placement.plan import Domain
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_pod
from support.bundles import AB, pods, running, spec, specs
from support.driver import Driver, Fate
from support.faulty_gang import only
from support.faulty_plugin import FaultyPlugin
from support.gangs import gang_driver, members, node, place, specify, unschedulable, where

RACK = Topology("rack")


def odd_gang(
    *points: str, placement: PlacementStrategy = PlacementStrategy.AUTO, policy: Any = None
) -> tuple[Driver, FaultyPlugin]:
    """Return a driver of whole gangs, and a faulty plugin."""
    faulty = FaultyPlugin(*points)
    plugins = (faulty, policy or Coscheduling(), NodeResources(), DefaultBinder())

    def make(cluster: ClusterState) -> Scheduler:
        return Scheduler(cluster, Profile(*plugins), unit=SchedulingUnit.GROUP, placement=placement)

    return Driver(make), faulty


# Layouts --------------------------------------------------------------------------------------


def favour_a(_state: object, _pod: Pod, view: Any) -> int:
    return 100 if view.node.name == "a" else 0


def favouring(placement: PlacementStrategy, *nodes: NodeAdded) -> Driver:
    driver, faulty = odd_gang("score", "node_signature", "pod_signature", placement=placement)
    faulty.answers["score"] = favour_a
    faulty.answers["node_signature"] = lambda view: view.node.name
    driver.tell(*nodes)
    return driver


def test_spread_members_are_on_each_node_as_often_whatever_the_score_says() -> None:
    driver = favouring(PlacementStrategy.SPREAD, node("a", 9), node("b", 9))
    placed = place(driver, *members("g", 6, cpu=1))
    assert sorted(placed.values()) == ["a"] * 3 + ["b"] * 3


def test_spread_places_a_second_class_on_nodes_without_the_first() -> None:
    driver = favouring(PlacementStrategy.SPREAD, node("a", 9), node("b", 9))
    first, second = (
        make_pod("p", group="g", min_available=2, cpu=1),
        make_pod("q", group="g", min_available=2, cpu=2),
    )
    assert place(driver, first, second) == {"p": "a", "q": "b"}


def test_node_filled_by_another_class_is_not_offered_again_by_score() -> None:
    """Only one member of the second kind is needed, so no search finds nodes for both."""
    driver = gang_driver(node("a", 2), node("b", 2), placement=PlacementStrategy.SCORE)
    large = make_pod("large", group="g", min_available=2, cpu=2)
    assert len(place(driver, large, *members("g", 2, 2, cpu=1))) == 3


def test_first_of_equally_good_unlike_nodes_is_taken() -> None:
    driver = gang_driver(
        node("a", 1), node("b", 1, tainted=True), node("c", 1), placement=PlacementStrategy.SCORE
    )
    placed = place(driver, *members("g", 2, cpu=1, tolerant=True))
    assert placed == {"g-0": "a", "g-1": "b"}


def test_packed_members_of_a_second_class_go_first_where_most_fit() -> None:
    driver = gang_driver(node("b", 8), node("a", 8), placement=PlacementStrategy.PACK)
    first = [make_pod(f"l{n}", group="g", min_available=2, cpu=7 - 2 * n) for n in range(2)]
    second = [make_pod(f"s{n}", group="g", min_available=2, cpu=1) for n in range(3)]
    placed = place(driver, *first, *second)
    assert {placed[pod.name] for pod in second} == {placed["l1"]}


def test_packed_members_fill_equal_nodes_one_after_the_other() -> None:
    driver = gang_driver(*(node(name, 2) for name in "abcd"), placement=PlacementStrategy.PACK)
    placed = place(driver, *members("g", 4, 1, cpu=2))
    assert sorted(placed.values()) == ["a", "b", "c", "d"]


def test_packed_elastic_members_use_gpu_nodes_when_no_other_is_left() -> None:
    driver = gang_driver(node("plain", 1), node("gpus", 4, 4), placement=PlacementStrategy.PACK)
    placed = place(driver, *members("g", 3, 1, cpu=1))
    assert sorted(placed.values()) == ["gpus", "gpus", "plain"]


# Needed members -------------------------------------------------------------------------------


def test_members_of_other_roles_do_not_count_for_a_role() -> None:
    """Placed in order of arrival, the workers leave no capacity for the server."""
    driver = gang_driver(node("a", 4))
    group = specify("g", 2, roles={"server": 1})
    workers = members("g", 4, 2, role="worker", cpu=1)
    server = make_pod("server", group="g", min_available=2, role="server", cpu=3)
    placed = place(driver, *workers, server, spec=group)
    assert "server" in placed
    assert len(placed) == 2


def test_members_with_equal_requests_go_each_to_an_allowed_node() -> None:
    """They share the very object that says what they ask for."""
    driver = gang_driver(node("a", 9, rack="r1"), node("b", 9, rack="r2"))
    first, second = members("g", 2, cpu=1)
    there = {"g-0": "r2", "g-1": "r1"}
    pods = [evolve(pod, node_selector={"rack": there[pod.name]}) for pod in (first, second)]
    pods[1] = evolve(pods[1], requests=pods[0].requests)
    assert place(driver, *pods) == {"g-0": "b", "g-1": "a"}


def test_gang_that_needs_more_members_than_can_be_placed_is_reported() -> None:
    """It is queued before it is complete: its only rule is how many are needed."""
    driver, faulty = odd_gang("members_needed", "permit", policy=PrioritySort())
    faulty.answers["members_needed"] = 3
    driver.tell(node("a", 9))
    assert place(driver, *members("g", 2, cpu=1)) == {}
    found = driver.scheduler._state.pods.entities[GroupKey("default/g")].unschedulable_member
    assert found is not None
    assert found.reason == "too few members may be placed"


def test_extra_member_refused_by_pre_score_does_not_stop_the_gang() -> None:
    driver, faulty = odd_gang("pre_score")
    faulty.answers["pre_score"] = only("g-0", Success(), Unschedulable("not this one"))
    driver.tell(node("a", 9))
    assert set(place(driver, *members("g", 3, 2, cpu=1))) == {"g-1", "g-2"}


def test_needed_member_refused_by_pre_score_is_reported() -> None:
    driver, faulty = odd_gang("pre_score")
    faulty.answers["pre_score"] = only("g-1", Success(), Unschedulable("not this one"))
    driver.tell(node("a", 9))
    assert place(driver, *members("g", 3, cpu=1)) == {}
    found = unschedulable(driver, "g")
    assert (found.uid, found.pod, found.reason) == ("default/g-1", "default/g-1", "not this one")


def test_member_that_does_not_fit_is_reported_instead_of_the_first() -> None:
    driver = gang_driver(node("a", 4))
    small = make_pod("small", group="g", min_available=2, cpu=1)
    assert place(driver, small, make_pod("large", group="g", min_available=2, cpu=9)) == {}
    found = unschedulable(driver, "g")
    assert (found.uid, found.pod) == ("default/large", "default/large")


def test_proof_names_the_role_that_is_short() -> None:
    driver = gang_driver(node("a", 4))
    group = specify("g", 2, roles={"server": 1})
    server = make_pod("server", group="g", min_available=2, role="server", cpu=9)
    assert place(driver, *members("g", 2, 2, role="worker", cpu=1), server, spec=group) == {}
    proof: Any = unschedulable(driver, "g").proof
    assert (proof.role, proof.needed, proof.fits) == ("server", 1, 0)


def test_every_search_that_ends_undecided_is_counted() -> None:
    """They fit to the last processor, in few of many ways."""
    driver = gang_driver(node("a", 8), node("b", 12), node("c", 10), search_budget=0)
    for group in "gh":
        for number, cpu in enumerate((6, 6, 3, 3, 5, 7)):
            driver.add(make_pod(f"{group}{number}", group=group, min_available=6, cpu=cpu))
    driver.drain()
    for group in "gh":
        proof: Any = unschedulable(driver, group).proof
        assert (proof.needed, proof.placed, proof.steps) == (6, 5, 0)
    assert driver.scheduler.exhausted_searches == 2


# Within one value of a label ------------------------------------------------------------------


def test_several_values_of_a_label_are_named_in_order() -> None:
    assert str(Domain("rack", frozenset({"b", "a"}))) == "rack=a|b"


def rooms(driver: Driver, needed: int, *uids: str) -> list[tuple[str, float]]:
    """Return in which order values are tried for three of the first pod and one of each other.

    Each comes with the bound on the number of members that it takes.
    """
    state = driver.scheduler._state
    info = state.pods.registry.get(GroupKey("default/g"))
    assert info is not None
    counts = {state.pods.members[PodUID(uid)].pod_class: 3 if uid == uids[0] else 1 for uid in uids}
    return [
        (str(domain), most)
        for domain, most in topology.domains(state.nodes, state.pods, info, counts.items(), needed)
    ]


def test_value_with_the_least_sufficient_capacity_is_first() -> None:
    """Capacity is counted over all classes; of each at most its members, to be enough."""
    nodes = [node("c", 2, rack="c"), node("b", 3, rack="b"), node("a", 4, rack="a")]
    nodes += [node("h", 2, rack="h"), *(node(f"h{n}", 1, rack="h") for n in range(5))]
    driver = gang_driver(*nodes)
    driver.tell(PodGroupAdded(specify("g", 4, RACK)))
    driver.add(make_pod("small", group="g", cpu=1), make_pod("large", group="g", cpu=2))
    small_and_large = ("default/small", "default/large")
    assert rooms(driver, 4, *small_and_large) == [("rack=b", 4), ("rack=a", 4), ("rack=h", 4)]
    assert rooms(driver, 5, *small_and_large) == [("rack=h", 4)]


def test_extra_member_is_not_placed_outside_the_domain() -> None:
    """A search was needed to place the members that are needed."""
    driver = gang_driver(node("a", 4, 4, rack="a"), node("b", 2, 0, rack="b"))
    group = specify("g", 2, RACK, roles={"server": 1})
    workers = members("g", 4, 2, role="worker", cpu=1)
    server = make_pod("server", group="g", min_available=2, role="server", cpu=3, gpu=1)
    placed = place(driver, *workers, server, spec=group)
    assert set(placed.values()) == {"a"}
    assert len(placed) == 2


def test_extra_member_of_a_bundle_is_not_placed_outside_the_domain() -> None:
    driver = gang_driver(node("r1", 2, rack="r1"), node("r2", 3, rack="r2"), node("r3", 1))
    for group in AB:
        driver.tell(PodGroupAdded(spec(group, 2, AB, topology=RACK)))
    driver.add(*pods("one/a", 4), *pods("two/b", 2))
    driver.drain()
    assert sum(running(driver).values()) >= 4
    racks = {name[0]: set[str]() for name in where(driver)}
    for name, on in where(driver).items():
        racks[name[0]].add(on)
    assert all(len(each) == 1 for each in racks.values())


def test_first_of_equally_close_values_is_reported() -> None:
    """Either member fits within either value, and not both."""
    driver = gang_driver(node("a", 3, rack="r1"), node("b", 3, rack="r2"))
    unlike = [make_pod(name, group="g", cpu=cpu) for name, cpu in (("p", 2), ("q", 3))]
    assert place(driver, *unlike, spec=specify("g", 2, RACK)) == {}
    proof: Any = unschedulable(driver, "g").proof
    assert (proof.fits, proof.within) == (1, "rack=r1")


def used_and_like(placement: PlacementStrategy, *asks: int) -> Driver:
    """Return a driver of two nodes in a rack, alike once the first of a bundle is on the other.

    The members of the second group ask for so much each.
    """
    driver = gang_driver(node("n0", 7, rack="r1"), node("n1", 7, rack="r1"), placement=placement)
    driver.add(evolve(make_pod("runs", cpu=1), node_name=NodeName("n1")))
    driver.tell(PodGroupAdded(spec("one/a", 1, AB, topology=RACK)))
    driver.tell(PodGroupAdded(spec("two/b", len(asks), AB, topology=RACK)))
    driver.add(*pods("one/a", 1, cpu=1))
    driver.add(*(p for n, cpu in enumerate(asks) for p in pods("two/b", 1, first=n, cpu=cpu)))
    driver.settle()
    return driver


def test_node_that_becomes_equal_to_another_joins_its_class_in_a_search() -> None:
    """Both have six left; placed one by one, the small ones leave no capacity for the large one."""
    driver = used_and_like(PlacementStrategy.SCORE, 2, 2, 2, 6)
    found = where(driver)
    assert found.pop("a-0") == "n0"
    assert found.pop("runs") == "n1"
    assert len({found[f"b-{n}"] for n in range(3)}) == 1
    assert len(set(found.values())) == 2


def test_node_that_becomes_unlike_all_others_is_a_class_in_a_search() -> None:
    assert set(where(used_and_like(PlacementStrategy.PACK, 4, 4, 4))) == {"runs"}


def test_first_of_a_bundle_leaves_the_only_node_of_the_second() -> None:
    """It was packed beside the running pods; then no node has six left."""
    found = where(used_and_like(PlacementStrategy.PACK, 2, 2, 4, 4))
    assert (found["runs"], found["a-0"], len(found)) == ("n1", "n0", 6)


@pytest.mark.parametrize("kept", ["n1", "n2"])
def test_earlier_group_without_a_label_is_placed_anew_for_a_later_one(kept: str) -> None:
    """By itself it could be on either node."""
    driver = gang_driver(node("n1", 2, at="n1"), node("n2", 2, at="n2"))
    driver.tell(*specs(*AB, minimum=1))
    (first,), (second,) = pods("one/a", 1, cpu=2), pods("two/b", 1, cpu=2)
    driver.add(first, evolve(second, node_selector={"at": kept}))
    driver.settle()
    assert where(driver) == {"a-0": "n2" if kept == "n1" else "n1", "b-0": kept}


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)])
def test_groups_of_one_within_a_label_are_placed_for_each_other(sizes: tuple[int, int]) -> None:
    driver = gang_driver(node("r1", 2, rack="r1"), node("r2", 1, rack="r2"))
    for group in AB:
        driver.tell(PodGroupAdded(spec(group, 1, AB, topology=RACK)))
    driver.add(*pods("one/a", 1, cpu=sizes[0]), *pods("two/b", 1, cpu=sizes[1]))
    driver.settle()
    assert len(where(driver)) == 2


def test_bundle_is_not_placed_when_one_group_fits_nowhere() -> None:
    driver = gang_driver(node("r1", 2, rack="r1"), node("r2", 1, rack="r2"))
    for group in AB:
        driver.tell(PodGroupAdded(spec(group, 1, AB, topology=RACK)))
    driver.add(*pods("one/a", 1), *pods("two/b", 1, cpu=9))
    driver.settle()
    assert where(driver) == {}


@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("fate", [Fate.DONE, Fate.PENDING])
def test_late_member_goes_to_the_domain_of_a_gang_that_is_being_bound(
    unit: SchedulingUnit, required: bool, fate: Fate
) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        plugins = (Coscheduling(), NodeResources(), DefaultBinder())
        return Scheduler(cluster, Profile(*plugins), unit=unit)

    driver = Driver(make, fate=fate)
    driver.tell(node("a", 2, rack="a"), node("b", 1, rack="b"))
    driver.tell(PodGroupAdded(specify("g", 1, Topology("rack", required=required))))
    driver.add(*members("g", 1, cpu=2))
    driver.drain()
    driver.add(*members("g", 1, prefix="late-", cpu=1))
    driver.drain()
    bound = {
        member.pod.name for member in driver.scheduler._state.pods.members.values() if member.node
    }
    running_now = set(where(driver)) | bound
    assert running_now == ({"g-0"} if required else {"g-0", "g-late-0"})


def test_late_member_is_held_when_the_node_of_its_gang_is_gone() -> None:
    """No node is in one domain with a member that runs on it; without that member any rack is."""
    driver = gang_driver(node("a", 2, rack="a"), node("b", 2, rack="b"))
    driver.tell(PodGroupAdded(specify("g", 1, RACK)))
    (runs,) = members("g", 1, cpu=2)
    driver.add(runs)
    driver.drain()
    (on,) = where(driver).values()
    driver.tell(NodeDeleted(NodeName(on)))
    driver.add(*members("g", 1, prefix="late-", cpu=2))
    driver.settle()
    assert where(driver) == {"g-0": on}
    driver.tell(PodDeleted(runs.uid))
    driver.settle()
    assert set(where(driver)) == {"g-late-0"}


def test_member_that_fits_nowhere_is_reported_with_its_nodes() -> None:
    """Of a gang within a label that no node has: where others could take it, and where none."""
    for cpu, size in ((1, "roomy"), (9, "full")):
        driver = gang_driver(node("a", 4))
        assert place(driver, *members("g", 2, cpu=cpu), spec=specify("g", 2, RACK)) == {}, size
        found = unschedulable(driver, "g")
        assert found.pod == "default/g-0"
        assert found.diagnosis is not None
