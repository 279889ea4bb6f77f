"""``_check`` of the entities that may return early from backoff names each broken invariant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched._core._entity import QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._ordering import sort_key
from gangsched._core._queue import SchedulingQueue
from gangsched.errors import InternalError
from gangsched.framework.state import label_readers
from support.busy import busy_scheduler
from support.entities import a_pod


class Helped:
    """A queue of one class, opened by an event at step 2; entity 1 may return before entity 2."""

    def __init__(self) -> None:
        self.best, self.other = (self._parked(seq, priority) for seq, priority in ((1, 5), (2, 0)))
        self.queue = SchedulingQueue(sort_key)
        for entity in (self.best, self.other):
            self.queue.park(entity, equivalence_class="s", step=1, now=0.0)
        self.line: EquivalenceQueue
        (self.line,) = self.queue.blocked_queues()
        self.queue.open(self.line, step=2, now=0.0, helps=True)
        assert self.line.candidate is self.best
        self.queue._early._check([self.line])

    @staticmethod
    def _parked(seq: int, priority: int) -> QueuedEntity:
        entity = a_pod(seq, priority=priority, rests_until=9.0)
        entity.refused_at = 1
        return entity

    def leave_backoff_unnoticed(self) -> None:
        del self.line.in_backoff[2]

    def forget_the_event(self) -> None:
        self.line.helped_at = -1

    def block(self) -> None:
        self.line.blocked = True

    def lose_the_candidate(self) -> None:
        self.line.hopeful.push(self.best.sort_key, self.best)
        self.line.candidate = None

    def fail_after_the_event(self) -> None:
        self.other.refused_at = 2

    def sort_first(self) -> None:
        self.other.sort_key = (-9, 0.0, 0, 0, 0)

    def come_late(self) -> None:
        self.line.late[2] = self.line.hopeful.pop()

    def empty_the_heap(self) -> None:
        self.queue._early._heap.pop()


SABOTAGE: list[tuple[Callable[[Helped], None], str]] = [
    (Helped.leave_backoff_unnoticed, "queue 1: [1, 2] are hopeful or late, expected [1]"),
    (Helped.forget_the_event, "queue 1: no event has helped, and 1 may return"),
    (Helped.block, "queue 1 is blocked, and was helped at 2"),
    (Helped.lose_the_candidate, "queue 1 was helped at 2, and has no candidate"),
    (
        Helped.fail_after_the_event,
        "queue 1 was helped at 2, hopeful entity 2 failed at 2",
    ),
    (Helped.sort_first, "queue 1: 2 sorts before 1"),
    (Helped.come_late, "queue 1 was helped at 2, late entity 2 failed at 1"),
    (Helped.empty_the_heap, "entities [] may return early, expected [1]"),
]


@pytest.mark.parametrize(("sabotage", "says"), SABOTAGE)
def test_check_of_early_return_names_queue_and_entity(
    sabotage: Callable[[Helped], None], says: str
) -> None:
    helped = Helped()
    sabotage(helped)
    with pytest.raises(InternalError) as caught:
        helped.queue._early._check([helped.line])
    assert caught.value.invariant == says


def test_queues_that_are_kept_as_open_are_named() -> None:
    helped = Helped()
    helped.queue._open.clear()
    with pytest.raises(InternalError) as caught:
        helped.queue._check()
    assert caught.value.invariant == "queues [] are kept as open, [1] are open"


def test_entity_that_failed_for_another_reason_is_neither_hopeful_nor_late() -> None:
    queue = SchedulingQueue(sort_key)
    entity = a_pod(1, rests_until=9.0)
    queue.park(entity, equivalence_class="s", step=-1, now=0.0)
    line = queue._queues["s"]
    assert entity.refused_at < 0
    assert list(line.in_backoff) == [1]
    assert not len(line.hopeful)
    assert not line.late
    queue._check()


def test_member_that_is_counted_wrongly_is_named_with_its_count() -> None:
    _cluster, scheduler = busy_scheduler()
    state = scheduler._state
    member = next(each for each in state.pods.members.values() if label_readers.is_pending(each))
    member.is_counted = False
    with pytest.raises(InternalError) as caught:
        state._check_labels()
    assert caught.value.invariant == f"{member.pod.uid}: is_counted is False, expected True"


def test_class_with_a_wrong_number_of_pending_pods_is_named_with_both_numbers() -> None:
    _cluster, scheduler = busy_scheduler()
    state = scheduler._state
    found = next(each for each in state.pod_classes.by_signature.values() if each.pending)
    found.pending += 1
    with pytest.raises(InternalError, match=f"pending is {found.pending}, expected ") as caught:
        state._check_labels()
    assert str(found.signature) in caught.value.invariant


def test_sort_key_that_changed_in_the_active_queue_is_named() -> None:
    queue = SchedulingQueue(sort_key)
    first, second = a_pod(1, priority=5), a_pod(2)
    for entity in (first, second):
        queue.activate(entity, now=0.0)
    queue._check()
    assert first.sort_key is not None
    first.sort_key = (9, *first.sort_key[1:])
    with pytest.raises(InternalError, match="entity 2 sorts before entity 1, and is behind it"):
        queue._check()


def test_sort_key_that_changed_in_an_equivalence_queue_is_named() -> None:
    queue = SchedulingQueue(sort_key)
    first, second = a_pod(1, priority=5), a_pod(2)
    for entity in (first, second):
        queue.park(entity, equivalence_class="s", step=1, now=0.0)
    queue._check()
    assert first.sort_key is not None
    first.sort_key = (9, *first.sort_key[1:])
    with pytest.raises(InternalError, match="entity 2 sorts before entity 1, and is behind it"):
        queue._check()
