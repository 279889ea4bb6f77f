"""Law 5: no entity waits for the deadline of a yielding gang, or behind a later arrival.

The guarantee and its limits are in ``docs/explanation/liveness.md``.
"""

from __future__ import annotations

import pytest

from gangsched import Backoff, GroupKey, Order, PodDeleted, PodUID, WhenBlocked
from support.driver import Driver
from support.histories import Policy
from support.history_steps import Decide, Pass, PutNode, PutPods
from support.liveness import Aftermath, faults_stop
from support.world import World


def behind_a_holder(policy: Policy) -> World:
    """Return a world with a gang with capacity for one of two, and one that needs that capacity.

    A pod runs on the only node, and all pending entities have failed and are out of backoff. The
    members of the first gang are unlike, so each event requeues it, and it never fits.
    """
    return policy.world().live(
        PutNode(0, cpu=4),
        PutPods(cpu=4),
        Decide(),
        PutPods(0, 1, 2, cpu=3),
        PutPods(0, 1, 2, cpu=3, zone="a"),
        PutPods(1, 2, 2, cpu=2),
        Decide(),
        Pass(20),
    )


def start_behind_a_holder(policy: Policy) -> Aftermath:
    after = Aftermath(policy, faults_stop(behind_a_holder(policy)).driver).live_on()
    assert len(after.fitting) == 1
    assert after.started() == set(after.fitting[0])
    assert not after.overdue()
    return after


@pytest.mark.parametrize(
    "when_blocked", [WhenBlocked.UNTIL_OTHERS_TURN, WhenBlocked.AT_ONCE], ids=lambda w: w.value
)
def test_entity_behind_a_yielding_gang_starts_in_the_instant_of_the_event(
    when_blocked: WhenBlocked,
) -> None:
    """F5: no deadline and no backoff is between the event and the start."""
    after = start_behind_a_holder(Policy(when_blocked=when_blocked, backoff=Backoff(maximum=2)))
    assert after.latest == 0
    assert after.backlog.delay < after.backlog.hold


@pytest.mark.pod_by_pod("the permit timeout")
def test_entity_behind_a_waiting_gang_starts_at_its_deadline() -> None:
    """So the test above is one: by this policy the same gang waits for the timeout."""
    after = start_behind_a_holder(Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT))
    assert after.latest == after.backlog.hold


@pytest.mark.pod_by_pod("members hold nodes and wait")
@pytest.mark.parametrize(
    "when_blocked",
    [WhenBlocked.UNTIL_OTHERS_TURN, WhenBlocked.UNTIL_TIMEOUT],
    ids=lambda w: w.value,
)
def test_waiting_gang_goes_on_in_the_instant_in_which_capacity_is_added(
    when_blocked: WhenBlocked,
) -> None:
    """Members that found no node while their siblings hold some are tried again for the fact."""
    policy = Policy(when_blocked=when_blocked)
    world = policy.world().live(PutNode(0, cpu=4), PutPods(cpu=1), PutPods(cpu=1), Decide())
    world.live(PutPods(0, 3, 3), Decide(), Pass(3))
    assert len(world.driver.scheduler.waiting) == 2
    since = world.driver.now
    after = Aftermath(policy, faults_stop(world).driver).live_on(hasty=[True])
    assert after.started() == set(after.fitting[0])
    assert not after.overdue()
    assert after.driver.now == since


def running(driver: Driver) -> dict[GroupKey, list[PodUID]]:
    """Return the groups that run, with their members."""
    found: dict[GroupKey, list[PodUID]] = {}
    for info in driver.scheduler.registry:
        if info.assigned:
            found[info.key] = list(info.members)
    return found


@pytest.mark.parametrize("when_blocked", WhenBlocked, ids=lambda w: w.value)
@pytest.mark.parametrize("order", Order, ids=lambda o: o.value)
def test_older_of_two_equal_waiting_gangs_starts_despite_younger_ones(
    order: Order, when_blocked: WhenBlocked
) -> None:
    """A failed entity sorts before all later arrivals, so each is passed over once at most."""
    world = Policy(order=order, when_blocked=when_blocked).world().live(PutNode(0, cpu=2))
    world.live(PutPods(0, 2, 2), Decide(), Pass(20), PutPods(1, 2, 2), Decide(), Pass(20))
    for number in range(2, 12):
        world.live(PutPods(number, 2, 2), Decide(), Pass(20), Decide())
        ((key, members),) = running(world.driver).items()
        assert key == f"default/g{number - 2}"
        world.driver.tell(*(PodDeleted(uid) for uid in members))
        world.live(Decide(), Pass(20), Decide())
