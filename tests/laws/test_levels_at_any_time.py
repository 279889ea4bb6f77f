"""No history breaks a domain that a gang requires, a slice, what is apart, or a domain of its own.

Nodes come, go and change their rack while members run, fail and are replaced, capacity is nominated
and reserved, quotas hold gangs back, and the scheduler is restarted. The judge is in
``support.level_laws``; all other laws hold as well.
"""

from __future__ import annotations

from hypothesis import given

from support import histories as h
from support.final_checks import ends_lawfully
from support.history_steps import HistoryStep
from support.levels import every_entity_is_in_place


@given(h.level_policies, h.level_histories())
def test_no_history_breaks_a_level(policy: h.Policy, steps: list[HistoryStep]) -> None:
    world = policy.world()
    world.driver.check_each = 1
    for step in steps:
        world.do(step)
        if not (world.late or world.driver.untold):
            every_entity_is_in_place(world)
    if policy.quotas:  # a listing says again what a quota holds back
        world.finish()
    else:
        ends_lawfully(world, policy, steps)
