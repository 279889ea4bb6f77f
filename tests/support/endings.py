"""What must be true when a history is over: laws 4, 5, 7, 9 and 10, which need its end."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import fields

from gangsched import Bind, Nominated, Scheduler
from gangsched.framework.state.scheduler_state import State
from support.brute import are_alike, could_start, entities
from support.deeds import Deed
from support.histories import Policy
from support.world import World

__all__ = [
    "a_listing_tells_nothing",
    "a_restart_moves_nobody",
    "everything_is_forgotten",
    "nobody_sleeps_who_could_start",
    "told_again_it_does_the_same",
]

COUNTERS = {
    *("cluster", "profile", "membership", "unit", "placement", "budget", "rest"),
    *("nodes", "step", "numbers", "exhausted_searches", "preemption"),
}


def told_again_it_does_the_same(world: World, policy: Policy, deeds: Sequence[Deed]) -> World:
    """Law 9: the same deeds give the same effects; return the world in which they were redone."""
    again = policy.world()
    again.driver.watched = again.driver.checked = False
    again.live(*deeds)
    assert again.driver.log == world.driver.log, "law 9: told again, it does something else"
    return again


def nobody_sleeps_who_could_start(world: World, policy: Policy) -> None:
    """Law 4: at rest, a new scheduler that sees only one who is pending starts nobody."""
    cluster = world.driver.cluster
    for entity in entities(cluster, grouped=policy.gangs):
        if are_alike(cluster, entity):
            could = could_start(policy.make, cluster, entity)
            assert not could, f"law 4: {sorted(could)} could start, and sleep"


def a_listing_tells_nothing(world: World) -> None:
    """Law 10: a scheduler at rest, up to date, learns nothing from a listing."""
    driver = world.driver
    said = len(driver.log)
    driver.rebuild()
    told = [effect for call in driver.log[said:] for effect in call.effects]
    assert not told, f"law 10: a listing was news: {told}"
    assert driver.scheduler.schedule_one(now=driver.now) is None, "law 10: a listing woke somebody"


def a_restart_moves_nobody(world: World) -> None:
    """Law 10: who is bound stays bound, and is not bound again, but for who ranks higher.

    A restart asks everybody anew: with preemption, that may displace others as any fact may.
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


def everything_is_forgotten(scheduler: Scheduler) -> None:
    """Law 7: without pods and groups every map is empty."""
    state = scheduler._state
    for attribute in fields(State):
        if attribute.name not in COUNTERS:
            assert len(getattr(state, attribute.name)) == 0, f"law 7: {attribute.name}"
    assert state.nodes.assumed == {}, "law 7: assumed"
    assert state.queue._queues == {}, "law 7: lines"
    assert scheduler.next_deadline() is None, "law 7: a deadline is left"
