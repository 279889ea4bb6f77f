"""A group may keep waiting on permit though no member of it failed in the cycle."""

from __future__ import annotations

from gangsched import Backoff
from gangsched._core._ordering import Order
from gangsched._core._quorum import MatchPolicy
from gangsched.coscheduling import WhenBindFails, WhenBlocked
from gangsched.options import SchedulingUnit
from support.driver import Fate
from support.histories import Policy
from support.history_steps import Decide, PutGroup, PutNode, PutPods


def test_group_keeps_waiting_after_a_quorum_of_roles_went_without_a_failed_member() -> None:
    policy = Policy(
        order=Order.LAST_FAILURE,
        when_blocked=WhenBlocked.UNTIL_OTHERS_TURN,
        reject_percentage=0,
        match_policy=MatchPolicy.ONLY_WAITING,
        when_bind_fails=WhenBindFails.RELEASE_AFTER_RETRIES,
        gangs=True,
        unit=SchedulingUnit.POD,
        backfill=None,
        backoff=Backoff(),
    )
    world = policy.world().live(
        PutNode(0, cpu=2),
        PutNode(1, cpu=2),
        PutGroup(3, 1, roles=(("ps", 1),)),
        PutPods(3, 1, cpu=1, priority=1, role="worker"),
        PutPods(3, 1, cpu=1, priority=1, role="ps"),
        Decide(fate=Fate.DONE),
        PutNode(0, cpu=1),
        PutPods(3, 1, 4, cpu=1, gpu=1, priority=1),
        PutNode(0, cpu=2),
        PutGroup(3, 2),
        PutPods(3, 2, cpu=1, priority=1, role="worker"),
        Decide(fate=Fate.DONE),
    )
    world.driver.scheduler._check()
    (group,) = world.driver.scheduler.groups()
    assert (group.members, group.bound, group.waiting, group.pending) == (5, 3, 1, 1)
