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
  R2  it is asked after an attempt that failed for lack of capacity, and for which preemption has
      found nothing. What wakes the gang is that a node can take one of its pending members;
  R3  each restart of a part counts for it, up to ``max_restarts``; that of its group forgets it;
  R4  no room is kept for what is restarted: others may come first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias, final

from attrs import evolve

from gangsched.core.admission import restarts
from gangsched.core.admission.lacking import short_of
from gangsched.core.attempt.placing import places
from gangsched.core.placement.pinned import holding_by_leaf
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace, by_seq
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.errors import GangschedError
from gangsched.model._pod_copy import pod_with_fields
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING

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
    lost = {record: None for record in _lost(state, gang) if record in inside}
    if not lost:
        return []
    question = _Question(state, gang, [*lost])
    if question.fits(()) or question.is_exhausted:
        return []
    if not question.fits(_on_nodes(sorted(inside, key=by_seq))):
        return []
    parts = [(part, _on_nodes(members)) for part, members in found]
    for chosen in _sets(parts, {record.leaf for record in lost}):
        if question.is_exhausted:
            break
        moving = [record for _part, members in chosen for record in members]
        question.left -= len(lost) + len(moving)
        if question.fits(moving):
            return [part for part, _members in chosen]
    around = [each for each in found if not lost.keys().isdisjoint(each[1])]
    by_size = sorted(around, key=lambda each: len(_on_nodes(each[1])))
    helping = (part for part, members in by_size if question.fits(_on_nodes(members)))
    return [*islice(helping, 1)]


def _lost(state: State, gang: GangRecord) -> Iterator[PodRecord]:
    """Yield the pending members that replace lost ones: those of parts that run, or of a group
    that has fallen. A copy beyond those that are wanted, of which none runs, is not lost.
    """
    held = holding_by_leaf(gang)
    certain = {sub.key for sub in gang.tree.certain()}
    paths = {leaf.key: path for leaf, path in gang.tree.paths()}
    fallen = {key: restarts.has_fallen(state, info) for key, info in gang.infos.items()}
    for record in gang.pending.values():
        whole = [sub for sub in paths.get(record.leaf, ()) if sub.is_copy or sub.moves_alone]
        has_fallen = record.info is not None and fallen[record.info.key]
        if any(sub.is_in(held) for sub in whole) or (has_fallen and record.leaf in certain):
            yield record


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
    """Whether lost members find nodes if others move with them.

    Attributes:
        left: The steps that are left of the budget.
    """

    def __init__(self, state: State, gang: GangRecord, lost: Sequence[PodRecord]) -> None:
        self._state = state
        self._gang = gang
        self._lost = lost
        self._short_of = short_of(gang, gang.infos.values())
        self.left: int = state.settings.search_budget
        self._again: dict[PodRecord, PodRecord] = {}

    @property
    def is_exhausted(self) -> bool:
        """Whether the steps of the search are used up."""
        return self.left <= 0

    def fits(self, moving: Collection[PodRecord]) -> bool:
        """Return whether all that is lost, and all that moves, finds nodes then.

        Members beyond a minimum need none, and neither do those that do not exist.
        """
        state, gang = self._state, self._gang
        members = [*self._lost, *[self._stand_in(record) for record in moving]]
        states = [(record, record.state) for record in moving]
        with Trial(state.records) as trial:
            terminating = state.records.terminating.values()
            trial.lift([record for record in terminating if record.slot >= 0])
            trial.lift(moving)
            try:
                for record in moving:  # as those that terminate, they keep no others where they are
                    record.state = MemberState.TERMINATING
                pool = Counter([record.leaf for record in members])
                tree = _only(gang.tree, {*pool, *holding_by_leaf(gang)})
                found = None
                if tree is not None:
                    found = places(
                        *(state, gang, members, self._needed(tree, pool, moving), trial),
                        budget=max(self.left, 0),
                        count=self._count,
                        tree=tree,
                    )
            finally:
                for record, before in states:
                    record.state = before
        return found is not None

    def _count(self, steps: int) -> None:
        self.left -= steps

    def _needed(
        self, tree: SubGroup, pool: Counter[str], moving: Collection[PodRecord]
    ) -> dict[str, int]:
        """Return how many members each sub group lacks once some have moved away, of the pool."""
        gone = Counter([record.leaf for record in moving])
        found: dict[str, int] = {}
        for sub in tree.sub_groups():
            keys = [leaf.key for leaf in sub.leaves]
            more = self._short_of(sub) + sum(gone[key] for key in keys)
            found[sub.key] = min(max(more, 0), sum(pool[key] for key in keys)) if sub.least else 0
        return found

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


def _only(tree: SubGroup, leaves: Collection[str]) -> SubGroup | None:
    """Return a tree without what has none of some leaves, and of which all is wanted."""
    if not tree.children:
        return tree if tree.key in leaves else None
    children = tuple([child for each in tree.children if (child := _only(each, leaves))])
    if children == tree.children and tree.wanted == len(children):
        return tree
    return evolve(tree, children=children, wanted=len(children)) if children else None
