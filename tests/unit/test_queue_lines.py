"""The queue's order, its lines and its rests, told one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._ordering import sort_key
from gangsched._core._queue import EquivalenceQueue, SchedulingQueue
from support.entities import a_group, a_pod, names

PRIORITIES = st.lists(st.integers(0, 3), min_size=1, max_size=12)


def queue_of(*entities: QueuedEntity) -> SchedulingQueue:
    queue = SchedulingQueue(sort_key)
    for entity in entities:
        queue.activate(entity, now=0.0)
    return queue


def only_line(queue: SchedulingQueue) -> EquivalenceQueue:
    (line,) = queue.blocked_queues()
    return line


def drain(queue: SchedulingQueue, *, now: float) -> list[QueuedEntity]:
    """Take one after another from the head, as if each try ended well."""
    order = []
    while (head := queue.head()) is not None:
        order.append(head)
        queue.remove(head, now=now)
        queue._check()
    return order


def by_rank(entities: list[QueuedEntity]) -> list[QueuedEntity]:
    return sorted(entities, key=sort_key)


@given(PRIORITIES)
def test_entities_leave_in_the_order_of_their_ranks(priorities: list[int]) -> None:
    entities = [a_pod(seq, priority=priority) for seq, priority in enumerate(priorities)]
    queue = queue_of(*entities)
    assert list(queue.active) == by_rank(entities)
    assert drain(queue, now=0.0) == by_rank(entities)


@given(PRIORITIES, st.randoms(use_true_random=False), st.integers(1, 3))
def test_lines_that_are_open_cost_nothing_in_order(
    priorities: list[int], rng: random.Random, shapes: int
) -> None:
    """F4, F9: when room is freed, entities are woken in the order of the queue."""
    entities = [a_pod(seq, priority=priority) for seq, priority in enumerate(priorities)]
    queue = queue_of(*entities)
    for step, entity in enumerate(rng.sample(entities, len(entities))):
        queue.park(entity, equivalence_class=rng.randrange(shapes), step=step, now=0.0)
    assert queue.head() is None
    for line in queue.blocked_queues():
        queue.open(line, step=100, now=0.0)
    assert drain(queue, now=0.0) == by_rank(entities)


@given(PRIORITIES, st.randoms(use_true_random=False))
def test_who_comes_back_from_a_rest_takes_the_place_that_is_due(
    priorities: list[int], rng: random.Random
) -> None:
    """F9: however coarse the clock, a late call of advance costs nobody a place."""
    entities = [
        a_pod(seq, priority=priority, rests_until=rng.uniform(1, 2))
        for seq, priority in enumerate(priorities)
    ]
    queue = SchedulingQueue(sort_key)
    for step, entity in enumerate(entities):
        queue.park(entity, equivalence_class="s", step=step, now=0.0)
    queue.open(only_line(queue), step=100, now=0.5)
    assert queue.head() is None
    queue.advance(now=2.0)
    queue._check()
    assert drain(queue, now=2.0) == by_rank(entities)


def test_opening_a_line_sends_the_best_ranked_first_and_the_others_one_by_one() -> None:
    low, high, middle = (a_pod(seq, priority=priority) for seq, priority in enumerate((0, 9, 5)))
    queue = SchedulingQueue(sort_key)
    for step, entity in enumerate((low, high, middle)):
        queue.park(entity, equivalence_class="s", step=step, now=0.0)
    assert names(queue.unschedulable) == ["e1", "e2", "e0"]
    queue.open(only_line(queue), step=5, now=0.0)
    assert names(queue.active) == ["e1"]
    queue.remove(high, now=0.0)
    assert names(queue.active) == ["e2"]


def test_the_best_ranked_that_does_not_rest_is_sent() -> None:
    resting, ready = a_pod(1, priority=9, rests_until=4.0), a_pod(2)
    queue = SchedulingQueue(sort_key)
    queue.park(resting, equivalence_class="s", step=1, now=0.0)
    queue.park(ready, equivalence_class="s", step=2, now=0.0)
    queue.open(only_line(queue), step=5, now=1.0)
    assert (queue.active, queue.backoff) == ((ready,), (resting,))
    queue.advance(now=3.999)
    assert queue.active == (ready,)
    queue.advance(now=4.0)
    assert (queue.active, queue.unschedulable) == ((resting,), (ready,))
    queue._check()


def test_who_failed_after_a_line_was_opened_blocks_it_again() -> None:
    """F6: one fact costs a try or two, however many stand in line."""
    entities = [a_pod(seq) for seq in range(50)]
    queue = SchedulingQueue(sort_key)
    for entity in entities:
        queue.park(entity, equivalence_class="s", step=1, now=0.0)
    queue.open(only_line(queue), step=5, now=0.0)
    tried = []
    while (head := queue.head()) is not None:
        tried.append(head)
        queue.park(head, equivalence_class="s", step=5 + len(tried), now=0.0)
        queue._check()
    assert tried[0] is entities[0]
    assert len(tried) <= 2
    assert only_line(queue).blocked_at == 5 + len(tried)


def test_who_failed_before_a_line_was_opened_leaves_it_open() -> None:
    """F8: room that was freed during a try is not lost."""
    first, second = a_pod(1), a_pod(2)
    queue = SchedulingQueue(sort_key)
    queue.park(second, equivalence_class="s", step=1, now=0.0)
    queue.open(only_line(queue), step=5, now=0.0)
    for step in (4, 5, -1):
        queue.park(first, equivalence_class="s", step=step, now=0.0)
        assert queue.active == (first,)


def test_a_failure_of_which_nothing_is_known_blocks_nobody() -> None:
    queue = SchedulingQueue(sort_key)
    queue.park(a_pod(1), equivalence_class="s", step=-1, now=0.0)
    assert names(queue.active) == ["e1"]
    assert not list(queue.blocked_queues())


def test_an_attempt_that_is_under_way_is_not_pushed_aside() -> None:
    leader, better = a_group(1, created_at=5.0), a_group(2, created_at=1.0)
    queue = SchedulingQueue(sort_key)
    queue.park(leader, equivalence_class="s", step=-1, now=0.0)
    assert leader.group is not None
    leader.group.attempt_started_at = 0.0
    queue.park(better, equivalence_class="s", step=-1, now=0.0)
    assert (queue.active, queue.unschedulable) == ((leader,), (better,))
    queue.remove(leader, now=0.0)
    assert queue.active == (better,)


def test_a_line_that_is_new_is_open_and_nothing_is_known_of_it() -> None:
    line = EquivalenceQueue("s")
    assert (line.blocked, line.blocked_at, line.opened_at, line.leader) == (False, -1, -1, None)


def two_in_an_open_line() -> tuple[SchedulingQueue, QueuedEntity, QueuedEntity]:
    leader, other = a_pod(1), a_pod(2)
    queue = SchedulingQueue(sort_key)
    for entity in (leader, other):
        queue.park(entity, equivalence_class="s", step=-1, now=0.0)
    return queue, leader, other


def test_who_is_tried_before_another_is_told_while_the_line_is_open() -> None:
    queue, leader, other = two_in_an_open_line()
    assert queue.leader_of(a_pod(3)) is None
    assert queue.leader_of(other) is leader
    queue.prove("s", step=1)
    assert queue.leader_of(other) is None


def test_of_several_failures_of_one_shape_the_earliest_counts() -> None:
    queue, _leader, _other = two_in_an_open_line()
    for step, blocked_at in ((5, 5), (3, 3), (7, 3)):
        queue.prove("s", step=step)
        assert only_line(queue).blocked_at == blocked_at
    queue.prove("t", step=9)
    assert only_line(queue).blocked_at == 3


@pytest.mark.parametrize("move", [SchedulingQueue.activate, SchedulingQueue.gate])
def test_who_is_moved_elsewhere_leaves_the_lead_to_the_next(move: Callable[..., None]) -> None:
    queue, leader, other = two_in_an_open_line()
    move(queue, leader, now=0.0)
    queue._check()
    assert queue._queues["s"].leader is other
    assert other in queue.active


def test_who_ranks_no_better_than_the_leader_does_not_take_its_place() -> None:
    queue = SchedulingQueue(lambda _entity: (0, 0.0, 0, 0, 0))
    leader, other = a_pod(1), a_pod(2)
    for entity in (leader, other):
        queue.park(entity, equivalence_class="s", step=-1, now=0.0)
    assert (queue.active, queue.unschedulable) == ((leader,), (other,))


def test_one_impossible_shape_does_not_block_another() -> None:
    """F3, law 5."""
    impossible, possible = a_pod(1, priority=9), a_pod(2)
    queue = queue_of(impossible, possible)
    queue.park(impossible, equivalence_class="huge", step=1, now=0.0)
    assert queue.head() is possible


def test_who_is_gated_stays_until_it_is_activated_by_name() -> None:
    entity = a_pod(1)
    queue = queue_of(entity)
    queue.gate(entity, now=0.0)
    queue.advance(now=1e9)
    assert (queue.active, queue.unschedulable) == ((), (entity,))
    assert not list(queue.blocked_queues())
    queue.activate(entity, now=0.0)
    assert (queue.active, queue.unschedulable) == ((entity,), ())


@pytest.mark.parametrize(("now", "place"), [(2.999, Place.BACKOFF), (3.0, Place.ACTIVE)])
def test_a_rest_is_over_at_its_deadline(now: float, place: Place) -> None:
    """F6."""
    entity = a_pod(1, rests_until=3.0)
    queue = queue_of(entity)
    assert (entity.place, queue.next_deadline()) == (Place.BACKOFF, 3.0)
    queue.advance(now=now)
    assert entity.place is place
    queue.activate(entity, now=now)
    assert entity.place is place


def test_an_entity_is_ranked_anew_only_when_it_is_put_in_anew() -> None:
    """F4, row 16 in a queue."""
    older, newer = a_group(1, created_at=1.0), a_group(2, created_at=2.0)
    queue = queue_of(older, newer)
    assert older.group is not None
    older.group.last_failure_at = 9.0
    assert not queue.is_ranked(older)
    assert queue.is_ranked(newer)
    assert queue.active == (older, newer)
    queue.activate(older, now=0.0)
    assert queue.active == (newer, older)


def test_a_sample_of_a_line_is_whoever_is_left_in_it() -> None:
    standing, leading, resting = a_pod(1), a_pod(2), a_pod(3, rests_until=9.0)
    queue = SchedulingQueue(sort_key)
    queue.park(standing, equivalence_class="s", step=1, now=0.0)
    line = only_line(queue)
    assert line.sample is standing
    queue.remove(standing, now=0.0)
    queue.park(leading, equivalence_class="s", step=-1, now=0.0)
    assert queue._queues["s"].sample is leading
    queue.remove(leading, now=0.0)
    queue.park(resting, equivalence_class="s", step=-1, now=0.0)
    assert queue._queues["s"].sample is resting


def test_nothing_is_left_of_lines_when_everybody_is_gone() -> None:
    """F38."""
    queue = SchedulingQueue(sort_key)
    entities = [a_pod(seq, rests_until=float(seq)) for seq in range(6)]
    for step, entity in enumerate(entities):
        queue.park(entity, equivalence_class=step % 2, step=step, now=0.0)
    for line in queue.blocked_queues():
        queue.open(line, step=9, now=0.0)
    for entity in entities:
        queue.remove(entity, now=3.0)
        queue.remove(entity, now=3.0)
        assert (entity.place, entity.rank, entity.equivalence_class) == (Place.NOWHERE, None, None)
    assert len(queue) == 0
    assert not queue._queues
    assert not queue._backoff
