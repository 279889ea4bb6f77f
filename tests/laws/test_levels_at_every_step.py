"""Laws 3, 4, 6 and 8 as levels: what must be true whenever a call has returned."""

from __future__ import annotations

import pytest
from hypothesis import given

from gangsched import WhenBindFails
from support.driver import Fate
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import (
    Catch,
    ChangePod,
    Decide,
    HistoryStep,
    PutGroup,
    PutNode,
    PutPods,
    Report,
)
from support.levels import every_entity_is_in_place
from support.shown import shown


@one_in(4)
@given(policies, histories())
def test_every_entity_is_in_its_place_after_every_step(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    """Order, place, deadline and counts, in any history whose events arrive in time."""
    world = policy.world()
    for step in steps:
        if isinstance(step, Catch):
            continue
        world.do(step)
        every_entity_is_in_place(world)


@pytest.mark.parametrize("step", [Report(0, Fate.FAILED), ChangePod(0, "relabel", 2)])
def test_evicted_binding_pod_is_counted_until_its_report(
    step: HistoryStep,
) -> None:
    """One of two could not be bound, so the end of the other was asked for."""
    world = Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP).world()
    world.live(PutNode(0, cpu=2), PutGroup(0, 1, roles=(("ps", 1),)))
    world.live(PutPods(0, 1, role="ps"), PutPods(0, 1, role="worker"))
    world.live(Decide(fate=Fate.PENDING), Report(0, Fate.FAILED))
    assert len(shown(world.driver.scheduler).evicted) == 1
    assert world.driver.dying == [], "it is evicted when its bind has ended"
    every_entity_is_in_place(world.live(step))
