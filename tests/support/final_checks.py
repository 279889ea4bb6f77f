"""Checks at the end of a history: laws 2, 4, 7, 9 and 10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gangsched import Bind, Nominated, Scheduler
from support.brute_force import are_alike, could_start, entities
from support.histories import Policy
from support.history_steps import HistoryStep
from support.shown import left_over, memory, shown
from support.world import World

__all__ = [
    "ends_lawfully",
    "known_facts_change_nothing",
    "listing_changes_nothing",
    "restart_moves_no_pod",
    "no_state_is_left",
    "no_startable_pod_is_parked",
    "repeated_history_gives_the_same_effects",
]


def ends_lawfully(world: World, policy: Policy, steps: Sequence[HistoryStep]) -> None:
    """Make every check of this module on a world in which *steps* have happened."""
    repeated_history_gives_the_same_effects(world, policy, steps)
    known_facts_change_nothing(world)
    world.finish()
    no_startable_pod_is_parked(world, policy)
    listing_changes_nothing(world)
    restart_moves_no_pod(world)
    world.driver.checked = False  # a history ends once, and is looked at when it is over
    no_state_is_left(world.clear().driver.scheduler)


def known_facts_change_nothing(world: World) -> None:
    """Check laws 2 and 10: old events, old reports of binds and a listing, amid a history."""
    driver = world.driver
    driver.tell_untold()
    # each call begins with what is due by then, such as a reservation whose gang is gone
    driver.advance(driver.now)
    said, before = len(driver.log), memory(driver.scheduler)
    past = [*world.told, *driver.reports]
    checked, driver.checked = driver.checked, False  # it is compared with what it was
    for event in [*past, *reversed(past)]:
        driver.tell_again(event)
    driver.rebuild()
    driver.checked = checked
    told = [effect for call in driver.log[said:] for effect in call.effects]
    assert not told, f"law 2: known facts were news: {told}"
    after = memory(driver.scheduler)
    # an active gang that is known to fail by now is parked when it is looked at
    for each in (before, after):
        queued: Any = (each.pop("active"), each.pop("unschedulable"))
        each["queued"] = frozenset(entry[0] for place in queued for entry in place)
        each["pending"] = ""
    assert after == before, "law 2: known facts changed something"


def repeated_history_gives_the_same_effects(
    world: World, policy: Policy, steps: Sequence[HistoryStep]
) -> World:
    """Check law 9: the same steps give the same effects. Return the second world."""
    again = policy.world()
    again.driver.watched = again.driver.checked = False
    again.live(*steps)
    assert again.driver.log == world.driver.log, "law 9: told again, it does something else"
    return again


def no_startable_pod_is_parked(world: World, policy: Policy) -> None:
    """Check law 4: after settling, a new scheduler starts no pending entity on its own."""
    cluster = world.driver.cluster
    for entity in entities(cluster, grouped=policy.gangs):
        if are_alike(cluster, entity):
            could = could_start(policy.make, cluster, entity)
            assert not could, f"law 4: {sorted(could)} could start, and sleep"


def listing_changes_nothing(world: World) -> None:
    """Check law 10: ``rebuild`` of a settled, up-to-date scheduler changes nothing."""
    driver = world.driver
    said = len(driver.log)
    driver.rebuild()
    told = [effect for call in driver.log[said:] for effect in call.effects]
    assert not told, f"law 10: a listing was news: {told}"
    assert driver.scheduler.schedule_one(now=driver.now) is None, "law 10: a listing woke somebody"


def restart_moves_no_pod(world: World) -> None:
    """Check law 10: bound pods stay bound, and are not bound again, unless they are preempted.

    After a restart all pending pods are tried again. With preemption, this may evict others.
    """
    driver = world.driver
    bound = {pod.uid: pod.node_name for pod in driver.cluster.pods() if pod.node_name}
    said = len(driver.log)
    driver.restart(lambda _bind: False)
    driver.settle()
    effects = [effect for call in driver.log[said:] for effect in call.effects]
    again = {effect.uid for effect in effects if isinstance(effect, Bind)} & bound.keys()
    assert not again, f"law 10: {sorted(again)} are bound twice"
    victims = {uid for effect in effects if isinstance(effect, Nominated) for uid in effect.victims}
    for uid, node in bound.items():
        if uid in victims:
            continue
        pod = driver.cluster.pod(uid)
        assert pod is not None, f"law 10: {uid} is gone"
        assert pod.node_name == node, f"law 10: {uid} has moved"


def no_state_is_left(scheduler: Scheduler) -> None:
    """Check law 7: without pods and groups, every container is empty."""
    listed = (scheduler.pending(), scheduler.binding(), scheduler.running(), scheduler.groups())
    assert listed == ((), (), (), ()), "law 7: a list is not empty"
    kept = (len(scheduler.queue), len(scheduler.waiting), len(scheduler.registry))
    assert kept == (0, 0, 0), "law 7: the queue, the waiting map or the registry is not empty"
    seen = shown(scheduler)
    assert (seen.pods, seen.evicted, seen.nominations) == ({}, frozenset(), ()), "law 7: remembered"
    assert scheduler.reservation is None, "law 7: a reservation is left"
    assert scheduler.next_deadline() is None, "law 7: a deadline is left"
    left = left_over(scheduler)
    assert not left, f"law 7: {left} can still be reached"
