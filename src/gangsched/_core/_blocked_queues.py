"""BlockedQueues: the equivalence queues whose class is known to fail, and what may help each.

``_queue`` has the theory of operation. A change of a node is compared with what the blocked classes
need by an index, since there may be thousands of them, and most changes help none.

Invariants (checked by ``_check``):
  I1  it has exactly the queues that are blocked;
  I2  a queue is found by what a node must have free, if its class states that and nothing but free
      capacity helps it. Any other queue is *unfiled*, and found by every question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast, final

from gangsched._core._capacity_index import CapacityIndex, Need
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._proofs import Proof, Proofs
from gangsched.errors import InternalError

__all__ = ["BlockedQueues", "Filing"]

Filing: TypeAlias = tuple[Hashable, tuple[Need, ...]]
"""A section, and what a node must have free for one of the pods: one of the needs is enough.

Queues of one section are helped alike by what is not about nodes, such as preemption."""


@final
class BlockedQueues:
    """The blocked queues.

    An equivalence class may have an attribute ``filing``, which does not change: a ``Filing``, or
    None if it is not known what may help the class.
    """

    __slots__ = ("_filings", "_proofs", "_queues", "_sections", "_unfiled")

    def __init__(self) -> None:
        self._proofs = Proofs()
        self._queues: dict[int, EquivalenceQueue] = {}
        self._filings: dict[int, Filing] = {}
        self._sections: dict[Hashable, CapacityIndex] = {}
        self._unfiled: dict[int, EquivalenceQueue] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, queue: EquivalenceQueue, *, step: int) -> None:
        """Block a queue, as of *step*; if it is blocked already, only the step changes."""
        if queue.proof is not None:
            self._proofs.leave(queue.proof)
            queue.proof = self._proofs.join(step)
            return
        queue.blocked = True
        queue.proof = self._proofs.join(step)
        number = queue.number
        self._queues[number] = queue
        filing = _filing(queue)
        if filing is None:
            self._unfiled[number] = queue
            return
        self._filings[number] = filing
        section, needs = filing
        index = self._sections.get(section)
        if index is None:
            index = self._sections[section] = CapacityIndex()
        index.add(number, needs)

    def discard(self, queue: EquivalenceQueue) -> None:
        """Note that a queue is not blocked any more, if it was."""
        if queue.proof is None:
            return
        self._proofs.leave(queue.proof)
        queue.proof, queue.blocked = None, False
        number = queue.number
        del self._queues[number]
        self._unfiled.pop(number, None)
        filing = self._filings.pop(number, None)
        if filing is not None:
            section, needs = filing
            index = self._sections[section]
            index.discard(number, needs)
            if not len(index):
                del self._sections[section]

    def renew(self, step: int, *, since: int | None, but: EquivalenceQueue | None) -> None:
        """Note that all queues are still blocked at *step*, the latest of all steps.

        Args:
            step: The step.
            since: Only queues that are blocked since then, or later; None for all.
            but: A queue that keeps its step; None for none.
        """
        before = -1 if but is None else but.blocked_at
        self._proofs.renew(step, since=since)
        if but is not None and but.proof is not None:
            self.add(but, step=before)

    def every(self) -> list[EquivalenceQueue]:
        """Return all queues, in the order in which they were made. O(n log n)."""
        return [self._queues[number] for number in sorted(self._queues)]

    def unfiled(self) -> list[EquivalenceQueue]:
        """Return the unfiled queues, in the order in which they were made. O(n log n)."""
        return [self._unfiled[number] for number in sorted(self._unfiled)]

    def near(
        self, free: Iterable[Mapping[str, int]], helps: Callable[[Hashable], bool]
    ) -> list[EquivalenceQueue]:
        """Return the queues that nodes may help, in the order in which they were made.

        Left out are only queues of which each need exceeds what each node has free. O(log queues)
        for each node, and O(queues returned).

        Args:
            free: What each of the nodes has free.
            helps: Whether all queues of a section are returned, whatever they need.
        """
        found = set(self._unfiled)
        amounts = list(free)
        for section, index in self._sections.items():
            if helps(section):
                found.update(n for n, filing in self._filings.items() if filing[0] == section)
                continue
            for each in amounts:
                found |= index.fitting(each)
        return [self._queues[number] for number in sorted(found)]

    def _check(self, queues: Iterable[EquivalenceQueue]) -> None:
        blocked = {queue.number: queue for queue in queues if queue.blocked}
        if blocked != self._queues:
            raise InternalError("the blocked queues and the queues that are blocked differ")
        if any(queue.proof is None for queue in blocked.values()):
            raise InternalError("a blocked queue has no proof that its class fails")
        self._proofs._check(list(self._proven(blocked.values())))
        sections: dict[Hashable, dict[int, tuple[Need, ...]]] = {}
        unfiled: set[int] = set()
        for number, queue in blocked.items():
            filing = _filing(queue)
            if self._filings.get(number) != filing:
                raise InternalError("a blocked queue is filed by other needs than it has")
            if filing is None:
                unfiled.add(number)
                continue
            sections.setdefault(filing[0], {})[number] = filing[1]
        if self._unfiled.keys() != unfiled or self._sections.keys() != sections.keys():
            raise InternalError("a blocked queue is filed where it does not belong")
        for section, index in self._sections.items():
            index._check(sections[section])

    @staticmethod
    def _proven(queues: Iterable[EquivalenceQueue]) -> Iterator[Proof]:
        return (queue.proof for queue in queues if queue.proof is not None)


def _filing(queue: EquivalenceQueue) -> Filing | None:
    asked: Any = queue.equivalence_class
    return cast("Filing | None", getattr(asked, "filing", None))
