"""Record moves: of members from state to state, and of entities from queue to queue.

Rules:
  R1  a move is recorded where it is made, so several moves within one call are all recorded;
  R2  an entity that a method of the queue removes and inserts again moves once;
  R3  ``unschedulable`` is recorded as one of its two kinds: ``gated`` and ``line``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias
from unittest import mock

from attrs import define, field

from gangsched._core._counters import MemberState, PodGroupCounters
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched.model import PodUID

__all__ = ["Move", "Moves", "recorded"]

Move: TypeAlias = tuple[str, str]
"""The states or places before and after."""

UNKNOWN = "unknown"
NOWHERE = "nowhere"


@define(eq=False)
class Moves:
    """The recorded moves.

    Attributes:
        members: The moves of members of groups; ``unknown`` is before the first and after the last.
        queue: The moves of entities.
    """

    members: set[Move] = field(factory=set)
    queue: set[Move] = field(factory=set)
    _places: dict[int, tuple[QueuedEntity, str]] = field(factory=dict)
    _within: list[QueuedEntity | None] = field(factory=list)

    def member(self, before: MemberState | None, after: MemberState | None) -> None:
        """Record the new state of a member."""
        if before is not after:
            self.members.add((_said(before), _said(after)))

    def entity(self, entity: QueuedEntity, to: str) -> None:
        """Record the new place of an entity."""
        before = self._places.get(id(entity), (entity, NOWHERE))[1]
        self._places[id(entity)] = (entity, to)
        if before != to:
            self.queue.add((before, to))

    def within(self, name: str) -> Callable[..., None]:
        """Return a recording version of a queue method that removes and inserts an entity."""
        method = getattr(SchedulingQueue, name)

        def telling(queue: SchedulingQueue, entity: QueuedEntity, **kwargs: Any) -> None:
            self._within.append(entity if name == "gate" else None)
            try:
                method(queue, entity, **kwargs)
            finally:
                self._within.pop()

        return telling

    def place(self) -> property:
        """Return a recording version of ``QueuedEntity.place``."""
        slot: Any = vars(QueuedEntity)["place"]

        def put(entity: QueuedEntity, place: Place) -> None:
            slot.__set__(entity, place)
            if place is not Place.UNSCHEDULABLE:
                if place is not Place.NOWHERE or not self._within:
                    self.entity(entity, place.value)
            else:
                self.entity(entity, "gated" if entity in self._within else "line")

        return property(slot.__get__, put)


def _said(state: MemberState | None) -> str:
    return UNKNOWN if state is None else state.name.lower()


@contextmanager
def recorded() -> Iterator[Moves]:
    """Record all moves inside the ``with`` block."""
    moves = Moves()
    set_all, discard = PodGroupCounters.set_all, PodGroupCounters.discard

    def told_set_all(
        counters: PodGroupCounters, uids: Iterable[PodUID], state: MemberState
    ) -> None:
        of = list(uids)
        before = [counters.state(uid) for uid in of]
        set_all(counters, of, state)
        for state_before in before:
            moves.member(state_before, state)

    def told_discard(counters: PodGroupCounters, uid: PodUID) -> MemberState | None:
        before = discard(counters, uid)
        moves.member(before, None)
        return before

    with ExitStack() as patches:
        for name in ("activate", "park", "gate"):
            patches.enter_context(mock.patch.object(SchedulingQueue, name, moves.within(name)))
        patches.enter_context(mock.patch.object(QueuedEntity, "place", moves.place()))
        patches.enter_context(mock.patch.object(PodGroupCounters, "set_all", told_set_all))
        patches.enter_context(mock.patch.object(PodGroupCounters, "discard", told_discard))
        yield moves
