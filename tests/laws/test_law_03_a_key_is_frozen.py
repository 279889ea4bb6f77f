"""Law 3: a place in the queue changes only by removal and insertion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Order, Release, WhenBlocked
from support.examples import one_in
from support.histories import Policy
from support.history_steps import Decide, Pass, PutGroup, PutNode, PutPods
from support.world import World


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
