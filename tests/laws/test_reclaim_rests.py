"""Queues and priorities that take from each other in turn come to rest.

A queue takes back what another one has borrowed, a job evicts a lower one of its own queue, and
what is evicted is created again: each is in order, and in turn they lead back to where they began.
A job that has lost what it took a few times evicts nothing more, until something else changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from attrs import evolve

from gangsched import NodeUpdated
from support.queue_cases import QueueHost, as_quotas, queue_preset
from support.queue_oracle import Job, Queue, QueueWorld
from support.queue_worlds import contested_world
from support.restored import restored

pytestmark = pytest.mark.once("the scheduler places whole gangs")

_BLOCKS: Final[Sequence[Sequence[int]]] = [
    *(range(start, start + 30) for start in range(0, 120, 30)),
    (662, 858, 1348, 1470, 1813, 2233),  # worlds without an end, if nothing ended them
]
_MOST: Final = 60
"""More evictions than eight jobs make that may lose three times each."""
_BARRED: Final = "it has lost what it took, and evicts nothing until something else changes"

either_way = pytest.mark.parametrize("is_fair", [False, True], ids=["nominal", "fair"])
either_kind = pytest.mark.parametrize("in_groups", [False, True], ids=["pods", "groups"])


def _waiting(host: QueueHost) -> dict[str, str]:
    """Return why jobs wait, by their names."""
    pending = [pod for pod in host.cluster.pods() if pod.node_name is None]
    return {pod.name: str(host.scheduler.why(pod)) for pod in pending}


@either_kind
@either_way
@pytest.mark.parametrize("seeds", _BLOCKS, ids=lambda seeds: f"from-{seeds[0]}")
def test_jobs_of_several_priorities_come_to_rest_and_only_those_that_lost_could_take_more(
    seeds: Sequence[int], is_fair: bool, in_groups: bool
) -> None:
    for seed in seeds:
        world, left = contested_world(seed, is_fair=is_fair)
        host = QueueHost(world, recreates=True, in_groups=in_groups)
        host.submit(*left)
        assert len(host.evicted) <= _MOST, (seed, world, left)
        jobs = {job.name: job for job in (*world.running.values(), *left)}
        after = evolve(world, running={name: jobs[name] for name in sorted(host.running)})
        for name, why in _waiting(host).items():
            assert _BARRED in why or not after.plans(jobs[name]), (seed, world, left, name, why)


# Two queues have three CPUs each, and the node has five. In each queue there is a job of one CPU
# and a more urgent one of three. The large job of one queue evicts the small one of its own, and
# takes back the large job of the other queue, whose small job then starts in what is left. And so
# on. Another job uses no CPU.
TURNS: Final = QueueWorld(
    {
        "root": Queue("root", None, {"cpu": 0}),
        "a": Queue("a", "root", {"cpu": 3000}),
        "b": Queue("b", "root", {"cpu": 3000}),
    },
    {
        "small-a": Job("small-a", "a", {"cpu": 1000}),
        "small-b": Job("small-b", "b", {"cpu": 1000}),
        "other": Job("other", "a", {"gpu": 1000}),
    },
    {"cpu": 5000},
)
LEFT: Final = (
    Job("large-a", "a", {"cpu": 3000}, 1),
    Job("large-b", "b", {"cpu": 3000}, 1),
)


def _at_rest() -> QueueHost:
    host = QueueHost(TURNS, recreates=True)
    host.submit(*LEFT)
    return host


def test_jobs_that_take_in_turn_lose_three_times_and_say_so() -> None:
    host = _at_rest()
    assert host.running == {"small-a", "small-b", "large-a", "other"}
    assert host.evicted.count("large-b") == 3
    assert _BARRED in _waiting(host)["large-b"]


def test_job_that_lost_takes_again_once_a_node_has_changed() -> None:
    host = _at_rest()
    known = len(host.evicted)
    (node,) = host.cluster.nodes()
    host._play([NodeUpdated(evolve(node, labels={"zone": "z"}))])
    assert len(host.evicted) > known
    assert _BARRED in "".join(_waiting(host).values())  # and it comes to rest again


def test_job_that_lost_takes_again_once_a_pod_has_ended_by_itself() -> None:
    host = _at_rest()
    known = len(host.evicted)
    host.end("other")
    host.decide()
    assert len(host.evicted) > known


def test_job_that_lost_takes_nothing_after_a_restore() -> None:
    host = _at_rest()
    fresh = queue_preset(TURNS)(host.cluster)
    host.scheduler = restored(fresh, host.scheduler.snapshot())
    known = len(host.evicted)
    host.at(host.now + 60.0)
    assert len(host.evicted) == known
    assert _BARRED in _waiting(host)["large-b"]


def test_job_that_lost_takes_again_once_the_quotas_are_replaced() -> None:
    host = _at_rest()
    known = len(host.evicted)
    host._take(host.scheduler.set_quotas(as_quotas(TURNS.queues.values()), now=host.now))
    host.decide()
    assert len(host.evicted) > known
