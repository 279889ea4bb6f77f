"""What stands in the queue: a pod, or a group with its pending members.

Invariants (checked by ``_check``):
  I1  a pending member is either ready (its turn in this round is to come) or tried;
  I2  ready members come in order of arrival;
  I3  of a group, ``PodGroupInfo.untried`` is the number of ready members.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
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
        self._pending: dict[PodUID, tuple[int, Pod]] = {}
        self._ready: dict[PodUID, None] = {}
        self._handle: HeapHandle | Any = None

    def add(self, pod: Pod, seq: int) -> None:
        """Add a pending member, ready to be tried: O(1) for the latest, else O(n log n)."""
        last = next(reversed(self._ready), None)
        self._pending[pod.uid] = (seq, pod)
        self._ready[pod.uid] = None
        if last is not None and seq < self._pending[last][0]:
            self._ready = dict.fromkeys(sorted(self._ready, key=self._arrival))
        self._count()

    def replace(self, pod: Pod) -> None:
        """Put a newer version of a pending member in its place."""
        seq, _before = self._pending[pod.uid]
        self._pending[pod.uid] = (seq, pod)

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self._pending.pop(uid, None)
        self._ready.pop(uid, None)
        self._count()

    def put_aside(self, uid: PodUID) -> None:
        """Take a pending member as tried in this round."""
        self._ready.pop(uid, None)
        self._count()

    def put_back(self, uid: PodUID) -> None:
        """Undo ``put_aside``: it is this member's turn again."""
        self._ready = {uid: None, **self._ready}
        self._count()

    def refill(self) -> None:
        """Begin a new round: every pending member is ready. O(members log members)."""
        self._ready = dict.fromkeys(sorted(self._pending, key=self._arrival))
        self._count()

    @property
    def next_member(self) -> Pod | None:
        """The member whose turn it is; None when every pending member was tried."""
        uid = next(iter(self._ready), None)
        return None if uid is None else self._pending[uid][1]

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no order that matters."""
        return [pod for _seq, pod in self._pending.values()]

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

    def _count(self) -> None:
        if self.group is not None:
            self.group.untried = len(self._ready)

    def _check(self) -> None:
        if not self._ready.keys() <= self._pending.keys():
            raise InternalError("a ready member is not pending")
        order = [self._arrival(uid) for uid in self._ready]
        if order != sorted(order):
            raise InternalError(f"ready members {order} are out of order")
        if self.group is not None and self.group.untried != len(self._ready):
            raise InternalError(f"{self.group.key}: {self.group.untried} untried, {order} ready")
