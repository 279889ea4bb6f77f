"""Rows 34 to 41 and 45: whether a member that has a node may go."""

from __future__ import annotations

import pytest

from gangsched import (
    Bind,
    Coscheduling,
    CycleState,
    MemberState,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupInfo,
    PodGroupRegistry,
    PodUID,
    PodWaiting,
    Release,
    Success,
    Unschedulable,
    Wait,
    membership,
)
from support.conformance import gang, machine, rows, worker
from support.driver import Driver

NODE = NodeName("n1")


def permit(pod: Pod, group: PodGroupInfo | None) -> Outcome:
    """Return what the policy says of a pod that is assumed on a node."""
    return Coscheduling(permit_timeout=7).permit(CycleState(group, {}), pod, NODE, now=0.0)


def group_with(spec: PodGroup | None, **states: MemberState) -> PodGroupInfo:
    """Return a group with a member in each of the states, the members' names given."""
    registry = PodGroupRegistry()
    if spec is not None:
        registry.set_spec(spec)
    for name, state in states.items():
        pod = worker(name, "birch")
        claim = membership(pod)
        assert claim is not None
        info = registry.join(pod, claim, state)
    return info


# The rule alone -------------------------------------------------------------------------------


@rows(34, ours=True)
def test_pod_without_a_group_is_bound_at_once() -> None:
    assert permit(worker("alone"), None) == Success()


@rows(35, ours=True)
def test_member_of_a_missing_group_is_refused_whatever_is_free() -> None:
    group = group_with(None, a=MemberState.WAITING, b=MemberState.WAITING)
    missing = Unschedulable("pod group lab/birch does not exist", resolvable=False)
    assert permit(worker("a", "birch"), group) == missing


@rows(36)
def test_member_waits_while_no_other_has_a_node() -> None:
    group = group_with(gang("birch", 2), a=MemberState.WAITING, b=MemberState.UNSCHEDULED)
    assert permit(worker("a", "birch"), group) == Wait(7)


@rows(37)
def test_member_is_released_when_its_sibling_has_a_node() -> None:
    """F15, F16: whether that sibling waits, is being bound, or runs."""
    for sibling in (MemberState.WAITING, MemberState.BINDING, MemberState.ASSIGNED):
        group = group_with(gang("birch", 2), a=MemberState.WAITING, b=sibling)
        assert permit(worker("a", "birch"), group) == Success()


# In a scheduler -------------------------------------------------------------------------------


def step(driver: Driver) -> list[str]:
    """Make one decision; return the kinds of its effects, and the bound pods."""
    assert driver.step()
    decided = next(told for told in reversed(driver.log) if told.call == "schedule_one")
    kinds = (Bind, PodWaiting, Release)
    return [type(effect).__name__ for effect in decided.effects if isinstance(effect, kinds)]


def a_cluster(*pods: Pod, group: PodGroup | None = None) -> Driver:
    driver = Driver()
    driver.tell(NodeAdded(machine(NODE, cpu=64)))
    if group is not None:
        driver.tell(PodGroupAdded(group))
    driver.add(*pods)
    return driver


def crowd(size: int) -> list[Pod]:
    return [worker(f"birch-{number}", "birch") for number in range(size)]


@rows(38)
def test_regular_pod_is_bound_in_its_first_cycle() -> None:
    assert step(a_cluster(worker("alone"))) == ["Bind"]


@pytest.mark.pod_by_pod("members hold nodes and wait")
@rows(39)
def test_first_of_two_waits() -> None:
    assert step(a_cluster(*crowd(2), group=gang("birch", 2))) == ["PodWaiting"]


@rows(40)
def test_minimum_of_one_waits_for_no_member() -> None:
    assert step(a_cluster(*crowd(2), group=gang("birch", 1)))[:2] == ["Release", "Bind"]


@pytest.mark.pod_by_pod("members hold nodes and wait")
@rows(41)
def test_third_member_releases_the_two_that_wait() -> None:
    driver = a_cluster(*crowd(3), group=gang("birch", 3))
    assert step(driver) == ["PodWaiting"]
    assert step(driver) == ["PodWaiting"]
    assert step(driver) == ["Release", "Bind", "Bind", "Bind"]


@pytest.mark.pod_by_pod("members hold nodes and wait")
@rows(45, ours=True)
def test_members_that_remain_stay_ready_so_nothing_needs_to_activate_them() -> None:
    """F6 to F8: readiness is a level, and the members are tried in the same instant."""
    members = crowd(3)
    driver = a_cluster(*members, group=gang("birch", 3))
    assert step(driver) == ["PodWaiting"]

    (first,) = driver.scheduler.waiting.of(gang("birch", 3).key)
    (entity,) = driver.scheduler.queue.active
    assert entity.group is not None
    assert (entity.group.waiting, entity.group.untried) == (1, 2)
    assert driver.drain() == 2
    tried: set[PodUID] = {
        effect.uid
        for told in driver.log
        for effect in told.effects
        if isinstance(effect, PodWaiting | Bind)
    }
    assert driver.now == 0.0
    assert tried == {pod.uid for pod in members}
    assert first.uid == members[0].uid
