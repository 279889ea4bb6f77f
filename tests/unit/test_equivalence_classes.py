"""Shapes: what a group asks for, how many of it exist, and whether its members go one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    NodeName,
    PodGroup,
    PodGroupAdded,
    Preemption,
    Profile,
    Resources,
    Scheduler,
    Topology,
    presets,
)
from gangsched.framework.queueing import equivalence
from gangsched.framework.runtime import extension_points
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_pod
from support.bundles import AB, pods, specs
from support.driver import Driver
from support.faulty_plugin import FaultyPlugin
from support.gangs import gang_driver, members, node, specify, where

NOTHING = Resources({})


def class_of(driver: Driver, key: str) -> equivalence.EquivalenceClass:
    state = driver.scheduler._state
    found = equivalence.class_of(
        state.settings, state.nodes, state.pods, state.call, state.pods.entities[GroupKey(key)]
    )
    assert isinstance(found, equivalence.EquivalenceClass)
    return found


def info_of(driver: Driver, key: str) -> Any:
    return driver.scheduler._state.pods.registry.get(GroupKey(key))


def ruled(faulty: FaultyPlugin | None = None) -> Driver:
    """Return a driver with no gang policy, but what a faulty plugin says of quorums."""
    rules = () if faulty is None else (faulty,)
    profile = Profile(*rules, PrioritySort(), NodeResources(), DefaultBinder())
    return Driver(lambda cluster: Scheduler(cluster, profile), watched=False)


# What it asks for -----------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [{}, {"ps": 1}])
def test_groups_of_other_domains_are_not_equivalent(roles: dict[str, int]) -> None:
    rack, driver = Topology("rack"), Driver()
    for name, topology in (("g", rack), ("h", None)):
        spec = PodGroup(name=name, min_available=2, roles=roles, topology=topology)
        driver.tell(PodGroupAdded(spec))
        driver.add(*(make_pod(f"{name}-{n}", group=name, cpu=1) for n in range(2)))
    assert class_of(driver, "default/g") == evolve(class_of(driver, "default/h"), topology=rack)
    assert class_of(driver, "default/h").topology is None


def test_members_of_roles_without_a_gap_are_one_run() -> None:
    """Whether they have another role or none."""
    driver = Driver()
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=3, roles={"ps": 1})))
    roles = (None, "worker", "ps", "worker")
    driver.add(*(make_pod(f"g-{n}", group="g", role=role, cpu=1) for n, role in enumerate(roles)))
    found = class_of(driver, "default/g")
    assert found.roles == ("", "ps", "")
    assert [count for _class, count in found.runs] == [2, 1, 1]


def test_bundle_requests_the_requests_of_all_its_groups() -> None:
    """Law 4: which of them needs how many is part of it."""
    driver = Driver()
    driver.tell(*specs(*AB, min_resources={"cpu": 3}))
    driver.add(*pods("one/a"), *pods("two/b", 3, cpu=2))
    found = class_of(driver, "one/a")
    ((small, _two), (large, _three)) = found.runs
    assert found == equivalence.EquivalenceClass(
        needed=4,
        runs=((small, 2), (large, 3)),
        floor=Resources({"cpu": 6}),
        parts=(
            equivalence.EquivalenceClass(2, ((small, 2),), Resources({"cpu": 3})),
            equivalence.EquivalenceClass(2, ((large, 3),), Resources({"cpu": 3})),
        ),
    )


def test_assumed_capacity_of_members_is_not_requested_again() -> None:
    driver = Driver()
    driver.tell(node("n", 9))
    spec = PodGroup(name="g", min_available=3, min_resources={"cpu": 6})
    driver.tell(PodGroupAdded(spec))
    runs = evolve(make_pod("g-0", group="g", cpu=1), node_name=NodeName("n"))
    driver.add(runs, make_pod("g-1", group="g", cpu=3))
    assert class_of(driver, "default/g").floor == Resources({"cpu": 5})


def test_group_without_min_resources_is_unaffected_by_assumed_members() -> None:
    driver = Driver()
    driver.tell(node("n", 9))
    runs, waits = members("g", 2, cpu=1)
    driver.add(evolve(runs, node_name=NodeName("n")), waits)
    assert class_of(driver, "default/g").floor == NOTHING


@pytest.mark.parametrize("roles", [{}, {"ps": 1}])
def test_preemption_rule_is_part_of_the_equivalence_class(roles: dict[str, int]) -> None:
    driver = Driver(partial(presets.coscheduling, preemption=Preemption()))
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles=roles)))
    driver.add(*members("g", 2, cpu=1, priority=7))
    assert class_of(driver, "default/g").reach == (7, True)


def test_victims_of_a_bundle_are_part_of_its_equivalence_class() -> None:
    driver = Driver(partial(presets.coscheduling, preemption=Preemption()))
    driver.tell(*specs(*AB))
    driver.add(*(pod for group in AB for pod in pods(group, priority=7)))
    assert class_of(driver, "one/a").reach == (7, True)


def test_member_bound_to_a_domain_has_a_class_of_its_own() -> None:
    driver = gang_driver(node("n", 2, rack="r"))
    driver.tell(PodGroupAdded(specify("g", 2, Topology("rack"))))
    driver.add(*members("g", 2, cpu=1))
    entity = driver.scheduler._state.pods.entities[GroupKey("default/g")]
    assert isinstance(
        equivalence.class_of(
            driver.scheduler._state.settings,
            driver.scheduler._state.nodes,
            driver.scheduler._state.pods,
            driver.scheduler._state.call,
            entity,
        ),
        equivalence.EquivalenceClass,
    )
    driver.drain()
    late = members("g", 1, 2, prefix="late", cpu=1)
    driver.add(*late)
    entity = driver.scheduler._state.pods.entities[GroupKey("default/g")]
    assert (
        equivalence.class_of(
            driver.scheduler._state.settings,
            driver.scheduler._state.nodes,
            driver.scheduler._state.pods,
            driver.scheduler._state.call,
            entity,
        )
        == entity.seq
    )


# What is missing ------------------------------------------------------------------------------


def test_bundle_lacks_what_its_groups_lack_together() -> None:
    driver = Driver()
    driver.tell(node("n", 4), *specs(*AB, min_resources={"cpu": 3}))
    driver.add(*(pod for group in AB for pod in pods(group)))
    for group in AB:
        missing = equivalence.missing(driver.scheduler._state, info_of(driver, group))
        assert missing == Resources({"cpu": 2})


def test_group_that_has_no_members_lacks_nothing() -> None:
    driver = Driver()
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=1, min_resources={"cpu": 3})))
    assert equivalence.missing(driver.scheduler._state, info_of(driver, "default/g")) == NOTHING


# How many -------------------------------------------------------------------------------------


def test_group_with_just_enough_untried_members_is_not_too_small() -> None:
    driver = Driver()
    driver.add(*members("g", 2, cpu=1))
    state = driver.scheduler._state
    entity = state.pods.entities[GroupKey("default/g")]
    assert not equivalence.falls_short(state.settings, state.call, entity)
    entity.mark_tried(entity.pod.uid)
    assert equivalence.falls_short(state.settings, state.call, entity)


@pytest.mark.parametrize(("needed", "present"), [(2, 1), (1, 2), (None, 2)])
def test_rule_that_states_a_need_counts_the_present_members_of_its_kind(
    needed: int | None, present: int
) -> None:
    """Of two members, one of which runs: it counts or not; all do without a rule."""
    faulty = FaultyPlugin("permit", "members_needed")
    driver = ruled(faulty)
    faulty.answers["members_needed"] = needed
    driver.tell(node("n", 9))
    runs, waits = members("g", 2, cpu=1)
    driver.add(evolve(runs, node_name=NodeName("n")), waits)
    info = info_of(driver, "default/g")
    assert equivalence.presence(
        driver.scheduler._state.settings, driver.scheduler._state.call, info
    ) == (present, ())


def test_members_are_scheduled_one_by_one_after_the_start_without_a_rule() -> None:
    driver = ruled()
    driver.tell(node("n", 9))
    driver.tell(PodGroupAdded(PodGroup(name="g", min_available=1, roles={"ps": 1})))
    driver.add(make_pod("g-0", group="g", role="ps", cpu=1))
    state, info = driver.scheduler._state, info_of(driver, "default/g")
    assert extension_points.members_needed(state.settings, state.call, info) == 1
    assert extension_points.roles_needed(state.settings, state.call, info) == {"": 1, "ps": 1}
    driver.drain()
    assert where(driver) == {"g-0": "n"}
    assert extension_points.members_needed(state.settings, state.call, info) is None
    assert extension_points.roles_needed(state.settings, state.call, info) == {}
    assert equivalence.presence(state.settings, state.call, info) == (1, ())


@pytest.mark.parametrize(
    ("number", "started", "alone"),
    [
        (None, False, True),
        (None, True, True),
        (-1, True, True),
        (0, True, True),
        (0, False, False),
        (1, True, False),
        (2, True, False),
    ],
)
def test_members_are_scheduled_one_by_one_when_the_quorum_runs(
    number: int | None, started: bool, alone: bool
) -> None:
    faulty = FaultyPlugin("permit", "members_needed")
    driver = ruled(faulty)
    driver.add(*members("g", 2, cpu=1))
    faulty.answers["members_needed"] = number
    info = info_of(driver, "default/g")
    info.was_scheduled = started
    assert (
        equivalence.goes_alone(driver.scheduler._state.settings, driver.scheduler._state.call, info)
        is alone
    )


def test_pod_without_group_is_released_alone() -> None:
    assert equivalence.goes_alone(
        Driver().scheduler._state.settings, Driver().scheduler._state.call, None
    )
