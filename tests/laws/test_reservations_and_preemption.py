"""Histories that broke a law while room was reserved for one and others were displaced for another.

Each was found by the machine, and made as short as it goes; see ``test_histories_that_broke_laws``.
"""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve

from gangsched import Backfill, Preemption, Unit
from support.deeds import ChangePod, Decide, Deed, PutGroup, PutNode, PutPods
from support.driver import Fate
from support.guesses import Guesses
from support.histories import Policy

BOTH: Final = Policy(
    unit=Unit.GROUP,
    preemption=Preemption(),
    backfill=Backfill(least_members=1, overdue_after=0.0, drain_for=5.0),
)
HISTORIES: Final[dict[str, list[Deed]]] = {
    "what somebody leaves who is going is kept for the gang, and for no equal of its": [
        *(PutNode(0, cpu=3), PutPods(count=1, priority=1), PutGroup(1, 3)),
        *(PutPods(1, 3, priority=1), Decide(), ChangePod(0, "terminate")),
        *(PutPods(0, 1, 1, cpu=0), PutPods(count=1, priority=1)),
    ],
    "a member that ranks below its group, which says nothing any more, reaches no further": [
        *(PutPods(1, 1, priority=2), PutNode(0, cpu=1), PutGroup(1, 1), PutPods(1, 1, priority=1)),
        *(Decide(1), PutGroup(1, 1, priority=1), PutPods(0, 1, 1), Decide()),
        *(PutGroup(1, 1), PutNode(0, cpu=2)),
    ],
}


GUESSING: Final = evolve(
    BOTH,
    backfill=Backfill(Guesses(), least_members=2, overdue_after=5.0, drain_for=40.0),
)


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_they_break_none_any_more(history: list[Deed]) -> None:
    BOTH.world().live(*history).finish()


@pytest.mark.once("the unit is the policy's")
def test_who_outranks_a_reservation_and_is_beyond_help_is_not_tried_again_and_again() -> None:
    low: list[Deed] = [PutNode(0, cpu=2), PutPods(0, 2, 2), PutPods(count=1)]
    GUESSING.world().live(*low, PutGroup(1, 2), PutPods(1, 2, cpu=2, priority=1)).finish()


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("priorities", [(1, 1), (1, 2), (2, 1)])
def test_of_two_with_room_kept_on_a_node_that_shrinks_one_goes_there(
    priorities: tuple[int, int],
) -> None:
    first, second = (PutPods(count=1, priority=priority) for priority in priorities)
    world = Policy(gangs=False, preemption=Preemption()).world()
    world.live(PutNode(0, cpu=2), PutPods(count=2), Decide(), first, second)
    world.live(Decide(2, Fate.PENDING), PutNode(0, cpu=1)).finish()
    on_it = [pod.priority for pod in world.driver.cluster.pods() if pod.node_name]
    assert on_it == [max(priorities)]


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("unit", Unit)
def test_who_asks_for_nothing_that_is_kept_goes_where_room_is_kept(unit: Unit) -> None:
    world = Policy(unit=unit, preemption=Preemption()).world()
    world.live(PutNode(0, cpu=1), PutPods(count=1), PutPods(1, 1, priority=1), Decide())
    world.live(PutPods(count=1, cpu=0), PutGroup(1, 1), Decide(fate=Fate.PENDING)).finish()
    assert sum(pod.node_name is not None for pod in world.driver.cluster.pods()) == 2
