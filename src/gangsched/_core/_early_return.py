"""Early return from backoff: which entity in backoff may be tried while no other is active.

Theory of operation. Backoff spaces out the attempts of an entity so that other entities get their
turn. If no entity is active, that purpose is void. Then an entity may return before its backoff
ends, on two conditions. Its last attempt failed because every node refused a member: backoff alone
spaces out what fails for other reasons, such as binds. And an event later than that failure may
help it. So each event costs one failed attempt for each equivalence class at most. kube-scheduler
does the same when its active queue is empty (``PopFromBackoffQ``).

An entity that a plugin refused whatever the node qualifies too, once a plugin says that it may
accept more. Other events say nothing about it. If it is refused again, its class is withdrawn.

Of each equivalence queue that such an event has opened, the best entity in backoff is the
*candidate*. The candidates of all queues are in one heap.

An entity that an event about itself puts into backoff anew has no equivalence class, since what it
asks for may have changed. It is *unclassed* until an event comes that may help others. Only then
its new class is computed.

Invariants (checked by ``_check``):
  I1  each entity in backoff of an equivalence queue that every node has refused is its candidate,
      hopeful or late, and no other entity is;
  I2  the failures of the hopeful entities precede the event at ``helped_at``, if there is one;
      those of the late ones do not;
  I3  a queue has a candidate exactly while it is open, an event has helped it, and an entity is
      hopeful or was until now;
  I4  no hopeful entity sorts earlier than the candidate;
  I5  the heap has exactly the candidates of all queues;
  I6  each entity in backoff without an equivalence class that every node has refused is unclassed,
      and no other entity is.

Source: KEP-5142.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from gangsched._core._entity import QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._heap import PriorityHeap
from gangsched.errors import InternalError

__all__ = ["EarlyReturn"]


@final
class EarlyReturn:
    """The entities in backoff that may be tried while no other is active. Each call O(log n)."""

    __slots__ = ("_heap", "_unclassed")

    def __init__(self) -> None:
        self._heap: PriorityHeap[QueuedEntity] = PriorityHeap()
        self._unclassed: dict[int, QueuedEntity] = {}

    @property
    def unclassed(self) -> tuple[QueuedEntity, ...]:
        """The entities in backoff without a class that every node has refused. O(of these)."""
        return tuple(self._unclassed.values())

    def first(self) -> QueuedEntity | None:
        """Return the entity of the first sort key that may return early; None if there is none."""
        return self._heap.peek() if len(self._heap) else None

    def enter(self, entity: QueuedEntity, queue: EquivalenceQueue | None) -> None:
        """Note that an entity went into backoff, in an equivalence queue or in none."""
        if queue is None:
            if entity.refused_at >= 0:
                self._unclassed[entity.seq] = entity
            return
        if 0 <= entity.refused_at < queue.helped_at:
            entity._handle = queue.hopeful.push(entity.sort_key, entity)
            self._choose_again(queue)
        elif entity.refused_at >= 0:
            queue.late[entity.seq] = entity

    def leave(self, entity: QueuedEntity, queue: EquivalenceQueue | None) -> None:
        """Note that an entity leaves backoff; the next one of its queue becomes the candidate."""
        if queue is None:
            self._unclassed.pop(entity.seq, None)
            return
        if queue.candidate is entity:
            self._heap.remove(entity._handle)
            queue.candidate = None
            self._choose(queue)
        elif entity.refused_at >= 0 and queue.late.pop(entity.seq, None) is None:
            queue.hopeful.remove(entity._handle)
        entity._handle = None

    def help(self, queue: EquivalenceQueue, *, step: int) -> None:
        """Let the entities of an open queue return early, because of the event at *step*.

        Runtime complexity: O(log n) amortised, since each failure makes an entity late once.
        """
        queue.helped_at = step
        for entity in queue.late.values():
            entity._handle = queue.hopeful.push(entity.sort_key, entity)
        queue.late.clear()
        self._choose_again(queue)

    def withdraw(self, queue: EquivalenceQueue) -> None:
        """Let no entity of a queue return early until the next event that helps it."""
        queue.helped_at = -1
        if queue.candidate is not None:
            self._step_back(queue, queue.candidate)

    def _choose_again(self, queue: EquivalenceQueue) -> None:
        candidate = queue.candidate
        if candidate is None:
            self._choose(queue)
            return
        assert candidate.sort_key is not None
        first = queue.hopeful.peek() if len(queue.hopeful) else candidate
        assert first.sort_key is not None
        if first.sort_key < candidate.sort_key:
            self._step_back(queue, candidate)
            self._choose(queue)

    def _choose(self, queue: EquivalenceQueue) -> None:
        if queue.helped_at >= 0 and not queue.blocked and len(queue.hopeful):
            queue.candidate = candidate = queue.hopeful.pop()
            candidate._handle = self._heap.push(candidate.sort_key, candidate)

    def _step_back(self, queue: EquivalenceQueue, candidate: QueuedEntity) -> None:
        self._heap.remove(candidate._handle)
        candidate._handle = queue.hopeful.push(candidate.sort_key, candidate)
        queue.candidate = None

    def _check(
        self, queues: Iterable[EquivalenceQueue], in_backoff: Iterable[QueuedEntity] = ()
    ) -> None:
        self._heap._check()
        unclassed = sorted(
            each.seq
            for each in in_backoff
            if each.equivalence_class is None and each.refused_at >= 0
        )
        if sorted(self._unclassed) != unclassed:
            raise InternalError(
                f"entities {sorted(self._unclassed)} are kept as in backoff without a class,"
                f" expected {unclassed}"
            )
        expected: set[int] = set()
        for queue in queues:
            hopeful, candidate = list(queue.hopeful), queue.candidate
            queue.hopeful._check()
            if candidate is not None:
                expected.add(candidate.seq)
                hopeful.append(candidate)
            name, helped_at = f"queue {queue.number}", queue.helped_at
            names = sorted(entity.seq for entity in (*hopeful, *queue.late.values()))
            refused = sorted(s for s, each in queue.in_backoff.items() if each.refused_at >= 0)
            if names != refused:
                raise InternalError(f"{name}: {names} are hopeful or late, expected {refused}")
            if helped_at < 0 and candidate is not None:
                raise InternalError(f"{name}: no event has helped, and {candidate.seq} may return")
            if helped_at < 0:
                continue
            if queue.blocked:
                raise InternalError(f"{name} is blocked, and was helped at {helped_at}")
            if candidate is None and hopeful:
                raise InternalError(f"{name} was helped at {helped_at}, and has no candidate")
            for each in hopeful:
                if each.refused_at >= helped_at:
                    failed = f"entity {each.seq} failed at {each.refused_at}"
                    raise InternalError(f"{name} was helped at {helped_at}, hopeful {failed}")
                if candidate is not None and _precedes(each, candidate):
                    raise InternalError(f"{name}: {each.seq} sorts before {candidate.seq}")
            for each in queue.late.values():
                if each.refused_at < helped_at:
                    failed = f"entity {each.seq} failed at {each.refused_at}"
                    raise InternalError(f"{name} was helped at {helped_at}, late {failed}")
        kept = sorted(entity.seq for entity in self._heap)
        if kept != sorted(expected):
            raise InternalError(f"entities {kept} may return early, expected {sorted(expected)}")


def _precedes(one: QueuedEntity, other: QueuedEntity) -> bool:
    assert one.sort_key is not None
    assert other.sort_key is not None
    return one.sort_key < other.sort_key
