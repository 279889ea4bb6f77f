"""What stands in the queue: a pod by itself, or a group, which is in ``_group_entity``.

Rules:
  R1  a pod by itself pays nothing for members: it is pending or not, and its turn has come or not;
  R2  it has no role.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from typing import Any

from gangsched._core._heap import HeapHandle
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.explain import UnschedulableMember
from gangsched.model import Pod, PodUID
from gangsched.protocols import Rank

__all__ = ["Place", "QueuedEntity"]


class Place(enum.Enum):
    """Where in the queue an entity is."""

    NOWHERE = "nowhere"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


class QueuedEntity:
    """A pod as the queue holds it; of a group, see ``QueuedGroup``. Every call is O(1).

    Attributes:
        seq: An ascending number: no two entities share one.
        group: The group; None for a regular pod.
        queued_at: When it last came into the queue.
        failures: How many tries in a row failed.
        backoff_until: Until when it rests; in the past for an entity that does not.
        place: Where in the queue it is.
        rank: Its place in the order, frozen while it is queued.
        equivalence_class: What it failed with: entities of one equivalence_class fail alike.
        tried_step: The step at which a member last had its turn.
        failed_step: The step at which a member last found no node in the current attempt; -1
            when none did.
        stirred_step: The step of the last news for a member that had had its turn by then; -1
            when there were none.
        round_step: The step at which the first of this round was tried.
        reason: Why it is not let go, in words; empty when nothing was said.
        unschedulable_member: The member that last found no node, since the entity was last let go.
        prospect: Its priority, and for how many seconds it would run; None until somebody asks,
            and after a fact about it.
    """

    __slots__ = (
        "_handle",
        "_is_ready",
        "_pod",
        "backoff_until",
        "equivalence_class",
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
        "stirred_step",
        "tried_step",
        "unschedulable_member",
    )

    def __init__(self, seq: int, queued_at: float, group: PodGroupInfo | None = None) -> None:
        self.seq: int = seq
        self.group: PodGroupInfo | None = group
        self.queued_at: float = queued_at
        self.failures: int = 0
        self.backoff_until: float = float("-inf")
        self.place: Place = Place.NOWHERE
        self.rank: Rank | None = None
        self.equivalence_class: Hashable = None
        self.tried_step: int = -1
        self.failed_step: int = -1
        self.stirred_step: int = -1
        self.round_step: int = -1
        self.reason: str = ""
        self.unschedulable_member: UnschedulableMember | None = None
        self.prospect: tuple[int, float] | None = None
        self._pod: Pod | None = None
        self._is_ready: bool = False
        self._handle: HeapHandle | Any = None

    # Members --------------------------------------------------------------------------------

    def add(self, pod: Pod, seq: int, role: str | None = None) -> None:
        """Add a pending member, ready to be tried.

        Args:
            pod: The member.
            seq: Its number: members have their turns in the order of their numbers.
            role: Its role in the group; None without one.
        """
        self.prospect = None
        self._pod = pod
        self._is_ready = True

    def load(self, members: Iterable[tuple[Pod, int, str | None, bool]]) -> None:
        """Take in all members at once, as ``records`` has them. O(members).

        Args:
            members: Each pending member with its number, its role, and whether it is ready.
        """
        for pod, _seq, _role, is_ready in members:
            self._pod, self._is_ready = pod, is_ready

    def records(self) -> tuple[tuple[PodUID, bool], ...]:
        """Return the pending members in the order in which they are kept, and who is ready."""
        return () if self._pod is None else ((self._pod.uid, self._is_ready),)

    def replace(self, pod: Pod) -> None:
        """Put a newer version of a pending member in its place."""
        self.prospect = None
        self._pod = pod

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.prospect = None
        if uid in self:
            self._pod = None
            self._is_ready = False

    def discard_all(self, uids: Iterable[PodUID]) -> None:
        """Remove members, pending or not. O(members that are given)."""
        self.prospect = None
        for uid in uids:
            self.discard(uid)

    def put_aside(self, uid: PodUID) -> None:
        """Take a pending member as tried in this round."""
        if uid in self:
            self._is_ready = False

    def put_back(self, uid: PodUID) -> None:
        """Undo ``put_aside``."""
        self._is_ready = uid in self

    def refill(self) -> None:
        """Begin a new round: every pending member is ready."""
        self._is_ready = self._pod is not None

    @property
    def next_member(self) -> Pod | None:
        """The member whose turn it is; None when every pending member was tried."""
        return self._pod if self._is_ready else None

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member that has one of some roles."""
        return None

    def ready_of(self, role: str) -> int:
        """Return how many ready members have a role."""
        return 0

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no order that matters."""
        return [] if self._pod is None else [self._pod]

    def __len__(self) -> int:
        """Return how many members are pending."""
        return int(self._pod is not None)

    def __contains__(self, uid: object) -> bool:
        return self._pod is not None and self._pod.uid == uid

    @property
    def ready_count(self) -> int:
        """How many members' turn is still to come."""
        return int(self._is_ready)

    # What it stands for ---------------------------------------------------------------------

    @property
    def pod(self) -> Pod:
        """The pod; of a group, its next member or else any pending one."""
        assert self._pod is not None
        return self._pod

    @property
    def priority(self) -> int:
        """The pod's priority, or the group's."""
        return self.pod.priority

    @property
    def created_at(self) -> float:
        """The pod's creation, or the group's."""
        return self.pod.created_at

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt of the group has begun and not ended."""
        return False

    def _check(self) -> None:
        if self._is_ready and self._pod is None:
            raise InternalError("a ready member is not pending")
