"""Record moves: of members from state to state, and of gangs from place to place of the queue.

Rules:
  R1  a move is recorded where it is made, so several moves within one call are all recorded;
  R2  a gang is nowhere while it is tried; it moves from its place before to where it is put then;
  R3  a member that is forgotten moves from the state that it had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeAlias
from unittest import mock

from attrs import define, field

from gangsched.core import cycle, scheduler, settle
from gangsched.core.queue import Queue
from gangsched.core.queue.demand import Demand
from gangsched.core.records import Records
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.model import PodUID
from gangsched.primitives.counters import MemberState, PodGroupCounters

__all__ = ["Move", "Moves", "recorded"]

Move: TypeAlias = tuple[str, str]
"""The states or places before and after."""

UNKNOWN = "unknown"


@define(eq=False)
class Moves:
    """The recorded moves.

    Attributes:
        members: The moves of members of groups; ``unknown`` is before the first and after the last.
        queue: The moves of gangs.
    """

    members: set[Move] = field(factory=set)
    queue: set[Move] = field(factory=set)
    _places: dict[int, tuple[GangRecord, QueuePlace]] = field(factory=dict)
    _nowhere: dict[int, GangRecord] = field(factory=dict)
    _forgotten: dict[PodUID, MemberState] = field(factory=dict)

    def member(self, uid: PodUID, before: MemberState | None, after: MemberState | None) -> None:
        """Record the new state of a member."""
        if uid in self._forgotten:
            if after is not None:
                return
            before = self._forgotten.pop(uid)
        if before is not after:
            self.members.add((_name(before), _name(after)))

    def forgotten(self, record: PodRecord) -> None:
        """Note the state of a member that is about to be forgotten."""
        if record.info is not None:
            self._forgotten[record.uid] = record.state

    def put(self, gang: GangRecord, place: QueuePlace) -> None:
        """Record the new place of a gang; one that is nowhere may be put elsewhere in this call."""
        if place is QueuePlace.NOWHERE:
            self._nowhere[id(gang)] = gang
        else:
            self._nowhere.pop(id(gang), None)
            self._move(gang, place)

    def settled(self) -> None:
        """Record the gangs that stay nowhere."""
        for gang in self._nowhere.values():
            self._move(gang, QueuePlace.NOWHERE)
        self._nowhere.clear()

    def _move(self, gang: GangRecord, place: QueuePlace) -> None:
        # with the gang itself, so that its id stays its own
        before = self._places.get(id(gang), (gang, QueuePlace.NOWHERE))[1]
        self._places[id(gang)] = (gang, place)
        if before is not place:
            self.queue.add((before.value, place.value))


def _name(state: MemberState | None) -> str:
    return UNKNOWN if state is None else state.name.lower()


@contextmanager
def recorded() -> Iterator[Moves]:
    """Record all moves inside the ``with`` block."""
    moves = Moves()
    change, discard = PodGroupCounters.set, PodGroupCounters.discard
    put, forget, settle_all = Queue.put, Records.forget, settle.settle_all

    def recording_set(
        counters: PodGroupCounters, uid: PodUID, state: MemberState
    ) -> MemberState | None:
        before = change(counters, uid, state)
        moves.member(uid, before, state)
        return before

    def recording_discard(counters: PodGroupCounters, uid: PodUID) -> MemberState | None:
        before = discard(counters, uid)
        moves.member(uid, before, None)
        return before

    def recording_put(
        queue: Queue, gang: GangRecord, place: QueuePlace, demand: Demand | None = None
    ) -> None:
        # recorded first: putting a gang may activate another one
        moves.put(gang, place)
        put(queue, gang, place, demand)

    def recording_forget(records: Records, record: PodRecord) -> None:
        moves.forgotten(record)
        forget(records, record)

    def recording_settle_all(state: State) -> None:
        settle_all(state)
        moves.settled()

    with ExitStack() as patches:
        for module in (cycle, scheduler):
            patches.enter_context(mock.patch.object(module, "settle_all", recording_settle_all))
        patches.enter_context(mock.patch.object(PodGroupCounters, "set", recording_set))
        patches.enter_context(mock.patch.object(PodGroupCounters, "discard", recording_discard))
        patches.enter_context(mock.patch.object(Queue, "put", recording_put))
        patches.enter_context(mock.patch.object(Records, "forget", recording_forget))
        yield moves
