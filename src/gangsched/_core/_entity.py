"""Queue entities: a regular pod here, a pod group in ``_group_entity``.

Both have one interface, so that the queue and the scheduling cycle do not distinguish them. The
members of an entity that hold no node are *pending*. In a *round* each pending member is tried
once; a member that was not tried yet in this round is *ready*.

Rules:
  R1  the entity of a regular pod keeps no collection of members: one pod and one flag;
  R2  a regular pod has no role.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Iterable
from typing import Any, Final

from gangsched._core._heap import HeapHandle
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InternalError
from gangsched.explain import UnschedulableMember
from gangsched.model import Pod, PodUID
from gangsched.protocols import QueueSortKey

__all__ = ["REFUSED_BY_PLUGIN", "Place", "QueuedEntity"]

REFUSED_BY_PLUGIN: Final = -2
"""In place of a step: no node refused a member, but a plugin did, whatever the node."""


class Place(enum.Enum):
    """The place of an entity in the scheduling queue."""

    NOWHERE = "nowhere"
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


class QueuedEntity:
    """The queue entity of a regular pod; ``QueuedGroup`` is that of a group. Every call is O(1).

    Attributes:
        seq: An ascending number: no two entities share one.
        group: The group; None for a regular pod.
        queued_at: When the entity last entered the queue.
        failures: The number of failed attempts in a row.
        backoff_until: When the backoff ends; in the past if the entity is not in backoff.
        place: The place of the entity in the queue.
        sort_key: The sort key, which does not change while the entity is queued.
        equivalence_class: The class of its equivalence queue: entities of one class fail alike.
        tried_step: The step at which a member was last tried.
        failed_step: The step at which a member last found no node in the current attempt;
            ``REFUSED_BY_PLUGIN`` if there is none and a plugin refused one at ``pre_filter``,
            ``reserve``, ``permit`` or ``pre_bind``; -1 if none failed.
        event_step: The step of the last event that may help a member already tried in this
            round; -1 if there is none.
        round_step: The step at which the first member of this round was tried.
        refused_at: The step at which its last attempt failed, if every node had refused a member;
            ``REFUSED_BY_PLUGIN`` if only a plugin had; -1 if it failed for another reason, and
            before any.
        reason: Why the last attempt failed; empty if none did.
        denial: Why it was last not admitted to the queue; of use only while it is not admitted.
        unschedulable_member: The member that last found no node since the last release.
        expected_run: The priority and the expected run time in seconds, cached; None until computed
            and after an event that concerns the entity.
    """

    __slots__ = (
        "_handle",
        "_is_ready",
        "_pod",
        "backoff_until",
        "denial",
        "equivalence_class",
        "event_step",
        "expected_run",
        "failed_step",
        "failures",
        "group",
        "place",
        "queued_at",
        "reason",
        "refused_at",
        "round_step",
        "seq",
        "sort_key",
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
        self.sort_key: QueueSortKey | None = None
        self.equivalence_class: Hashable = None
        self.tried_step: int = -1
        self.failed_step: int = -1
        self.event_step: int = -1
        self.round_step: int = -1
        self.refused_at: int = -1
        self.reason: str = ""
        self.denial: str = ""
        self.unschedulable_member: UnschedulableMember | None = None
        self.expected_run: tuple[int, float] | None = None
        self._pod: Pod | None = None
        self._is_ready: bool = False
        self._handle: HeapHandle | Any = None

    # Members --------------------------------------------------------------------------------

    def add(
        self, pod: Pod, seq: int, role: str | None = None, alike: Hashable | None = None
    ) -> None:
        """Add a pending member that is ready.

        Args:
            pod: The member.
            seq: The number of the member: members are tried in the order of their numbers.
            role: The role of the member in the group; None if it has none.
            alike: What it has in common with members that fail or fit as it does, such as their
                class of pods.
        """
        self.expected_run = None
        self._pod = pod
        self._is_ready = True

    def load(self, members: Iterable[tuple[Pod, int, str | None, bool, Hashable]]) -> None:
        """Restore the members that ``records`` returned. O(members).

        Args:
            members: For each pending member: pod, number, role, whether it is ready, and what it
                has in common with members like it.
        """
        for pod, _seq, _role, is_ready, _alike in members:
            self._pod, self._is_ready = pod, is_ready

    def records(self) -> tuple[tuple[PodUID, bool], ...]:
        """Return the pending members in storage order, each with whether it is ready."""
        return () if self._pod is None else ((self._pod.uid, self._is_ready),)

    def replace(self, pod: Pod) -> None:
        """Replace a pending member by a newer version of the same pod."""
        self.expected_run = None
        self._pod = pod

    def discard(self, uid: PodUID) -> None:
        """Remove a member, pending or not."""
        self.expected_run = None
        if uid in self:
            self._pod = None
            self._is_ready = False

    def discard_all(self, uids: Collection[PodUID]) -> None:
        """Remove members, pending or not. O(members given)."""
        self.expected_run = None
        for uid in uids:
            self.discard(uid)

    def mark_tried(self, uid: PodUID) -> None:
        """Mark a pending member as tried in this round."""
        if uid in self:
            self._is_ready = False

    def mark_like_tried(self, uid: PodUID) -> None:
        """Mark a pending member, and all that are like it, as tried in this round."""
        self.mark_tried(uid)

    def mark_ready(self, uid: PodUID) -> None:
        """Mark a pending member as ready again."""
        self._is_ready = uid in self

    def note_refusal_by_plugin(self) -> None:
        """Note that a plugin refused a member in the current attempt, whatever the node."""
        if self.failed_step < 0:
            self.failed_step = REFUSED_BY_PLUGIN

    def forget_refusal_by_plugin(self) -> None:
        """Note that the current attempt fails for another reason, such as a bind or an eviction."""
        if self.failed_step == REFUSED_BY_PLUGIN:
            self.failed_step = -1

    def refill(self) -> None:
        """Begin a new round: every pending member is ready."""
        self._is_ready = self._pod is not None

    @property
    def next_member(self) -> Pod | None:
        """The first ready member; None if every pending member was tried in this round."""
        return self._pod if self._is_ready else None

    def next_of(self, roles: Iterable[str]) -> Pod | None:
        """Return the first ready member with one of the given roles."""
        return None

    def ready_of(self, role: str) -> int:
        """Return the number of ready members with a role."""
        return 0

    @property
    def pending(self) -> list[Pod]:
        """The members that hold no node, in no particular order."""
        return [] if self._pod is None else [self._pod]

    @property
    def pending_uids(self) -> Collection[PodUID]:
        """The UIDs of the pending members, in no particular order. O(1)."""
        return () if self._pod is None else (self._pod.uid,)

    @property
    def firsts(self) -> list[Pod]:
        """Of the pending members that are alike, the first one, in order."""
        return self.pending

    def told_otherwise(self, uid: PodUID, told: str) -> list[Pod]:
        """Return the members like one that may have been told something else, in order.

        Args:
            uid: A pending member; it may be among those returned.
            told: What the others were told, as ``note_told`` noted it.
        """
        return self.pending

    def note_told(self, uid: PodUID, told: str | None) -> None:
        """Note what a pending member and all like it were told.

        Args:
            uid: The member.
            told: What they were told; None if it was told something else, and it alone.
        """

    @property
    def newest(self) -> Pod | None:
        """The pending member that was added last; None if there is none."""
        return self._pod

    def __len__(self) -> int:
        """Return the number of pending members."""
        return int(self._pod is not None)

    def __contains__(self, uid: object) -> bool:
        return self._pod is not None and self._pod.uid == uid

    @property
    def ready_count(self) -> int:
        """The number of ready members."""
        return int(self._is_ready)

    # The pod or the group ------------------------------------------------------------------

    @property
    def pod(self) -> Pod:
        """The pod; of a group, the next ready member, else any pending member."""
        assert self._pod is not None
        return self._pod

    @property
    def priority(self) -> int:
        """The priority of the pod or the group."""
        return self.pod.priority

    @property
    def created_at(self) -> float:
        """The creation time of the pod or the group."""
        return self.pod.created_at

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt of the group is in progress."""
        return False

    def _check(self) -> None:
        if self._is_ready and self._pod is None:
            raise InternalError("a ready member is not pending")
