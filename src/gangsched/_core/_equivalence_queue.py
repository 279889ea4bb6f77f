"""The entities of one equivalence class that failed: those that wait, and those in backoff.

``_queue`` has the theory of operation, and ``_early_return`` what the entities in backoff are
sorted for.

Invariants (checked by ``_check``):
  I1  an entity waits, is in backoff, or leads: the queue is not empty;
  I2  the leader is active. An open queue in which entities wait has one, and no entity sorts before
      it, unless its attempt is under way.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._heap import PriorityHeap
from gangsched._core._proofs import Proof
from gangsched.errors import InternalError

__all__ = ["EquivalenceQueue", "outranks"]


@final
class EquivalenceQueue:
    """The entities of one equivalence class that failed.

    Attributes:
        equivalence_class: What the entities have in common: they fail or fit alike.
        number: The number of the queue, ascending in the order in which queues are made.
        blocked: Whether the class is known to fail on the cluster as it is.
        proof: The ``Proof`` that the class fails, shared with other queues; its step is
            ``blocked_at``. None if the queue is not blocked.
        opened_at: The step of the last event that made a try worthwhile; -1 before any.
        leader: The entity of this class that is in the active heap; None if there is none.
        queued: The entities that wait, by sort key.
        in_backoff: The entities in backoff that return to this queue, by number.
        helped_at: The step of the last event that ends the backoff of these entities early; -1 if
            there is none since the class was last known to fail.
        hopeful: The entities in backoff whose failure precedes the last event that helped, by sort
            key, except the candidate.
        late: Entities in backoff that every node has refused since then, by number. An entity that
            failed for another reason is only in ``in_backoff``.
        candidate: The first of the hopeful entities, which may return early; None without one.
    """

    __slots__ = (
        "blocked",
        "candidate",
        "equivalence_class",
        "helped_at",
        "hopeful",
        "in_backoff",
        "late",
        "leader",
        "number",
        "opened_at",
        "proof",
        "queued",
    )

    def __init__(self, equivalence_class: Hashable, number: int = 0) -> None:
        self.equivalence_class: Hashable = equivalence_class
        self.number: int = number
        self.blocked: bool = False
        self.proof: Proof | None = None
        self.opened_at: int = -1
        self.leader: QueuedEntity | None = None
        self.queued: PriorityHeap[QueuedEntity] = PriorityHeap()
        self.in_backoff: dict[int, QueuedEntity] = {}
        self.helped_at: int = -1
        self.hopeful: PriorityHeap[QueuedEntity] = PriorityHeap()
        self.late: dict[int, QueuedEntity] = {}
        self.candidate: QueuedEntity | None = None

    @property
    def blocked_at(self) -> int:
        """The step as of which the class is known to fail; -1 if it is not blocked."""
        return -1 if self.proof is None else self.proof.current().step

    @property
    def sample(self) -> QueuedEntity:
        """Any entity of this queue."""
        if len(self.queued):
            return self.queued.peek()
        if self.leader is not None:
            return self.leader
        return next(iter(self.in_backoff.values()))

    def _check(self) -> None:
        if self.leader is None and not len(self.queued) and not self.in_backoff:
            raise InternalError(f"queue {self.number} is empty, and is kept")
        self.queued._check()
        first = self.queued.peek() if len(self.queued) else None
        if first is not None and not self.blocked:
            if self.leader is None:
                raise InternalError(f"queue {self.number} is open, and has no leader")
            if outranks(first, self.leader):
                raise InternalError(
                    f"queue {self.number} is open, and entity {first.seq} sorts before its"
                    f" leader {self.leader.seq}"
                )
        if self.leader is not None and self.leader.place is not Place.ACTIVE:
            raise InternalError(
                f"leader {self.leader.seq} of queue {self.number} is in {self.leader.place.name}"
            )
        for seq, entity in self.in_backoff.items():
            if entity.place is not Place.BACKOFF:
                raise InternalError(
                    f"entity {seq} of queue {self.number} is kept as in backoff, and is in"
                    f" {entity.place.name}"
                )


def outranks(first: QueuedEntity, leader: QueuedEntity) -> bool:
    """Return whether an entity is to replace the leader of its queue. O(1).

    It sorts before the leader, and the attempt of the leader is not under way.
    """
    assert first.sort_key is not None
    assert leader.sort_key is not None
    return first.sort_key < leader.sort_key and not leader.is_under_way
