"""Law 3: in the order of decisions the members of groups are contiguous, and a key is frozen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Effect,
    Order,
    PodUnschedulable,
    PodWaiting,
    Release,
    WhenBlocked,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.gangs import node
from support.histories import Policy, policies
from support.history_steps import Decide, Pass, PutGroup, PutNode, PutPods
from support.world import World


def decided_about(effects: tuple[Effect, ...]) -> list[str]:
    """Return the groups that one decision was about."""
    found = []
    for effect in effects:
        if isinstance(effect, PodWaiting | PodUnschedulable):
            found.append(effect.uid.split("/")[1].split("-")[0])
        elif isinstance(effect, Release):
            found.append(effect.group.split("/")[1])
    return found


arrivals = st.permutations([f"{group}-{n}" for group in "abcd" for n in range(3)])


@one_in(2)
@given(policies.filter(lambda p: p.gangs), arrivals, st.integers(0, 14), st.integers(1, 3))
def test_members_of_groups_of_one_priority_and_one_time_are_never_interleaved(
    policy: Policy, order: list[str], gpus: int, minimum: int
) -> None:
    """F1, F56: members arrive alternately in one instant, and every tie is a tie."""
    driver = Driver(policy.make)
    driver.tell(node("n", gpu=gpus))
    for name in order:
        driver.add(make_pod(name, group=name[0], min_available=minimum, gpu=1))
    driver.log.clear()
    driver.drain()
    turns = [group for told in driver.log for group in decided_about(told.effects)]
    runs = [group for n, group in enumerate(turns) if n == 0 or turns[n - 1] != group]
    assert len(runs) == len(set(runs)), turns


@one_in(2)
@given(st.sampled_from(Order), st.permutations(range(6)))
def test_groups_are_sorted_by_priority_then_age(order: Order, arrival: list[int]) -> None:
    driver = Driver(Policy(order=order).make)
    driver.tell(node("n", gpu=12))
    for n in arrival:
        for member in range(2):
            driver.add(
                make_pod(
                    f"g{n}-{member}",
                    group=f"g{n}",
                    min_available=2,
                    gpu=1,
                    priority=n % 2,
                    created_at=float(n // 2),
                )
            )
    driver.drain()
    released = [e.group for t in driver.log for e in t.effects if isinstance(e, Release)]
    expected = sorted(range(6), key=lambda n: (-(n % 2), n // 2))
    assert released == [f"default/g{n}" for n in expected]


def released(world: World) -> list[str]:
    """Return the groups in the order of their release."""
    effects = (effect for told in world.driver.log for effect in told.effects)
    return [effect.group.split("/")[1] for effect in effects if isinstance(effect, Release)]


@pytest.mark.parametrize("order", list(Order))
def test_group_with_a_late_specification_is_sorted_by_its_creation(
    order: Order,
) -> None:
    """F4: it stands first while its members speak for it; its specification is the youngest."""
    world = Policy(order=order).world().live(PutNode(0, cpu=9), PutPods(0, 2, 2))
    world.live(Pass(1), PutPods(2, 2, 2), Pass(1), PutGroup(0, 2), Decide())
    assert released(world) == ["g2", "g0"]


@one_in(2)
@given(st.permutations(range(4)), st.integers(1, 3))
def test_groups_of_one_instant_are_sorted_by_arrival(arrival: list[int], size: int) -> None:
    """F56: the tie is broken by the group, never by a member."""
    world = Policy().world().live(PutNode(0, cpu=12))
    gangs = [PutPods(group, 1, size) for group in arrival]
    world.live(*gangs * size, Decide())
    assert released(world) == [f"g{group}" for group in arrival]


@pytest.mark.parametrize(("order", "first"), [(Order.LAST_FAILURE, "g2"), (Order.CREATION, "g0")])
def test_rejected_entity_sorts_behind_untried_ones_except_by_creation(
    order: Order, first: str
) -> None:
    """F3, rows 15 to 17: the older one is tried at 5 and rejected; at 10 both fit."""
    world = Policy(order=order, when_blocked=WhenBlocked.AT_ONCE).world()
    world.live(PutPods(0, 3, 3), PutPods(2, 1, 2), PutNode(0, cpu=2), Pass(5), Decide())
    world.live(Pass(5), PutPods(2, 1, 2), PutNode(0, cpu=8), Decide())
    assert released(world)[0] == first
