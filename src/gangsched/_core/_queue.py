"""The scheduling queue: which pod or group is tried next, and which ones are not worth a try.

Theory of operation. The queue holds *entities*: a pod, or a group with its pending members. So
the members of a group are contiguous by construction. As in kube-scheduler, an entity is in one
of three places:

- ``ACTIVE``: in the active heap, ordered by its sort key. ``head`` and ``pop`` take the first.
- ``BACKOFF``: waits until ``backoff_until``, then moves on by itself. While no entity is active,
  an event may let it return earlier (``hasten``; see ``_early_return``).
- ``UNSCHEDULABLE``: waits for an event. It is either in an equivalence queue, or *gated*: kept out
  until ``activate`` names it, as PreEnqueue refused it or its victims terminate. kube-scheduler has
  that word, too. A pod with *scheduling gates* is not meant: it is not queued at all.

The second level is the *equivalence queues*. Two entities of one equivalence class ask for the
same, so an attempt of one proves that the other fails too while the cluster does not change.
Failed entities are parked in the equivalence queue of their class, ordered by sort key.

An equivalence queue is *blocked* while its class is known to fail. An event that may help opens
it. An open queue sends only its first entity, its *leader*, to the active heap. When the leader
leaves the active heap, the next entity takes its place. If the leader fails again, ``park``
blocks the queue before that, and no other entity of the class is tried. So an event costs one
attempt for each class, not one for each entity, and no entity is skipped.

*Steps* order failures and events. Each failure has the step at which it was found, each opening
the step of its event. A failure found before the last opening proves nothing, so it does not
block the queue. ``_blocked_queues`` keeps the blocked queues by what may help them.

Invariants (checked by ``_check``; I2 and I4 as far as the present shows):
  I1  an entity is in exactly one place;
  I2  the sort key of a queued entity does not change: a new key means removal and insertion;
  I3  an entity in an open equivalence queue waits for the leader only, and the leader is active.
      An entity that sorts earlier replaces the leader, unless the leader's attempt is under way;
  I4  an entity in backoff returns at its deadline, or if ``hasten`` returns it early;
  I5  an equivalence queue exists exactly while it has a leader, or an entity queued or in backoff;
  I6  ``_open`` has exactly the equivalence queues that are not blocked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, assert_never

from sortedcontainers import SortedDict

from gangsched._core._blocked_queues import BlockedQueues
from gangsched._core._early_return import EarlyReturn
from gangsched._core._entity import REFUSED_BY_PLUGIN, Place, QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue, outranks
from gangsched._core._heap import PriorityHeap
from gangsched.errors import InternalError
from gangsched.protocols import EntityView, QueueSortKey

__all__ = ["EquivalenceQueue", "SchedulingQueue"]

_ACTIVE: Final = Place.ACTIVE  # asked for with every pod
_BACKOFF: Final = Place.BACKOFF
_UNSCHEDULABLE: Final = Place.UNSCHEDULABLE
_NOWHERE: Final = Place.NOWHERE


class SchedulingQueue:
    """The entities that have pending pods: active, in backoff or unschedulable.

    Not thread-safe.

    Args:
        sort: Returns the sort key of an entity; the smallest key is tried first.
    """

    __slots__ = (
        "_active",
        "_backoff",
        "_blocked",
        "_early",
        "_gated",
        "_numbers",
        "_open",
        "_queues",
        "_sort",
    )

    def __init__(self, sort: Callable[[EntityView], QueueSortKey]) -> None:
        self._sort = sort
        self._blocked = BlockedQueues()
        self._numbers = 0
        self._active: PriorityHeap[QueuedEntity] = PriorityHeap()
        self._backoff: Any = SortedDict()  # (backoff_until, seq) -> entity
        self._early = EarlyReturn()
        self._gated: dict[int, QueuedEntity] = {}
        self._queues: dict[Hashable, EquivalenceQueue] = {}
        self._open: dict[int, EquivalenceQueue] = {}

    # Reading ------------------------------------------------------------------------------

    def head(self) -> QueuedEntity | None:
        """Return the first active entity without removing it; None if there is none.

        Runtime complexity: amortised O(log n).
        """
        return self._active.peek() if len(self._active) else None

    @property
    def active(self) -> tuple[QueuedEntity, ...]:
        """The active entities, in queue order. O(n log n)."""
        return tuple(self._active)

    @property
    def backoff(self) -> tuple[QueuedEntity, ...]:
        """The entities in backoff, earliest deadline first. O(n)."""
        return tuple(self._backoff.values())

    @property
    def unschedulable(self) -> tuple[QueuedEntity, ...]:
        """The gated entities and those in an equivalence queue. O(n log n)."""
        queued = [entity for queue in self._queues.values() for entity in queue.queued]
        return (*self._gated.values(), *queued)

    def is_gated(self, entity: QueuedEntity) -> bool:
        """Return whether an entity waits until ``activate`` is called for it. O(1)."""
        return entity.seq in self._gated

    def is_blocked(self, entity: QueuedEntity) -> bool:
        """Return whether an entity waits in an equivalence queue that is blocked. O(1)."""
        if entity.place is not Place.UNSCHEDULABLE or entity.seq in self._gated:
            return False
        return self._queues[entity.equivalence_class].blocked

    def has_current_key(self, entity: QueuedEntity) -> bool:
        """Return whether the sort key of a queued entity is up to date. O(1)."""
        return entity.sort_key == self._sort(entity)

    def next_deadline(self) -> float | None:
        """Return when the next backoff ends; None if no entity is in backoff. O(1)."""
        return float(self._backoff.peekitem(0)[0][0]) if self._backoff else None

    def blocked_queues(self) -> list[EquivalenceQueue]:
        """Return the equivalence queues that are blocked. O(n log n)."""
        return self._blocked.every()

    def unfiled_queues(self) -> list[EquivalenceQueue]:
        """Return the blocked queues that more than free capacity may help, or of unknown needs.

        Runtime complexity: O(n log n).
        """
        return self._blocked.unfiled()

    def queues_near(
        self, free: Iterable[Mapping[str, int]], helps: Callable[[Hashable], bool]
    ) -> list[EquivalenceQueue]:
        """Return the blocked queues that nodes with so much free may help.

        See ``BlockedQueues.near``.
        """
        return self._blocked.near(free, helps)

    def open_queues_in_backoff(self) -> list[EquivalenceQueue]:
        """Return the open equivalence queues whose entities are all in backoff. O(open queues)."""
        return [each for _number, each in sorted(self._open.items()) if each.leader is None]

    def unclassed_in_backoff(self) -> tuple[QueuedEntity, ...]:
        """Return the entities in backoff whose class is to be computed anew; see ``hasten``.

        Every node has refused a member of each, and an event about the entity came since. O(n).
        """
        return self._early.unclassed

    def leader_of(self, entity: QueuedEntity) -> QueuedEntity | None:
        """Return the leader that *entity* waits for; None if its queue is blocked or absent."""
        queue = self._queues.get(entity.equivalence_class)
        return None if queue is None or queue.blocked else queue.leader

    def __len__(self) -> int:
        """Return the number of entities, in all places. O(equivalence queues)."""
        queued = sum(len(queue.queued) for queue in self._queues.values())
        return len(self._active) + len(self._backoff) + len(self._gated) + queued

    # Moving -------------------------------------------------------------------------------

    def activate(self, entity: QueuedEntity, *, now: float) -> None:
        """Move an entity to the active heap, or to backoff until its backoff ends. O(log n)."""
        key = self._sort(entity)
        if entity.place is not _NOWHERE:
            self.remove(entity, now=now)
        entity.sort_key = key
        if entity.backoff_until > now:
            self._back_off(entity)
        else:
            entity._handle = self._active.push(key, entity)
            entity.place = _ACTIVE

    def pop(self, *, now: float) -> QueuedEntity | None:
        """Remove and return the first active entity; None if there is none.

        Runtime complexity: amortised O(log n).
        """
        try:
            entity = self._active.pop()
        except IndexError:
            if len(self._active):
                raise
            return None
        if self._queues:
            self._forget(entity, now=now)
        else:  # what _forget does, without the call: this is the hot path
            entity.place = _NOWHERE
            entity.sort_key = entity._handle = entity.equivalence_class = None
        return entity

    def park(
        self,
        entity: QueuedEntity,
        *,
        equivalence_class: Hashable,
        step: int,
        now: float,
    ) -> None:
        """Move an entity that failed to the equivalence queue of its class. O(log n).

        Args:
            entity: The entity.
            equivalence_class: What it asked for. None is not a class.
            step: The step at which it failed. If an event has opened the queue of the class since
                then, it stays open. If the queue is blocked already, it keeps the earlier step.
            now: The current instant.
        """
        key = self._sort(entity)
        queue = self._queues.get(equivalence_class)
        if queue is not None:
            # Before ``remove``: it would promote the next entity, which fails as well.
            self._mark_failed(queue, step)
        self.remove(entity, now=now)
        entity.sort_key = key
        queue = self._queues.get(equivalence_class)
        if queue is None:
            queue = self._make(equivalence_class)
        entity.equivalence_class = equivalence_class
        self._enqueue(queue, entity)
        self._mark_failed(queue, step)
        self._promote(queue, now=now)

    def note_changed(self, entity: QueuedEntity) -> None:
        """Note that an entity has another expected run, if it waits in its place. O(1)."""
        if entity.place is _UNSCHEDULABLE and entity.seq not in self._gated:
            self._queues[entity.equivalence_class].runs.add(entity)

    def classify(self, entity: QueuedEntity, equivalence_class: Hashable, *, now: float) -> None:
        """Give an entity in backoff the class that it has since it changed. O(log n).

        If the class is not known to fail, the entity stays in backoff.
        """
        self.park(entity, equivalence_class=equivalence_class, step=-1, now=now)

    def gate(self, entity: QueuedEntity, *, now: float) -> None:
        """Move an entity out of the order until ``activate`` is called for it. O(log n)."""
        self.remove(entity, now=now)
        entity.place = Place.UNSCHEDULABLE
        self._gated[entity.seq] = entity

    def block(self, queue: EquivalenceQueue, *, step: int) -> None:
        """Mark the class of an equivalence queue as failing, as of *step*. O(log queues)."""
        self._open.pop(queue.number, None)
        self._blocked.add(queue, step=step)
        self._early.withdraw(queue)

    def renew(self, step: int, *, since: int | None, but: Hashable = None) -> None:
        """Note that all blocked queues still fail at *step*, the latest of all steps.

        Runtime complexity: amortised O(log queues).

        Args:
            step: The step.
            since: Only queues that are blocked since then, or later; None for all.
            but: An equivalence class whose queue keeps its step; None for none.
        """
        self._blocked.renew(step, since=since, but=None if but is None else self._queues.get(but))

    def open(self, queue: EquivalenceQueue, *, step: int, now: float, helps: bool = False) -> None:
        """Let the leader of an equivalence queue be tried, because of the event at *step*.

        Runtime complexity: amortised O(log n).

        Args:
            queue: The equivalence queue.
            step: The step of the event.
            now: The current instant.
            helps: Whether entities in backoff may return early; see ``hasten``.
        """
        self._blocked.discard(queue)
        self._open[queue.number] = queue
        queue.opened_at = step
        if helps:
            self._early.help(queue, step=step)
        self._promote(queue, now=now)

    def help(self, queue: EquivalenceQueue, *, step: int) -> None:
        """Let entities of an open equivalence queue return early from backoff; see ``hasten``."""
        self._early.help(queue, step=step)

    def admit_refused_by_plugin(self, *, step: int) -> None:
        """Let the next event that helps end the backoff of entities that a plugin refused.

        From now on they count as refused by every node at *step*. O(entities in backoff).
        """
        for entity in self.backoff:
            if entity.refused_at == REFUSED_BY_PLUGIN:
                self._end_backoff(entity)
                entity.refused_at = step
                self._back_off(entity)

    def withdraw(self, equivalence_class: Hashable) -> None:
        """Let no entity of a class return early from backoff until the next event that helps.

        For a class of which a plugin refused an entity: it is not blocked, since nothing is proven
        about nodes, but the plugin would refuse the others as well.
        """
        queue = self._queues.get(equivalence_class)
        if queue is not None:
            self._early.withdraw(queue)

    def hasten(self, *, now: float) -> bool:
        """If no entity is active, activate the best one in backoff that an event has helped.

        Its failure precedes the event: an attempt that failed since, or for which no event has
        come, stays in backoff. Runtime complexity: amortised O(log n).

        Returns:
            Whether an entity is active now that was not before.
        """
        entity = None if len(self._active) else self._early.first()
        if entity is None:
            return False
        self._end_backoff(entity)
        entity.backoff_until = now
        self._return(entity, now=now)
        return True

    def advance(self, *, now: float) -> None:
        """Move the entities whose backoff has ended. O(k log n) for k of them."""
        while self._backoff:
            (until, _seq), entity = self._backoff.peekitem(0)
            if until > now:
                return
            self._end_backoff(entity)
            self._return(entity, now=now)

    def remove(self, entity: QueuedEntity, *, now: float) -> None:
        """Remove an entity from its place, if it has one. O(log n)."""
        place = entity.place
        if place is _ACTIVE:
            self._active.remove(entity._handle)
        elif place is _BACKOFF:
            self._end_backoff(entity)
        elif place is _UNSCHEDULABLE:
            if entity.seq in self._gated:
                del self._gated[entity.seq]
            else:
                self._queues[entity.equivalence_class].remove(entity)
        elif place is not _NOWHERE:
            assert_never(place)
        self._forget(entity, now=now)

    def note_failure(self, equivalence_class: Hashable, *, step: int) -> None:
        """Block the queue of a class that failed at *step*, unless it was opened later. O(1)."""
        queue = self._queues.get(equivalence_class)
        if queue is not None:
            self._mark_failed(queue, step)

    # Inside -------------------------------------------------------------------------------

    def _make(self, equivalence_class: Hashable) -> EquivalenceQueue:
        self._numbers += 1
        queue = EquivalenceQueue(equivalence_class, self._numbers)
        self._queues[equivalence_class] = self._open[queue.number] = queue
        return queue

    def _forget(self, entity: QueuedEntity, *, now: float) -> None:
        """Reset an entity that has left its place; promote the next one if it was a leader."""
        queue = self._queues.get(entity.equivalence_class) if self._queues else None
        entity.place = _NOWHERE
        entity.sort_key = entity._handle = entity.equivalence_class = None
        if queue is not None:
            if queue.leader is entity:
                queue.leader = None
            self._promote(queue, now=now)

    def _mark_failed(self, queue: EquivalenceQueue, step: int) -> None:
        if step > queue.opened_at:
            self.block(queue, step=min(step, queue.blocked_at) if queue.blocked else step)

    def _push_active(self, entity: QueuedEntity) -> None:
        entity.place = _ACTIVE
        entity._handle = self._active.push(entity.sort_key, entity)

    def _enqueue(self, queue: EquivalenceQueue, entity: QueuedEntity) -> None:
        entity.place = _UNSCHEDULABLE
        queue.push(entity)

    def _back_off(self, entity: QueuedEntity) -> None:
        entity.place = Place.BACKOFF
        self._backoff[(entity.backoff_until, entity.seq)] = entity
        queue = self._queues.get(entity.equivalence_class)
        if queue is not None:
            queue.in_backoff[entity.seq] = entity
        self._early.enter(entity, queue)

    def _end_backoff(self, entity: QueuedEntity) -> None:
        del self._backoff[(entity.backoff_until, entity.seq)]
        queue = self._queues.get(entity.equivalence_class)
        if queue is not None:
            queue.in_backoff.pop(entity.seq, None)
        self._early.leave(entity, queue)

    def _return(self, entity: QueuedEntity, *, now: float) -> None:
        """Move an entity that has left backoff to the active heap, or to its class's queue."""
        queue = self._queues.get(entity.equivalence_class)
        if queue is None:
            self._push_active(entity)
        else:
            self._enqueue(queue, entity)
            self._promote(queue, now=now)

    def _promote(self, queue: EquivalenceQueue, *, now: float) -> None:
        """Make the first entity of an open equivalence queue the leader, if it is none already.

        Entities of it that are still in backoff are moved there on the way. An empty queue is
        deleted.
        """
        while not queue.blocked and len(queue.queued):
            first, leader = queue.queued.peek(), queue.leader
            if leader is not None and not outranks(first, leader):
                break
            queue.pop()
            if first.backoff_until > now:
                self._back_off(first)
                continue
            if leader is not None:
                self._active.remove(leader._handle)
                self._enqueue(queue, leader)
            queue.leader = first
            self._push_active(first)
        if queue.leader is None and not len(queue.queued) and not queue.in_backoff:
            self._queues.pop(queue.equivalence_class, None)
            self._open.pop(queue.number, None)
            self._blocked.discard(queue)

    def _check(self) -> None:
        self._active._check()
        places: dict[int, Place] = {}
        for entity in self._active:
            places[entity.seq] = Place.ACTIVE
        for (until, seq), entity in self._backoff.items():
            if (until, seq) != (entity.backoff_until, entity.seq):
                raise InternalError(
                    f"entity {seq} is in backoff until {until}, not until its own deadline"
                )
            places[seq] = Place.BACKOFF
        for entity in self.unschedulable:
            places[entity.seq] = Place.UNSCHEDULABLE
        every = (*self.active, *self.backoff, *self.unschedulable)
        if len(places) != len(self):
            times = Counter(entity.seq for entity in every)
            twice = sorted(seq for seq, count in times.items() if count > 1)
            raise InternalError(f"entities {twice} are in two places")
        for entity in every:
            entity._check()
            if entity.place is not places[entity.seq]:
                raise InternalError(
                    f"entity {entity.seq} is kept as {places[entity.seq].name.lower()}, and says"
                    f" that it is {entity.place.name.lower()}"
                )
        for equivalence_class, queue in self._queues.items():
            if queue.equivalence_class != equivalence_class:
                raise InternalError(
                    f"queue {queue.number} of class {queue.equivalence_class!r} is kept under"
                    f" {equivalence_class!r}"
                )
            queue._check()
        queues = self._queues.values()
        opened = {each.number: each for each in queues if not each.blocked}
        if self._open != opened:
            raise InternalError(
                f"queues {sorted(self._open)} are kept as open, {sorted(opened)} are open"
            )
        for heap in (self._active, *(each.queued for each in queues)):
            _check_order(list(heap))
        self._blocked._check(queues)
        self._early._check(queues, self._backoff.values())


def _check_order(entities: Sequence[QueuedEntity]) -> None:
    """Raise if a sort key has changed such that the order of a heap is not that of the keys."""
    for one, other in pairwise(entities):
        assert one.sort_key is not None
        assert other.sort_key is not None
        if other.sort_key < one.sort_key:
            raise InternalError(
                f"entity {other.seq} sorts before entity {one.seq}, and is behind it"
            )
