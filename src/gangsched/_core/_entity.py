"""What stands in the queue: a pod, or a group with its pending members.

Invariants (checked by ``_check``):
  I1  a pending member is either ready (its turn in this round is to come) or tried;
  I2  ready members come in order of arrival;
  I3  of a group, ``PodGroupInfo.untried`` is the number of ready members, and
      ``untried_by_role`` of those with a role.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from typing import Any, final

from gangsched._core._heap import HeapHandle
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.explain import Misfit
from gangsched.model import Pod, PodUID
from gangsched.protocols import Rank

__all__ = ["Place", "QueuedEntity"]


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
    """

    __slots__ = (
        "_handle",
        "_pending",
        "_ready",
        "_ready_by_role",
        "backoff_until",
        "culprit",
        "failed_step",
        "failures",
        "group",
        "place",
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
        self.seq = seq
        self.group = group
        self.queued_at = queued_at
        self.failures = 0
        self.backoff_until = float("-inf")
        self.place = Place.NOWHERE
        self.rank: Rank | None = None
        self.shape: Hashable = None
        self.tried_step = -1
        self.failed_step = -1
        self.stirred_step = -1
        self.round_step = -1
        self.reason = ""
        self.culprit: Misfit | None = None
        self._pending: dict[PodUID, tuple[int, Pod, str | None]] = {}
        self._ready: dict[PodUID, None] = {}
        self._ready_by_role: dict[str, dict[PodUID, None]] = {}
        self._handle: HeapHandle | Any = None

    def add(self, pod: Pod, seq: int, role: str | None = None) -> None:
        """Add a pending member, ready to be tried: O(1) for the latest, else O(n log n)."""
        self._pending[pod.uid] = (seq, pod, role)
        self.put_back(pod.uid)

    def replace(self, pod: Pod) -> None:
        """Put a newer version of a pending member in its place."""
        seq, _before, role = self._pending[pod.uid]
        self._pending[pod.uid] = (seq, pod, role)

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.discard_all((uid,))

    def discard_all(self, uids: Iterable[PodUID]) -> None:
        """Remove members, pending or not."""
        for uid in uids:
            _seq, _pod, role = self._pending.pop(uid, (0, None, None))
            self._ready.pop(uid, None)
            if role is not None:
                self._count_role(role, without=uid)
        self._count()

    def put_aside(self, uid: PodUID) -> None:
        """Take a pending member as tried in this round."""
        _seq, _pod, role = self._pending.get(uid, (0, None, None))
        self._ready.pop(uid, None)
        if role is not None:
            self._count_role(role, without=uid)
        self._count()

    def put_back(self, uid: PodUID) -> None:
        """Undo ``put_aside``: O(1) for the latest member, else O(n log n)."""
        role = self._pending[uid][2]
        self._ready = self._with(self._ready, uid)
        if role is not None:
            self._ready_by_role[role] = self._with(self._ready_by_role.get(role, {}), uid)
            self._count_role(role)
        self._count()

    def refill(self) -> None:
        """Begin a new round: every pending member is ready. O(members log members)."""
        self._ready = dict.fromkeys(sorted(self._pending, key=self._arrival))
        self._ready_by_role = {}
        for uid in self._ready:
            role = self._pending[uid][2]
            if role is not None:
                self._ready_by_role.setdefault(role, {})[uid] = None
        for role in self._ready_by_role:
            self._count_role(role)
        self._count()

    @property
    def next_member(self) -> Pod | None:
        """The member whose turn it is; None when every pending member was tried."""
        uid = next(iter(self._ready), None)
        return None if uid is None else self._pending[uid][1]

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member that has one of some roles. O(roles)."""
        firsts = (next(iter(self._ready_by_role.get(role, ())), None) for role in roles)
        uid = min((uid for uid in firsts if uid is not None), key=self._arrival, default=None)
        return None if uid is None else self._pending[uid][1]

    def ready_of(self, role: str) -> int:
        """Return how many ready members have a role. O(1)."""
        return len(self._ready_by_role.get(role, ()))

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

    def _arrival(self, uid: PodUID) -> int:
        return self._pending[uid][0]

    def _with(self, ready: dict[PodUID, None], uid: PodUID) -> dict[PodUID, None]:
        last = next(reversed(ready), None)
        ready[uid] = None
        if last is None or self._arrival(last) <= self._arrival(uid):
            return ready
        return dict.fromkeys(sorted(ready, key=self._arrival))

    def _count(self) -> None:
        if self.group is not None:
            self.group.untried = len(self._ready)

    def _count_role(self, role: str, *, without: PodUID | None = None) -> None:
        ready = self._ready_by_role.get(role, {})
        if without is not None:
            ready.pop(without, None)
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
        order = [self._arrival(uid) for uid in self._ready]
        if order != sorted(order):
            raise InternalError(f"ready members {order} are out of order")
        if self.group is not None and self.group.untried != len(self._ready):
            raise InternalError(f"{self.group.key}: {self.group.untried} untried, {order} ready")
        by_role: dict[str, list[PodUID]] = {}
        for uid in self._ready:
            role = self._pending[uid][2]
            if role is not None:
                by_role.setdefault(role, []).append(uid)
        if by_role != {role: list(uids) for role, uids in self._ready_by_role.items()}:
            raise InternalError(f"ready by role are {by_role}, not {self._ready_by_role}")
        if self.group is not None:
            counts = {role: len(uids) for role, uids in by_role.items()}
            if counts != self.group.untried_by_role:
                said = self.group.untried_by_role
                raise InternalError(f"{self.group.key}: {said} untried, {counts} ready")
