"""The members of one group, counted by state.

Invariants (checked by ``_check``):
  I1  a member is in exactly one state;
  I2  each count is the number of members in that state;
  I3  members are identified by UID, never by name;
  I4  the counts of a role are those of the members with this role; a role is known exactly while
      a member has it.

Members that succeeded and were deleted still count as succeeded: a controller replaces only the
members that have not done their part. They are counted by role, since their pods are gone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Final, final

from attrs import frozen

from gangsched.errors import InternalError, InvalidValueError
from gangsched.model import PodUID
from gangsched.primitives.standing import Standing

__all__ = ["MemberCounts", "MemberState", "PodGroupCounters", "RoleCounts"]


class MemberState(enum.IntEnum):
    """The state of a member of a pod group."""

    GATED = 0
    """Has scheduling gates; does not count for the quorum."""
    UNSCHEDULED = 1
    """Is pending, without a node."""
    WAITING = 2
    """Is assumed on a node and waits on permit."""
    BINDING = 3
    """Was released; its bind is in progress."""
    ASSIGNED = 4
    """Is bound."""
    TERMINATING = 5
    """Has a deletion timestamp; does not count for the quorum."""
    SUCCEEDED = 6
    """Has succeeded on its node; counts for the quorum if the other members are too few."""
    FAILED = 7
    """Has failed; does not count for the quorum."""
    REFUSED = 8
    """Contradicts its group or itself; does not count for the quorum."""
    ENDED = 9
    """Has succeeded without a node, or while it was deleted; does not count for the quorum."""


# Looking up a member of an enum is slow, and these are read for every member of every gang.
_UNSCHEDULED: Final = int(MemberState.UNSCHEDULED)
_WAITING: Final = int(MemberState.WAITING)
_BINDING: Final = int(MemberState.BINDING)
_ASSIGNED: Final = int(MemberState.ASSIGNED)
_SUCCEEDED: Final = int(MemberState.SUCCEEDED)
_FAILED: Final = int(MemberState.FAILED)


@final
@frozen
class RoleCounts:
    """The member counts of one role; ``GroupView`` defines the terms."""

    unscheduled: int = 0
    waiting: int = 0
    scheduled: int = 0
    untried: int = 0
    succeeded: int = 0


class MemberCounts:
    """How many members of a group are in which state, as ``PodGroupCounters`` counts them. O(1)."""

    __slots__ = ("_collected", "_counts")

    _counts: list[int]
    _collected: dict[str | None, int]

    @property
    def all(self) -> int:
        """The number of unscheduled and scheduled members."""
        counts = self._counts
        return counts[_UNSCHEDULED] + counts[_WAITING] + counts[_BINDING] + counts[_ASSIGNED]

    @property
    def unscheduled(self) -> int:
        """The number of members without a node."""
        return self._counts[_UNSCHEDULED]

    @property
    def waiting(self) -> int:
        """The number of members that wait on permit."""
        return self._counts[_WAITING]

    @property
    def assumed(self) -> int:
        """The number of assumed members: waiting on permit, or binding."""
        return self._counts[_WAITING] + self._counts[_BINDING]

    @property
    def assigned(self) -> int:
        """The number of bound members."""
        return self._counts[_ASSIGNED]

    @property
    def scheduled(self) -> int:
        """The number of members with a node: assumed or bound."""
        counts = self._counts
        return counts[_WAITING] + counts[_BINDING] + counts[_ASSIGNED]

    @property
    def succeeded(self) -> int:
        """The number of members that have succeeded on their nodes, deleted ones included."""
        count = self._counts[_SUCCEEDED]
        return count + self.collected if self._collected else count

    @property
    def collected(self) -> int:
        """The number of members that have succeeded and were deleted. O(roles)."""
        return sum(self._collected.values())

    @property
    def has_run(self) -> bool:
        """Whether a member is bound, or has succeeded."""
        counts = self._counts
        return counts[_ASSIGNED] + counts[_SUCCEEDED] > 0 or bool(self._collected)

    @property
    def started(self) -> int:
        """The number of members that are bound, or have finished."""
        counts = self._counts
        return counts[_ASSIGNED] + counts[_SUCCEEDED] + counts[_FAILED]


class PodGroupCounters(MemberCounts):
    """The members of a group, counted by state, in total and for each role.

    Runtime complexity: every method and property is O(1), except iteration, which is O(members).

    Not thread-safe.

    Attributes:
        standing: What its group has computed from the counts; None once one of them has changed.
    """

    __slots__ = ("_by_role", "_roles", "_states", "standing")

    def __init__(self) -> None:
        self.standing: Standing | None = None
        self._states: dict[PodUID, MemberState] = {}
        self._counts = [0] * len(MemberState)
        self._roles: dict[PodUID, str] = {}
        self._by_role: dict[str, list[int]] = {}
        self._collected = {}

    def share_with(self, other: MemberCounts) -> None:
        """Let *other* show these counts, also those to come."""
        other._counts, other._collected = self._counts, self._collected

    def set(self, uid: PodUID, state: MemberState) -> MemberState | None:
        """Set the state of a member; return the previous state, None for a new member.

        Raises:
            InvalidValueError: *state* is not a ``MemberState``.
        """
        # Any int is a valid index of the counts, -1 and True included: so compare the type.
        if type(state) is not MemberState:
            raise InvalidValueError("state", state, "a MemberState")
        before = self._states.get(uid)
        self._states[uid] = state
        self._counts[state] += 1
        self.standing = None
        if before is not None:
            self._counts[before] -= 1
            if self._roles and (role := self._roles.get(uid)) is not None:
                of_role = self._by_role[role]
                of_role[before] -= 1
                of_role[state] += 1
        return before

    def give_role(self, uid: PodUID, role: str | None) -> None:
        """Set the role of a member, which replaces its previous role; None for no role.

        Raises:
            InvalidValueError: *uid* is not a member.
        """
        state = self._states.get(uid)
        if state is None:
            raise InvalidValueError("uid", uid, "the UID of a member")
        before = self._roles.get(uid)
        if before == role:
            return
        self.standing = None
        if before is not None:
            self._uncount(before, state)
            del self._roles[uid]
        if role is not None:
            self._roles[uid] = role
            self._by_role.setdefault(role, [0] * len(MemberState))[state] += 1

    def collect(self, role: str | None) -> None:
        """Count a member that has succeeded and is deleted now. O(1)."""
        self._collected[role] = self._collected.get(role, 0) + 1
        self.standing = None

    def forget_collected(self) -> None:
        """Forget the members that succeeded and were deleted: a new incarnation has begun."""
        self._collected.clear()
        self.standing = None

    def discard(self, uid: PodUID) -> MemberState | None:
        """Remove a member; return its state, None if it was not a member."""
        before = self._states.pop(uid, None)
        self.standing = None
        if before is not None:
            self._counts[before] -= 1
            role = self._roles.pop(uid, None)
            if role is not None:
                self._uncount(role, before)
        return before

    def state(self, uid: PodUID) -> MemberState | None:
        """Return the state of a member; None if *uid* is not a member."""
        return self._states.get(uid)

    def count(self, state: MemberState) -> int:
        """Return the number of members in a state.

        Raises:
            InvalidValueError: *state* is not a ``MemberState``.
        """
        if type(state) is not MemberState:
            raise InvalidValueError("state", state, "a MemberState")
        return self._counts[state]

    def has_role(self, role: str | None) -> bool:
        """Return whether a member has a role."""
        return role in self._by_role

    def roles(self) -> frozenset[str | None]:
        """Return the roles of members, of those that are done and deleted too. O(roles)."""
        return frozenset((*self._by_role, *self._collected))

    def in_states(self, states: Iterable[MemberState], role: str | None = None) -> int:
        """Return the number of members in some states, of a role or of all. O(states)."""
        counts = self._counts if role is None else self._by_role.get(role)
        found = 0
        if counts is not None:
            for state in states:
                found += counts[state]
        return found

    def done(self, role: str | None = None) -> int:
        """Return how many have succeeded on their nodes, deleted ones included, as above."""
        if role is None:
            return self.succeeded
        counts = self._by_role.get(role)
        number = 0 if counts is None else counts[_SUCCEEDED]
        return number + self._collected.get(role, 0)

    def role(self, role: str, *, tried: int = 0) -> RoleCounts:
        """Return the counts of the members with a role.

        Args:
            role: The role.
            tried: How many unscheduled members of it an attempt has tried; only the queue knows.
        """
        counts, collected = self._by_role.get(role), self._collected.get(role, 0)
        if counts is None:
            return RoleCounts(succeeded=collected)
        unscheduled, waiting = counts[_UNSCHEDULED], counts[_WAITING]
        scheduled = waiting + counts[_BINDING] + counts[_ASSIGNED]
        succeeded = counts[_SUCCEEDED] + collected
        return RoleCounts(unscheduled, waiting, scheduled, unscheduled - tried, succeeded)

    def __len__(self) -> int:
        """Return the number of members, whether they count for the quorum or not."""
        return len(self._states)

    def __contains__(self, uid: object) -> bool:
        return uid in self._states

    def __iter__(self) -> Iterator[PodUID]:
        """Iterate over the members in order of arrival."""
        return iter(self._states)

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
            raise InternalError("a role is recorded for a pod that is not a member")
