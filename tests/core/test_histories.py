"""What the core remembers of answers decides nothing: whatever is dropped is asked anew."""

from __future__ import annotations

from hypothesis import given

from support.examples import one_in
from support.histories import Policy, all_policies, histories, rivals
from support.history_steps import HistoryStep


@one_in(8)
@given(all_policies, rivals(), histories())
def test_dropped_answers_change_no_effect(
    policy: Policy, first: tuple[HistoryStep, ...], steps: list[HistoryStep]
) -> None:
    """Pods of lower priorities run first, so that many histories evict some."""
    kept, dropped = policy.world(), policy.world()
    for number, step in enumerate([*first, *steps]):
        kept.do(step)
        if number % 2:
            dropped.driver.scheduler.forget_answers()
        dropped.do(step)
    assert kept.driver.log == dropped.driver.log
