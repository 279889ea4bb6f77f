"""A question takes a bounded number of steps in all, and its answer says if that was too few."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Preemption,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.framework.what_if import simulate
from gangsched.testing import make_pod
from gangsched.what_if import Insufficient, Sufficient

MORE = NodeAdded(Node(name=NodeName("more"), allocatable={"cpu": 1000}))
SHAPE = Node(name=NodeName("shape"), allocatable={"cpu": 1})


def waiting(*pods: Pod, cpu: int = 0, **options: Any) -> Scheduler:
    """Return a scheduler with pods that wait for capacity."""
    cluster = InMemoryCluster()
    if cpu:
        node = Node(name=NodeName("n"), allocatable={"cpu": cpu})
        cluster.apply(NodeAdded(node))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.coscheduling(cluster, **options)
    scheduler.rebuild(now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    return scheduler


def pods(number: int) -> list[Pod]:
    return [make_pod(f"p{n}", cpu=1) for n in range(number)]


def gang(number: int, cpu: int = 1) -> list[Pod]:
    return [make_pod(f"g-{n}", group="g", min_available=number, cpu=cpu) for n in range(number)]


@pytest.mark.parametrize("number", [50, 500])
def test_question_makes_as_many_decisions_as_its_budget_allows(number: int) -> None:
    scheduler = waiting(*pods(number))
    before = scheduler.snapshot()
    told = scheduler.what_if(MORE, now=100.0, budget=500)
    binds = [effect for effect in told.effects if isinstance(effect, Bind)]
    assert told.exhausted
    assert 0 < len(binds) <= 50
    assert scheduler.snapshot() == before


def test_question_within_its_budget_is_answered_in_full() -> None:
    scheduler = waiting(*pods(50))
    told = scheduler.what_if(MORE, now=100.0)
    assert not told.exhausted
    assert sum(isinstance(effect, Bind) for effect in told.effects) == 50
    few = scheduler.what_if(MORE, now=100.0, budget=2_000)
    assert few == told


def test_cut_answer_is_the_beginning_of_the_whole_answer() -> None:
    scheduler = waiting(*pods(40))
    whole = scheduler.what_if(MORE, now=100.0).timed
    for budget in (1, 150, 300, 400):
        told = scheduler.what_if(MORE, now=100.0, budget=budget)
        assert told.exhausted
        assert told.timed == whole[: len(told.timed)]
    assert 0 < len(scheduler.what_if(MORE, now=100.0, budget=300).timed) < len(whole)


def test_question_ends_before_its_instant_if_the_budget_is_used_up() -> None:
    scheduler = waiting(*gang(3), cpu=2)
    told = scheduler.what_if(now=1.0, until=100_000.0, budget=400)
    assert told.exhausted == (told.until < 100_000.0)
    assert not scheduler.what_if(now=1.0, until=100.0).exhausted


def test_search_of_a_decision_counts_against_the_budget_of_the_question() -> None:
    unlike = [
        make_pod(f"g-{n}", group="g", min_available=12, requests={"cpu": f"{700 + 17 * n}m"})
        for n in range(12)
    ]
    scheduler = waiting(*unlike, *pods(30), cpu=1, unit=SchedulingUnit.GROUP)
    nodes = [
        NodeAdded(Node(name=NodeName(f"m{n}"), allocatable={"cpu": "1700m"})) for n in range(6)
    ]
    ahead = simulate.look(scheduler, scheduler._state, 100.0, simulate.Spending(1_000_000))
    for event in nodes:
        ahead.tell(event)
    ahead.run(100.0)
    searched = ahead.state.attempts.search_steps
    spent = 1_000_000 - ahead._spending.left
    assert spent >= searched


def test_smallest_change_shares_one_budget_among_its_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = waiting(*gang(40), *pods(20))
    trials: list[float] = []
    original = simulate.look

    def counted(*given: Any) -> Any:
        trials.append(given[2])
        return original(*given)

    monkeypatch.setattr(simulate, "look", counted)
    told = scheduler.smallest_change("default/g", SHAPE, most=60, now=100.0, budget=1_000)
    assert isinstance(told, Insufficient)
    assert told.exhausted
    assert len(trials) <= 10
    assert told.most == len(trials) - 2
    assert "the budget of the question is used up" in str(told)
    assert f"numbers up to {told.most} were tried" in str(told)


def test_smallest_change_that_tried_nothing_says_so() -> None:
    scheduler = waiting(*gang(3), *pods(20))
    told = scheduler.smallest_change("default/g", SHAPE, now=100.0, budget=1)
    assert isinstance(told, Insufficient)
    assert (told.exhausted, told.most) == (True, 0)
    assert "none was tried" in str(told)


def test_smallest_change_with_a_large_budget_is_not_exhausted() -> None:
    scheduler = waiting(*gang(3))
    told = scheduler.smallest_change("default/g", SHAPE, most=2, now=100.0)
    assert isinstance(told, Insufficient)
    assert not told.exhausted
    assert isinstance(scheduler.smallest_change("default/g", SHAPE, now=100.0), Sufficient)


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, "many", None])
@pytest.mark.parametrize("question", ["what_if", "smallest_change"])
def test_budget_that_is_not_a_number_of_steps_is_refused(question: str, budget: Any) -> None:
    scheduler = waiting(*gang(3), preemption=Preemption())
    arguments: tuple[Any, ...] = (MORE,) if question == "what_if" else ("default/g", SHAPE)
    with pytest.raises(InvalidValueError) as caught:
        getattr(scheduler, question)(*arguments, now=100.0, budget=budget)
    assert (caught.value.field, caught.value.value) == ("budget", budget)
