"""What stands in the queue: a pod, or a group with its pending members.

Invariants (checked by ``_check``):
  I1  a pending member is either ready (its turn in this round is to come) or tried; while all are
      ready, pending and ready are one dict, and each is kept once;
  I2  ready members come in order of arrival;
  I3  of a group, ``PodGroupInfo.untried`` is the number of ready members, and
      ``untried_by_role`` of those with a role.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, final

from gangsched._core._heap import HeapHandle
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.explain import Misfit
from gangsched.model import Pod, PodUID
from gangsched.protocols import Rank

__all__ = ["Place", "QueuedEntity"]

_FEW = 64

_Record = tuple[int, Pod, str | None]
"""The number of a member, its pod and its role."""


def _in_order(records: Iterable[tuple[PodUID, _Record]]) -> dict[PodUID, _Record]:
    """Return members of which the first is found in O(1), though the first leave one by one.

    A plain dict looks at every place that was left; where these are few it is as quick and smaller.
    """
    made = dict(records)
    return OrderedDict(made) if len(made) > _FEW else made


class Place(enum.Enum):
    """Where in the queue an entity is."""

    NOWHERE = "nowhere"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


@final
class QueuedEntity:
    """A pod or a group as the queue holds it.

    Attributes:
        seq: An ascending number: no two entities share one.
        group: The group; None for a regular pod.
        queued_at: When it last came into the queue.
        failures: How many tries in a row failed.
        backoff_until: Until when it rests; in the past for an entity that does not.
        place: Where in the queue it is.
        rank: Its place in the order, frozen while it is queued.
        shape: What it failed with: entities of one shape fail alike.
        tried_step: The step at which a member last had its turn.
        failed_step: The step at which a member last found no node in the current attempt; -1
            when none did.
        stirred_step: The step of the last news for a member that had had its turn by then; -1
            when there were none.
        round_step: The step at which the first of this round was tried.
        reason: Why it is not let go, in words; empty when nothing was said.
        culprit: The member that last found no node, since the entity was last let go.
        prospect: Its priority, and for how many seconds it would run; None until somebody asks,
            and after a fact about it.
    """

    __slots__ = (
        "_handle",
        "_has_roles",
        "_latest",
        "_pending",
        "_ready",
        "_ready_by_role",
        "backoff_until",
        "culprit",
        "failed_step",
        "failures",
        "group",
        "place",
        "prospect",
        "queued_at",
        "rank",
        "reason",
        "round_step",
        "seq",
        "shape",
        "stirred_step",
        "tried_step",
    )

    def __init__(self, seq: int, group: PodGroupInfo | None, queued_at: float) -> None:
        self.seq: int = seq
        self.group: PodGroupInfo | None = group
        self.queued_at: float = queued_at
        self.failures: int = 0
        self.backoff_until: float = float("-inf")
        self.place: Place = Place.NOWHERE
        self.rank: Rank | None = None
        self.shape: Hashable = None
        self.tried_step: int = -1
        self.failed_step: int = -1
        self.stirred_step: int = -1
        self.round_step: int = -1
        self.reason: str = ""
        self.culprit: Misfit | None = None
        self.prospect: tuple[int, float] | None = None
        self._pending: dict[PodUID, _Record] = {}
        self._ready = self._pending
        self._ready_by_role: dict[str, dict[PodUID, _Record]] | None = None
        self._has_roles = False  # whether a member ever had one
        self._latest = -1  # no member that is ready came after this one
        self._handle: HeapHandle | Any = None

    def add(self, pod: Pod, seq: int, role: str | None = None) -> None:
        """Add a pending member, ready to be tried: O(1) for the latest, else O(n log n)."""
        uid = pod.uid
        self.prospect = None
        pending, ready = self._pending, self._ready
        is_last = seq > self._latest
        if not is_last:
            last = next(reversed(ready.values()), None)
            is_last = last is None or last[0] < seq
        ready[uid] = record = (seq, pod, role)
        if ready is not pending:
            pending[uid] = record
        if not is_last or (len(ready) == _FEW + 1 and type(ready) is dict):
            self._arrange()
        if is_last:
            self._latest = seq
        if role is not None:
            self._count_role(role, record)
        if self.group is not None:
            self.group.untried = len(self._ready)

    def load(self, members: Iterable[tuple[Pod, int, str | None, bool]]) -> None:
        """Take in all members at once, as ``records`` has them. O(members log members).

        Args:
            members: Each pending member with its number, its role, and whether it is ready.
        """
        pending: dict[PodUID, _Record] = {}
        ready: dict[PodUID, _Record] = {}
        for pod, seq, role, is_ready in members:
            pending[pod.uid] = record = (seq, pod, role)
            self._has_roles = self._has_roles or role is not None
            if is_ready:
                ready[pod.uid] = record
        self._pending = pending
        self._ready = _in_order(sorted(ready.items(), key=_seq_of))
        self._latest = max(map(_seq, ready.values()), default=-1)
        for record in self._ready.values():
            if record[2] is not None:
                self._count_role(record[2], record)
        self._join()
        self._count()

    def records(self) -> tuple[tuple[PodUID, bool], ...]:
        """Return the pending members in the order in which they are kept, and who is ready."""
        return tuple((uid, uid in self._ready) for uid in self._pending)

    def replace(self, pod: Pod) -> None:
        """Put a newer version of a pending member in its place."""
        uid = pod.uid
        self.prospect = None
        seq, _before, role = self._pending[uid]
        self._pending[uid] = record = (seq, pod, role)
        if uid in self._ready:
            self._ready[uid] = record
            if role is not None and self._ready_by_role is not None:
                self._ready_by_role[role][uid] = record

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.discard_all((uid,))

    def discard_all(self, uids: Iterable[PodUID]) -> None:
        """Remove members, pending or not."""
        self.prospect = None
        for uid in uids:
            record = self._pending.pop(uid, None)
            self._ready.pop(uid, None)
            if record is not None and record[2] is not None:
                self._uncount_role(record[2], uid)
        self._join()
        self._count()

    def put_aside(self, uid: PodUID) -> None:
        """Take a pending member as tried in this round. O(1), but O(members) once a round."""
        record = self._pending.get(uid)
        if record is None:
            return
        ready = self._ready
        if ready is self._pending:
            ready = self._ready = ready.copy()
        ready.pop(uid, None)
        if record[2] is not None:
            self._uncount_role(record[2], uid)
        if self.group is not None:
            self.group.untried = len(ready)

    def put_back(self, uid: PodUID) -> None:
        """Undo ``put_aside``: O(1) for one who comes after all that are ready, else O(members)."""
        record = self._pending[uid]
        ready = self._ready
        if uid not in ready:
            self._latest = max(self._latest, record[0])
            last = next(reversed(ready.values()), None)
            if last is None or last[0] < record[0]:
                ready[uid] = record
                if len(ready) == _FEW + 1:
                    self._ready = _in_order(ready.items())
            else:
                ready[uid] = record
                self._arrange()
            if record[2] is not None:
                self._count_role(record[2], record)
        self._join()
        self._count()

    def refill(self) -> None:
        """Begin a new round: every pending member is ready.

        Runtime complexity: O(members), if they came in order; O(1) where all are ready.
        """
        if self._ready is not self._pending:
            self._ready = self._pending = _in_order(sorted(self._pending.items(), key=_seq_of))
            self._latest = max(map(_seq, self._ready.values()), default=-1)
        self._ready_by_role = None
        if self.group is not None:
            self.group.untried_by_role.clear()
        for record in self._pending.values() if self._has_roles else ():
            if record[2] is not None:
                self._count_role(record[2], record)
        self._count()

    @property
    def next_member(self) -> Pod | None:
        """The member whose turn it is; None when every pending member was tried."""
        for _seq, pod, _role in self._ready.values():
            return pod
        return None

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member that has one of some roles. O(roles)."""
        by_role = self._ready_by_role or {}
        firsts = (next(iter(by_role.get(role, {}).values()), None) for role in roles)
        first = min((first for first in firsts if first is not None), key=_seq, default=None)
        return None if first is None else first[1]

    def ready_of(self, role: str) -> int:
        """Return how many ready members have a role. O(1)."""
        return len(self._ready_by_role.get(role, ())) if self._ready_by_role else 0

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no order that matters."""
        return [pod for _seq, pod, _role in self._pending.values()]

    def __len__(self) -> int:
        """Return how many members are pending."""
        return len(self._pending)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pending

    @property
    def ready_count(self) -> int:
        """How many members' turn is still to come."""
        return len(self._ready)

    @property
    def pod(self) -> Pod:
        """The pod; of a group, its next member or else any pending one."""
        following = self.next_member
        return following if following is not None else next(iter(self._pending.values()))[1]

    @property
    def priority(self) -> int:
        """The pod's priority, or the group's."""
        return self.pod.priority if self.group is None else self.group.priority

    @property
    def created_at(self) -> float:
        """The pod's creation, or the group's."""
        return self.pod.created_at if self.group is None else self.group.created_at

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt of the group has begun and not ended."""
        return self.group is not None and self.group.attempt_started_at is not None

    def _arrange(self) -> None:
        """Bring members in order after one that is not the latest, or is one of many."""
        are_one = self._ready is self._pending
        self._ready = _in_order(sorted(self._ready.items(), key=_seq_of))
        if are_one:
            self._pending = self._ready

    def _join(self) -> None:
        """Restore I1."""
        if len(self._ready) == len(self._pending):
            self._pending = self._ready

    def _count(self) -> None:
        if self.group is not None:
            self.group.untried = len(self._ready)

    def _count_role(self, role: str, record: _Record) -> None:
        if self._ready_by_role is None:
            self._ready_by_role = {}
        self._has_roles = True
        ready = self._ready_by_role.setdefault(role, {})
        latest = next(reversed(ready.values()), None)
        ready[record[1].uid] = record
        if latest is not None and (latest[0] > record[0] or len(ready) == _FEW + 1):
            self._ready_by_role[role] = _in_order(sorted(ready.items(), key=_seq_of))
        if self.group is not None:
            self.group.untried_by_role[role] = len(ready)

    def _uncount_role(self, role: str, uid: PodUID) -> None:
        if self._ready_by_role is None:
            return
        ready = self._ready_by_role.get(role, {})
        ready.pop(uid, None)
        if not ready:
            self._ready_by_role.pop(role, None)
        assert self.group is not None  # who is in none has no role
        if ready:
            self.group.untried_by_role[role] = len(ready)
        else:
            self.group.untried_by_role.pop(role, None)

    def _check(self) -> None:
        if not self._ready.keys() <= self._pending.keys():
            raise InternalError("a ready member is not pending")
        if (self._ready is self._pending) != (len(self._ready) == len(self._pending)):
            raise InternalError("pending and ready members are kept twice, or not at all")
        order = [seq for seq, _pod, _role in self._ready.values()]
        if order != sorted(order):
            raise InternalError(f"ready members {order} are out of order")
        if order and order[-1] > self._latest:
            raise InternalError(f"ready members {order}, the latest is {self._latest}")
        if any(self._pending[uid] is not record for uid, record in self._ready.items()):
            raise InternalError("a ready member is another version than the pending one")
        if self.group is not None and self.group.untried != len(self._ready):
            raise InternalError(f"{self.group.key}: {self.group.untried} untried, {order} ready")
        by_role: dict[str, list[PodUID]] = {}
        for uid in self._ready:
            role = self._pending[uid][2]
            if role is not None:
                by_role.setdefault(role, []).append(uid)
        kept = self._ready_by_role or {}
        if by_role != {role: list(uids) for role, uids in kept.items()}:
            raise InternalError(f"ready by role are {by_role}, not {self._ready_by_role}")
        if self.group is not None:
            counts = {role: len(uids) for role, uids in by_role.items()}
            if counts != self.group.untried_by_role:
                said = self.group.untried_by_role
                raise InternalError(f"{self.group.key}: {said} untried, {counts} ready")


def _seq(record: _Record) -> int:
    return record[0]


def _seq_of(item: tuple[PodUID, _Record]) -> int:
    return item[1][0]
