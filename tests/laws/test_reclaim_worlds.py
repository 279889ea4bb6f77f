"""Reclaim in small trees of queues, against every plan that there is.

A job starts exactly if jobs may be evicted so that it fits, and those that are evicted are one of
the smallest such sets. If what is evicted is pending again at once, the scheduler comes to rest,
and what runs is never the same twice. Then no job waits that could start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from attrs import evolve

from support.queue_cases import QueueHost
from support.queue_worlds import world_of

pytestmark = pytest.mark.once("the scheduler places whole gangs")

_BLOCKS: Final[Sequence[Sequence[int]]] = [
    *(range(start, start + 30) for start in range(0, 300, 30)),
    (
        1058,
        1059,
        1093,
        1165,
        1629,
        1720,
        1770,
        1824,
        2316,
        2406,
        2655,
    ),  # worlds in which a scheduler was wrong once
]
"""The seeds of the worlds that one test plays."""
_MOST: Final = 40
"""More evictions than eight jobs need to come to rest."""

in_blocks = pytest.mark.parametrize("seeds", _BLOCKS, ids=lambda seeds: f"from-{seeds[0]}")
either_way = pytest.mark.parametrize("is_fair", [False, True], ids=["nominal", "fair"])


@either_way
@in_blocks
def test_job_starts_exactly_if_it_can_and_by_a_smallest_set_of_victims(
    seeds: Sequence[int], is_fair: bool
) -> None:
    for seed in seeds:
        world, waiting = world_of(seed, is_fair=is_fair)
        for job in waiting[:2]:
            plans = world.plans(job)
            host = QueueHost(world)
            host.submit(job)
            assert (job.name in host.running) == bool(plans), (seed, world, job, plans)
            assert frozenset(host.evicted) in (plans or [frozenset()]), (seed, world, job, plans)


@either_way
@in_blocks
def test_jobs_come_to_rest_though_what_is_evicted_is_pending_again(
    seeds: Sequence[int], is_fair: bool
) -> None:
    for seed in seeds:
        world, waiting = world_of(seed, is_fair=is_fair)
        host = QueueHost(world, recreates=True)
        host.submit(*waiting)
        assert len(host.evicted) <= _MOST, (seed, world, waiting)
        assert len(set(host.was_running)) == len(host.was_running), (seed, world, waiting)


@either_way
@in_blocks
def test_no_job_waits_that_could_start_when_the_scheduler_is_at_rest(
    seeds: Sequence[int], is_fair: bool
) -> None:
    for seed in seeds:
        world, waiting = world_of(seed, is_fair=is_fair)
        host = QueueHost(world, recreates=True)
        host.submit(*waiting)
        jobs = {job.name: job for job in (*world.running.values(), *waiting)}
        running = {name: jobs.pop(name) for name in sorted(host.running)}
        after = evolve(world, running=running)
        plans = {job.name: after.plans(job) for job in jobs.values()}
        assert not any(plans.values()), (seed, world, waiting, running, plans)


def test_worlds_are_of_every_kind() -> None:
    """Some jobs cannot start, and others need one victim, two or three."""
    for is_fair in (False, True):
        found = set[str]()
        for seeds in _BLOCKS:
            for seed in seeds:
                world, waiting = world_of(seed, is_fair=is_fair)
                for job in waiting[:2]:
                    sizes = {len(plan) for plan in world.plans(job)}
                    found |= {str(size) for size in sizes} if sizes else {"none"}
        assert found >= {"none", "1", "2", "3"}
