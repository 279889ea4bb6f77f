"""The scheduling queue: active, backoff, unschedulable, over entities.

An entity is a pod or a group, so a group's members are contiguous by construction. Entities that
failed stand in lines, one line per shape: entities of one shape ask for the same, so while one
of them is known to fail on the cluster as it is, all of them are. A line is *blocked* from such
a failure until a fact that may help *opens* it; an open line sends its first entity to the
active heap, and the next one when that one has had its turn. So one fact costs one try per
shape, not one per entity, and nobody's turn is skipped.

Invariants (checked by ``_check``):
  I1  an entity is in one place;
  I2  a rank is frozen while its entity is queued: re-ranking is remove and insert;
  I3  whoever stands in an open line waits for its leader, which is active, and for nobody else;
      who outranks the leader takes its place, unless an attempt of it is under way;
  I4  an entity that rests in backoff returns at its deadline, and not before;
  I5  a line exactly exists while it has a leader, somebody standing or somebody resting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, assert_never, final

from sortedcontainers import SortedDict

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._heap import PriorityHeap
from gangsched.errors import InternalError
from gangsched.protocols import EntityView, Rank

__all__ = ["Line", "SchedulingQueue"]

_ACTIVE: Final = Place.ACTIVE  # asked for with every pod
_NOWHERE: Final = Place.NOWHERE


@final
class Line:
    """Entities of one shape that failed.

    Attributes:
        shape: What they have in common.
        blocked: Whether they are known to fail on the cluster as it is.
        blocked_at: The step at which that was last established.
        opened_at: The step at which a fact last made a try worthwhile.
    """

    __slots__ = ("blocked", "blocked_at", "leader", "opened_at", "resting", "shape", "standing")

    def __init__(self, shape: Hashable) -> None:
        self.shape: Hashable = shape
        self.blocked: bool = False
        self.blocked_at: int = -1
        self.opened_at: int = -1
        self.leader: QueuedEntity | None = None
        self.standing: PriorityHeap[QueuedEntity] = PriorityHeap()
        self.resting: dict[int, QueuedEntity] = {}

    @property
    def sample(self) -> QueuedEntity:
        """One of the entities in line."""
        if len(self.standing):
            return self.standing.peek()
        if self.leader is not None:
            return self.leader
        return next(iter(self.resting.values()))


class SchedulingQueue:
    """Entities that want to be scheduled.

    Not thread-safe.
    """

    __slots__ = ("_active", "_backoff", "_gated", "_lines", "_sort")

    def __init__(self, sort: Callable[[EntityView], Rank]) -> None:
        self._sort = sort
        self._active: PriorityHeap[QueuedEntity] = PriorityHeap()
        self._backoff: Any = SortedDict()  # (backoff_until, seq) -> entity
        self._gated: dict[int, QueuedEntity] = {}
        self._lines: dict[Hashable, Line] = {}

    # Reading ------------------------------------------------------------------------------

    def head(self) -> QueuedEntity | None:
        """Return the entity whose turn it is; it stays where it is. Amortised O(log n)."""
        return self._active.peek() if len(self._active) else None

    @property
    def active(self) -> tuple[QueuedEntity, ...]:
        """The entities that can be tried, in order. O(n log n)."""
        return tuple(self._active)

    @property
    def backoff(self) -> tuple[QueuedEntity, ...]:
        """The entities that rest and then want to be tried, by the end of their rest. O(n)."""
        return tuple(self._backoff.values())

    @property
    def unschedulable(self) -> tuple[QueuedEntity, ...]:
        """The entities that wait for a fact, or for another of their shape. O(n log n)."""
        standing = [entity for line in self._lines.values() for entity in line.standing]
        return (*self._gated.values(), *standing)

    def is_gated(self, entity: QueuedEntity) -> bool:
        """Say whether an entity is held until it is activated by name. O(1)."""
        return entity.seq in self._gated

    def is_ranked(self, entity: QueuedEntity) -> bool:
        """Say whether a queued entity would get the place again that it has. O(1)."""
        return entity.rank == self._sort(entity)

    def next_deadline(self) -> float | None:
        """Return when the next rest ends; None when nobody rests. O(1)."""
        return float(self._backoff.peekitem(0)[0][0]) if self._backoff else None

    def blocked_lines(self) -> Iterator[Line]:
        """Iterate over the lines that wait for a fact."""
        return (line for line in list(self._lines.values()) if line.blocked)

    def leader_of(self, entity: QueuedEntity) -> QueuedEntity | None:
        """Return who is tried before *entity*, as one that asks for the same; None for nobody."""
        line = self._lines.get(entity.shape)
        return None if line is None or line.blocked else line.leader

    def __len__(self) -> int:
        """Return how many entities are queued, wherever. O(lines)."""
        standing = sum(len(line.standing) for line in self._lines.values())
        return len(self._active) + len(self._backoff) + len(self._gated) + standing

    # Moving -------------------------------------------------------------------------------

    def activate(self, entity: QueuedEntity, *, now: float) -> None:
        """Make an entity ready to be tried, after its rest if it rests. O(log n)."""
        rank = self._sort(entity)
        if entity.place is not _NOWHERE:
            self.remove(entity, now=now)
        entity.rank = rank
        if entity.backoff_until > now:
            self._rest(entity)
        else:
            entity._handle = self._active.push(rank, entity)
            entity.place = _ACTIVE

    def pop(self, *, now: float) -> QueuedEntity | None:
        """Take out the entity whose turn it is; None when nobody is active. Amortised O(log n)."""
        try:
            entity = self._active.pop()
        except IndexError:
            if len(self._active):
                raise
            return None
        if self._lines:
            self._forget(entity, now=now)
        else:  # the same, without a call
            entity.place = _NOWHERE
            entity.rank = entity._handle = entity.shape = None
        return entity

    def park(self, entity: QueuedEntity, *, shape: Hashable, step: int, now: float) -> None:
        """Let an entity that failed stand in the line of its shape. O(log n).

        Args:
            entity: The entity.
            shape: What it asked for: entities of one shape fail alike. Not None: that is no shape.
            step: The step at which it failed. A line that was opened later stays open; of one
                that is blocked already, the earlier failure counts.
            now: The current instant.
        """
        rank = self._sort(entity)
        line = self._lines.get(shape)
        if line is not None:
            # before it leaves the lead: what it failed with holds for the next one too
            self._prove(line, step)
        self.remove(entity, now=now)
        entity.rank = rank
        line = self._lines.get(shape)
        if line is None:
            line = self._lines[shape] = Line(shape)
        entity.shape = shape
        self._stand(line, entity)
        self._prove(line, step)
        self._promote(line, now=now)

    def gate(self, entity: QueuedEntity, *, now: float) -> None:
        """Hold an entity until it is activated by name. O(log n)."""
        self.remove(entity, now=now)
        entity.place = Place.UNSCHEDULABLE
        self._gated[entity.seq] = entity

    def block(self, line: Line, *, step: int) -> None:
        """Take the entities of a line as known to fail, as of *step*. O(1)."""
        line.blocked = True
        line.blocked_at = step

    def open(self, line: Line, *, step: int, now: float) -> None:
        """Take the entities of a line as worth a try, from *step* on. O(log n) amortised."""
        line.blocked = False
        line.opened_at = step
        self._promote(line, now=now)

    def advance(self, *, now: float) -> None:
        """End the rests whose time has come. O(k log n) for k of them."""
        while self._backoff:
            (until, _seq), entity = self._backoff.peekitem(0)
            if until > now:
                return
            self._unrest(entity)
            line = self._lines.get(entity.shape)
            if line is None:
                self._push_active(entity)
            else:
                self._stand(line, entity)
                self._promote(line, now=now)

    def remove(self, entity: QueuedEntity, *, now: float) -> None:
        """Take an entity out, wherever it is. O(log n)."""
        place = entity.place
        if place is _ACTIVE:
            self._active.remove(entity._handle)
        elif place is Place.BACKOFF:
            self._unrest(entity)
        elif place is Place.UNSCHEDULABLE:
            if entity.seq in self._gated:
                del self._gated[entity.seq]
            else:
                self._lines[entity.shape].standing.remove(entity._handle)
        elif place is not _NOWHERE:
            assert_never(place)
        self._forget(entity, now=now)

    def prove(self, shape: Hashable, *, step: int) -> None:
        """Take entities of a shape as known to fail since a step, unless news came later. O(1)."""
        line = self._lines.get(shape)
        if line is not None:
            self._prove(line, step)

    # Inside -------------------------------------------------------------------------------

    def _forget(self, entity: QueuedEntity, *, now: float) -> None:
        """Let go of an entity that has been taken out of its place."""
        line = self._lines.get(entity.shape) if self._lines else None
        entity.place = _NOWHERE
        entity.rank = entity._handle = entity.shape = None
        if line is not None:
            if line.leader is entity:
                line.leader = None
            self._promote(line, now=now)

    def _prove(self, line: Line, step: int) -> None:
        if step > line.opened_at:
            self.block(line, step=min(step, line.blocked_at) if line.blocked else step)

    def _push_active(self, entity: QueuedEntity) -> None:
        entity.place = Place.ACTIVE
        entity._handle = self._active.push(entity.rank, entity)

    def _stand(self, line: Line, entity: QueuedEntity) -> None:
        entity.place = Place.UNSCHEDULABLE
        entity._handle = line.standing.push(entity.rank, entity)

    def _rest(self, entity: QueuedEntity) -> None:
        entity.place = Place.BACKOFF
        self._backoff[(entity.backoff_until, entity.seq)] = entity
        line = self._lines.get(entity.shape)
        if line is not None:
            line.resting[entity.seq] = entity

    def _unrest(self, entity: QueuedEntity) -> None:
        del self._backoff[(entity.backoff_until, entity.seq)]
        line = self._lines.get(entity.shape)
        if line is not None:
            line.resting.pop(entity.seq, None)

    def _promote(self, line: Line, *, now: float) -> None:
        """Send the first of an open line that does not rest to the active heap."""
        while not line.blocked and len(line.standing):
            first, leader = line.standing.peek(), line.leader
            if leader is not None and not self._outranks(first, leader):
                break
            line.standing.pop()
            if first.backoff_until > now:
                self._rest(first)
                continue
            if leader is not None:
                self._active.remove(leader._handle)
                self._stand(line, leader)
            line.leader = first
            self._push_active(first)
        if line.leader is None and not len(line.standing) and not line.resting:
            self._lines.pop(line.shape, None)

    @staticmethod
    def _outranks(first: QueuedEntity, leader: QueuedEntity) -> bool:
        assert first.rank is not None
        assert leader.rank is not None
        return first.rank < leader.rank and not leader.is_under_way

    def _check(self) -> None:
        self._active._check()
        places: dict[int, Place] = {}
        for entity in self._active:
            places[entity.seq] = Place.ACTIVE
        for (until, seq), entity in self._backoff.items():
            if (until, seq) != (entity.backoff_until, entity.seq):
                raise InternalError(f"entity {seq} rests until {until}, not its own deadline")
            places[seq] = Place.BACKOFF
        for entity in self.unschedulable:
            places[entity.seq] = Place.UNSCHEDULABLE
        if len(places) != len(self):
            raise InternalError("an entity is in two places")
        everybody = (*self.active, *self.backoff, *self.unschedulable)
        for entity in everybody:
            entity._check()
            if entity.place is not places[entity.seq]:
                raise InternalError(f"entity {entity.seq} believes itself {entity.place}")
        for shape, line in self._lines.items():
            if line.shape != shape:
                raise InternalError("a line is kept under another shape")
            if line.leader is None and not len(line.standing) and not line.resting:
                raise InternalError("an empty line is kept")
            line.standing._check()
            first = line.standing.peek() if len(line.standing) else None
            if first is not None and not line.blocked:
                if line.leader is None:
                    raise InternalError("an open line has no leader")
                if self._outranks(first, line.leader):
                    raise InternalError("the first in an open line does not lead it")
            if line.leader is not None and line.leader.place is not Place.ACTIVE:
                raise InternalError("a leader is not active")
            if any(entity.place is not Place.BACKOFF for entity in line.resting.values()):
                raise InternalError("who rests in a line is not in backoff")
