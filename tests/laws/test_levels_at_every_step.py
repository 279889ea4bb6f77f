"""Laws 3, 4, 6 and 8 as levels: what must be true whenever a call has returned."""

from __future__ import annotations

from hypothesis import given

from support.deeds import Catch, Deed
from support.histories import Policy, histories, policies
from support.levels import everybody_is_in_place


@given(policies, histories())
def test_after_every_deed_everybody_is_where_he_belongs(policy: Policy, deeds: list[Deed]) -> None:
    """Order, place, deadline and counts, in any history whose facts are told in time."""
    world = policy.world()
    for deed in deeds:
        if isinstance(deed, Catch):
            continue
        world.do(deed)
        everybody_is_in_place(world)
