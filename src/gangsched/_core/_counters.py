"""The members of one group, counted by state.

Invariants (checked by ``_check``):
  I1  a member is in exactly one state;
  I2  each count is the number of members in that state;
  I3  members are told apart by UID, never by name;
  I4  the counts of a role are those of the members that have it, and a role is known exactly
      while somebody has it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Final, final

from attrs import frozen

from gangsched.errors import InternalError, InvalidValueError
from gangsched.model import PodUID

__all__ = ["MemberState", "PodGroupCounters", "RoleCounts"]


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


# an enum's member is looked up at some cost, and these are read for every member of every gang
_UNSCHEDULED: Final = int(MemberState.UNSCHEDULED)
_WAITING: Final = int(MemberState.WAITING)
_BINDING: Final = int(MemberState.BINDING)
_ASSIGNED: Final = int(MemberState.ASSIGNED)


@final
@frozen
class RoleCounts:
    """How many members of one role are in which state; see ``GroupView`` for the words."""

    unscheduled: int = 0
    waiting: int = 0
    scheduled: int = 0
    untried: int = 0


class PodGroupCounters:
    """How many members of a group are in which state, in all and by role.

    Runtime complexity: every method and property O(1), whatever the group's size, except
    iteration and ``_check``, O(members).

    Not thread-safe.
    """

    __slots__ = ("_by_role", "_counts", "_roles", "_states")

    def __init__(self) -> None:
        self._states: dict[PodUID, MemberState] = {}
        self._counts = [0] * len(MemberState)
        self._roles: dict[PodUID, str] = {}
        self._by_role: dict[str, list[int]] = {}

    def set(self, uid: PodUID, state: MemberState) -> MemberState | None:
        """Put a member in a state; return the one it was in, None for a new member.

        Raises:
            InvalidValueError: It is no state.
        """
        before = self._states.get(uid)
        self.set_all((uid,), state)
        return before

    def set_all(self, uids: Iterable[PodUID], state: MemberState) -> None:
        """Put members in a state, in one go. O(1) for each.

        Raises:
            InvalidValueError: It is no state.
        """
        # by type: any number would be taken for an index, -1 and True too
        if type(state) is not MemberState:
            raise InvalidValueError("state", state, "a MemberState")
        states, counts, roles = self._states, self._counts, self._roles
        for uid in uids:
            before = states.get(uid)
            states[uid] = state
            counts[state] += 1
            if before is None:
                continue
            counts[before] -= 1
            if roles and (role := roles.get(uid)) is not None:
                of_role = self._by_role[role]
                of_role[before] -= 1
                of_role[state] += 1

    def give_role(self, uid: PodUID, role: str | None) -> None:
        """Count a member for a role, and for none that it had before; None for no role.

        Raises:
            InvalidValueError: There is no such member.
        """
        state = self._states.get(uid)
        if state is None:
            raise InvalidValueError("uid", uid, "a member")
        before = self._roles.get(uid)
        if before == role:
            return
        if before is not None:
            self._uncount(before, state)
            del self._roles[uid]
        if role is not None:
            self._roles[uid] = role
            self._by_role.setdefault(role, [0] * len(MemberState))[state] += 1

    def discard(self, uid: PodUID) -> MemberState | None:
        """Forget a member; return the state it was in, None when it was not known."""
        before = self._states.pop(uid, None)
        if before is not None:
            self._counts[before] -= 1
            role = self._roles.pop(uid, None)
            if role is not None:
                self._uncount(role, before)
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

    def role_of(self, uid: PodUID) -> str | None:
        """Return a member's role; None when it has none, or is not known."""
        return self._roles.get(uid)

    def role(self, role: str, *, untried: int = 0) -> RoleCounts:
        """Return the counts of the members that have a role.

        Args:
            role: The role.
            untried: How many of them are untried, which is not counted here.
        """
        counts = self._by_role.get(role)
        if counts is None:
            return RoleCounts(untried=untried)
        waiting = counts[_WAITING]
        scheduled = waiting + counts[_BINDING] + counts[_ASSIGNED]
        return RoleCounts(counts[_UNSCHEDULED], waiting, scheduled, untried)

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
        return self._counts[_UNSCHEDULED]

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
        counts = self._counts
        return counts[_WAITING] + counts[_BINDING] + counts[_ASSIGNED]

    @property
    def started(self) -> int:
        """Members that are bound, or were and have finished."""
        finished = self._counts[MemberState.SUCCEEDED] + self._counts[MemberState.FAILED]
        return self.assigned + finished

    def _uncount(self, role: str, state: MemberState) -> None:
        counts = self._by_role[role]
        counts[state] -= 1
        if not any(counts):
            del self._by_role[role]

    def _check(self) -> None:
        counts = [0] * len(MemberState)
        by_role: dict[str, list[int]] = {}
        for uid, state in self._states.items():
            counts[state] += 1
            role = self._roles.get(uid)
            if role is not None:
                by_role.setdefault(role, [0] * len(MemberState))[state] += 1
        if counts != self._counts:
            raise InternalError(f"member counts {self._counts} are not {counts}")
        if by_role != self._by_role:
            raise InternalError(f"counts by role {self._by_role} are not {by_role}")
        if not self._roles.keys() <= self._states.keys():
            raise InternalError("somebody who is no member has a role")
