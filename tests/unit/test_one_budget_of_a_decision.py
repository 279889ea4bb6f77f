"""The attempt, the search for victims and a look ahead share one budget of steps.

Counted are steps, not the time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    Effect,
    Evict,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Nominated,
    PodAdded,
    PodUnschedulable,
    Preemption,
    Scheduler,
    VictimSearchExhausted,
    presets,
)
from gangsched.explain import NoNodeFits, SearchBudgetExhausted
from gangsched.framework.backfill import start_estimate
from gangsched.framework.placement import budget_shares, gang_layout
from gangsched.framework.preemption.preemptor import GangPreemptor
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.model import Node
from gangsched.testing import make_pod
from support.taken_steps import taken_steps


def barely(
    members: int, nodes: int, scale: float, *, seed: int = 0, pieces: int = 3, **options: Any
) -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler with a gang of unlike members, and nodes with about as much free.

    Args:
        members: The number of members.
        nodes: The number of nodes.
        scale: How much is free in sum, as a share of what the members request.
        seed: What the requests are drawn from.
        pieces: The number of pods of lower priority on each node.
        options: Of the preset.
    """
    draw = random.Random(seed)
    cluster = InMemoryCluster()
    requests = [(draw.randint(1000, 16_000), draw.randint(1, 60)) for _ in range(members)]
    free = int(sum(cpu for cpu, _memory in requests) * scale / nodes)
    for n in range(nodes):
        name = NodeName(f"n{n}")
        offers = {"cpu": "64", "memory": "256Gi"}
        cluster.apply(NodeAdded(Node(name=name, allocatable=offers)))
        used = max(64_000 - free - draw.randint(-500, 500), 0)
        for k in range(pieces):
            running = make_pod(f"r{n}-{k}", requests={"cpu": f"{used // pieces}m"})
            cluster.apply(PodAdded(evolve(running, node_name=name)))
    for n, (cpu, memory) in enumerate(requests):
        asked = {"cpu": f"{cpu}m", "memory": f"{memory}Gi"}
        pod = make_pod(f"g-{n}", group="g", min_available=members, priority=10, requests=asked)
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster, **options)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps of each search."""
    return taken_steps(monkeypatch)


def spent(effects: tuple[Effect, ...] | None) -> Iterator[VictimSearchExhausted]:
    return (effect for effect in effects or () if isinstance(effect, VictimSearchExhausted))


def for_attempt(scheduler: Scheduler) -> int:
    """Return how many steps the attempt of the next entity may take."""
    state = scheduler._state
    (entity,) = state.queue.active
    return budget_shares.for_attempt(
        state.settings, state.pods, state.reservations, state.call, entity
    )


def victims(effects: tuple[Effect, ...] | None) -> int:
    return sum(isinstance(effect, Evict) for effect in effects or ())


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("budget", [2_000, 10_000])
def test_attempt_and_search_for_victims_take_no_more_than_one_budget(
    scale: float, budget: int, steps: list[int]
) -> None:
    _cluster, scheduler = barely(60, 15, scale, preemption=Preemption(), search_budget=budget)
    scheduler.schedule_one(now=0.0)
    assert sum(steps) <= budget
    scheduler._check()


def test_victims_are_found_though_the_attempt_is_not_decided() -> None:
    """Half of the budget is kept for them: the attempt would take all of it."""
    _cluster, alone = barely(30, 8, 1.0)
    alone.schedule_one(now=0.0)
    assert alone._state.call.steps == 10_000
    assert alone.exhausted_searches == 1
    _cluster, scheduler = barely(30, 8, 1.0, preemption=Preemption())
    assert victims(scheduler.schedule_one(now=0.0)) == 1
    assert scheduler.exhausted_searches == 1


def test_attempt_that_cannot_preempt_has_the_whole_budget(steps: list[int]) -> None:
    """No pod on a node has a lower priority."""
    _cluster, scheduler = barely(30, 8, 1.0, pieces=0, preemption=Preemption())
    assert for_attempt(scheduler) == 10_000
    _cluster, scheduler = barely(30, 8, 1.0, preemption=Preemption())
    assert for_attempt(scheduler) == 5_000


@pytest.mark.parametrize(
    ("taken", "left"), [(0, 10_000), (100, 8_900), (5_000, 5_000), (10_000, 5_000)]
)
def test_victims_have_what_the_attempt_left_and_half_of_the_budget_at_least(
    taken: int, left: int
) -> None:
    """The operations that are not counted, worth 1,000 steps, are granted anew and paid for."""
    _cluster, scheduler = barely(4, 2, 1.0, preemption=Preemption())
    state = scheduler._state
    state.call.steps = taken
    assert budget_shares.for_victims(state.settings, state.call) == left


def test_placement_that_is_not_searched_counts_as_cut_short() -> None:
    _cluster, scheduler = barely(4, 2, 0.5, preemption=Preemption())
    state = scheduler._state
    (entity,) = state.queue.active
    assert entity.group is not None
    budget = VictimBudget(10, 5)
    preemptor = GangPreemptor(state, entity, entity.group, 0.0, budget)
    assert preemptor.places() is None
    assert not budget.is_exhausted, "that it does not fit is decided without a step"
    budget.work.steps = 10
    assert preemptor.places() is None
    assert budget.is_exhausted


def test_budget_of_0_is_0_for_each_part(steps: list[int]) -> None:
    _cluster, scheduler = barely(30, 8, 0.9, preemption=Preemption(), search_budget=0)
    scheduler.schedule_one(now=0.0)
    assert sum(steps) == 0


def test_each_call_has_a_budget_of_its_own() -> None:
    _cluster, scheduler = barely(30, 8, 1.0)
    scheduler.schedule_one(now=0.0)
    assert scheduler._state.call.steps == 10_000
    scheduler.advance(now=100.0)
    assert scheduler._state.call.steps == 0


@given(st.integers(2, 12), st.integers(1, 4), st.sampled_from([0.4, 0.8, 1.0]), st.integers(0, 99))
def test_decision_far_from_its_budget_is_the_same_with_any_budget(
    members: int, nodes: int, scale: float, seed: int
) -> None:
    def decided(budget: int) -> tuple[tuple[Effect, ...] | None, int]:
        _cluster, scheduler = barely(
            members, nodes, scale, seed=seed, preemption=Preemption(), search_budget=budget
        )
        return scheduler.schedule_one(now=0.0), scheduler._state.call.steps

    effects, taken = decided(10_000)
    if taken <= 2_500:
        assert decided(10_000_000) == (effects, taken)


# What is said ---------------------------------------------------------------------------------


def test_search_for_victims_that_its_budget_ends_is_reported_as_such() -> None:
    _cluster, scheduler = barely(60, 15, 0.9, preemption=Preemption(), search_budget=2_000)
    effects = scheduler.schedule_one(now=0.0)
    assert victims(effects) == 0
    (told,) = spent(effects)
    assert (told.group, told.is_found) == ("default/g", False)
    assert 0 < told.steps <= 2_200
    why = scheduler.why("default/g", budget=0)
    assert isinstance(why, NoNodeFits)
    failed = why.unschedulable_member
    assert failed is not None
    assert failed.victim_steps == told.steps
    assert failed.uid == told.uid
    assert f"no victims were found within {told.steps} steps, and some may exist" in str(why)


def test_why_says_so_after_a_restore() -> None:
    options: dict[str, Any] = {"preemption": Preemption(), "search_budget": 2_000}
    cluster, scheduler = barely(60, 15, 0.9, **options)
    scheduler.schedule_one(now=0.0)
    twin = presets.gang(cluster, **options)
    twin.restore(json.loads(json.dumps(scheduler.snapshot())))
    one, other = (each.why("default/g", budget=0) for each in (scheduler, twin))
    assert str(one) == str(other)
    assert "no victims were found" in str(twin.why("default/g"))


def test_plan_that_may_evict_too_much_is_reported_before_it() -> None:
    _cluster, scheduler = barely(30, 8, 0.9, preemption=Preemption())
    effects = scheduler.schedule_one(now=0.0)
    (told,) = spent(effects)
    assert told.is_found
    kinds = [type(effect) for effect in effects or ()]
    assert kinds.index(VictimSearchExhausted) < kinds.index(Nominated) < kinds.index(Evict)


@pytest.mark.parametrize("scale", [0.4, 1.1])
def test_search_for_victims_that_is_decided_posts_no_such_notice(scale: float) -> None:
    _cluster, scheduler = barely(4, 2, scale, preemption=Preemption())
    effects = scheduler.schedule_one(now=0.0)
    assert not list(spent(effects))
    assert victims(effects) == (scale < 1) * victims(effects)
    assert "victims" not in str(scheduler.why("default/g"))


def test_search_for_victims_without_any_is_not_reported() -> None:
    """The attempt exhausts its budget; there is nothing to evict."""
    _cluster, scheduler = barely(30, 8, 1.0, pieces=0, preemption=Preemption(), search_budget=10)
    effects = scheduler.schedule_one(now=0.0)
    assert not list(spent(effects))


# Looking ahead --------------------------------------------------------------------------------


def test_all_placements_of_a_look_ahead_share_a_quarter_of_the_budget(
    steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _cluster, scheduler = barely(60, 15, 0.9, backfill=Backfill(), search_budget=4_000)
    scheduler.schedule_one(now=0.0)
    steps.clear()
    looks: list[int] = []
    original = start_estimate.look_ahead
    plan_gang = gang_layout.plan_gang

    def counted(*args: Any, budget: int, **named: Any) -> Any:
        assert budget, "no placement is tried when nothing is left"
        return plan_gang(*args, budget=budget, **named)

    def count(state: Any, *args: Any, **named: Any) -> Any:
        assert not sum(steps)
        found = original(state, *args, **named)
        looks.append(sum(steps))
        assert state.call.steps == sum(steps)
        return found

    monkeypatch.setattr(start_estimate, "look_ahead", count)
    monkeypatch.setattr(gang_layout, "plan_gang", counted)
    scheduler.schedule_one(now=0.0)
    assert looks == [1_000], "without a common budget each of several placements may take 4,000"
    assert sum(steps) <= 4_000


def test_attempt_after_a_look_ahead_takes_what_is_left(steps: list[int]) -> None:
    _cluster, scheduler = barely(60, 15, 0.9, backfill=Backfill(), search_budget=4_000)
    scheduler.schedule_one(now=0.0)
    steps.clear()
    scheduler.advance(now=30.0)
    scheduler.schedule_one(now=30.0)
    assert 0 < sum(steps) <= 4_000
    scheduler._check()


def test_exhausted_attempt_is_still_told_as_such() -> None:
    _cluster, scheduler = barely(30, 8, 1.0, preemption=Preemption())
    effects = scheduler.schedule_one(now=0.0)
    told, *_others = (e for e in effects or () if isinstance(e, PodUnschedulable))
    assert "not decided within" in told.reason
    (entity,) = scheduler._state.pods.entities.values()
    assert entity.unschedulable_member is not None
    assert isinstance(entity.unschedulable_member.proof, SearchBudgetExhausted)
