"""Histories that broke a law with a reservation for one gang and victims for another.

Each was found by the state machine, and shrunk; see ``test_histories_that_broke_laws``.
"""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve

from gangsched import Backfill, Preemption, SchedulingUnit
from support.estimates import Estimates
from support.histories import Policy
from support.history_steps import ChangePod, Decide, HistoryStep, PutGroup, PutNode, PutPods

BOTH: Final = Policy(
    unit=SchedulingUnit.GROUP,
    preemption=Preemption(),
    backfill=Backfill(least_members=1, overdue_after=0.0, drain_for=5.0),
)
HISTORIES: Final[dict[str, list[HistoryStep]]] = {
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
    backfill=Backfill(Estimates(), least_members=2, overdue_after=5.0, drain_for=40.0),
)


@pytest.mark.once("the unit is the policy's")
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_histories_that_broke_laws_break_none_any_more(history: list[HistoryStep]) -> None:
    BOTH.world().live(*history).finish()


@pytest.mark.once("the unit is the policy's")
def test_hopeless_entity_above_a_reservation_is_not_retried() -> None:
    low: list[HistoryStep] = [PutNode(0, cpu=2), PutPods(0, 2, 2), PutPods(count=1)]
    GUESSING.world().live(*low, PutGroup(1, 2), PutPods(1, 2, cpu=2, priority=1)).finish()
