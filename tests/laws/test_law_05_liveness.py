"""Law 5: after the faults stop, every gang that fits on the empty cluster starts, in bounded time.

The guarantee and its proof are in ``docs/explanation/liveness.md``; the bounds are computed by
``support.liveness.Backlog`` from the work that is left in the instant in which the faults stop.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Backoff, PodUID
from support.driver import Fate
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import Decide, HistoryStep, PutNode, PutPods
from support.liveness import Aftermath, faults_stop
from support.world import World

_choices = st.lists(st.integers(0, 5), min_size=1, max_size=5)
_hasty = st.lists(st.booleans(), min_size=1, max_size=5)
_backoffs = st.sampled_from([Backoff(), Backoff(maximum=2)])


def asleep(after: Aftermath) -> list[tuple[PodUID, ...]]:
    """Return the groups that fit on the empty cluster and of which no member was bound."""
    started = after.started()
    return [entity for entity in after.fitting if not started & set(entity)]


@one_in(4)
@given(policies, _backoffs, histories(), st.booleans(), _choices)
def test_after_the_faults_every_gang_that_fits_starts_within_the_bound(
    policy: Policy, backoff: Backoff, steps: list[HistoryStep], delete: bool, choices: list[int]
) -> None:
    policy = evolve(policy, backoff=backoff)
    world = faults_stop(policy.world().live(*steps))
    after = Aftermath(policy, world.driver, delete=delete).live_on(choices)
    assert not asleep(after)
    assert not after.overdue()


@one_in(4)
@given(policies, histories(), st.booleans(), _choices, _hasty)
def test_gangs_start_within_the_bound_though_events_arrive_meanwhile(
    policy: Policy, steps: list[HistoryStep], delete: bool, choices: list[int], hasty: list[bool]
) -> None:
    world = faults_stop(policy.world().live(*steps))
    after = Aftermath(policy, world.driver, delete=delete).live_on(choices, hasty)
    assert not asleep(after)
    assert not after.overdue()


def backlog_of_gangs(policy: Policy) -> World:
    """Return a world with gangs of many sizes on a cluster that is full, every bind failing."""
    world = policy.world().live(*(PutNode(n, cpu=4) for n in range(3)))
    for group in range(4):
        minimum = (None, 2, 3, 4)[group] or 2
        world.live(PutPods(group, 3 * minimum, minimum, cpu=1 + group % 2), Decide(3, Fate.FAILED))
    return world.live(PutPods(None, 6, cpu=4), Decide(fate=Fate.PENDING))


@pytest.mark.pod_by_pod("one turn a member: the size of the bound")
def test_backlog_of_gangs_and_pods_starts_well_within_the_bound() -> None:
    """The bound is of the right size: a crowded cluster uses a thirty-second of it.

    The bound allows for a try at each event and one after each backoff. Here gangs lack capacity,
    so they do not back off, and an event is followed by a try only if it may help. The bound cannot
    leave the backoffs out: a gang may also fail for another reason.
    """
    policy = Policy()
    after = Aftermath(policy, faults_stop(backlog_of_gangs(policy)).driver).live_on()
    assert after.fitting
    assert not asleep(after)
    assert not after.overdue()
    assert after.backlog.steps / 32 < after.steps
