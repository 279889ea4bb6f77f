"""Law 5: groups that can never start do not requeue each other, or any other entity."""

from __future__ import annotations

import pytest

from gangsched import GroupRejected, WhenBlocked
from support.histories import Policy
from support.history_steps import Decide, PutNode, PutPods
from support.world import World


def impossible(world: World, group: int) -> World:
    """Add two members, each of which fits, but not both together: no bound can prove that."""
    return world.live(PutPods(group, 1, 2, cpu=2), PutPods(group, 1, 2, cpu=2, zone="a"))


def rejections(world: World) -> list[GroupRejected]:
    """Return the rejections of groups."""
    effects = (effect for told in world.driver.log for effect in told.effects)
    return [effect for effect in effects if isinstance(effect, GroupRejected)]


@pytest.mark.parametrize("when_blocked", list(WhenBlocked))
def test_rejected_groups_do_not_requeue_each_other_for_ever(when_blocked: WhenBlocked) -> None:
    """Released capacity was free when the other failed before it: no requeueing (F6, F9)."""
    world = Policy(when_blocked=when_blocked).world().live(PutNode(0, cpu=3))
    for group in range(4):
        impossible(world, group)
    world.finish()
    assert len(world.driver.scheduler.queue.unschedulable) == 4
    assert len(rejections(world)) <= 3 * 4


@pytest.mark.core_lacks("a lack of capacity begins no backoff")
def test_backoff_doubles_up_to_the_maximum() -> None:
    """One event, one try, one longer backoff: 1, 2, 4, 8, 10, 10 seconds."""
    world = impossible(Policy().world().live(PutNode(0, cpu=3)), 0).finish()
    for turn in range(5):
        world.live(PutNode(0, cpu=3, gpu=turn % 2), Decide()).finish()
        # a change that could help: each time there is more of something
        world.live(PutNode(0, cpu=2), PutNode(0, cpu=3)).finish()
    rests = []
    for told in world.driver.log:
        rests += [e.retry_after - told.now for e in told.effects if isinstance(e, GroupRejected)]
    assert rests[:6] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert set(rests[6:]) <= {10.0}


@pytest.mark.core_lacks("a lack of capacity begins no backoff")
def test_start_ends_the_row_of_failures() -> None:
    """An entity that fails after it backs off as after a first failure."""
    world = impossible(Policy().world().live(PutNode(0, cpu=3)), 0).finish()
    world.live(PutNode(0, cpu=2), PutNode(0, cpu=3)).finish()
    world.live(PutNode(1, cpu=2)).finish()
    assert not world.driver.scheduler.queue.unschedulable
    began = world.driver.now
    world.live(PutPods(0, 1, 2, gpu=1), Decide())
    (late,) = world.driver.scheduler.queue.unschedulable
    assert (late.failures, late.backoff_until) == (1, began + 1.0)
