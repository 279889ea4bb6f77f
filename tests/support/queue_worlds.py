"""Small trees of queues, drawn by the number of a seed, with jobs that run and jobs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from attrs import evolve

from support.queue_oracle import Job, Queue, QueueWorld

__all__ = ["contested_world", "world_of"]

_PARENTS: Final = ("root", "p")
_RECLAIMS: Final = ("any", "any", "any", "any", "lower", "lower-or-equal", "never")
_SMALL: Final = 4
"""How many jobs are small; those that come later are larger."""


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


def world_of(seed: int, *, is_fair: bool) -> tuple[QueueWorld, list[Job]]:
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
    world = QueueWorld(queues, {}, capacity, is_fair=is_fair)
    return _started(world, _also(seed, names, jobs), at_least=overcommitted)


def contested_world(seed: int, *, is_fair: bool) -> tuple[QueueWorld, list[Job]]:
    """Return a world, and jobs that do not fit, of which many may evict others of their queue.

    There are three priorities, the jobs are large beside what queues have, and in half of the
    worlds the nodes have less than the nominals together.
    """
    random = Random(seed)
    names = ["cpu", "gpu"] if random.random() < 0.4 else ["cpu"]
    number = random.randint(2, 4)
    queues = {"root": Queue("root", None, {name: random.choice([0, 0, 1000]) for name in names})}
    for name in [f"q{n}" for n in range(number)]:
        nominal = _amounts(random, names, 0, 3)
        weight = random.choice([1.0, 1.0, 2.0, 0.5, 3.0])
        queues[name] = Queue(name, "root", nominal, weight=weight)
    jobs: list[Job] = []
    for n in range(8):
        requests = {name: 1000 * random.choice([0, 1, 1, 2, 2, 3, 4]) for name in names}
        if not any(requests.values()):
            requests[random.choice(names)] = 1000
        queue = f"q{random.randrange(number)}"
        jobs.append(Job(f"j{n}", queue, requests, random.choice([0, 0, 1, 2])))
    capacity: dict[str, int] = {}
    if random.random() < 0.5:
        total = sum((queue.nominal or {})["cpu"] for queue in queues.values())
        capacity = {"cpu": max(1000, total - 1000 * random.randint(0, 3))}
    world = QueueWorld(queues, {}, capacity, is_fair=is_fair)
    return _started(world, _also(seed, names, jobs))


def _also(seed: int, names: Sequence[str], jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs; in some worlds, some of them also request what no queue names."""
    random = Random(f"also {seed}")
    if "gpu" in names or random.random() < 0.7:
        return list(jobs)
    return [
        evolve(job, requests={**job.requests, "gpu": 1000}) if random.random() < 0.6 else job
        for job in jobs
    ]


def _started(
    world: QueueWorld, jobs: Iterable[Job], at_least: int = 0
) -> tuple[QueueWorld, list[Job]]:
    """Return the world in which each job runs that fits, and at least so many; and the others."""
    left: list[Job] = []
    for number, job in enumerate(jobs):
        if world.lacks(job) and number >= at_least:
            left.append(job)
        else:
            world = evolve(world, running={**world.running, job.name: job})
    return world, left
