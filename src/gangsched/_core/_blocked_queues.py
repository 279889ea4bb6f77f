"""BlockedQueues: the equivalence queues whose class is known to fail, and what may help each.

``_queue`` has the theory of operation. A change of a node is compared with what the blocked classes
need by an index, since there may be thousands of them, and most changes help none.

Theory of operation. Gangs of different sizes have a queue each, and often pods of one class. A node
with room for one such pod may help all of them, but few of them fit as a whole. So their queues are
filed together, by how many pods must fit: one question about the pods tells which queues are left.

Invariants (checked by ``_check``):
  I1  it has exactly the queues that are blocked;
  I2  a queue whose class states what a node must have free is found by it; any other queue is
      *unfiled*, and found by every question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

from gangsched._core._capacity_index import CapacityIndex, Need
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._core._proofs import Proof, Proofs
from gangsched.errors import InternalError

__all__ = ["BlockedQueues", "Filing"]

_least: Final[Callable[[tuple[int, int]], int]] = itemgetter(0)


class Filing(NamedTuple):
    """What may help an equivalence class.

    Attributes:
        section: Queues of one section are helped alike by what is not about nodes, such as
            preemption.
        needs: What a node must have free for one of the pods: one of the needs is enough.
        pods: The class of the pods, if nothing but their number is asked of nodes; else None.
        least: How many of the pods must fit; 0 without *pods*.
    """

    section: Hashable
    needs: tuple[Need, ...]
    pods: Hashable = None
    least: int = 0


_Kind: TypeAlias = tuple[Hashable, tuple[Need, ...], Hashable]
"""Section, needs and pods of a filing."""


@final
class _LikeQueues:
    """The queues whose filings differ in nothing but how many pods must fit.

    Attributes:
        number: Its number in the index of the section.
        kind: What their filings have in common.
        by_least: How many pods must fit, and the number of the queue; ascending.
    """

    __slots__ = ("by_least", "kind", "number")

    def __init__(self, number: int, kind: _Kind) -> None:
        self.number: int = number
        self.kind: _Kind = kind
        self.by_least: list[tuple[int, int]] = []

    def within(self, most: float) -> Iterator[int]:
        """Iterate over the queues of which at most so many pods must fit. O(log n)."""
        end = bisect_right(self.by_least, most, key=_least)
        return (number for _least, number in self.by_least[:end])


@final
class BlockedQueues:
    """The blocked queues.

    An equivalence class may have an attribute ``filing``, which does not change: a ``Filing``, or
    None if it is not known what may help the class.
    """

    __slots__ = ("_kinds", "_like", "_numbers", "_proofs", "_queues", "_sections", "_unfiled")

    def __init__(self) -> None:
        self._proofs = Proofs()
        self._queues: dict[int, EquivalenceQueue] = {}
        self._numbers = 0
        self._kinds: dict[_Kind, _LikeQueues] = {}
        self._like: dict[int, _LikeQueues] = {}
        self._sections: dict[Hashable, CapacityIndex] = {}
        self._unfiled: dict[int, EquivalenceQueue] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, queue: EquivalenceQueue, *, step: int) -> None:
        """Block a queue, as of *step*; if it is blocked already, only the step changes."""
        if queue.proof is not None:
            if queue.blocked_at != step:  # parking an entity that failed blocks its class again
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
        like = self._kinds.get(filing[:3]) or self._make(filing)
        insort(like.by_least, (filing.least, number))

    def _make(self, filing: Filing) -> _LikeQueues:
        """File the queues of a kind that has none yet by what a node must have free."""
        self._numbers += 1
        kind = (filing.section, filing.needs, filing.pods)
        made = self._kinds[kind] = self._like[self._numbers] = _LikeQueues(self._numbers, kind)
        index = self._sections.get(filing.section)
        if index is None:
            index = self._sections[filing.section] = CapacityIndex()
        index.add(self._numbers, filing.needs)
        return made

    def discard(self, queue: EquivalenceQueue) -> None:
        """Note that a queue is not blocked any more, if it was."""
        if queue.proof is None:
            return
        self._proofs.leave(queue.proof)
        queue.proof, queue.blocked = None, False
        number = queue.number
        del self._queues[number]
        self._unfiled.pop(number, None)
        filing = _filing(queue)
        if filing is None:
            return
        like = self._kinds[filing[:3]]
        del like.by_least[bisect_left(like.by_least, (filing.least, number))]
        if not like.by_least:
            self._drop(like)

    def _drop(self, like: _LikeQueues) -> None:
        """Forget a kind of which no queue is blocked any more."""
        del self._kinds[like.kind], self._like[like.number]
        section, needs, _pods = like.kind
        index = self._sections[section]
        index.discard(like.number, needs)
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
        """Return the queues that no need is known of, in the order in which they were made."""
        return [self._unfiled[number] for number in sorted(self._unfiled)]

    def near(
        self,
        free: Iterable[Mapping[str, int]],
        helps: Callable[[Hashable], bool],
        room: Callable[[Any], float],
    ) -> list[EquivalenceQueue]:
        """Return the queues that nodes may help, in the order in which they were made.

        Left out are only queues of which each need exceeds what each node has free, or that need
        more pods than there is room for. O(log queues) for each node and kind of queue, and
        O(n log n) for the n queues returned.

        Args:
            free: What each of the nodes has free.
            helps: Whether all queues of a section are returned, whatever they need.
            room: Returns how many pods of a class fit at most; infinity if that is not known.
        """
        found = list(self._unfiled)
        amounts = list(free)
        for section, index in self._sections.items():
            if helps(section):
                every = [like for like in self._like.values() if like.kind[0] == section]
                found += [number for like in every for _least, number in like.by_least]
                continue
            near = set[int]().union(*[index.fitting(each) for each in amounts])
            for like in map(self._like.__getitem__, near):
                pods = like.kind[2]
                found += like.within(0 if pods is None else room(pods))
        found.sort()
        return [self._queues[number] for number in found]

    def _check(self, queues: Iterable[EquivalenceQueue]) -> None:
        blocked = {queue.number: queue for queue in queues if queue.blocked}
        if blocked != self._queues:
            raise InternalError("the blocked queues and the queues that are blocked differ")
        if any(queue.proof is None for queue in blocked.values()):
            raise InternalError("a blocked queue has no proof that its class fails")
        self._proofs._check(list(self._proven(blocked.values())))
        kinds: dict[_Kind, list[tuple[int, int]]] = {}
        unfiled: set[int] = set()
        for number, queue in blocked.items():
            filing = _filing(queue)
            if filing is None:
                unfiled.add(number)
                continue
            kinds.setdefault(filing[:3], []).append((filing.least, number))
        if self._unfiled.keys() != unfiled:
            raise InternalError("a blocked queue is filed where it does not belong")
        if {kind: sorted(each) for kind, each in kinds.items()} != {
            kind: like.by_least for kind, like in self._kinds.items()
        }:
            raise InternalError("a blocked queue is filed by other needs than it has")
        sections: dict[Hashable, dict[int, tuple[Need, ...]]] = {}
        for number, like in self._like.items():
            if self._kinds.get(like.kind) is not like or like.number != number:
                raise InternalError("like blocked queues are filed twice")
            sections.setdefault(like.kind[0], {})[number] = like.kind[1]
        if len(self._like) != len(self._kinds) or self._sections.keys() != sections.keys():
            raise InternalError("like blocked queues are filed where they do not belong")
        for section, index in self._sections.items():
            index._check(sections[section])

    @staticmethod
    def _proven(queues: Iterable[EquivalenceQueue]) -> Iterator[Proof]:
        return (queue.proof for queue in queues if queue.proof is not None)


def _filing(queue: EquivalenceQueue) -> Filing | None:
    asked: Any = queue.equivalence_class
    return cast("Filing | None", getattr(asked, "filing", None))
