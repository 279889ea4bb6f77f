"""The queue entity of a pod group, with its pending members.

Theory of operation. Each pending member has one *record*: a list of its number, pod, role and
whether it is ready. The records are the truth. Members are tried in the order of their numbers,
from a deque of the ready records, and one such deque for each role. The deques are caches:

- they are built when the next member is first asked for. A gang whose members arrive one by one
  costs one record for each arrival, and no sorting;
- a record that is no longer ready stays in its deques and is skipped when it comes first;
- a change at either end of a deque is applied to it. Any other change drops the deque, and the
  next question builds it anew.

Invariants (checked by ``_check``):
  I1  a deque, if built, holds every ready record of its role once, in the order of the numbers;
      records in it that are not ready are skipped;
  I2  while ``_is_in_order``, the pending records are in the order of their numbers, and no number
      is above ``_latest``;
  I3  ``PodGroupInfo.untried`` of the group is the number of ready members, and
      ``untried_by_role`` that of the ready members of each role.
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
"""Number, pod, role, and whether the member is ready."""

_seq = itemgetter(0)
_MIN_COMPACTION = 64


@final
class QueuedGroup(QueuedEntity):
    """The queue entity of a pod group.

    Each call is O(1), with one exception. After members were added or put back out of order, or
    after a new round began, the next question for a ready member is O(members). It is
    O(members log members) if members were added out of order.
    """

    __slots__ = ("_info", "_is_in_order", "_latest", "_pending", "_ready", "_ready_by_role")

    def __init__(self, seq: int, queued_at: float, group: PodGroupInfo) -> None:
        super().__init__(seq, queued_at, group)
        self._info = group
        self._pending: dict[PodUID, _Record] = {}
        self._is_in_order = True
        self._latest = -1
        self._ready: deque[_Record] | None = None
        self._ready_by_role: dict[str, deque[_Record]] | None = None

    def add(self, pod: Pod, seq: int, role: str | None = None) -> None:
        """Add a pending member that is ready."""
        self.expected_run = None
        self._pending[pod.uid] = record = [seq, pod, role, True]
        self._info.untried += 1
        if seq > self._latest:
            self._latest = seq
            if self._ready is not None or self._ready_by_role is not None:
                self._append(record)
        else:
            self._is_in_order = False
            self._reinsert(record)
        if role is not None:
            self._count(role, 1)

    def load(self, members: Iterable[tuple[Pod, int, str | None, bool]]) -> None:
        """Restore the members that ``records`` returned. O(members)."""
        for pod, seq, role, is_ready in members:
            self.add(pod, seq, role)
            if not is_ready:
                self.mark_tried(pod.uid)

    def records(self) -> tuple[tuple[PodUID, bool], ...]:
        """Return the pending members in storage order, each with whether it is ready."""
        return tuple((uid, record[3]) for uid, record in self._pending.items())

    def replace(self, pod: Pod) -> None:
        """Replace a pending member by a newer version of the same pod."""
        self.expected_run = None
        self._pending[pod.uid][1] = pod

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.expected_run = None
        record = self._pending.pop(uid, None)
        if record is not None and record[3]:
            self._info.untried -= 1
            record[3] = False
            if record[2] is not None:
                self._count(record[2], -1)
        if not self._pending:
            self._is_in_order = True
            self._latest = -1
            self._ready = self._ready_by_role = None

    def mark_tried(self, uid: PodUID) -> None:
        """Mark a pending member as tried in this round."""
        record = self._pending.get(uid)
        if record is not None and record[3]:
            record[3] = False
            self._info.untried -= 1
            if record[2] is not None:
                self._count(record[2], -1)

    def mark_ready(self, uid: PodUID) -> None:
        """Mark a pending member as ready again."""
        record = self._pending[uid]
        if record[3]:
            return
        record[3] = True
        self._info.untried += 1
        self._reinsert(record)
        if record[2] is not None:
            self._count(record[2], 1)

    def refill(self) -> None:
        """Begin a new round: mark every pending member as ready.

        Runtime complexity: O(members); O(1) if all are ready.
        """
        if self._info.untried == len(self._pending):
            return
        self._ready = self._ready_by_role = None
        for record in self._pending.values():
            if not record[3]:
                record[3] = True
                if record[2] is not None:
                    self._count(record[2], 1)
        self._info.untried = len(self._pending)

    @property
    def next_member(self) -> Pod | None:
        """The first ready member; None if every pending member was tried in this round."""
        records = self._ready
        if records is None:
            records = self._build()
        while records:
            _number, pod, _role, is_ready = records[0]
            if is_ready:
                first: Pod = pod
                return first
            records.popleft()
        return None

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member with one of the given roles. O(roles)."""
        by_role = self._ready_by_role
        if by_role is None:
            by_role = self._build_by_role()
        firsts = (_first(by_role[role]) for role in roles if role in by_role)
        first = min((first for first in firsts if first is not None), key=_seq, default=None)
        return None if first is None else first[1]

    def ready_of(self, role: str) -> int:
        """Return the number of ready members with a role."""
        return self._info.untried_by_role.get(role, 0)

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no particular order. O(members)."""
        return [record[1] for record in self._pending.values()]

    @property
    def newest(self) -> Pod | None:
        """The pending member that was added last; None if there is none."""
        record = next(reversed(self._pending.values()), None)
        return None if record is None else record[1]

    def __len__(self) -> int:
        """Return the number of pending members."""
        return len(self._pending)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pending

    @property
    def ready_count(self) -> int:
        """The number of ready members."""
        return self._info.untried

    @property
    def pod(self) -> Pod:
        """The next ready member, else the pending member with the lowest number."""
        following = self.next_member
        if following is not None:
            return following
        self._sort()
        first: Pod = next(iter(self._pending.values()))[1]
        return first

    @property
    def priority(self) -> int:
        """The priority of the group."""
        return self._info.priority

    @property
    def created_at(self) -> float:
        """The creation time of the group."""
        return self._info.created_at

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt of the group is in progress."""
        return self._info.attempt_started_at is not None

    # The caches ------------------------------------------------------------------------------

    def _build(self) -> deque[_Record]:
        """Build the deque of ready records."""
        self._sort()
        self._ready = records = deque([record for record in self._pending.values() if record[3]])
        return records

    def _build_by_role(self) -> dict[str, deque[_Record]]:
        self._sort()
        by_role: dict[str, deque[_Record]] = {}
        for record in self._pending.values():
            if record[3] and record[2] is not None:
                by_role.setdefault(record[2], deque()).append(record)
        self._ready_by_role = by_role
        return by_role

    def _sort(self) -> None:
        if not self._is_in_order:
            ordered = sorted(self._pending.items(), key=_seq_of)
            self._pending = dict(ordered)
            self._is_in_order = True
            self._latest = ordered[-1][1][0]

    def _append(self, record: _Record) -> None:
        """Append a new record with the highest number to the deques that exist.

        If a deque has grown to twice the pending members, most of its records are not ready
        any more, and both are dropped.
        """
        by_role = self._ready_by_role
        both = [] if self._ready is None else [self._ready]
        if by_role is not None and record[2] is not None:
            both.append(by_role.setdefault(record[2], deque()))
        if any(len(records) > 2 * len(self._pending) + _MIN_COMPACTION for records in both):
            self._ready = self._ready_by_role = None
        for records in both:
            records.append(record)

    def _reinsert(self, record: _Record) -> None:
        """Put a record that is ready again into its deques; drop a deque that cannot take it."""
        if self._ready is not None and not _takes(self._ready, record):
            self._ready = None
        by_role, role = self._ready_by_role, record[2]
        if by_role is None or role is None:
            return
        if not _takes(by_role.setdefault(role, deque()), record):
            self._ready_by_role = None

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
        if self._ready is not None:
            _compare("ready members", self._ready, ready)
        if info.untried != len(ready):
            raise InternalError(f"{key}: {info.untried} untried, {len(ready)} ready")
        by_role: dict[str, list[_Record]] = {}
        for record in ready:
            if record[2] is not None:
                by_role.setdefault(record[2], []).append(record)
        counts = {role: len(records) for role, records in by_role.items()}
        if counts != info.untried_by_role:
            raise InternalError(f"{key}: {info.untried_by_role} untried, {counts} ready")
        if self._ready_by_role is not None:
            for role in {*by_role, *self._ready_by_role}:
                records = self._ready_by_role.get(role, deque())
                _compare(f"ready members of {role}", records, by_role.get(role, []))


def _compare(what: str, records: Iterable[_Record], ready: list[_Record]) -> None:
    """Raise if the ready records of a deque are not exactly *ready*, in order."""
    kept = [record for record in records if record[3]]
    if list(map(id, kept)) != list(map(id, ready)):
        numbers = [record[0] for record in kept], [record[0] for record in ready]
        raise InternalError(f"{what}: kept are {numbers[0]}, ready are {numbers[1]}")


def _takes(records: deque[_Record], record: _Record) -> bool:
    """Put a record at the end of a deque where it belongs; return whether the deque has it."""
    while records and not records[0][3]:
        records.popleft()
    if not records or records[-1][0] < record[0]:
        records.append(record)
    elif record[0] < records[0][0]:
        records.appendleft(record)
    else:
        return records[0] is record or records[-1] is record
    return True


def _first(records: deque[_Record]) -> _Record | None:
    """Return the first ready record; drop those before it."""
    while records:
        if records[0][3]:
            return records[0]
        records.popleft()
    return None


def _seq_of(item: tuple[PodUID, _Record]) -> int:
    number: int = item[1][0]
    return number
