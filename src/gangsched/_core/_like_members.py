"""The pending members of a group that are alike: of one class of pods, and of one role.

Theory of operation. Late members of a started group are placed one by one. One that no node takes
proves that those like it fail too, so all of them are marked as tried at once. A new round makes
all of them ready at once. Both are O(1), however many members wait: whether a member is ready
follows from two instants, one of its record and ``tried_at`` of all that are alike. The instants
are those of a clock that the group advances.

The records stay in a list in the order of their numbers. A record that is gone stays there too,
until such records outnumber the others.

Invariants (checked by ``_check``):
  I1  ``_line`` has every pending record, in the order of the numbers while ``is_in_order``;
  I2  ``pending`` counts the records that are not gone, and ``ready`` those that are ready;
  I3  no record before ``_start`` is pending, and none before ``_cursor`` is ready;
  I4  each record that was tried on its own is in ``_tried``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from operator import itemgetter
from typing import Any, Final, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.model import Pod, PodUID

__all__ = ["KIND", "NUMBER", "POD", "LikeMembers", "Record"]

Record: TypeAlias = list[Any]
"""Number, pod, the members that are like it, and the instant at which it became ready."""

NUMBER: Final = 0
POD: Final = 1
KIND: Final = 2
_READY_AT: Final = 3

_NEVER: Final = -1
_TRIED: Final = -2
_GONE: Final = -3
_MIN_COMPACTION: Final = 64

_number = itemgetter(NUMBER)


@final
class LikeMembers:
    """The pending members of a group with one class of pods and one role.

    Each call is O(1) amortised, if not stated otherwise. After a record was added out of order, the
    next question for the first one is O(members).

    Args:
        alike: What the members have in common, such as their class of pods.
        role: Their role; None if they have none.
        number: A number that no other ``LikeMembers`` of the group has.

    Attributes:
        alike: See above.
        role: See above.
        number: See above.
        pending: The number of members.
        ready: The number of ready members.
        is_in_order: Whether the records are known to be in order; see I1.
        tried_at: The instant at which all members were marked as tried; -1 if they were not.
        told: What all members were told, except for those in ``untold``; None if that is not known.
        untold: The records of the members that may have been told something else since.
    """

    __slots__ = (
        "_cursor",
        "_line",
        "_start",
        "_tried",
        "alike",
        "is_in_order",
        "number",
        "pending",
        "ready",
        "role",
        "told",
        "tried_at",
        "untold",
    )

    def __init__(self, alike: Hashable, role: str | None, number: int) -> None:
        self.alike: Hashable = alike
        self.role: str | None = role
        self.number: int = number
        self.pending: int = 0
        self.ready: int = 0
        self.tried_at: int = _NEVER
        self.told: str | None = None
        self.untold: dict[PodUID, Record] = {}
        self._line: list[Record] = []
        self.is_in_order = True
        self._start = self._cursor = 0
        self._tried: list[Record] = []

    def add(self, number: int, pod: Pod, now: int) -> Record:
        """Add a member that is ready; return its record."""
        record: Record = [number, pod, self, now]
        line = self._line
        if not line or number > line[-1][NUMBER]:
            line.append(record)
        else:
            self._insert(record)
        self.pending += 1
        self.ready += 1
        if self.told is not None:
            self.untold[pod.uid] = record
        return record

    def clear(self) -> None:
        """Let go of the records, after the last use. O(members).

        A record refers to what it is in. Without this, such circles stay in memory until the
        garbage collector looks at all that is old, which is seldom in a large cluster.
        """
        self._line.clear()
        self._tried.clear()
        self.untold.clear()

    def _insert(self, record: Record) -> None:
        """Add a record that is not the last: in the place of one that is gone, if there is one.

        A member that is put back, as after a rejected permit, finds its former place. O(log
        members); otherwise the next question sorts the records.
        """
        line = self._line
        if self.is_in_order:
            at = bisect_left(line, record[NUMBER], key=_number)
            for place in (at, at - 1):
                if place >= 0 and line[place][_READY_AT] == _GONE:
                    line[place] = record
                    self._start = min(self._start, place)
                    self._cursor = min(self._cursor, place)
                    return
        self.is_in_order = False
        line.append(record)

    def discard(self, record: Record) -> bool:
        """Remove a member; return whether it was ready."""
        was_ready: bool = record[_READY_AT] > self.tried_at
        record[_READY_AT] = _GONE
        self.pending -= 1
        self.ready -= was_ready
        if self.untold:
            self.untold.pop(record[POD].uid, None)
        if len(self._line) > 2 * self.pending + _MIN_COMPACTION:
            self._compact()
        return was_ready

    def is_last(self, record: Record) -> bool:
        """Return whether a record was added in order, with the highest number of all."""
        return self.is_in_order and self._line[-1] is record

    def is_ready(self, record: Record) -> bool:
        """Return whether a member is ready."""
        return bool(record[_READY_AT] > self.tried_at)

    def mark_tried(self, record: Record) -> bool:
        """Mark one member as tried; return whether it was ready."""
        if record[_READY_AT] <= self.tried_at:
            return False
        record[_READY_AT] = _TRIED
        self._tried.append(record)
        self.ready -= 1
        return True

    def mark_ready(self, record: Record, now: int) -> bool:
        """Mark one member as ready; return whether it was not. O(log members)."""
        if record[_READY_AT] > self.tried_at:
            return False
        if self._tried and self._tried[-1] is record:
            self._tried.pop()
        record[_READY_AT] = now
        self.ready += 1
        if self.is_in_order:
            at = bisect_left(self._line, record[NUMBER], key=_number)
            self._cursor = min(self._cursor, at)
        return True

    def mark_all_tried(self, now: int) -> int:
        """Mark all members as tried, but none that becomes ready later; return how many were not.

        Args:
            now: The current instant. It must be over before another member becomes ready.
        """
        count, self.ready, self.tried_at = self.ready, 0, now
        return count

    def refill(self) -> int:
        """Mark all members as ready; return how many were not."""
        count = self.pending - self.ready
        if count or self._tried:
            for record in self._tried:
                if record[_READY_AT] == _TRIED:
                    record[_READY_AT] = 0
            self._tried.clear()
            self.tried_at, self.ready, self._cursor = _NEVER, self.pending, self._start
        return count

    def first(self) -> Record | None:
        """Return the record with the lowest number; None if there is none."""
        if not self.pending:
            return None
        if not self.is_in_order:
            self._compact()
        line, n = self._line, self._start
        while line[n][_READY_AT] == _GONE:
            n += 1
        self._start = n
        self._cursor = max(self._cursor, n)
        return line[n]

    def first_ready(self) -> Record | None:
        """Return the ready record with the lowest number; None if there is none."""
        if not self.ready:
            return None
        if not self.is_in_order:
            self._compact()
        line, n, tried_at = self._line, self._cursor, self.tried_at
        if n == self._start:
            while line[n][_READY_AT] == _GONE:
                n += 1
            self._start = n
        while line[n][_READY_AT] <= tried_at:
            n += 1
        self._cursor = n
        return line[n]

    def told_otherwise(self, told: str) -> list[Record]:
        """Return the members that may have been told something else, in order.

        Runtime complexity: O(n log n) for the n members returned.
        """
        found = self.untold.values() if self.told == told else self.records()
        return sorted(found, key=_number)

    def note_told(self, told: str) -> None:
        """Note that all members were told something."""
        self.told = told
        self.untold.clear()

    def _compact(self) -> None:
        """Drop the records that are gone, and sort the others. O(members) if they are in order."""
        self._line = [record for record in self._line if record[_READY_AT] != _GONE]
        if not self.is_in_order:
            self._line.sort(key=_number)
            self.is_in_order = True
        self._tried = [record for record in self._tried if record[_READY_AT] == _TRIED]
        self._start = self._cursor = 0

    def records(self) -> Iterator[Record]:
        """Iterate over the records that are not gone, in no particular order. O(members)."""
        return (record for record in self._line if record[_READY_AT] != _GONE)

    def _check(self) -> None:
        pending = list(self.records())
        what = f"members of role {self.role}"
        numbers = [record[NUMBER] for record in self._line]
        if self.is_in_order and numbers != sorted(numbers):
            raise InternalError(f"{what}: {numbers} are out of order")
        ready = [record for record in pending if self.is_ready(record)]
        if (self.pending, self.ready) != (len(pending), len(ready)):
            raise InternalError(
                f"{what}: counted {self.pending} pending and {self.ready} ready,"
                f" there are {len(pending)} and {len(ready)}"
            )
        if self.is_in_order:
            passed, skipped = self._line[: self._start], self._line[: self._cursor]
            if any(record[_READY_AT] != _GONE for record in passed) or any(
                map(self.is_ready, skipped)
            ):
                raise InternalError(f"{what}: a member is passed over that is not tried")
        tried = set(map(id, self._tried))
        if any(id(each) not in tried for each in pending if each[_READY_AT] == _TRIED):
            raise InternalError(f"{what}: a member that was tried would not be tried again")
        if not set(map(id, self.untold.values())) <= set(map(id, pending)):
            raise InternalError(f"{what}: {list(self.untold)} are not all pending")
