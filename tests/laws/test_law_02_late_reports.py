"""Laws 2 and 10: known facts change nothing, however often they are reported.

Old reports of binds, old events and whole listings are repeated in the middle of any history. No
effect follows, and the scheduler's memory is unchanged.
"""

from __future__ import annotations

from hypothesis import example, given

from gangsched import Event
from support.driver import Driver, Fate
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import Decide, HistoryStep, Pass, PutNode, PutPods
from support.shown import memory


def up_to_date(policy: Policy, steps: list[HistoryStep]) -> tuple[Driver, list[Event]]:
    """Run a history, report what was delayed; return the driver, and all reports."""
    world = policy.world().live(*steps)
    world.driver.tell_untold()
    # each call begins with what is due by then, such as a reservation whose gang is gone
    world.driver.advance(world.driver.now)
    return world.driver, [*world.told, *world.driver.reports]


@one_in(4)
@given(policies, histories())
@example(
    policy=Policy(),
    steps=[
        *[PutNode(0, cpu=1), PutPods(count=1), Decide(fate=Fate.FAILED)],
        *[Pass(5), Decide(fate=Fate.PENDING)],
    ],
)  # while its second bind is under way, the failure of the first is reported again
def test_late_events_and_reports_of_old_attempts_change_nothing(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    """F14: each is repeated, in order and in reverse order."""
    driver, past = up_to_date(policy, steps)
    before = memory(driver.scheduler)
    driver.log.clear()
    for event in [*past, *reversed(past)]:
        driver.tell_again(event)
    assert [effect for told in driver.log for effect in told.effects] == []
    assert memory(driver.scheduler) == before


@one_in(4)
@given(policies, histories())
def test_listing_in_the_middle_of_a_history_changes_nothing(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    """Attempts, backoff and waits continue unchanged."""
    driver, _past = up_to_date(policy, steps)
    before = memory(driver.scheduler)
    driver.log.clear()
    driver.rebuild()
    assert [effect for told in driver.log for effect in told.effects] == []
    assert memory(driver.scheduler) == before
