"""A search for victims that its budget cuts short says so, whatever step was the last."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, Node, NodeAdded, NodeName, PodAdded, Preemption, presets
from gangsched._packing.budget import Work
from gangsched.framework.preemption import eviction_units, victim_search
from gangsched.framework.preemption.preemptor import GangPreemptor
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.testing import make_pod


def search(seed: int, total: int) -> tuple[int | None, bool, int]:
    """Search victims for a gang of unlike members, with every operation counted.

    Returns:
        The number of victims, None for no plan; whether the search was cut short; its steps.
    """
    draw, cluster = random.Random(seed), InMemoryCluster()
    for n in range(3):
        name = NodeName(f"n{n}")
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 64, "memory": "256Gi"})))
        for k in range(3):
            running = make_pod(f"r{n}-{k}", cpu=draw.randint(11, 17))
            cluster.apply(PodAdded(evolve(running, node_name=name)))
    for n in range(8):
        requests: dict[str, str | int] = {
            "cpu": draw.randint(1, 16),
            "memory": f"{draw.randint(1, 60)}Gi",
        }
        pod = make_pod(f"g-{n}", group="g", min_available=8, priority=10, requests=requests)
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, preemption=Preemption())
    scheduler.rebuild(now=0.0)
    state = scheduler._state
    (entity,) = state.queue.active
    assert entity.group is not None
    budget = VictimBudget(total, total, work=Work(0))
    preemptor = GangPreemptor(state, entity, entity.group, 0.0, budget)
    units = eviction_units.units(state.pods, state.reservations, 10, preemptor.groups)
    plan = victim_search.find(state, preemptor, units)
    scheduler._check()
    return None if plan is None else len(plan.units), budget.is_exhausted, budget.steps


@pytest.mark.parametrize("seed", range(3))
def test_search_that_finds_other_victims_than_without_a_budget_is_reported(seed: int) -> None:
    victims, is_cut_short, steps = search(seed, 1_000_000)
    assert (victims is not None, is_cut_short) == (True, False)
    ended_early = 0
    for total in (*range(30), *range(30, steps + 2, max(steps // 40, 1))):
        found, is_cut_short, _steps = search(seed, total)
        if found != victims:
            assert is_cut_short, total
            ended_early += 1
    assert ended_early > 10
