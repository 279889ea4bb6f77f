"""What a cycle may have changed before a plugin raised: all of it is put back in one place."""

from __future__ import annotations

from typing import Final, final

from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.primitives.counters import MemberState

__all__ = ["Undo"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


@final
class Undo:
    """A gang as it was before it was tried.

    Attributes:
        members: Those that were assumed since; the cycle notes them.
    """

    def __init__(self, state: State, gang: GangRecord) -> None:
        self._state = state
        self._gang = gang
        self._demand = gang.demand
        self.save()

    def save(self) -> None:
        """Let what was done so far stay."""
        state, gang = self._state, self._gang
        self.members: list[PodRecord] = []
        self._before = gang.began, gang.round
        self._groups = [
            (info, info.attempts, info.attempt_started_at, info.started_by)
            for info in gang.infos.values()
        ]
        self._gains = dict(state.table.gains)
        self._pods_tried = state.call.pods_tried

    def take_back(self) -> None:
        """Take back the assumptions: the attempts of the pods do not count."""
        state = self._state
        for record in reversed([each for each in self.members if each.is_assumed]):
            cycle, node = record.cycle, record.node
            state.points.unreserve(record, cycle, node, "refused", state.records.now)
            state.records.move(record, _UNSCHEDULED)
            record.cycle = None
            record.attempt -= 1
        state.table.gains, state.call.pods_tried = self._gains, self._pods_tried

    def restore(self) -> None:
        """Take back the attempt: nothing was tried."""
        self.take_back()
        state, gang = self._state, self._gang
        gang.began, gang.round = self._before
        if gang.tried:
            gang.count_tried()
        for info, attempts, started_at, started_by in self._groups:
            info.attempts, info.started_by = attempts, started_by
            info.attempt_started_at = started_at
        state.queue.put(gang, QueuePlace.ACTIVE, self._demand)
