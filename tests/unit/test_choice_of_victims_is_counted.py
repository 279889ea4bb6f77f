"""The choice among victims counts against the budget of the decision, and ends with it.

Counted are steps and pods that are taken off nodes, not the time.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Effect,
    Evict,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Nominated,
    PodAdded,
    PodDeleted,
    PodUpdated,
    Preemption,
    Scheduler,
    VictimSearchExhausted,
    presets,
)
from gangsched._packing.budget import FREE, STEP
from gangsched.framework.nodes.nodes_view import NodesView
from gangsched.framework.preemption import choices, eviction_units
from gangsched.framework.preemption.spared_units import SparedUnits
from gangsched.framework.preemption.victim_budget import TAKE, VictimBudget
from gangsched.model import Node
from gangsched.testing import make_pod

GPUS = 4


def crowded(
    nodes: int, size: int, wanted: int, *, gpu: int = GPUS, seed: int = 0, **options: Any
) -> tuple[InMemoryCluster, Scheduler]:
    """Return a full cluster of nodes with 4 GPUs, and a pending gang of a higher priority.

    Args:
        nodes: The number of nodes.
        size: The number of members of each running gang, on nodes drawn at random.
        wanted: The number of members of the pending gang; 0 for a regular pod.
        gpu: How many GPUs one of its members requests.
        seed: What nodes and priorities are drawn from.
        options: Of the preset.
    """
    draw = random.Random(seed)
    cluster = InMemoryCluster()
    slots: list[NodeName] = []
    for n in range(nodes):
        name = NodeName(f"n{n}")
        cluster.apply(NodeAdded(Node(name=name, allocatable={"nvidia.com/gpu": GPUS})))
        slots += [name] * GPUS
    draw.shuffle(slots)
    for g in range(len(slots) // size):
        priority = draw.randrange(3)
        for m in range(size):
            group, least = (f"g{g}", size) if size > 1 else (None, None)
            pod = make_pod(
                f"g{g}-{m}",
                group=group,
                min_available=least,
                gpu=1,
                priority=priority,
                created_at=float(g),
            )
            cluster.apply(PodAdded(evolve(pod, node_name=slots.pop())))
    for m in range(max(wanted, 1)):
        group, least = ("big", wanted) if wanted else (None, None)
        pod = make_pod(f"big-{m}", group=group, min_available=least, gpu=gpu, priority=10)
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, preemption=Preemption(), **options)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many pods were taken off their nodes, each time."""
    found: list[int] = []
    original = NodesView.remove

    def count(view: NodesView, holders: Any) -> Any:
        removed = original(view, holders)
        found.append(len(removed))
        return removed

    monkeypatch.setattr(NodesView, "remove", count)
    return found


def told(effects: tuple[Effect, ...] | None) -> list[VictimSearchExhausted]:
    return [effect for effect in effects or () if isinstance(effect, VictimSearchExhausted)]


def evicted(effects: tuple[Effect, ...] | None) -> list[str]:
    return [str(effect.uid) for effect in effects or () if isinstance(effect, Evict)]


def starts(cluster: InMemoryCluster, scheduler: Scheduler, effects: Any) -> int:
    """Let the victims end; return how many pods are bound then."""
    for effect in effects or ():
        if isinstance(effect, Evict):
            scheduler.handle(cluster.apply(PodDeleted(effect.uid)), now=1.0)
    bound = 0
    scheduler.advance(now=2.0)
    while (found := scheduler.schedule_one(now=2.0)) is not None:
        bound += sum(isinstance(effect, Bind) for effect in found)
    return bound


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("wanted", [0, 20, 60])
def test_pods_taken_off_nodes_are_no_more_than_the_budget_allows(
    size: int, wanted: int, taken: list[int]
) -> None:
    budget = 200
    _cluster, scheduler = crowded(120, size, wanted, search_budget=budget)
    effects = scheduler.schedule_one(now=0.0)
    most = (budget * STEP + FREE) // TAKE
    # what the last batch took is counted after it; what is put back is taken again at less cost
    assert sum(taken) <= 2 * most + 64
    assert told(effects)
    scheduler._check()


