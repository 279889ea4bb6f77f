"""Queues, as other schedulers are tested with them: Kueue, KAI, Volcano, YuniKorn.

What a case demands of every correct scheduler holds, apart from what ``DIFFERENCES`` lists with the
reason. A job is admitted exactly if the oracle finds victims that may be evicted for it, and those
that are evicted are one of its plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

import pytest
from attrs import evolve

from support.judges import Case, wrong
from support.queue_cases import (
    QUEUE_CASES,
    PlacedWorld,
    QueueHost,
    as_job,
    as_oracle,
    per_thousand,
    unspelled,
)
from support.queue_oracle import Job, Queue, QueueWorld, cost

DIFFERENCES: Final = {
    "queue-fair-deep": "the share of the victim's side is compared without the victim; the peer "
    "compares it with the victim, too, and then queues can take from each other for ever",
    "queue-fair-initial-big": "the share of the victim's side is compared without the victim, so "
    "the small job goes and not the big one",
    "queue-fair-smaller-max": "the share of the victim's side is compared without the victim, and "
    "no victim leaves its queue with the share that the other one would have",
    "queue-yunikorn-fence": "a fence has no spelling, so the queue reclaims from its sibling",
}
"""By case: what differs from its own scheduler, and why."""
_DIFFER_IN_MUST: Final = {"queue-fair-deep", "queue-fair-smaller-max", "queue-yunikorn-fence"}


def _cases(kind: str, *, without: Iterable[str] = ()) -> list[Any]:
    cases = [case for case in QUEUE_CASES if case["kind"] == kind and case["id"] not in without]
    return [pytest.param(case, id=case["id"]) for case in cases]


def _differs_from_peer(case: Case, evicted: frozenset[str]) -> bool:
    """Return whether a peer evicts what costs another amount, or what no plan may."""
    world, peer = as_oracle(case), case["peer"].get("evicted", ())
    found = world.plans(as_job(case["incoming"]))
    return frozenset(peer) not in found or _cost(world, peer) != _cost(world, evicted)


def _cost(world: QueueWorld, names: Iterable[str]) -> tuple[list[int], int]:
    return cost(world.running[name] for name in names)


# The oracle ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", _cases("queue", without=_DIFFER_IN_MUST))
def test_oracle_admits_what_a_case_demands(case: Case) -> None:
    found = as_oracle(case).plans(as_job(case["incoming"]))
    assert bool(found) == case["must"]["admitted"]


@pytest.mark.parametrize("case", _cases("queue", without=DIFFERENCES))
def test_oracle_knows_the_plan_of_the_own_scheduler_of_a_case(case: Case) -> None:
    world, peer = as_oracle(case), case["peer"].get("evicted")
    found = world.plans(as_job(case["incoming"]))
    if peer is not None:
        assert frozenset(peer) in found
        if case["objective"] == "exact":
            assert _cost(world, peer) == min(_cost(world, plan) for plan in found)


@pytest.mark.parametrize("case", _cases("share"))
def test_oracle_computes_the_share_of_a_case(case: Case) -> None:
    world = as_oracle(case)
    for queue, thousandths in case["must"]["share"].items():
        assert world.share(queue) == (False, Fraction(thousandths, 1000))


def _world(*queues: Queue, running: Iterable[Job] = (), **more: Any) -> QueueWorld:
    return QueueWorld(
        {queue.name: queue for queue in (Queue("root"), *queues)},
        {job.name: job for job in running},
        **more,
    )


def _queue(name: str, nominal: int, parent: str = "root", **more: Any) -> Queue:
    return Queue(name, parent, {"cpu": nominal}, **more)


def _job(name: str, queue: str, cpu: int, priority: int = 0, **more: int) -> Job:
    return Job(name, queue, {"cpu": cpu, **more}, priority)


@pytest.mark.parametrize(
    ("lend", "borrow", "most"),
    [(None, None, 8), (1, None, 5), (0, None, 4), (None, 3, 7), (None, 0, 4), (3, 2, 6)],
)
def test_oracle_lets_a_queue_use_what_is_lent_and_what_it_may_borrow(
    lend: int | None, borrow: int | None, most: int
) -> None:
    world = _world(
        _queue("a", 4, borrow={} if borrow is None else {"cpu": borrow}),
        _queue("b", 4, lend={} if lend is None else {"cpu": lend}),
    )
    assert world.plans(_job("in", "a", most)) == [frozenset()]
    assert world.plans(_job("in", "a", most + 1)) == []


def test_oracle_limits_all_below_a_parent_together() -> None:
    world = _world(
        _queue("p", 0, hard={"cpu": 3}),
        _queue("a", 4, parent="p"),
        _queue("b", 4, parent="p"),
        running=[_job("b1", "b", 2)],
    )
    assert world.plans(_job("in", "a", 1)) == [frozenset()]
    assert world.plans(_job("in", "a", 2)) == [], "b is within its nominal"


def test_oracle_does_not_limit_what_no_queue_names() -> None:
    world = _world(_queue("a", 1), running=[_job("a1", "a", 1, gpu=9)])
    assert world.plans(Job("in", "a", {"gpu": 9})) == [frozenset()]
    full = evolve(world, capacity={"gpu": 9})
    assert full.plans(Job("in", "a", {"gpu": 9})) == [], "nothing is over its nominal of these"


def test_oracle_takes_victims_in_an_order_in_which_each_is_allowed() -> None:
    world = _world(
        _queue("a", 2),
        _queue("b", 2),
        running=[
            _job("a1", "a", 1, -1),
            _job("b1", "b", 1),
            _job("b2", "b", 1),
            _job("b3", "b", 1),
        ],
    )
    plans = world.plans(_job("in", "a", 2))
    assert plans == [{"a1", name} for name in ("b1", "b2", "b3")], "a1 goes first: a is over, else"


def test_oracle_reclaims_within_one_tree_and_from_the_priorities_that_a_queue_states() -> None:
    a, b = _queue("a", 1), _queue("b", 0)
    apart = evolve(b, parent=None)
    over = [_job("b1", "b", 1, priority=0)]
    assert _world(a, b, running=over).plans(_job("in", "a", 1, priority=-1)) == [{"b1"}]
    for reclaim, priorities in (("lower", {1}), ("lower-or-equal", {0, 1}), ("never", set[int]())):
        world = _world(evolve(a, reclaim=reclaim), b, running=over)
        found = {n for n in (-1, 0, 1) if world.plans(_job("in", "a", 1, priority=n))}
        assert found == priorities
    full = _world(a, apart, running=over, capacity={"cpu": 1})
    assert full.plans(_job("in", "a", 1)) == []


def test_oracle_evicts_from_a_queue_that_is_over_only_in_what_the_job_lacks() -> None:
    queues = [Queue("a", "root", {"cpu": 1, "gpu": 1}), Queue("b", "root", {"cpu": 1, "gpu": 0})]
    running = [Job("b1", "b", {"cpu": 1}), Job("b2", "b", {"gpu": 1})]
    world = _world(*queues, running=running, capacity={"cpu": 1})
    assert world.plans(Job("in", "a", {"cpu": 1})) == [], "b is over in gpu alone"
    assert world.plans(Job("in", "a", {"gpu": 1})) == [{"b2"}]


# The scheduler ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", _cases("share"))
def test_share_of_a_case_is_computed(case: Case) -> None:
    host = QueueHost(as_oracle(case))
    share = case["must"]["share"]
    assert {queue: per_thousand(host, queue) for queue in share} == share


@pytest.mark.parametrize("case", _cases("queue"))
def test_job_of_a_case_is_admitted_by_one_of_the_plans(case: Case) -> None:
    world, job = as_oracle(case), as_job(case["incoming"])
    plans = world.plans(job)
    host = QueueHost(world)
    host.submit(job)
    evicted, is_admitted = frozenset(host.evicted), job.name in host.running
    assert is_admitted == bool(plans)
    assert len(evicted) == len(host.evicted)
    assert evicted in (plans or [frozenset()])
    must = {"admitted": is_admitted, "evicted": sorted(evicted)}
    differs = any(must[word] != value for word, value in case["must"].items())
    assert differs == (case["id"] in _DIFFER_IN_MUST)
    if case["objective"] == "exact" and plans:
        assert _cost(world, evicted) == min(_cost(world, plan) for plan in plans)
        assert differs or not _differs_from_peer(case, evicted)


@pytest.mark.parametrize("case", _cases("place+queue"))
def test_gang_of_a_case_gets_quota_and_place_together(case: Case) -> None:
    assert wrong(PlacedWorld(case), case["must"]) == []


@pytest.mark.parametrize("case", _cases("settle"))
def test_jobs_of_a_case_come_to_rest_though_what_is_evicted_is_pending_again(case: Case) -> None:
    host = QueueHost(as_oracle(case), recreates=True)
    host.submit(*(as_job(each) for each in case["workloads"] if each["name"] not in case["start"]))
    assert len(host.evicted) <= case["must"]["evictions_at_most"]
    assert len(set(host.was_running)) == len(host.was_running)


def test_each_case_is_of_a_kind_that_is_played_and_differences_are_cases() -> None:
    kinds = {case["kind"] for case in QUEUE_CASES}
    assert kinds == {"queue", "share", "place+queue", "settle"}
    assert DIFFERENCES.keys() <= {case["id"] for case in QUEUE_CASES}
    assert {case["id"] for case in QUEUE_CASES if unspelled(case)} == {"queue-yunikorn-fence"}
