"""Histories on the core: no step breaks a law, and at rest nothing is left that could start.

The oracles of ``World`` check the laws, those of preemption included. They share no code with the
core.
"""

from __future__ import annotations

import copy
from typing import cast

import pytest
from attrs import evolve
from hypothesis import given

from gangsched import (
    Bind,
    ClusterState,
    InMemoryCluster,
    MatchPolicy,
    PodUID,
    Scheduler,
    presets,
)
from gangsched.core.scheduler import Scheduler as Core
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, all_policies, histories, policies, rivals
from support.history_steps import HistoryStep
from support.world import World

_MANY = 2_000


def on_the_core(policy: Policy) -> World:
    """Return an empty world whose scheduler is the core, with a policy."""

    def make(cluster: ClusterState) -> Scheduler:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(presets, "Scheduler", Core)
            return policy.make(cluster)

    return World(Driver(make, grouped=policy.gangs, match=policy.match_policy))


def started_by(scheduler: Scheduler, now: float) -> list[PodUID]:
    """Return the pods that a scheduler binds at one instant, without performing the binds."""
    found: list[PodUID] = []
    scheduler.advance(now=now)
    for _ in range(_MANY):
        effects = scheduler.schedule_one(now=now)
        if effects is None:
            return found
        found += [effect.uid for effect in effects if isinstance(effect, Bind)]
    raise AssertionError("it does not come to rest")


@one_in(4)
@given(policies, histories())
def test_no_history_breaks_a_law_and_at_rest_nothing_could_start(
    policy: Policy, steps: list[HistoryStep]
) -> None:
    plain = evolve(policy, backfill=None)
    world = on_the_core(plain).live(*steps).finish()
    driver = world.driver
    shown: InMemoryCluster = copy.deepcopy(driver.cluster)
    assert started_by(driver.make(shown), driver.now) == []
    # a started group of a bundle that needs another quorum holds the others up here, and not there
    if policy.match_policy is not MatchPolicy.ONLY_WAITING:
        assert started_by(plain.make(shown), driver.now) == []


@one_in(8)
@given(all_policies, rivals(), histories())
def test_no_history_of_rivals_breaks_a_law(
    policy: Policy, first: tuple[HistoryStep, ...], steps: list[HistoryStep]
) -> None:
    """Pods of lower priorities run first, so that many histories evict some."""
    world = on_the_core(policy).live(*first, *steps).finish()
    cast("Core", world.driver.scheduler)._check()


@one_in(8)
@given(all_policies, rivals(), histories())
def test_dropped_answers_change_no_eviction(
    policy: Policy, first: tuple[HistoryStep, ...], steps: list[HistoryStep]
) -> None:
    kept, dropped = on_the_core(policy), on_the_core(policy)
    for number, step in enumerate([*first, *steps]):
        kept.do(step)
        if number % 2:
            cast("Core", dropped.driver.scheduler).forget_answers()
        dropped.do(step)
    assert kept.driver.log == dropped.driver.log


@one_in(4)
@given(policies, histories())
def test_dropped_answers_change_no_effect(policy: Policy, steps: list[HistoryStep]) -> None:
    kept, dropped = on_the_core(policy), on_the_core(policy)
    for step in steps:
        kept.do(step)
        cast("Core", dropped.driver.scheduler).forget_answers()
        dropped.do(step)
    assert kept.driver.log == dropped.driver.log
