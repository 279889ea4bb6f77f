"""The members of one group, counted by state.

Invariants (checked by ``_check``):
  I1  a member is in exactly one state;
  I2  each count is the number of members in that state;
  I3  members are told apart by UID, never by name.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gangsched.errors import InternalError, InvalidValueError
from gangsched.model import PodUID

__all__ = ["MemberState", "PodGroupCounters"]


class MemberState(enum.IntEnum):
    """What a member of a group is doing."""

    GATED = 0
    """Has scheduling gates; counts for no quorum."""
    UNSCHEDULED = 1
    """Holds no node."""
    WAITING = 2
    """Holds a node and waits for siblings."""
    BINDING = 3
    """Was let go; its bind is under way."""
    ASSIGNED = 4
    """Is bound."""
    TERMINATING = 5
    """Its deletion was asked for; counts for no quorum."""
    SUCCEEDED = 6
    """Has finished; counts for no quorum."""
    FAILED = 7
    """Has finished; counts for no quorum."""
    REFUSED = 8
    """Contradicts its group or itself; counts for no quorum."""


class PodGroupCounters:
    """How many members of a group are in which state.

    Runtime complexity: every method and property O(1), whatever the group's size, except
    iteration and ``_check``, O(members).

    Not thread-safe.
    """

    __slots__ = ("_counts", "_states")

    def __init__(self) -> None:
        self._states: dict[PodUID, MemberState] = {}
        self._counts = [0] * len(MemberState)

    def set(self, uid: PodUID, state: MemberState) -> MemberState | None:
        """Put a member in a state; return the one it was in, None for a new member.

        Raises:
            InvalidValueError: It is no state.
        """
        # by type: any number would be taken for an index, -1 and True too
        if type(state) is not MemberState:
            raise InvalidValueError("state", state, "a MemberState")
        before = self._states.get(uid)
        if before is not state:
            if before is not None:
                self._counts[before] -= 1
            self._counts[state] += 1
            self._states[uid] = state
        return before

    def discard(self, uid: PodUID) -> MemberState | None:
        """Forget a member; return the state it was in, None when it was not known."""
        before = self._states.pop(uid, None)
        if before is not None:
            self._counts[before] -= 1
        return before

    def state(self, uid: PodUID) -> MemberState | None:
        """Return a member's state; None when it is not known."""
        return self._states.get(uid)

    def count(self, state: MemberState) -> int:
        """Return how many members are in a state.

        Raises:
            InvalidValueError: It is no state.
        """
        if type(state) is not MemberState:
            raise InvalidValueError("state", state, "a MemberState")
        return self._counts[state]

    def __len__(self) -> int:
        """Return how many members there are, whether they count or not."""
        return len(self._states)

    def __contains__(self, uid: object) -> bool:
        return uid in self._states

    def __iter__(self) -> Iterator[PodUID]:
        """Iterate over the members in the order in which they came."""
        return iter(self._states)

    @property
    def all(self) -> int:
        """Members that count: unscheduled and scheduled."""
        return self.unscheduled + self.scheduled

    @property
    def unscheduled(self) -> int:
        """Members that hold no node."""
        return self._counts[MemberState.UNSCHEDULED]

    @property
    def waiting(self) -> int:
        """Members that hold a node and wait for siblings."""
        return self._counts[MemberState.WAITING]

    @property
    def assumed(self) -> int:
        """Members that hold a node and are not known to be bound."""
        return self._counts[MemberState.WAITING] + self._counts[MemberState.BINDING]

    @property
    def assigned(self) -> int:
        """Members that are bound."""
        return self._counts[MemberState.ASSIGNED]

    @property
    def scheduled(self) -> int:
        """Members that hold a node: assumed and assigned."""
        return self.assumed + self.assigned

    @property
    def started(self) -> int:
        """Members that are bound, or were and have finished."""
        finished = self._counts[MemberState.SUCCEEDED] + self._counts[MemberState.FAILED]
        return self.assigned + finished

    def _check(self) -> None:
        counts = [0] * len(MemberState)
        for state in self._states.values():
            counts[state] += 1
        if counts != self._counts:
            raise InternalError(f"member counts {self._counts} are not {counts}")
