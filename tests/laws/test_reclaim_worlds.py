"""Reclaim in small trees of queues, against every plan that there is.

A job starts exactly if jobs may be evicted so that it fits, and those that are evicted are one of
the smallest such sets. If what is evicted is pending again at once, the scheduler comes to rest,
and what runs is never the same twice. Then no job waits that could start.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest
from attrs import evolve

from support.queue_cases import QueueHost
from support.queue_oracle import Job, Queue, QueueWorld

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
_PARENTS: Final = ("root", "p")
_RECLAIMS: Final = ("any", "any", "any", "any", "lower", "lower-or-equal", "never")
_SMALL: Final = 4
"""How many jobs are small; those that come later are larger."""
_MOST: Final = 40
"""More evictions than eight jobs need to come to rest."""

in_blocks = pytest.mark.parametrize("seeds", _BLOCKS, ids=lambda seeds: f"from-{seeds[0]}")
either_way = pytest.mark.parametrize("is_fair", [False, True], ids=["nominal", "fair"])


def _amounts(random: Random, names: list[str], least: int, most: int) -> dict[str, int]:
    return {name: 1000 * random.randint(least, most) for name in names}


def _sometimes(random: Random, part: float, amounts: dict[str, int]) -> dict[str, int]:
    return amounts if random.random() < part else {}


def _queue(random: Random, name: str, parent: str | None, names: list[str]) -> Queue:
    nominal = _amounts(random, names, 0, 1 if name in _PARENTS else 3)
    is_limited = random.random() < 0.3
    return Queue(
        name,
        parent,
        nominal,
        borrow=_sometimes(random, 0.4 * is_limited, _amounts(random, names, 0, 2)),
        lend=_sometimes(random, 0.4 * is_limited, _amounts(random, names, 0, 2)),
        hard=_sometimes(random, 0.2 * is_limited, _amounts(random, names, 2, 6)),
        weight=random.choice([1.0, 1.0, 1.0, 2.0, 0.5, 3.0, 0.0]),
        reclaim=random.choice(_RECLAIMS),
    )


def _queues(random: Random, names: list[str]) -> dict[str, Queue]:
    """Return a tree of two to four queues with jobs, some of them below a parent."""
    number = random.randint(2, 4)
    parents = (
        {"root": None, "p": "root"} if number < 4 and random.random() < 0.5 else {"root": None}
    )
    found = {name: _queue(random, name, parent, names) for name, parent in parents.items()}
    for name in [f"q{n}" for n in range(number)]:
        found[name] = _queue(random, name, random.choice(list(parents)), names)
    return found


def _job(random: Random, number: int, queues: dict[str, Queue], names: list[str]) -> Job:
    sizes = [0, 1, 1, 1, 2] if number < _SMALL else [0, 1, 2, 2, 3]
    requests = {name: 1000 * random.choice(sizes) for name in names}
    if not any(requests.values()):
        requests[random.choice(names)] = 1000
    queue = random.choice([name for name in queues if name not in _PARENTS])
    return Job(f"j{number}", queue, requests, random.choice([0, 0, 0, 1, -1]))


def _world(seed: int, *, is_fair: bool) -> tuple[QueueWorld, list[Job]]:
    """Return a world, and jobs that do not fit in it as it is.

    Most jobs that run fit beside each other. In some worlds, more run than fit: as if there had
    been other quotas before.
    """
    random = Random(seed)
    names = ["cpu", "gpu"] if random.random() < 0.5 else ["cpu"]
    queues = _queues(random, names)
    jobs = [_job(random, n, queues, names) for n in range(random.randint(6, 8))]
    capacity = _sometimes(random, 0.2, {"cpu": 1000 * random.randint(3, 8)})
    overcommitted = 3 if not capacity and random.random() < 0.1 else 0
    world, left = QueueWorld(queues, {}, capacity, is_fair=is_fair), list[Job]()
    for number, job in enumerate(jobs):
        if world.lacks(job) and number >= overcommitted:
            left.append(job)
        else:
            running = {**world.running, job.name: job}
            world = QueueWorld(queues, running, capacity, is_fair=is_fair)
    return world, left


@either_way
@in_blocks
def test_job_starts_exactly_if_it_can_and_by_a_smallest_set_of_victims(
    seeds: Sequence[int], is_fair: bool
) -> None:
    for seed in seeds:
        world, waiting = _world(seed, is_fair=is_fair)
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
        world, waiting = _world(seed, is_fair=is_fair)
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
        world, waiting = _world(seed, is_fair=is_fair)
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
                world, waiting = _world(seed, is_fair=is_fair)
                for job in waiting[:2]:
                    sizes = {len(plan) for plan in world.plans(job)}
                    found |= {str(size) for size in sizes} if sizes else {"none"}
        assert found >= {"none", "1", "2", "3"}
