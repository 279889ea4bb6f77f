"""What is restarted so that lost members of a running gang find nodes (``RestartPolicy.repair``).

A member that replaces a lost one belongs where the others of its slice, or its rack, are. If no
node there takes it, some of the others have to move with it: their part of the gang is restarted,
and placed anew. This asks which parts: those with the fewest members for which all that is lost
finds nodes then, in a trial in which they are gone.

What moves as one is a part with a required domain, such as a slice, or one that has a policy of its
own. Sets of the innermost parts are tried first; then each part around what is lost, from the
inside out. The last one is the group itself.

Rules:
  R1  nothing is restarted unless all that is lost finds nodes then, and nothing if that is so once
      the pods that terminate are gone. What helps still does if more move: so it is asked first
      whether it would help if everybody moved;
  R2  an attempt has failed for lack of capacity, and preemption has found nothing. So some node
      takes one of the lost members, or nothing is restarted;
  R3  each restart of a part counts for it, so there are at most ``max_restarts``;
  R4  no room is kept for what is restarted: others may come first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias, final

from gangsched.core.admission import restarts
from gangsched.core.admission.lacking import short_of
from gangsched.core.attempt.placing import places
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace, by_seq
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.errors import GangschedError
from gangsched.model._pod_copy import pod_with_fields
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import HOLDING
from gangsched.primitives.standing import by_key, least_needed

__all__ = ["conclude"]

_Parts: TypeAlias = Sequence[tuple[restarts.Part, list[PodRecord]]]
"""Parts of a gang, each with its members on nodes."""


def conclude(state: State, gang: GangRecord) -> None:
    """Restart parts of a gang after its attempt, if it failed and that makes room for what is lost.

    Runtime complexity: O(members) for each set that is tried; ``search_budget`` bounds their sum.
    """
    demand: Demand | None = gang.demand
    if demand is None or demand.blocked_at != state.records.step:
        return
    if not gang.pending or gang.waiting or gang.place is QueuePlace.BACKOFF:
        return
    if not state.settings.can_evict or gang in state.nominations.known:
        return
    try:
        for part in _least(state, gang):
            restarts.restart(state, part)
    except GangschedError as error:
        state.call.errors.append(error)


def _least(state: State, gang: GangRecord) -> list[restarts.Part]:
    """Return the parts that have to be restarted; none if none has to be, or none helps."""
    found = restarts.repaired(state, gang)
    inside = {record for _part, members in found for record in members}
    lost = {record: None for record in gang.pending.values() if record in inside}
    if not lost:
        return []
    question = _Question(state, gang, [*lost])
    # what helps still does if more move: so all of them are asked about first
    if question.fits(()) or not question.fits(_on_nodes(sorted(inside, key=by_seq))):
        return []
    parts = [(part, _on_nodes(members)) for part, members in found]
    for chosen in _sets(parts, {record.leaf for record in lost}):
        if question.is_exhausted:
            break
        if question.fits([record for _part, members in chosen for record in members]):
            return [part for part, _members in chosen]
    lacks = [not lost.keys().isdisjoint(members) for _part, members in found]
    around = [each for each, is_around in zip(parts, lacks, strict=True) if is_around]
    for part, members in sorted(around, key=lambda each: len(each[1])):
        if question.fits(members):
            return [part]
    return []


def _on_nodes(members: Iterable[PodRecord]) -> list[PodRecord]:
    return [record for record in members if record.state in HOLDING]


def _sets(parts: _Parts, leaves: set[str]) -> Iterator[_Parts]:
    """Yield sets of the innermost parts, those with the fewest members first.

    Of equal ones those come first of which members were lost.
    """
    inner = _innermost(parts)
    inner.sort(key=lambda each: (len(each[1]), leaves.isdisjoint(r.leaf for r in each[1])))
    sizes = [len(members) for _part, members in inner]
    # each set once: its last part is followed by the next one, or replaced by it
    heap: list[tuple[int, tuple[int, ...]]] = [(sizes[0], (0,))] if inner else []
    while heap:
        size, chosen = heapq.heappop(heap)
        yield [inner[number] for number in chosen]
        last = chosen[-1]
        if last + 1 < len(inner):
            size += sizes[last + 1]
            heapq.heappush(heap, (size, (*chosen, last + 1)))
            heapq.heappush(heap, (size - sizes[last], (*chosen[:-1], last + 1)))


def _innermost(parts: _Parts) -> list[tuple[restarts.Part, list[PodRecord]]]:
    """Return the parts that have members, and no other part within them that has some."""
    found: list[tuple[restarts.Part, list[PodRecord]]] = []
    taken = set[PodRecord]()
    for part, members in parts:  # the inner ones come first
        if members and taken.isdisjoint(members):
            found.append((part, members))
        taken.update(members)
    return found


@final
class _Question:
    """Whether lost members find nodes if others move with them."""

    def __init__(self, state: State, gang: GangRecord, lost: Sequence[PodRecord]) -> None:
        self._state = state
        self._gang = gang
        self._lost = lost
        self._short_of = short_of(gang, gang.infos.values())
        self._left = state.settings.search_budget
        self._again: dict[PodRecord, PodRecord] = {}

    @property
    def is_exhausted(self) -> bool:
        """Whether the steps of the search are used up."""
        return self._left <= 0

    def fits(self, moving: Collection[PodRecord]) -> bool:
        """Return whether all that is lost, and all that moves, finds nodes then."""
        state, gang = self._state, self._gang
        again = [self._stand_in(record) for record in moving]
        needed = self._needed(moving)
        is_surplus = least_needed(gang.tree, by_key(needed)) <= 0
        self._left -= len(self._lost) + len(moving)
        states = [(record, record.state) for record in moving]
        with Trial(state.records) as trial:
            terminating = state.records.terminating.values()
            trial.lift([record for record in terminating if record.slot >= 0])
            trial.lift(moving)
            try:
                for record in moving:  # as those that terminate, they keep no others where they are
                    record.state = MemberState.TERMINATING
                found = places(
                    *(state, gang, [*self._lost, *again], needed, trial),
                    budget=max(self._left, 0),
                    count=self._count,
                    is_surplus=is_surplus,
                )
            finally:
                for record, before in states:
                    record.state = before
        return found is not None and self._is_enough(needed, [record for record, _slot in found])

    def _count(self, steps: int) -> None:
        self._left -= steps

    def _needed(self, moving: Collection[PodRecord]) -> dict[str, int]:
        """Return how many members each sub group lacks once some have moved away."""
        gone = Counter([record.leaf for record in moving])
        found: dict[str, int] = {}
        for tree in self._gang.tree.sub_groups():
            more = self._short_of(tree) + sum(gone[leaf.key] for leaf in tree.leaves)
            found[tree.key] = max(more, 0) if tree.least else 0
        return found

    def _is_enough(self, needed: dict[str, int], placed: Sequence[PodRecord]) -> bool:
        """Return whether the leaves of those that are lost lack no member any more."""
        numbers = Counter([record.leaf for record in placed])
        return all(numbers[r.leaf] >= needed.get(r.leaf, 0) for r in (*self._lost, *placed))

    def _stand_in(self, record: PodRecord) -> PodRecord:
        """Return a pending pod like one that runs, as its controller will create it."""
        found = self._again.get(record)
        if found is None:
            pod = pod_with_fields(record.pod, node_name=None)
            found = PodRecord(pod, record.seq, record.gang, record.info, record.role)
            found.needs = record.needs
            found.pod_class = self._state.class_of(found)
            self._again[record] = found
        return found