def test_decision_with_victims_takes_no_more_steps_than_its_budget() -> None:
    for size in (1, 2, 8):
        _cluster, scheduler = crowded(120, size, 40, search_budget=1_000)
        scheduler.schedule_one(now=0.0)
        # giving back, and the last placement, may be counted after the budget is spent
        assert scheduler._state.call.steps <= 2_000


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2])
def test_pod_gets_victims_on_one_node_though_the_budget_ends_the_choice(
    size: int, seed: int
) -> None:
    cluster, scheduler = crowded(200, size, 0, seed=seed, search_budget=300)
    effects = scheduler.schedule_one(now=0.0)
    (notice,) = told(effects)
    assert notice.is_found
    (nominated,) = (effect for effect in effects or () if isinstance(effect, Nominated))
    assert len(evicted(effects)) == GPUS * size
    assert len({node for _uid, node in nominated.places}) == 1
    assert starts(cluster, scheduler, effects) == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("budget", [300, 600, 1_000, 2_000, 5_000])
def test_gang_whose_victims_were_chosen_in_haste_starts_when_they_are_gone(
    budget: int, seed: int
) -> None:
    cluster, scheduler = crowded(150, 2, 12, seed=seed, search_budget=budget)
    effects = scheduler.schedule_one(now=0.0)
    scheduler._check()
    if not evicted(effects):
        assert [notice.is_found for notice in told(effects)] == [False]
        return
    assert starts(cluster, scheduler, effects) == 12


def test_gang_is_found_victims_node_by_node_when_the_comparison_is_cut_short() -> None:
    """No gang of two frees a node alone, so no single one gains anything."""
    _cluster, scheduler = crowded(400, 2, 8, search_budget=1_500)
    effects = scheduler.schedule_one(now=0.0)
    (notice,) = told(effects)
    assert notice.is_found
    assert 8 * GPUS <= len(evicted(effects)) <= 2 * 8 * GPUS


def test_search_with_more_terminating_pods_than_it_may_move_is_cut_short(taken: list[int]) -> None:
    cluster, scheduler = crowded(300, 1, 40, search_budget=100)
    for pod in list(cluster.pods()):
        if pod.node_name is not None:
            fact = cluster.apply(PodUpdated(evolve(pod, deleted_at=0.0)))
            scheduler.handle(fact, now=0.0)
    effects = scheduler.schedule_one(now=0.0)
    assert [notice.is_found for notice in told(effects)] == [False]
    assert sum(taken) < 300 * GPUS


def none_known(_search: Any, _pieces: Any) -> set[int]:
    return set()


@given(
    st.integers(2, 6),
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(1, GPUS),
    st.integers(0, 99),
)
def test_victims_known_to_be_needed_are_those_that_trying_each_would_find(
    nodes: int, size: int, wanted: int, gpu: int, seed: int
) -> None:
    def decided() -> tuple[Effect, ...] | None:
        _cluster, scheduler = crowded(nodes, size, wanted, gpu=gpu, seed=seed)
        return scheduler.schedule_one(now=0.0)

    quick = decided()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparedUnits, "_needed_alone", none_known)
        assert decided() == quick


def test_each_attempt_compares_other_nodes_if_there_are_too_many() -> None:
    _cluster, scheduler = crowded(300, 1, 0)
    state = scheduler._state
    units = eviction_units.units(state.pods, state.reservations, 10, ())

    def compared(attempt: int) -> list[int | None]:
        found = choices.by_node(
            state.nodes, state.pods, units, lambda _i: True, VictimBudget(10_000, 500), attempt
        )
        return [choice.at for choice in found]

    assert compared(0) == list(range(1, 101))
    assert compared(1) == list(range(33, 133))
    assert {index for attempt in range(10) for index in compared(attempt)} == set(range(1, 301))


def test_all_nodes_are_compared_in_order_if_there_are_few() -> None:
    _cluster, scheduler = crowded(60, 2, 0)
    state = scheduler._state
    units = eviction_units.units(state.pods, state.reservations, 10, ())
    budget = VictimBudget(10_000, 500)
    found = choices.by_node(state.nodes, state.pods, units, lambda _i: True, budget, 3)
    assert [choice.at for choice in found] == list(range(1, 61))
    assert sum(len(choice.units) for choice in found) >= len(units)


def test_spent_budget_ends_and_is_remembered() -> None:
    budget = VictimBudget(10, 5)
    assert not budget.ends()
    budget.count(FREE)
    assert not budget.ends(), "the first operations are not counted"
    budget.count(5 * STEP)
    assert (budget.steps, budget.looks) == (5, 5)
    assert not budget.ends()
    assert not budget.is_exhausted
    assert budget.ends(at=5)
    assert budget.is_exhausted
    budget.count(5 * STEP)
    assert budget.ends()
