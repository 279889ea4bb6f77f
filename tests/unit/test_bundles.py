"""Bundles: their names, roles and labels within them, and their leader."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Coscheduling,
    GroupKey,
    InMemoryCluster,
    InvalidPodGroupError,
    Outcome,
    PlacementStrategy,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodUnschedulable,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Topology,
    Unschedulable,
    presets,
)
from gangsched._core._bundle import Bundles
from gangsched.framework.queueing import bundles
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import GroupView
from support.bundles import AB, key, pods, running, spec, specs, why
from support.busy import tell
from support.driver import Driver
from support.examples import one_in
from support.faulty_plugin import FaultyPlugin
from support.gangs import binds, decide, gang_driver, node, unschedulable

# Names ----------------------------------------------------------------------------------------

MALFORMED: list[Any] = [
    *("one/a", 3, True, 1.5),
    *([""], ["a"], ["/a"], ["one/"], ["one/a/b"], [None], [b"one/a"], [3], [("one", "a")]),
]


@pytest.mark.parametrize("given", MALFORMED, ids=repr)
def test_bundle_that_is_malformed_is_refused_by_group_field_and_value(given: Any) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        PodGroup(name="g", namespace="ns", min_available=1, bundle=given)
    error = caught.value
    value = given[0] if isinstance(given, list) else given
    assert (error.subject, error.field, error.value) == ("ns/g", "bundle", value)


@pytest.mark.parametrize("given", [AB, list(AB), iter(AB), (AB[1], AB[0], AB[1]), set(AB)])
def test_bundle_is_a_set_of_keys(given: Any) -> None:
    group = PodGroup(name="g", min_available=1, bundle=given)
    assert group.bundle == AB
    assert group == PodGroup(name="g", min_available=1, bundle=tuple(map(key, AB)))
    assert hash(group) == hash(PodGroup(name="g", min_available=1, bundle=tuple(map(key, AB))))


def test_group_names_itself_or_not() -> None:
    """It is in its bundle either way; a group that names no other is in none."""
    known = Bundles()
    found = known.join(spec("two/b", 1, ["one/a"]))
    assert found is not None
    assert found.keys == AB
    assert known.join(spec("two/b", 1, AB)) is found
    assert known.join(spec("two/b", 1)) is None


# The leader -----------------------------------------------------------------------------------


def test_first_by_key_that_has_not_started_leads() -> None:
    driver = Driver()
    driver.tell(*specs("b/x", "a/y", "c/z"))
    driver.add(*(p for group in ("c/z", "b/x", "a/y") for p in pods(group)))
    state = driver.scheduler._state
    entities = {g: state.pods.entities[GroupKey(g)] for g in ("a/y", "b/x", "c/z")}
    gated = [state.queue.is_gated(entity) for entity in entities.values()]
    assert gated == [False, True, True]
    for entity in entities.values():
        assert bundles.pending(state.pods, entity) == list(entities.values())
        assert bundles.is_shared(state.pods, entity)


def test_started_group_is_of_no_concern_to_its_bundle() -> None:
    driver = Driver()
    driver.tell(node("n", 9), *specs(*AB))
    driver.add(*(p for group in AB for p in pods(group)))
    driver.settle()
    state = driver.scheduler._state
    for group in AB:
        entity = state.pods.entities[key(group)]
        assert bundles.pending(state.pods, entity) == [entity]
        info = state.pods.registry.get(key(group))
        assert info is not None
        assert bundles.siblings(state.pods, info.bundle, info.key) == []


def test_others_of_a_bundle_are_without_itself() -> None:
    driver = Driver()
    driver.tell(*specs(*AB))
    driver.add(*(p for group in AB for p in pods(group)))
    state = driver.scheduler._state
    for group, other in (AB, AB[::-1]):
        info = state.pods.registry.get(key(group))
        assert info is not None
        found = bundles.siblings(state.pods, info.bundle, info.key)
        assert found == [state.pods.entities[key(other)]]


def test_cycle_of_a_running_group_does_not_concern_its_bundle() -> None:
    driver = Driver()
    driver.tell(node("n", 9), PodGroupAdded(spec("two/b", 2)))
    driver.add(*pods("two/b"))
    driver.settle()
    driver.tell(*specs(*AB))
    driver.add(*pods("one/a", cpu=99))
    driver.settle()
    state = driver.scheduler._state
    entity = state.pods.entities[key("two/b")]
    assert bundles.pending(state.pods, entity) == [entity]
    driver.add(*pods("two/b", 1, first=2))
    driver.settle()
    assert running(driver) == {"two/b": 3}


# Groups that are not admitted, and why --------------------------------------------------------


def held(driver: Driver, group: str, *, now: float = 0.0) -> Outcome:
    """Return what is said of a pod that a group would have next."""
    state = driver.scheduler._state
    return bundles.pre_enqueue(
        state.settings,
        state.pods,
        state.call,
        pods(group)[0],
        state.pods.registry.get(key(group)),
        now,
    )


def test_entity_that_starts_with_another_states_it_and_needs_no_capacity() -> None:
    driver = Driver()
    driver.tell(*specs(*AB))
    driver.add(*(p for group in AB for p in pods(group)))
    assert held(driver, "one/a") == Success()
    says = "starts with pod group one/a"
    assert held(driver, "two/b") == Unschedulable(says, resolvable=False)


def test_entity_that_waits_for_another_states_it_and_needs_no_capacity() -> None:
    driver = Driver()
    driver.tell(specs(*AB)[0])
    driver.add(*pods("one/a"))
    waits = "waiting for pod group two/b of its bundle: "
    says = f"{waits}it does not exist"
    assert held(driver, "one/a") == Unschedulable(says, resolvable=False)
    driver.tell(specs(*AB)[1])
    says = f"{waits}it has no pending members"
    assert held(driver, "one/a") == Unschedulable(says, resolvable=False)
    driver.add(*pods("two/b", 1))
    says = f"{waits}waiting for 1 more member: 1 of 2 exist"
    assert held(driver, "one/a") == Unschedulable(says, resolvable=False)
    driver.tell(PodGroupAdded(spec("two/b", 1)))
    says = "pod group two/b names another bundle"
    assert held(driver, "one/a") == Unschedulable(says, resolvable=False)


def test_started_group_waits_for_no_departed_group() -> None:
    driver = Driver()
    driver.tell(node("n", 9), *specs(*AB))
    driver.add(*(p for group in AB for p in pods(group)))
    driver.settle()
    driver.tell(PodGroupDeleted(key("two/b")))
    driver.add(*pods("one/a", 1, first=2))
    driver.settle()
    assert running(driver)["one/a"] == 3


def test_plugins_are_asked_about_each_group_of_a_bundle_once() -> None:
    faulty, asked = FaultyPlugin("pre_enqueue"), list[tuple[str, str]]()
    cluster = InMemoryCluster()
    profile = Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    for fact in (*specs(*AB), *(PodAdded(p) for group in AB for p in pods(group))):
        tell(cluster, scheduler, fact, now=1.0)

    def ask(pod: Pod, group: GroupView, *, now: float) -> Outcome:
        assert now == 2.0
        asked.append((pod.name, group.key))
        return Success()

    faulty.answers["pre_enqueue"] = ask
    state = scheduler._state
    info = state.pods.registry.get(key("one/a"))
    bundles.pre_enqueue(state.settings, state.pods, state.call, pods("one/a")[1], info, 2.0)
    assert asked == [("a-1", "one/a"), ("b-0", "two/b")]


# Roles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", SchedulingUnit)
@pytest.mark.parametrize("cpu", [3, 4])
def test_each_group_gets_its_roles(unit: SchedulingUnit, cpu: int) -> None:
    """Elastic workers of the one do not take the capacity of the server of the other."""
    driver = Driver(lambda cluster: presets.coscheduling(cluster, unit=unit))
    roles = {"ps": 1, "worker": 1}
    driver.tell(node("n", cpu), *specs(*AB, roles=roles))
    driver.add(*pods("one/a", 3, role="worker"), *pods("one/a", 1, first=3, role="ps"))
    driver.add(*pods("two/b", 3, role="worker"))
    driver.settle()
    assert running(driver) == {}
    assert "1 more ps" in str(why(driver, "one/a"))
    driver.add(*pods("two/b", 1, first=3, role="ps"))
    driver.settle()
    assert running(driver) == ({} if cpu < 4 else dict.fromkeys(AB, 2))
    if cpu == 4:
        gone = {pod.name for pod in driver.cluster.pods() if pod.node_name}
        assert {"a-3", "b-3"} <= gone


def test_proof_names_the_group_and_the_role_that_are_short() -> None:
    driver = gang_driver(node("n", 3, 1))
    bundle = ("default/a", "default/b")
    driver.tell(*specs(*bundle, roles={"ps": 1, "worker": 1}))
    driver.add(*pods("default/a", 1, role="worker"), *pods("default/a", 1, first=1, role="ps"))
    driver.add(*pods("default/b", 1, role="worker"))
    driver.add(*pods("default/b", 1, first=1, role="ps", cpu=9))
    driver.settle()
    proof = unschedulable(driver, "a").proof
    assert str(proof).startswith("at most ")
    assert "of pod group default/b" in str(proof)


# Within one value of a label ------------------------------------------------------------------

RACK, ZONE = Topology("rack"), Topology("zone")


def racks(
    *,
    placement: PlacementStrategy = PlacementStrategy.AUTO,
    a: Any = RACK,
    b: Any = RACK,
    **cpus: int,
) -> Driver:
    """Return a driver of a bundle of two groups within a rack each, and of racks so large."""
    driver = gang_driver(
        *(node(name, cpu, rack=name) for name, cpu in cpus.items()), placement=placement
    )
    for group, topology in zip(AB, (a, b), strict=True):
        driver.tell(PodGroupAdded(spec(group, 2, AB, topology=topology)))
    return driver


def places(driver: Driver) -> dict[str, set[str]]:
    """Return on which nodes the members of a group are."""
    found: dict[str, set[str]] = {}
    for pod in driver.cluster.pods():
        if pod.node_name:
            found.setdefault(pod.name[0], set()).add(pod.node_name)
    return found


layouts = pytest.mark.parametrize("placement", PlacementStrategy)
zones = st.sampled_from(["a", "b"])


@layouts
def test_each_group_is_within_a_value_of_its_own(placement: PlacementStrategy) -> None:
    driver = racks(r1=2, r2=2, placement=placement)
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    found = places(driver)
    assert sorted(map(sorted, found.values())) == [["r1"], ["r2"]]


@layouts
def test_group_that_fits_within_no_value_keeps_the_other(placement: PlacementStrategy) -> None:
    """Members that were placed before do not count for it."""
    driver = racks(r1=2, r2=1, placement=placement)
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert running(driver) == {}
    assert "members of pod group two/b fit within rack=" in str(why(driver, "one/a"))
    driver.tell(node("r2", 2, rack="r2"))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)


@layouts
def test_node_that_the_bundle_uses_already_is_not_within_every_value(
    placement: PlacementStrategy,
) -> None:
    """All fit on the node of the first; the second must be in another domain."""
    driver = racks(a=ZONE, b=RACK, placement=placement)
    driver.tell(node("n1", 4, zone="z"), node("n2", 2, rack="r"))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert places(driver) == {"a": {"n1"}, "b": {"n2"}}


@layouts
def test_capacity_left_by_an_earlier_group_is_used_by_the_next(
    placement: PlacementStrategy,
) -> None:
    """Also where a placement has to be searched for."""
    driver = racks(r1=9, b=None, placement=placement)
    driver.add(*pods("one/a", cpu=2))
    driver.add(*pods("two/b", 1, cpu=1), *pods("two/b", 1, first=1, cpu=4))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)


@layouts
@given(room=st.integers(0, 7), spare=st.integers(0, 4), both=st.booleans())
def test_elastic_members_take_no_capacity_of_another_group(
    placement: PlacementStrategy, room: int, spare: int, both: bool
) -> None:
    driver = racks(r1=room, b=RACK if both else None, placement=placement)
    driver.add(*pods("one/a", 2 + spare), *pods("two/b"))
    driver.settle()
    assert sum(running(driver).values()) == (min(room, 4 + spare) if room >= 4 else 0)


def test_elastic_members_are_placed_in_the_same_call_if_they_fit() -> None:
    """Placed with the others they would take the capacity of the second group."""
    driver = racks(r1=5)
    driver.add(*pods("one/a", 5), *pods("two/b"))
    assert len(binds(decide(driver))) == 5


@layouts
def test_search_looks_at_no_node_that_is_not_within_the_value(
    placement: PlacementStrategy,
) -> None:
    """All fit on the node of the first, which has no rack."""
    driver = racks(a=ZONE, b=RACK, placement=placement)
    driver.tell(node("n1", 9, zone="z"), node("n2", 1, rack="r"))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert running(driver) == {}


@pytest.mark.parametrize("bundle", [(), AB])
def test_group_that_fits_within_no_label_value_is_rejected_with_the_reason(
    bundle: tuple[str, ...],
) -> None:
    faulty, cluster = FaultyPlugin("pre_score"), InMemoryCluster()
    faulty.answers["pre_score"] = Unschedulable("not today")
    profile = Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    tell(cluster, scheduler, node("n", 9, rack="r"), now=0.0)
    for group in bundle or AB[:1]:
        fact = PodGroupAdded(spec(group, 2, bundle, topology=RACK))
        tell(cluster, scheduler, fact, now=0.0)
        for pod in pods(group):
            tell(cluster, scheduler, PodAdded(pod), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    told = [e for e in effects if isinstance(e, PodUnschedulable)]
    assert {e.reason for e in told} == {"not today"}
    assert len({e.uid for e in told}) == len(told) == 2 * len(bundle or "a")
    scheduler._check()


def test_search_knows_the_nodes_that_the_bundle_uses_already() -> None:
    """Unlike members, which only fit on what the first group leaves, in one arrangement."""
    driver = racks(a=None, b=RACK, r1=5)
    driver.tell(node("big", 3, rack="r1"))
    driver.add(*pods("one/a", cpu=1))
    driver.add(*pods("two/b", 1, cpu=2), *pods("two/b", 1, first=1, cpu=4))
    driver.settle()
    assert running(driver) == dict.fromkeys(AB, 2)


def test_label_that_is_preferred_keeps_no_bundle_from_running() -> None:
    preferred = Topology("rack", required=False)
    driver = racks(r1=2, r2=1, r3=1, a=preferred, b=preferred)
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert places(driver) == {"a": {"r1"}, "b": {"r2", "r3"}}


def test_earlier_group_is_placed_within_another_value_for_a_later_one() -> None:
    """The first zone has less sufficient capacity; but the only rack is there."""
    driver = racks(a=ZONE, b=RACK)
    driver.tell(node("n1", 2, zone="z1", rack="r"), node("n2", 3, zone="z2"))
    driver.add(*pods("one/a"), *pods("two/b"))
    driver.settle()
    assert places(driver) == {"a": {"n2"}, "b": {"n1"}}


def test_earlier_group_leaves_the_only_node_of_a_later_one() -> None:
    driver = gang_driver(node("n1", 2, 1, rack="r"), node("n2", 2, rack="r"))
    driver.tell(PodGroupAdded(spec("one/a", 1, AB, topology=RACK)))
    driver.tell(PodGroupAdded(spec("two/b", 1, AB)))
    driver.add(*pods("one/a", 1, cpu=2), *pods("two/b", 1, cpu=1, gpu=1))
    driver.settle()
    assert places(driver) == {"a": {"n2"}, "b": {"n1"}}


def test_elastic_members_follow_within_the_domains_of_all() -> None:
    driver = racks(a=ZONE, b=RACK)
    driver.tell(node("n1", 3, zone="z1", rack="r"), node("n2", 4, zone="z2"), node("n3", 9))
    driver.add(*pods("one/a", 5), *pods("two/b", 4))
    driver.settle()
    assert places(driver) == {"a": {"n2"}, "b": {"n1"}}
    assert running(driver) == {"one/a": 4, "two/b": 3}


@pytest.mark.parametrize(("budget", "placed"), [(0, 1), (100, 0), (101, None)])
def test_how_many_combinations_of_values_are_tried_is_bounded_by_the_budget(
    budget: int, placed: int | None
) -> None:
    """It is the second that does; and whether one does is not known after the first."""
    nodes = [node("n0", 2, 1, rack="r0"), node("n1", 2, rack="r1"), node("n2", 2, rack="r2")]
    driver = gang_driver(*nodes, search_budget=budget)
    for group in AB:
        driver.tell(PodGroupAdded(spec(group, 1, AB, topology=RACK)))
    driver.add(*pods("one/a", 1, cpu=2), *pods("two/b", 1, cpu=2, gpu=1))
    driver.settle()
    assert sum(running(driver).values()) == (2 if placed is None else 0)
    if placed is not None:
        says = f"not decided within 100 steps: {placed} of 2 members fit, and more may"
        assert says in str(why(driver, "one/a"))


def told(driver: Driver) -> tuple[str, str]:
    """Return the member of the bundle that does not fit, and why."""
    found = driver.scheduler._state.pods.entities[key("one/a")].unschedulable_member
    assert found is not None
    return found.pod, str(found.proof)


def test_first_of_equally_close_combinations_is_reported() -> None:
    """Either member of the second group fits within either of two racks, and not both."""
    driver = racks(r1=5, r2=4, r3=4)
    driver.tell(PodGroupAdded(spec("one/a", 1, AB, topology=RACK)))
    driver.add(*pods("one/a", 1, cpu=5))
    driver.add(*pods("two/b", 1, cpu=2), *pods("two/b", 1, first=1, cpu=3))
    driver.settle()
    who, why_not = told(driver)
    assert who == "two/b-0"
    assert why_not.startswith("at most 1 of 2 members of pod group two/b fit within rack=r2")


def test_member_that_fits_nowhere_is_reported_for_a_group_that_fits_within_no_value() -> None:
    driver = racks(a=ZONE, b=RACK)
    driver.tell(node("n1", 1, zone="z1", rack="r1"), node("n2", 1, zone="z1", rack="r2"))
    driver.add(*pods("one/a", 1), *pods("one/a", 1, first=1, cpu=2), *pods("two/b"))
    driver.settle()
    who, why_not = told(driver)
    assert who == "one/a-1"
    assert why_not.startswith("at most 1 of 2 members of pod group one/a fit within zone=z1")


@one_in(4)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1), zones, zones), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 2), st.integers(0, 1)), min_size=2, max_size=4),
    st.sampled_from([(RACK, ZONE), (RACK, RACK), (ZONE, None), (None, RACK)]),
    st.integers(1, 3),
)
def test_bundle_within_labels_starts_exactly_where_there_is_a_way(
    seats: list[tuple[int, int, str, str]],
    asks: list[tuple[int, int]],
    labels: tuple[Topology | None, Topology | None],
    first: int,
) -> None:
    """By trying every node for every member."""
    driver = gang_driver(
        *(node(f"n{n}", cpu, gpu, rack=r, zone=z) for n, (cpu, gpu, r, z) in enumerate(seats))
    )
    first = min(first, len(asks) - 1)
    groups = [asks[:first], asks[first:]]
    for name, topology, members in zip(AB, labels, groups, strict=True):
        driver.tell(PodGroupAdded(spec(name, len(members), AB, topology=topology)))
    for name, members in zip(AB, groups, strict=True):
        for n, (cpu, gpu) in enumerate(members):
            driver.add(*pods(name, 1, first=n, cpu=cpu, gpu=gpu))
    driver.settle()
    assert sum(running(driver).values()) == (len(asks) if is_a_way(seats, groups, labels) else 0)


def is_a_way(
    seats: list[tuple[int, int, str, str]],
    groups: list[list[tuple[int, int]]],
    labels: tuple[Topology | None, Topology | None],
) -> bool:
    """Return whether all members fit, each group with a label within one value of it."""
    asks = [ask for group in groups for ask in group]
    for way in itertools.product(range(len(seats)), repeat=len(asks)):
        used = Counter[tuple[int, str]]()
        for n, (cpu, gpu) in zip(way, asks, strict=True):
            used[n, "cpu"] += cpu
            used[n, "gpu"] += gpu
        left = [
            (cpu - used[n, "cpu"], gpu - used[n, "gpu"]) for n, (cpu, gpu, *_) in enumerate(seats)
        ]
        parts = way[: len(groups[0])], way[len(groups[0]) :]
        within = [
            {seats[n][2] if topology is RACK else seats[n][3] for n in part}
            for part, topology in zip(parts, labels, strict=True)
            if topology is not None
        ]
        if min(map(min, left)) >= 0 and all(len(values) == 1 for values in within):
            return True
    return False


def test_search_that_ends_undecided_is_counted_once() -> None:
    """Also where the groups are placed one after the other, and then once more, sparingly."""
    driver = gang_driver(node("x", 5, 11, rack="r"), node("y", 7, 6, rack="r"), search_budget=0)
    driver.tell(PodGroupAdded(spec("one/a", 6, AB, topology=RACK)))
    driver.tell(PodGroupAdded(spec("two/b", 1, AB, topology=RACK)))
    driver.add(*pods("one/a", 2, gpu=2), *pods("two/b", 1))
    for first, role in ((2, "b"), (4, "c")):
        driver.add(*pods("one/a", 2, first=first, cpu=2, gpu=3, role=role))
    driver.drain()
    assert running(driver) == {}
    assert driver.scheduler.exhausted_searches == 1
    assert "not decided within 100 steps: 6 of 7 members fit" in told(driver)[1]
