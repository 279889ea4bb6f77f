"""Law 5: what one fact sets in motion is bounded by what there is, whatever came before."""

from __future__ import annotations

from hypothesis import given

from gangsched import GroupRejected, PodUnschedulable
from support.examples import one_in
from support.histories import Policy, histories, policies, steps
from support.history_steps import Catch, HistoryStep


@one_in(4)
@given(policies, histories(chapters=4), steps)
def test_one_more_event_costs_a_few_decisions_per_pod_and_group(
    policy: Policy, history: list[HistoryStep], step: HistoryStep
) -> None:
    """From idle to idle: one try each, requeueing by a rejection, an empty poll per deadline."""
    world = policy.world().live(*history).finish()
    driver = world.driver
    world.do(Catch(late=False))
    driver.decisions = 0
    driver.log.clear()
    world.do(step)
    driver.settle()
    there = sum(1 for _pod in driver.cluster.pods()) + sum(1 for _ in driver.cluster.pod_groups())
    effects = [effect for told in driver.log for effect in told.effects]
    failures = sum(isinstance(effect, PodUnschedulable) for effect in effects)
    falls = sum(isinstance(effect, GroupRejected) for effect in effects)
    assert driver.decisions <= 4 * there + 8
    assert failures <= 3 * there
    assert falls <= 3 * there
