"""Every part of a search counts against its budget, so that no decision takes long.

Counted are steps and calls of plugins, not the time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, frozen

from gangsched import (
    Bind,
    Effect,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    PodUnschedulable,
    Preemption,
    Scheduler,
    presets,
)
from gangsched._packing.budget import FREE, STEP, Budget, BudgetSpent, Work
from gangsched._packing.pack import BudgetExhausted, Demand, Quota, pack
from gangsched.framework.runtime import filter_and_score
from gangsched.model import Node
from gangsched.testing import make_pod
from support.taken_steps import taken_steps


def barely(members: int, nodes: int, scale: float, **options: Any) -> Scheduler:
    """Return a scheduler with a gang of unlike members, and nodes with about as much free.

    Args:
        members: How many members there are.
        nodes: How many nodes.
        scale: How much is free in sum, as a share of what the members request.
        options: Of the preset.
    """
    draw = random.Random(0)
    cluster = InMemoryCluster()
    requests = [(draw.randint(1000, 16_000), draw.randint(1, 60)) for _ in range(members)]
    free = int(sum(cpu for cpu, _memory in requests) * scale / nodes)
    for n in range(nodes):
        name = NodeName(f"n{n}")
        offers = {"cpu": "64", "memory": "256Gi"}
        cluster.apply(NodeAdded(Node(name=name, allocatable=offers)))
        used = max(64_000 - free - draw.randint(-500, 500), 0)
        running = make_pod(f"r{n}", requests={"cpu": f"{used}m"})
        cluster.apply(PodAdded(evolve(running, node_name=name)))
    for n, (cpu, memory) in enumerate(requests):
        asked = {"cpu": f"{cpu}m", "memory": f"{memory}Gi"}
        pod = make_pod(f"g-{n}", group="g", min_available=members, priority=10, requests=asked)
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, **options)
    scheduler.rebuild(now=0.0)
    return scheduler


class Asked:
    """Counts how often plugins are asked to filter or score a node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        original = filter_and_score._Judge._call

        def count(judge: Any, plugin: Any, point: str, given: Any) -> Any:
            self.calls += 1
            return original(judge, plugin, point, given)

        monkeypatch.setattr(filter_and_score._Judge, "_call", count)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps of each search."""
    return taken_steps(monkeypatch)


def binds(effects: tuple[Effect, ...] | None) -> int:
    return sum(isinstance(effect, Bind) for effect in effects or ())


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.02, 1.1])
def test_gang_of_unlike_members_on_nearly_full_nodes_takes_no_more_steps_than_the_budget(
    scale: float, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = barely(200, 50, scale)
    asked = Asked(monkeypatch)
    effects = scheduler.schedule_one(now=0.0)
    assert sum(steps) <= 10_000
    # each step is worth half a call of the node model, which asks at most three plugins anew
    assert asked.calls <= 3 * (10_000 * STEP + FREE) // 200
    assert binds(effects) == (200 if scale > 1.01 else 0)
    scheduler._check()


def test_search_that_its_budget_ends_is_reported_as_such() -> None:
    scheduler = barely(100, 25, 1.0)
    effects = scheduler.schedule_one(now=0.0)
    told, *_others = (e for e in effects or () if isinstance(e, PodUnschedulable))
    assert scheduler.exhausted_searches == 1
    assert "not decided within" in told.reason
    assert " 0 of 100" not in told.reason, "the greedy plan places most of them"


def test_smaller_budget_takes_fewer_steps(steps: list[int]) -> None:
    scheduler = barely(100, 25, 1.0, search_budget=300)
    scheduler.schedule_one(now=0.0)
    assert sum(steps) <= 300


def test_all_searches_for_victims_share_the_budget_of_a_decision(steps: list[int]) -> None:
    """Each search may take 500 steps, and all of one preemptor no more than 2,000."""
    scheduler = barely(60, 15, 0.95, search_budget=2_000, preemption=Preemption(grace=0))
    scheduler.schedule_one(now=0.0)
    assert sum(steps) <= 2 * 2_000, "the decision itself, and the preemption after it"


@frozen
class Bowls:
    """Nodes known by a number, which is what they have free."""

    binding: frozenset[str] = frozenset()

    def after(self, node: int, pod: int) -> int | None:
        return node - pod if node >= pod else None

    def free(self, node: int) -> Mapping[str, int]:
        return {"cpu": node}

    def without(self, resource: str) -> Bowls:
        return self


def test_greedy_passes_end_with_the_budget() -> None:
    kinds = range(500, 700)
    demands = [Demand(kind, 1, {}) for kind in kinds]
    nodes = [(number, 1) for number in range(900, 990)]
    answer = pack(demands, [Quota(frozenset(kinds), 200)], nodes, Bowls(), budget=500)
    assert answer == BudgetExhausted(500, 0)


def test_operations_beyond_the_free_ones_are_steps() -> None:
    work = Work()
    budget = Budget(3, work)
    budget.work(FREE)
    assert (budget.steps, budget.left) == (0, 3)
    budget.work(2 * STEP + 1)
    assert (budget.steps, budget.left, work.operations) == (2, 1, 1)
    other = Budget(1, work)
    other.work(STEP - 1)
    assert (other.steps, work.steps) == (1, 3), "operations are of the decision, not of a search"
    with pytest.raises(BudgetSpent):
        budget.work(5 * STEP)
    assert (budget.steps, budget.left, work.steps) == (3, 0, 4)
    with pytest.raises(BudgetSpent):
        budget.spend()
