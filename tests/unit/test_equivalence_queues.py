"""The order of the queue, equivalence queues and backoff: single cases."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._ordering import sort_key
from gangsched._core._queue import SchedulingQueue
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
    """Pop all entities, as if each attempt succeeded."""
    order = []
    while (head := queue.head()) is not None:
        order.append(head)
        queue.remove(head, now=now)
        queue._check()
    return order


def by_rank(entities: list[QueuedEntity]) -> list[QueuedEntity]:
    return sorted(entities, key=sort_key)


@given(PRIORITIES)
def test_pop_returns_entities_by_rank(priorities: list[int]) -> None:
    entities = [a_pod(seq, priority=priority) for seq, priority in enumerate(priorities)]
    queue = queue_of(*entities)
    assert list(queue.active) == by_rank(entities)
    assert drain(queue, now=0.0) == by_rank(entities)


@given(PRIORITIES, st.randoms(use_true_random=False), st.integers(1, 3))
def test_open_equivalence_queues_keep_the_order(
    priorities: list[int], rng: random.Random, shapes: int
) -> None:
    """F4, F9: when capacity becomes free, entities are activated in queue order."""
    entities = [a_pod(seq, priority=priority) for seq, priority in enumerate(priorities)]
    queue = queue_of(*entities)
    for step, entity in enumerate(rng.sample(entities, len(entities))):
        queue.park(entity, equivalence_class=rng.randrange(shapes), step=step, now=0.0)
    assert queue.head() is None
    for line in queue.blocked_queues():
        queue.open(line, step=100, now=0.0)
    assert drain(queue, now=0.0) == by_rank(entities)


@given(PRIORITIES, st.randoms(use_true_random=False))
def test_entity_returns_from_backoff_to_its_rank(priorities: list[int], rng: random.Random) -> None:
    """F9: a late call of ``advance`` does not change the order."""
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


def test_open_activates_entities_one_by_one_by_rank() -> None:
    low, high, middle = (a_pod(seq, priority=priority) for seq, priority in enumerate((0, 9, 5)))
    queue = SchedulingQueue(sort_key)
    for step, entity in enumerate((low, high, middle)):
        queue.park(entity, equivalence_class="s", step=step, now=0.0)
    assert names(queue.unschedulable) == ["e1", "e2", "e0"]
    queue.open(only_line(queue), step=5, now=0.0)
    assert names(queue.active) == ["e1"]
    queue.remove(high, now=0.0)
    assert names(queue.active) == ["e2"]


def test_open_activates_best_rank_not_in_backoff() -> None:
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


def test_failure_after_opening_blocks_the_queue() -> None:
    """F6: one event costs one or two attempts, regardless of the length of the queue."""
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


def test_failure_before_opening_leaves_the_queue_open() -> None:
    """F8: capacity that became free during an attempt is noticed."""
    first, second = a_pod(1), a_pod(2)
    queue = SchedulingQueue(sort_key)
    queue.park(second, equivalence_class="s", step=1, now=0.0)
    queue.open(only_line(queue), step=5, now=0.0)
    for step in (4, 5, -1):
        queue.park(first, equivalence_class="s", step=step, now=0.0)
        assert queue.active == (first,)


def test_failure_without_step_does_not_block() -> None:
    queue = SchedulingQueue(sort_key)
    queue.park(a_pod(1), equivalence_class="s", step=-1, now=0.0)
    assert names(queue.active) == ["e1"]
    assert not list(queue.blocked_queues())


def test_leader_with_attempt_in_progress_is_not_replaced() -> None:
    leader, better = a_group(1, created_at=5.0), a_group(2, created_at=1.0)
    queue = SchedulingQueue(sort_key)
    queue.park(leader, equivalence_class="s", step=-1, now=0.0)
    assert leader.group is not None
    leader.group.attempt_started_at = 0.0
    queue.park(better, equivalence_class="s", step=-1, now=0.0)
    assert (queue.active, queue.unschedulable) == ((leader,), (better,))
    queue.remove(leader, now=0.0)
    assert queue.active == (better,)


def test_new_equivalence_queue_is_open() -> None:
    line = EquivalenceQueue("s")
    assert (line.blocked, line.blocked_at, line.opened_at, line.leader) == (False, -1, -1, None)


def two_in_an_open_line() -> tuple[SchedulingQueue, QueuedEntity, QueuedEntity]:
    leader, other = a_pod(1), a_pod(2)
    queue = SchedulingQueue(sort_key)
    for entity in (leader, other):
        queue.park(entity, equivalence_class="s", step=-1, now=0.0)
    return queue, leader, other


def test_leader_of_is_the_leader_while_the_queue_is_open() -> None:
    queue, leader, other = two_in_an_open_line()
    assert queue.leader_of(a_pod(3)) is None
    assert queue.leader_of(other) is leader
    queue.note_failure("s", step=1)
    assert queue.leader_of(other) is None


def test_earliest_failure_of_a_class_counts() -> None:
    queue, _leader, _other = two_in_an_open_line()
    for step, blocked_at in ((5, 5), (3, 3), (7, 3)):
        queue.note_failure("s", step=step)
        assert only_line(queue).blocked_at == blocked_at
    queue.note_failure("t", step=9)
    assert only_line(queue).blocked_at == 3


@pytest.mark.parametrize("move", [SchedulingQueue.activate, SchedulingQueue.gate])
def test_removed_leader_is_replaced_by_the_next(move: Callable[..., None]) -> None:
    queue, leader, other = two_in_an_open_line()
    move(queue, leader, now=0.0)
    queue._check()
    assert queue._queues["s"].leader is other
    assert other in queue.active


def test_entity_of_equal_rank_does_not_replace_the_leader() -> None:
    queue = SchedulingQueue(lambda _entity: (0, 0.0, 0, 0, 0))
    leader, other = a_pod(1), a_pod(2)
    for entity in (leader, other):
        queue.park(entity, equivalence_class="s", step=-1, now=0.0)
    assert (queue.active, queue.unschedulable) == ((leader,), (other,))


def test_blocked_class_does_not_block_another() -> None:
    """F3, law 5."""
    impossible, possible = a_pod(1, priority=9), a_pod(2)
    queue = queue_of(impossible, possible)
    queue.park(impossible, equivalence_class="huge", step=1, now=0.0)
    assert queue.head() is possible


def test_gated_entity_stays_until_activated() -> None:
    entity = a_pod(1)
    queue = queue_of(entity)
    queue.gate(entity, now=0.0)
    queue.advance(now=1e9)
    assert (queue.active, queue.unschedulable) == ((), (entity,))
    assert not list(queue.blocked_queues())
    queue.activate(entity, now=0.0)
    assert (queue.active, queue.unschedulable) == ((entity,), ())


@pytest.mark.parametrize(("now", "place"), [(2.999, Place.BACKOFF), (3.0, Place.ACTIVE)])
def test_backoff_ends_at_its_deadline(now: float, place: Place) -> None:
    """F6."""
    entity = a_pod(1, rests_until=3.0)
    queue = queue_of(entity)
    assert (entity.place, queue.next_deadline()) == (Place.BACKOFF, 3.0)
    queue.advance(now=now)
    assert entity.place is place
    queue.activate(entity, now=now)
    assert entity.place is place


def test_rank_is_computed_only_on_insertion() -> None:
    """F4, row 16 in a queue."""
    older, newer = a_group(1, created_at=1.0), a_group(2, created_at=2.0)
    queue = queue_of(older, newer)
    assert older.group is not None
    older.group.last_failure_at = 9.0
    assert not queue.has_current_key(older)
    assert queue.has_current_key(newer)
    assert queue.active == (older, newer)
    queue.activate(older, now=0.0)
    assert queue.active == (newer, older)


def test_sample_is_any_entity_of_the_queue() -> None:
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


def test_empty_equivalence_queues_are_deleted() -> None:
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
        assert (entity.place, entity.sort_key, entity.equivalence_class) == (
            Place.NOWHERE,
            None,
            None,
        )
    assert len(queue) == 0
    assert not queue._queues
    assert not queue._backoff
