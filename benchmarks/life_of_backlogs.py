"""10,000 pending gangs that do not fit: what an event costs beside them.

All GPUs are taken. A pod with the GPUs of a node ends, and another takes them at once; a gang that
needs no GPU arrives, starts and ends.

Rules:
  R1  each gang needs two nodes, so one node that is freed helps none of them;
  R2  each gang is tried until it is at rest before anything is measured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache, partial
from time import process_time
from typing import Final

from attrs import evolve

from gangsched import AnnotatedRunTimes, Backfill, Bind, PodAdded, PodDeleted
from gangsched.simulation import RUN_SECONDS
from gangsched.testing import make_pod
from life_of_gangs import World, nodes_of, plain, world_of
from placement import GPU, gangs
from versions import Round, Row

__all__ = ["rows"]

PAIRS: Final = 20
"""How many nodes are freed and taken in a round."""


@cache
def _full(number: int, demands: int, *, backfill: bool) -> World:
    nodes = nodes_of(5_000)
    running = [
        evolve(
            make_pod(f"held-{node.name}", requests={"cpu": 4, GPU: gpus}),
            node_name=node.name,
            annotations={RUN_SECONDS: f"{10**7 + n}"},
        )
        for n, node in enumerate(nodes)
        if (gpus := node.allocatable.amount(GPU) // 1000)
    ]
    policy = Backfill(AnnotatedRunTimes(RUN_SECONDS)) if backfill else None
    world = world_of(nodes, running, backfill=policy)
    for n in range(number):
        asks = {"cpu": f"{2000 + n % demands}m", GPU: 8}
        world.tell([PodAdded(pod) for pod in gangs(1, 2, asks, name=f"g{n}-")[0]])
    for _rest in range(3):
        _decide(world)
        world.now += 60.0
        world.scheduler.advance(now=world.now)
    _decide(world)
    return world


def _decide(world: World) -> float:
    begun = process_time()
    while (effects := world.scheduler.schedule_one(now=world.now)) is not None:
        assert not any(isinstance(effect, Bind) for effect in effects)
    return process_time() - begun


def freed(number: int, demands: int, backfill: bool) -> Round:
    """Return what frees nodes, and lets another pod take each of them."""
    world = _full(number, demands, backfill=backfill)
    held = [pod for pod in world.cluster.pods() if pod.name.startswith("held-")]
    held = [pod for pod in held if pod.requests.amount(GPU) == 8000]

    def run(turn: int) -> dict[str, float]:
        spent = 0.0
        for pod in random.Random(turn).sample(held, PAIRS):
            world.now += 1.0
            spent += world.tell([PodDeleted(pod.uid)])
            spent += _decide(world)
            spent += world.tell([PodAdded(pod)])
            spent += _decide(world)
        return {"": spent}

    return run


def fitting(number: int, demands: int, backfill: bool) -> Round:
    """Return what lets gangs that fit live one after the other."""
    world = _full(number, demands, backfill=backfill)

    def run(turn: int) -> dict[str, float]:
        pods = (plain("fits", 3, "same class", turn * PAIRS + n)[0] for n in range(PAIRS))
        return {"": sum(map(world.live, pods))}

    return run


def rows() -> Iterator[Row]:
    """Yield the rows."""
    for backfill in (False, True):
        for number, demands in ((1_000, 1), (10_000, 1), (10_000, 50)):
            what = f"{number:,} pending gangs, {demands} demands{', Backfill' * backfill}"
            what = what.replace(" 1 demands", " 1 demand")
            freeing = partial(freed, number, demands, backfill)
            yield Row(f"{what}: a node is freed and taken", 0.5, freeing, PAIRS)
            living = partial(fitting, number, demands, backfill)
            yield Row(f"{what}: a gang of 3 that fits", 0.5, living, PAIRS)
        _full.cache_clear()
