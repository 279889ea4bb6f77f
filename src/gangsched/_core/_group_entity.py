"""The queue entity of a pod group, with its pending members.

Theory of operation. Members that are alike are kept together, see ``_like_members``: each of them
has a *record* there. Members are tried in the order of their numbers, whatever they are like. So
there is a heap of the kinds of members by the number of their first ready member, and one such heap
for each role. The heaps are caches:

- they are built when the next member is first asked for, and dropped when a new round begins;
- an entry may have a lower number than the first ready member of its kind has by now. It is
  corrected when it comes first;
- a member that becomes ready before the first one of its kind brings an entry of its own.

Invariants (checked by ``_check``):
  I1  each pending member has one record, at the members that it is like, and none of these is
      without members;
  I2  each heap that is built has, for each of its kinds with a ready member, an entry with the
      number of the first of them or a lower one;
  I3  ``PodGroupInfo.untried`` of the group is the number of ready members, and
      ``untried_by_role`` that of the ready members of each role.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from operator import itemgetter
from typing import Final, TypeAlias, final

from gangsched._core._entity import QueuedEntity
from gangsched._core._like_members import KIND, NUMBER, POD, LikeMembers, Record
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.model import Pod, PodUID

__all__ = ["QueuedGroup"]

_Heap: TypeAlias = list[tuple[int, int, LikeMembers]]
"""The number of a member, and the number of its kind, which no other kind has."""

_seq = itemgetter(NUMBER)
_SPARE: Final = 64


@final
class QueuedGroup(QueuedEntity):
    """The queue entity of a pod group.

    Each call is O(log kinds) amortised, where the kinds are those of its pending members, with
    these exceptions. A new round is O(kinds). After a member was added out of order, the next
    question for a ready member is O(members like it).
    """

    __slots__ = ("_clock", "_heap", "_heaps_by_role", "_info", "_kinds", "_numbers", "_pending")

    def __init__(self, seq: int, queued_at: float, group: PodGroupInfo) -> None:
        super().__init__(seq, queued_at, group)
        self._info = group
        self._pending: dict[PodUID, Record] = {}
        self._kinds: dict[Hashable, list[LikeMembers]] = {}
        self._clock = 0
        self._numbers = 0
        self._heap: _Heap | None = None
        self._heaps_by_role: dict[str, _Heap] | None = None

    def add(
        self, pod: Pod, seq: int, role: str | None = None, alike: Hashable | None = None
    ) -> None:
        """Add a pending member that is ready."""
        self.expected_run = None
        for kind in self._kinds.get(alike, ()):
            if kind.role == role:
                break
        else:
            self._numbers += 1
            kind = LikeMembers(alike, role, self._numbers)
            self._kinds.setdefault(alike, []).append(kind)
        self._pending[pod.uid] = record = kind.add(seq, pod, self._clock)
        self._count(role, 1)
        # otherwise an entry leads to an earlier member of the kind
        if kind.ready == 1 or not kind.is_last(record):
            self._push(kind, seq)

    def load(self, members: Iterable[tuple[Pod, int, str | None, bool, Hashable]]) -> None:
        """Restore the members that ``records`` returned. O(members)."""
        for pod, seq, role, is_ready, alike in members:
            self.add(pod, seq, role, alike)
            if not is_ready:
                self.mark_tried(pod.uid)

    def records(self) -> tuple[tuple[PodUID, bool], ...]:
        """Return the pending members in storage order, each with whether it is ready."""
        return tuple((uid, r[KIND].is_ready(r)) for uid, r in self._pending.items())

    def replace(self, pod: Pod) -> None:
        """Replace a pending member by a newer version of the same pod."""
        self.expected_run = None
        self._pending[pod.uid][POD] = pod

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.expected_run = None
        record = self._pending.pop(uid, None)
        if record is None:
            return
        kind: LikeMembers = record[KIND]
        if kind.discard(record):
            self._count(kind.role, -1)
        if not kind.pending:
            like = self._kinds[kind.alike]
            like.remove(kind)
            kind.clear()
            if not like:
                del self._kinds[kind.alike]
            if not self._kinds:
                self._heap = self._heaps_by_role = None

    def discard_all(self, uids: Collection[PodUID]) -> None:
        """Remove members, pending or not. O(members given)."""
        if self._pending.keys() != set(uids):
            super().discard_all(uids)
            return
        # a gang that is placed leaves no pending member, so no record is needed any more
        self.expected_run = None
        self._pending.clear()
        for kind in self._every():
            kind.clear()
        self._kinds.clear()
        self._heap = self._heaps_by_role = None
        self._info.untried = 0
        self._info.untried_by_role.clear()

    def mark_tried(self, uid: PodUID) -> None:
        """Mark a pending member as tried in this round."""
        record = self._pending.get(uid)
        if record is not None and record[KIND].mark_tried(record):
            self._count(record[KIND].role, -1)

    def mark_like_tried(self, uid: PodUID) -> None:
        """Mark a pending member, and all that are like it, as tried in this round. O(roles)."""
        for kind in self._like(uid):
            self._count(kind.role, -kind.mark_all_tried(self._clock))
        self._clock += 1

    def mark_ready(self, uid: PodUID) -> None:
        """Mark a pending member as ready again."""
        record = self._pending[uid]
        kind: LikeMembers = record[KIND]
        if kind.mark_ready(record, self._clock):
            self._count(kind.role, 1)
            self._push(kind, record[NUMBER])

    def refill(self) -> None:
        """Begin a new round: mark every pending member as ready.

        Runtime complexity: O(kinds of members) amortised; O(1) if all are ready.
        """
        if self._info.untried == len(self._pending):
            return
        self._heap = self._heaps_by_role = None
        for kind in self._every():
            self._count(kind.role, kind.refill())

    @property
    def next_member(self) -> Pod | None:
        """The first ready member; None if every pending member was tried in this round."""
        if self._heap is None:
            self._heap = _heap_of(self._every())
        first = _first(self._heap)
        return None if first is None else first[POD]

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member with one of the given roles. O(roles)."""
        heaps = self._heaps_by_role
        if heaps is None:
            of_role: dict[str, list[LikeMembers]] = {}
            for kind in self._every():
                if kind.role is not None:
                    of_role.setdefault(kind.role, []).append(kind)
            heaps = {role: _heap_of(kinds) for role, kinds in of_role.items()}
            self._heaps_by_role = heaps
        firsts = (_first(heaps[role]) for role in roles if role in heaps)
        first = min((first for first in firsts if first is not None), key=_seq, default=None)
        return None if first is None else first[POD]

    def ready_of(self, role: str) -> int:
        """Return the number of ready members with a role."""
        return self._info.untried_by_role.get(role, 0)

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no particular order. O(members)."""
        return [record[POD] for record in self._pending.values()]

    @property
    def pending_uids(self) -> Collection[PodUID]:
        """The UIDs of the members that hold no node, in no particular order. O(1)."""
        return self._pending.keys()

    @property
    def firsts(self) -> list[Pod]:
        """Of the pending members that are alike, the first one, in order. O(kinds log kinds)."""
        firsts = (kind.first() for kind in self._every())
        return [first[POD] for first in sorted(filter(None, firsts), key=_seq)]

    @property
    def newest(self) -> Pod | None:
        """The pending member that was added last; None if there is none."""
        record = next(reversed(self._pending.values()), None)
        return None if record is None else record[POD]

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
        return self.firsts[0] if following is None else following

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

    # What members were told ----------------------------------------------------------------------

    def told_otherwise(self, uid: PodUID, told: str) -> list[Pod]:
        """Return the members like one that may have been told something else, in order.

        Runtime complexity: O(n log n) for the n members returned.
        """
        records = [record for kind in self._like(uid) for record in kind.told_otherwise(told)]
        return [record[POD] for record in sorted(records, key=_seq)]

    def note_told(self, uid: PodUID, told: str | None) -> None:
        """Note what a member and all like it were told; None for the member alone, something else.

        Runtime complexity: O(roles) amortised.
        """
        if told is not None:
            for kind in self._like(uid):
                kind.note_told(told)
            return
        record = self._pending.get(uid)
        if record is not None and record[KIND].told is not None:
            record[KIND].untold[uid] = record

    # The kinds, and the caches -------------------------------------------------------------------

    def _every(self) -> Iterator[LikeMembers]:
        return (kind for like in self._kinds.values() for kind in like)

    def _like(self, uid: PodUID) -> list[LikeMembers]:
        """Return the kinds of members like one, of any role."""
        return self._kinds[self._pending[uid][KIND].alike]

    def _push(self, kind: LikeMembers, number: int) -> None:
        """Add an entry to the heaps that are built; drop them if most entries are superfluous."""
        entry, most = (number, kind.number, kind), 2 * len(self._pending) + _SPARE
        if self._heap is not None:
            heappush(self._heap, entry)
            if len(self._heap) > most:
                self._heap = None
        if self._heaps_by_role is not None and kind.role is not None:
            heap = self._heaps_by_role.setdefault(kind.role, [])
            heappush(heap, entry)
            if len(heap) > most:
                self._heaps_by_role = None

    def _count(self, role: str | None, change: int) -> None:
        """Count ready members: more, or fewer if the change is negative."""
        self._info.untried += change
        if role is not None and change:
            counts = self._info.untried_by_role
            counts[role] = counts.get(role, 0) + change
            if not counts[role]:
                del counts[role]

    def _check(self) -> None:
        key, info = self._info.key, self._info
        kinds = list(self._every())
        for kind in kinds:
            kind._check()
        names = [(kind.alike, kind.role) for kind in kinds]
        pending = {id(record): record[KIND] for record in self._pending.values()}
        filed = {id(record): kind for kind in kinds for record in kind.records()}
        if pending != filed or len(set(names)) != len(names):
            raise InternalError(f"{key}: {len(pending)} members pending, {len(filed)} filed")
        if any(kind not in self._kinds[kind.alike] or not kind.pending for kind in kinds):
            raise InternalError(f"{key}: members are filed where they do not belong")
        untried, by_role = 0, dict[str, int]()
        for kind in kinds:
            untried += kind.ready
            if kind.role is not None and kind.ready:
                by_role[kind.role] = by_role.get(kind.role, 0) + kind.ready
        if (info.untried, info.untried_by_role) != (untried, by_role):
            raise InternalError(
                f"{key}: {info.untried} untried, {untried} ready;"
                f" by role {info.untried_by_role} and {by_role}"
            )
        self._check_heap(self._heap, kinds)
        for role, heap in (self._heaps_by_role or {}).items():
            self._check_heap(heap, [kind for kind in kinds if kind.role == role])
        if self._heaps_by_role is not None and not by_role.keys() <= self._heaps_by_role.keys():
            raise InternalError(f"{key}: a role with ready members has no heap")

    def _check_heap(self, heap: _Heap | None, kinds: Iterable[LikeMembers]) -> None:
        """Raise if no entry of a heap leads to the first ready member of a kind."""
        if heap is None:
            return
        lowest: dict[int, int] = {}
        for number, kind_number, _kind in heap:
            lowest[kind_number] = min(number, lowest.get(kind_number, number))
        for kind in kinds:
            ready = [record[NUMBER] for record in kind.records() if kind.is_ready(record)]
            if ready and lowest.get(kind.number, math.inf) > min(ready):
                raise InternalError(f"{self._info.key}: no entry leads to member {min(ready)}")


def _heap_of(kinds: Iterable[LikeMembers]) -> _Heap:
    """Return a heap of the kinds with ready members. O(kinds)."""
    firsts = ((kind, kind.first_ready()) for kind in kinds)
    heap = [(first[NUMBER], kind.number, kind) for kind, first in firsts if first is not None]
    heapify(heap)
    return heap


def _first(heap: _Heap) -> Record | None:
    """Return the first ready record of a heap; correct or drop the entries before it."""
    while heap:
        number, _number, kind = heap[0]
        record = kind.first_ready()
        if record is None:
            heappop(heap)
        elif record[NUMBER] == number:
            return record
        else:
            heapreplace(heap, (record[NUMBER], kind.number, kind))
    return None
