"""Members: their claims, their priorities, and what changes and ends do to their gang."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Event,
    GroupKey,
    GroupRejected,
    InMemoryCluster,
    MatchPolicy,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    PodRefused,
    PodRejected,
    PodUID,
    PodUpdated,
    PriorityOverruled,
    Scheduler,
    SchedulingUnit,
    Wait,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.explain import NotEnoughMembers
from gangsched.testing import make_group, make_node, make_pod
from support.driver import Driver
from support.faulty_driver import faulty_driver, told, update
from support.faulty_plugin import FaultyPlugin
from support.gangs import node, specify, where
from support.immediate_host import ImmediateHost
from support.preemption_host import EACH_UNIT

# What a changed specification of a group does to members that wait, or that are gone

G = GroupKey("default/g")


def with_gang(*plugins: object, cpu: int = 1) -> ImmediateHost:
    """Return a host that has decided about a gang of 2, where members have its priority."""
    host = ImmediateHost()
    host.scheduler = presets.coscheduling(host.cluster, plugins=plugins, strict_priorities=True)
    host.tell(NodeAdded(make_node("n", cpu=2)))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    for number in range(2):
        host.tell(PodAdded(make_pod(f"g-{number}", group="g", cpu=cpu)))
    host.decide()
    return host


def test_waiting_member_that_contradicts_the_new_priority_is_rejected_with_that_reason() -> None:
    plugin = FaultyPlugin("permit")
    plugin.answers["permit"] = Wait(100.0)
    host = with_gang(plugin)
    assert PodUID("default/g-0") in host.scheduler.waiting
    known = len(host.effects)
    host.tell(PodGroupUpdated(PodGroup(name="g", min_available=2, priority=5)))
    rejected = [each for each in host.effects[known:] if isinstance(each, PodRejected)]
    assert rejected[0].reason == (
        "pod g-0 contradicts its group: pod default/g-0: priority must be 5,"
        " the priority of default/g, got 0"
    )
    assert any(isinstance(each, GroupRejected) for each in host.effects[known:])
    assert not len(host.scheduler.waiting)


# What members say of their group by labels, and what becomes of it when these change


def give(driver: Driver, minimum: int, *names: str) -> None:
    """Let members give another minimum, one after the other."""
    for name in names:
        labels = make_pod(name, group="g", min_available=minimum).labels
        update(driver, PodUID(f"default/{name}"), labels=labels)


@EACH_UNIT
def test_minimum_that_only_members_give_is_what_they_give_by_now(unit: SchedulingUnit) -> None:
    """F22: no other member arrives, and no entity that could start is parked."""
    driver, _odd = faulty_driver(unit=unit, cpu=4)
    driver.add(*(make_pod(name, group="g", min_available=3, cpu=1) for name in "pq"))
    give(driver, 2, "p", "q")
    driver.drain()
    assert where(driver) == {"p": "n", "q": "n"}


@pytest.mark.parametrize(("names", "start"), [("p", True), ("q", False), ("qp", True)])
def test_current_claim_of_the_first_member_binds_waiting_members(names: str, start: bool) -> None:
    """F22: waiting members are released at once; members that contradict the first stay."""
    driver, _odd = faulty_driver(cpu=2)  # no capacity for the third
    driver.add(*(make_pod(name, group="g", min_available=3, cpu=1) for name in "pqr"))
    driver.step()
    driver.step()
    assert len(driver.scheduler.waiting) == 2
    give(driver, 2, *names)
    assert len(driver.scheduler.waiting) == (0 if start else 2)
    assert len(where(driver)) == (2 if start else 0)
    assert told(driver, PodRefused) == []


def test_minimum_raised_by_members_evicts_no_running_member() -> None:
    """F22."""
    driver, _odd = faulty_driver(cpu=4)
    driver.add(*(make_pod(name, group="g", min_available=2, cpu=1) for name in "pq"))
    driver.drain()
    give(driver, 3, "p", "q")
    assert len(where(driver)) == 2
    info = driver.scheduler.registry.get(G)
    assert info is not None
    assert info.min_available == 3


def test_member_that_its_specification_refused_says_nothing_for_its_group() -> None:
    """F23: of one priority are all that are in, also when the specification has gone."""
    driver, _odd = faulty_driver(cpu=4, strict_priorities=True)
    driver.add(make_pod("p", group="g", min_available=3))
    driver.tell(PodGroupAdded(specify("g", 3, priority=5)))
    driver.add(make_pod("q", group="g", min_available=3, priority=5))
    driver.tell(PodGroupDeleted(G))
    info = driver.scheduler.registry.get(G)
    assert info is not None
    assert info.priority == 5
    assert [each.uid for each in told(driver, PodRefused)] == ["default/p"]


# Members with another priority than their group: the priority of the group decides


def host(unit: SchedulingUnit, cpu: int = 2, *, strict: bool = False) -> Driver:
    def make(cluster: Any) -> Scheduler:
        return presets.coscheduling(cluster, unit=unit, strict_priorities=strict)

    driver = Driver(make)
    driver.tell(node("n", cpu))
    return driver


def member(name: str, priority: int) -> Pod:
    return make_pod(name, group="g", min_available=2, cpu=1, priority=priority)


@EACH_UNIT
def test_gang_whose_group_has_another_priority_starts(unit: SchedulingUnit) -> None:
    """An admission plugin may fill in the priority of a group."""
    driver = host(unit)
    driver.tell(PodGroupAdded(evolve(make_group("g", 2), priority=0)))
    driver.add(member("a", 1000), member("b", 1000))
    driver.settle()
    assert where(driver) == {"a": "n", "b": "n"}
    assert told(driver, PodRefused) == []
    uids = [PodUID("default/a"), PodUID("default/b")]
    assert told(driver, PriorityOverruled) == [PriorityOverruled(u, G, 1000, 0) for u in uids]


@EACH_UNIT
@pytest.mark.parametrize("priorities", [(5, 7), (7, 5)])
def test_members_of_two_priorities_start_with_the_highest(
    unit: SchedulingUnit, priorities: tuple[int, int]
) -> None:
    driver = host(unit)
    driver.add(member("a", priorities[0]), member("b", priorities[1]))
    driver.settle()
    assert where(driver) == {"a": "n", "b": "n"}
    lower = PodUID("default/a" if priorities[0] == 5 else "default/b")
    assert told(driver, PriorityOverruled) == [PriorityOverruled(lower, G, 5, 7)]


@EACH_UNIT
@pytest.mark.parametrize(("of_group", "first"), [(0, "p"), (9, "a")])
def test_priority_of_the_group_orders_the_queue(
    unit: SchedulingUnit, of_group: int, first: str
) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, unit=unit)
    group = evolve(make_group("g", 2), priority=of_group)
    pods = [member("a", 5), member("b", 5), make_pod("p", cpu=1, priority=5)]
    events: list[Event] = [NodeAdded(make_node("n", cpu=9)), PodGroupAdded(group)]
    for event in [*events, *map(PodAdded, pods)]:
        scheduler.handle(cluster.apply(event), now=0.0)
    head = scheduler.queue.head()
    assert head is not None
    assert head.pod.name == first


def test_strict_priorities_must_be_a_bool() -> None:
    wrong: Any = 1
    with pytest.raises(InvalidValueError, match="strict_priorities"):
        presets.gang(InMemoryCluster(), strict_priorities=wrong)


# Members that have finished: succeeded ones count for the quorum, failed ones do not (KEP-34)

EACH = pytest.mark.parametrize("unit", list(SchedulingUnit))
MATCHES = pytest.mark.parametrize("match", list(MatchPolicy))
SUCCEEDED, FAILED = PodPhase.SUCCEEDED, PodPhase.FAILED


def lone_host(unit: SchedulingUnit, match: MatchPolicy = MatchPolicy.ONCE_SATISFIED) -> Driver:
    driver = Driver(
        lambda cluster: presets.coscheduling(cluster, unit=unit, match_policy=match), match=match
    )
    driver.tell(node("n", 9))
    return driver


def worker(name: str, *, minimum: int = 3, role: str | None = None) -> Pod:
    return make_pod(f"g-{name}", group="g", min_available=minimum, cpu=1, role=role)


def finish(driver: Driver, name: str, phase: PodPhase) -> None:
    pod = driver.cluster.pod(PodUID(f"default/g-{name}"))
    assert pod is not None
    driver.tell(PodUpdated(evolve(pod, phase=phase)))


def running(driver: Driver) -> set[str]:
    pods = driver.cluster.pods()
    return {pod.name[2:] for pod in pods if pod.node_name and not pod.is_finished}


def ended(driver: Driver, *phases: PodPhase, restarts: bool) -> Driver:
    """Let a gang of three run; members finish in these phases, the rest are deleted."""
    driver.add(*(worker(str(n)) for n in range(3)))
    driver.settle()
    assert running(driver) == {"0", "1", "2"}
    for number, phase in enumerate(phases):
        finish(driver, str(number), phase)
    for number in range(len(phases), 3):
        driver.delete(f"default/g-{number}")
    if restarts:
        driver.restart(lambda _bind: True)
    driver.add(worker("new"))
    driver.settle()
    return driver


@EACH
@MATCHES
@pytest.mark.parametrize("restarts", [False, True])
def test_recreated_member_starts_beside_succeeded_members(
    unit: SchedulingUnit, match: MatchPolicy, restarts: bool
) -> None:
    driver = ended(lone_host(unit, match), SUCCEEDED, SUCCEEDED, restarts=restarts)
    assert running(driver) == {"new"}


@EACH
@MATCHES
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("phases", [(FAILED,) * 2, (FAILED,) * 3, (SUCCEEDED, FAILED)])
def test_failed_members_must_be_replaced_before_the_gang_starts_again(
    unit: SchedulingUnit, match: MatchPolicy, restarts: bool, phases: tuple[PodPhase, ...]
) -> None:
    driver = ended(lone_host(unit, match), *phases, restarts=restarts)
    assert running(driver) == set()
    why = driver.scheduler.why(GroupKey("default/g"))
    assert isinstance(why, NotEnoughMembers)
    assert why.missing == phases.count(FAILED) - (len(phases) - 2)
    for number in range(why.missing):
        driver.add(worker(f"more{number}"))
    driver.settle()
    assert len(running(driver)) == 1 + why.missing


@EACH
@MATCHES
@pytest.mark.parametrize("restarts", [False, True])
def test_succeeded_members_do_not_count_beside_enough_new_ones(
    unit: SchedulingUnit, match: MatchPolicy, restarts: bool
) -> None:
    """The old members are those of an earlier run: the new ones are a gang."""
    driver = lone_host(unit, match)
    driver.tell(PodGroupAdded(make_group("g", 3)))
    for number in range(2):
        done = evolve(worker(str(number)), node_name=NodeName("n"), phase=SUCCEEDED)
        driver.tell(PodAdded(done))
    if restarts:
        driver.restart(lambda _bind: True)
    driver.tell(node("n", 2))
    driver.add(*(worker(f"new{n}") for n in range(3)))
    driver.settle()
    assert running(driver) == set(), "two of three would fit"
    driver.tell(node("n", 3))
    driver.settle()
    assert len(running(driver)) == 3


@EACH
@pytest.mark.parametrize("restarts", [False, True])
def test_succeeded_member_of_a_role_counts_for_its_minimum(
    unit: SchedulingUnit, restarts: bool
) -> None:
    driver = lone_host(unit)
    driver.tell(PodGroupAdded(make_group("g", roles={"ps": 1, "worker": 2})))
    driver.add(*(worker("ps", role="ps"), worker("w0", role="worker"), worker("w1", role="worker")))
    driver.settle()
    assert len(running(driver)) == 3
    finish(driver, "ps", SUCCEEDED)
    for name in ("w0", "w1"):
        driver.delete(f"default/g-{name}")
    if restarts:
        driver.restart(lambda _bind: True)
    driver.add(worker("w2", role="worker"))
    driver.settle()
    assert running(driver) == set()
    driver.add(worker("w3", role="worker"))
    driver.settle()
    assert running(driver) == {"w2", "w3"}
