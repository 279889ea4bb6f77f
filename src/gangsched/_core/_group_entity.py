"""A group as it stands in the queue, with its pending members.

A member is one record, shared by all who keep it: its number, its pod, its role, and whether it is
*ready*: whether its turn in this round is still to come. The records are what is true. Who comes
next is read off *turns* that are made of them when somebody asks, and made anew after a change
that they cannot follow; so members that come one after another cost no more than their records.

Invariants (checked by ``_check``):
  I1  turns, where there are any, have every ready record once, in order of the numbers; whoever is
      in there and not ready, or no longer pending, has had its turn, and is passed over;
  I2  while ``_is_in_order``, pending records are in the order of their numbers, and none has a
      higher one than ``_latest``;
  I3  of the group, ``PodGroupInfo.untried`` is the number of ready members, and
      ``untried_by_role`` of those with a role.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, final

from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.model import Pod, PodUID

__all__ = ["QueuedGroup"]

_Record = list[Any]
"""The number of a member, its pod, its role, and whether it is ready."""

_seq = itemgetter(0)
_MIN_COMPACTION = 64


@final
class QueuedGroup(QueuedEntity):
    """A group as the queue holds it.

    Each call is O(1), but for the first question who comes next after members came out of order,
    were put back out of order, or a new round began: that is O(members), and O(n log n) where
    they came out of order.
    """

    __slots__ = ("_info", "_is_in_order", "_latest", "_pending", "_turns", "_turns_by_role")

    def __init__(self, seq: int, queued_at: float, group: PodGroupInfo) -> None:
        super().__init__(seq, queued_at, group)
        self._info = group
        self._pending: dict[PodUID, _Record] = {}
        self._is_in_order = True
        self._latest = -1
        self._turns: deque[_Record] | None = None
        self._turns_by_role: dict[str, deque[_Record]] | None = None

    def add(self, pod: Pod, seq: int, role: str | None = None) -> None:
        """Add a pending member, ready to be tried."""
        self.prospect = None
        self._pending[pod.uid] = record = [seq, pod, role, True]
        self._info.untried += 1
        if seq > self._latest:
            self._latest = seq
            if self._turns is not None or self._turns_by_role is not None:
                self._follow(record)
        else:
            self._is_in_order = False
            self._rejoin(record)
        if role is not None:
            self._count(role, 1)

    def load(self, members: Iterable[tuple[Pod, int, str | None, bool]]) -> None:
        """Take in all members at once, as ``records`` has them. O(members)."""
        for pod, seq, role, is_ready in members:
            self.add(pod, seq, role)
            if not is_ready:
                self.put_aside(pod.uid)

    def records(self) -> tuple[tuple[PodUID, bool], ...]:
        """Return the pending members in the order in which they are kept, and who is ready."""
        return tuple((uid, record[3]) for uid, record in self._pending.items())

    def replace(self, pod: Pod) -> None:
        """Put a newer version of a pending member in its place."""
        self.prospect = None
        self._pending[pod.uid][1] = pod

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.prospect = None
        record = self._pending.pop(uid, None)
        if record is not None and record[3]:
            self._info.untried -= 1
            record[3] = False
            if record[2] is not None:
                self._count(record[2], -1)
        if not self._pending:
            self._is_in_order = True
            self._latest = -1
            self._turns = self._turns_by_role = None

    def put_aside(self, uid: PodUID) -> None:
        """Take a pending member as tried in this round."""
        record = self._pending.get(uid)
        if record is not None and record[3]:
            record[3] = False
            self._info.untried -= 1
            if record[2] is not None:
                self._count(record[2], -1)

    def put_back(self, uid: PodUID) -> None:
        """Undo ``put_aside``."""
        record = self._pending[uid]
        if record[3]:
            return
        record[3] = True
        self._info.untried += 1
        self._rejoin(record)
        if record[2] is not None:
            self._count(record[2], 1)

    def refill(self) -> None:
        """Begin a new round: every pending member is ready. O(members); O(1) where all are."""
        if self._info.untried == len(self._pending):
            return
        self._turns = self._turns_by_role = None
        for record in self._pending.values():
            if not record[3]:
                record[3] = True
                if record[2] is not None:
                    self._count(record[2], 1)
        self._info.untried = len(self._pending)

    @property
    def next_member(self) -> Pod | None:
        """The member whose turn it is; None when every pending member was tried."""
        turns = self._turns
        if turns is None:
            turns = self._line_up()
        while turns:
            _number, pod, _role, is_ready = turns[0]
            if is_ready:
                first: Pod = pod
                return first
            turns.popleft()
        return None

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member that has one of some roles. O(roles)."""
        by_role = self._turns_by_role
        if by_role is None:
            by_role = self._line_up_by_role()
        firsts = (_first(by_role[role]) for role in roles if role in by_role)
        first = min((first for first in firsts if first is not None), key=_seq, default=None)
        return None if first is None else first[1]

    def ready_of(self, role: str) -> int:
        """Return how many ready members have a role."""
        return self._info.untried_by_role.get(role, 0)

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no order that matters. O(members)."""
        return [record[1] for record in self._pending.values()]

    def __len__(self) -> int:
        """Return how many members are pending."""
        return len(self._pending)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pending

    @property
    def ready_count(self) -> int:
        """How many members' turn is still to come."""
        return self._info.untried

    @property
    def pod(self) -> Pod:
        """Its next member, or else any pending one."""
        following = self.next_member
        return following if following is not None else next(iter(self._pending.values()))[1]

    @property
    def priority(self) -> int:
        """The group's priority."""
        return self._info.priority

    @property
    def created_at(self) -> float:
        """The group's creation."""
        return self._info.created_at

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt of the group has begun and not ended."""
        return self._info.attempt_started_at is not None

    # Turns ----------------------------------------------------------------------------------

    def _line_up(self) -> deque[_Record]:
        """Make turns of the records."""
        self._sort()
        self._turns = turns = deque([record for record in self._pending.values() if record[3]])
        return turns

    def _line_up_by_role(self) -> dict[str, deque[_Record]]:
        self._sort()
        by_role: dict[str, deque[_Record]] = {}
        for record in self._pending.values():
            if record[3] and record[2] is not None:
                by_role.setdefault(record[2], deque()).append(record)
        self._turns_by_role = by_role
        return by_role

    def _sort(self) -> None:
        if not self._is_in_order:
            ordered = sorted(self._pending.items(), key=_seq_of)
            self._pending = dict(ordered)
            self._is_in_order = True
            self._latest = ordered[-1][1][0]

    def _follow(self, record: _Record) -> None:
        """Let turns end with a record that came last; drop those that members left behind."""
        by_role = self._turns_by_role
        both = [] if self._turns is None else [self._turns]
        if by_role is not None and record[2] is not None:
            both.append(by_role.setdefault(record[2], deque()))
        if any(len(turns) > 2 * len(self._pending) + _MIN_COMPACTION for turns in both):
            self._turns = self._turns_by_role = None
        for turns in both:
            turns.append(record)

    def _rejoin(self, record: _Record) -> None:
        """Let turns have a record again, if it goes before or behind all of them."""
        if self._turns is not None and not _takes(self._turns, record):
            self._turns = None
        by_role, role = self._turns_by_role, record[2]
        if by_role is None or role is None:
            return
        if not _takes(by_role.setdefault(role, deque()), record):
            self._turns_by_role = None

    def _count(self, role: str, change: int) -> None:
        counts = self._info.untried_by_role
        counts[role] = counts.get(role, 0) + change
        if not counts[role]:
            del counts[role]

    def _check(self) -> None:
        key, info = self._info.key, self._info
        numbers = [record[0] for record in self._pending.values()]
        if self._is_in_order and [*numbers, self._latest] != sorted([*numbers, self._latest]):
            raise InternalError(f"members {numbers} are out of order, the latest is {self._latest}")
        ready = sorted((each for each in self._pending.values() if each[3]), key=_seq)
        if self._turns is not None:
            _compare("turns", self._turns, ready)
        if info.untried != len(ready):
            raise InternalError(f"{key}: {info.untried} untried, {len(ready)} ready")
        by_role: dict[str, list[_Record]] = {}
        for record in ready:
            if record[2] is not None:
                by_role.setdefault(record[2], []).append(record)
        counts = {role: len(records) for role, records in by_role.items()}
        if counts != info.untried_by_role:
            raise InternalError(f"{key}: {info.untried_by_role} untried, {counts} ready")
        if self._turns_by_role is not None:
            for role in {*by_role, *self._turns_by_role}:
                turns = self._turns_by_role.get(role, deque())
                _compare(f"turns of {role}", turns, by_role.get(role, []))


def _compare(what: str, turns: Iterable[_Record], ready: list[_Record]) -> None:
    """Raise if turns are not those of who is ready."""
    kept = [record for record in turns if record[3]]
    if list(map(id, kept)) != list(map(id, ready)):
        numbers = [record[0] for record in kept], [record[0] for record in ready]
        raise InternalError(f"{what} have {numbers[0]}, ready are {numbers[1]}")


def _takes(turns: deque[_Record], record: _Record) -> bool:
    """Put a record where it has its turn, if that is at an end; say whether it has one now."""
    while turns and not turns[0][3]:
        turns.popleft()
    if not turns or turns[-1][0] < record[0]:
        turns.append(record)
    elif record[0] < turns[0][0]:
        turns.appendleft(record)
    else:
        return turns[0] is record or turns[-1] is record
    return True


def _first(turns: deque[_Record]) -> _Record | None:
    """Return the first that is ready."""
    while turns:
        if turns[0][3]:
            return turns[0]
        turns.popleft()
    return None


def _seq_of(item: tuple[PodUID, _Record]) -> int:
    number: int = item[1][0]
    return number
