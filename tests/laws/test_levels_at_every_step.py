"""Laws 3, 4, 6 and 8 as levels: what must be true whenever a call has returned."""

from __future__ import annotations

import pytest
from hypothesis import given

from gangsched import WhenBindFails
from support.deeds import Catch, ChangePod, Decide, Deed, PutGroup, PutNode, PutPods, Report
from support.driver import Fate
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.levels import everybody_is_in_place


@one_in(4)
@given(policies, histories())
def test_every_entity_is_in_its_place_after_every_step(policy: Policy, deeds: list[Deed]) -> None:
    """Order, place, deadline and counts, in any history whose facts are told in time."""
    world = policy.world()
    for deed in deeds:
        if isinstance(deed, Catch):
            continue
        world.do(deed)
        everybody_is_in_place(world)


@pytest.mark.parametrize("deed", [Report(0, Fate.FAILED), ChangePod(0, "relabel", 2)])
def test_evicted_binding_pod_is_counted_until_its_report(
    deed: Deed,
) -> None:
    """One of two could not be bound, so the end of the other was asked for."""
    world = Policy(when_bind_fails=WhenBindFails.RELEASE_GROUP).world()
    world.live(PutNode(0, cpu=2), PutGroup(0, 1, roles=(("ps", 1),)))
    world.live(PutPods(0, 1, role="ps"), PutPods(0, 1, role="worker"))
    world.live(Decide(fate=Fate.PENDING), Report(0, Fate.FAILED))
    assert len(world.driver.dying) == 1
    everybody_is_in_place(world.live(deed))
