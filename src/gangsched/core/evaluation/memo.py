"""The one memo: what capacity and plugins say about the pods of one signature, state by state.

Theory of operation. For each state of nodes (see ``node_table``) a ``Memo`` knows how many such
pods fit on a node, and how good the node is. It reads the log of the table before it answers. So it
looks only at states that it has not met, and at those of which the number of nodes has changed.
What plugins read of labels and taints alone is asked once for each static kind of nodes.

From these answers follow the total, the sums by domain, the states in order, and the number of
nodes by reason. Each is made when it is first asked for, and follows the log from then on.

Everything here can be dropped at any time (``forget``): it is found again when it is needed. A
memo outlives its last pod, since the next job often asks for the same; ``Evaluator`` drops those
that were not used for longest.

Plugins whose answers are no function of a state are not part of it; see ``late``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeAlias, final

from sortedcontainers import SortedKeyList

from gangsched.core.nodes.domains import EVERYWHERE, Chain, Domain, Path
from gangsched.core.nodes.marks import ANYBODY, Asks
from gangsched.core.nodes.node_table import (
    DEFAULTED,
    GONE,
    MOST_EMPTIES,
    PODS,
    Needs,
    NodeState,
    NodeTable,
)
from gangsched.explain import Diagnosis
from gangsched.model import Node, Pod
from gangsched.outcomes import Unschedulable

__all__ = ["Answers", "Filters", "Memo", "Scores"]

_MOST: Final = 1 << 30
"""More pods than any node takes."""

Filters: TypeAlias = tuple[Any, ...]
"""Plugins that filter kinds of nodes."""
Scores: TypeAlias = tuple[tuple[Any, int], ...]
"""Plugins that score kinds of nodes, each with its weight."""
_Reasons: TypeAlias = tuple[str, ...]
_BEST: Final = 1 << 20
"""Above any weighted sum of scores."""
_BITS: Final = 36
_EMPTIES: Final = MOST_EMPTIES.bit_length()
"""The bits of a rank for the levels of which a node is in an empty domain."""


class Answers(Protocol):
    """What a memo asks about its pods; ``Evaluator`` answers."""

    @property
    def table(self) -> NodeTable:
        """The nodes."""
        ...

    def static(
        self, pod: Pod, filters: Filters, scores: Scores, node: Node, /
    ) -> int | Unschedulable:
        """Return the static score of a kind of nodes, or why it is refused."""
        ...

    def capacity_scores(
        self, pod: Pod, states: Sequence[NodeState], /, *, packs: bool
    ) -> list[int] | None:
        """Return the score of each state by its capacity; None if there is no such score."""
        ...

    def watch(self, labels: Chain, /) -> None:
        """Distinguish nodes by labels."""
        ...

    def note_used(self, used: Memo, /) -> None:
        """Note that the answers of a memo are needed."""
        ...


@final
class Memo:
    """The answers for pods that get equal ones from capacity and static plugins.

    Attributes:
        sample: One of these pods.
        needs: What one of them takes of its node; ``compared``: what has to be free for it.
        packs: Whether they fill nodes.
        total: How many fit, over all nodes; call ``refresh`` before.
    """

    DERIVED: ClassVar[Mapping[str, Callable[[], Any]]] = {
        **dict.fromkeys(("_kinds", "_plain", "_fits", "_rank", "_counted", "_sums", "_due"), dict),
        **dict.fromkeys(("_buckets", "_reasons"), lambda: None),
        **dict.fromkeys(("_seen", "_numbering"), lambda: -1),
        "_was_asked": lambda: False,
        "total": int,
    }
    """What a copy begins with in place of the answers; see ``forget``."""

    __slots__ = (
        *("_answers", "_asks", "_buckets", "_counted", "_due", "_fits", "_kinds", "_numbering"),
        *("_plain", "_rank", "_reasons", "_seen", "_static_plugins", "_sums", "_was_asked"),
        *("compared", "needs", "packs", "sample", "table", "total", "__weakref__"),
    )

    def __init__(
        self,
        sample: Pod,
        static: tuple[Filters, Scores],
        answers: Answers,
        asks: Asks = ANYBODY,
        *,
        packs: bool,
    ) -> None:
        self.sample: Pod = sample
        self._asks = asks
        self._static_plugins = static
        self._answers = answers
        self.table: NodeTable = answers.table
        self.needs: Needs = self.table.needs(sample.requests)
        names = {n: name for name, n in self.table.resources.items()}
        compared = [(n, a) for n, a in self.needs if a > 0 and not names[n].startswith(DEFAULTED)]
        # the number of pods last, since it seldom limits how many fit
        self.compared: tuple[tuple[int, int], ...] = tuple(
            sorted(compared, key=lambda each: each[0] == PODS)
        )
        self.packs: bool = packs
        self.forget()

    def forget(self) -> None:
        """Drop all answers."""
        self._kinds: dict[int, tuple[int, _Reasons]] = {}
        self._plain: dict[int, int | Unschedulable] = {}
        self._fits: dict[NodeState, int] = {}
        self._rank: dict[NodeState, int] = {}
        self._counted: dict[NodeState, int] = {}
        self._sums: dict[tuple[Chain, int], dict[Path, int]] = {}
        self._buckets: dict[int, Any] | None = None
        self._reasons: dict[str, int] | None = None
        self._due: dict[NodeState, int] = {}  # nodes that are in the reasons, of changed states
        self._seen = -1
        self._numbering = self.table.numbering
        self._was_asked = False
        self.total: int = 0

    # Answers ------------------------------------------------------------------------------------

    def refresh(self) -> Memo:
        """Read what has changed. O(states that changed); O(states) after ``forget``."""
        table = self.table
        end = table.log_start + len(table.log)
        if self._seen == end:
            return self
        self._answers.note_used(self)
        if self._seen < table.log_start or len(self._fits) > 2 * len(table.states) + 100:
            self._read_all()
        else:
            fits, counted = self._fits, self._counted
            changed = dict.fromkeys(table.log[self._seen - table.log_start :])
            new = [state for state in changed if state.count and state not in fits]
            if new:
                self._evaluate(new)
            for state in changed:
                number, before = state.count, counted.get(state, 0)
                if number != before and state in fits:
                    self._count(state, number, before)
        self._seen = end
        return self

    def _read_all(self) -> None:
        self.forget()
        states = [state for state in self.table.states.values() if state.count]
        self._evaluate(states)
        fits = self._fits
        self._counted = {state: state.count for state in states}
        self.total = sum([state.count * fits[state] for state in self._rank])

    def fits(self, state: NodeState) -> int:
        """Return how many pods fit on a node in a state. O(resources) for one that is not known."""
        found = self._fits.get(state)
        if found is None:
            self._renumber()
            self._evaluate([state])
            found = self._fits[state]
        return found

    def takes(self, state: NodeState) -> bool:
        """Return whether a pod fits on a node in a state. O(resources); nothing is remembered."""
        free = state.free
        for number, amount in self.compared:
            if free[number] < amount:
                return False
        return self.accepts(state)

    def accepts(self, state: NodeState) -> bool:
        """Return whether static plugins accept the nodes in a state, whatever is free there."""
        self._renumber()
        if state.kind not in self._kinds:
            self._kinds[state.kind] = self._static(state.kind)
        return self._kinds[state.kind][0] >= 0

    def _renumber(self) -> None:
        """Drop the answers if the kinds of nodes have other numbers since."""
        if self._numbering != self.table.numbering:
            self.forget()

    def rank(self, state: NodeState) -> int:
        """Return the rank of a state that takes a pod; the smallest is the best."""
        return self._rank[state]

    def score(self, state: NodeState) -> int:
        """Return the weighted sum of the scores of a state that takes a pod."""
        return self.score_of(self._rank[state])

    def score_of(self, rank: int) -> int:
        """Return the weighted sum of the scores of the states of a rank."""
        return _BEST - (rank >> _BITS)

    def bound(self, rank: int) -> int:
        """Return how many pods fit on a node of a rank, for a class that packs."""
        return (rank & ((1 << _BITS) - 1)) >> _EMPTIES

    def within(self, domain: Domain, unit: int = 1) -> int:
        """Return how many fit in a domain; call ``refresh`` before. O(1) but for the first time.

        Args:
            domain: The domain.
            unit: Each node takes a multiple of so many.
        """
        if domain == EVERYWHERE and unit == 1:
            return self.total
        if isinstance(domain, int):
            return self.fits(self.table.state_of[domain]) // unit * unit
        chain = tuple([key for key, _value in domain])
        sums = self._sums.get((chain, unit))
        if sums is None:
            self._answers.watch(chain)  # the values are part of the kind of a node
            self.refresh()
            sums = self._sums[chain, unit] = {}
            for state, number in self._counted.items():
                _add(sums, self._path(state, chain), number * (self._fits[state] // unit * unit))
        return sums.get(domain, 0)

    def in_order(self) -> Iterator[tuple[int, NodeState]]:
        """Yield the states that take a pod, each with its rank, the best first.

        Of equally good states the one with the smaller ``order`` comes first, else the older one.
        O(ranks), and O(n log n) for the states of a rank when they are first come to. The first
        time, O(states): the best ones are looked for, and all are put in order only if more are
        needed. Many classes place one gang and no other.
        """
        best = -1
        if self._buckets is None and not self._was_asked:
            self._was_asked = True
            ranks, counted = self._rank, self._counted
            if not ranks.keys() <= counted.keys():
                ranks = {state: rank for state, rank in ranks.items() if state in counted}
            best = min(ranks.values(), default=-1)
            for state in sorted([s for s, rank in ranks.items() if rank == best], key=_order):
                yield best, state
        buckets = self._in_buckets()
        for rank in sorted(buckets):
            if rank == best:
                continue
            states: Any = buckets[rank]
            if type(states) is set:
                states = buckets[rank] = SortedKeyList(states, key=_order)
            for state in states:
                yield rank, state

    def by_rank(self) -> Iterator[tuple[int, Collection[NodeState]]]:
        """Yield the ranks, the best first, each with the states of that rank in no order."""
        buckets = self._in_buckets()
        for rank in sorted(buckets):
            yield rank, buckets[rank]

    def _in_buckets(self) -> dict[int, Any]:
        """Return the states that take a pod by rank, each rank in order once it is come to."""
        buckets = self._buckets
        if buckets is None:
            buckets = self._buckets = {}
            counted = self._counted
            for state, rank in self._rank.items():
                if state in counted:
                    bucket = buckets.get(rank)
                    if bucket is None:
                        buckets[rank] = {state}
                    else:
                        bucket.add(state)
        return buckets

    def diagnosis(self) -> Diagnosis:
        """Return why nodes refuse a pod: the number of nodes by reason. O(reasons), later."""
        self.refresh()
        counted, due = self._counted, self._due
        if self._reasons is None or len(due) > len(counted):
            self._reasons, due = {}, dict.fromkeys(counted, 0)
        for state, before in due.items():
            self._note_reasons(state, counted.get(state, 0) - before)
        self._due = {}
        found = sorted((reason, n) for reason, n in self._reasons.items() if n)
        return Diagnosis(self.table.count, tuple(found))

    # How answers are found ----------------------------------------------------------------------

    def _evaluate(self, states: list[NodeState]) -> None:
        """Find the answers for states that were not met before."""
        kinds = self._kinds
        met = {state.kind for state in states}
        for kind in met:
            if kind not in kinds:
                kinds[kind] = self._static(kind)
        if any(kinds[kind][0] < 0 for kind in met):
            self._fits.update(dict.fromkeys(states, 0))
            states = [state for state in states if kinds[state.kind][0] >= 0]
        bounds = self._bounds([state.free for state in states])
        some_are_full = min(bounds, default=1) <= 0
        if some_are_full:  # less than nothing is free if a node has shrunk below its pods
            bounds = [bound if bound > 0 else 0 for bound in bounds]
        self._fits.update(zip(states, bounds, strict=True))
        if some_are_full:
            states = [state for state, bound in zip(states, bounds, strict=True) if bound]
            bounds = [bound for bound in bounds if bound]
        if states:
            self._rank.update(zip(states, self._ranks(states, bounds, met), strict=True))

    def _bounds(self, frees: list[Sequence[int]]) -> list[int]:
        """Return how many pods fit into each capacity, one resource after another."""
        bounds: list[int] | None = None
        for number, amount in self.compared:
            if bounds is None:
                bounds = [free[number] // amount for free in frees]
            else:  # a product of large numbers is found sooner than their quotient
                bounds = [
                    most if free[number] >= most * amount else free[number] // amount
                    for free, most in zip(frees, bounds, strict=True)
                ]
        return [_MOST] * len(frees) if bounds is None else bounds

    def _ranks(self, states: list[NodeState], bounds: list[int], met: set[int]) -> list[int]:
        """Return the ranks of states that take a pod; *met* are their kinds, and refused ones."""
        scores = self._answers.capacity_scores(self.sample, states, packs=self.packs)
        if scores is None:
            scores = [0] * len(states)
        kinds, best = self._kinds, _BEST
        static = {kinds[kind][0] for kind in met} - {-1}
        if len(static) == 1:  # it shifts all ranks, so it need not be added to each score
            best -= static.pop()
        else:
            scores = [p + kinds[s.kind][0] for p, s in zip(scores, states, strict=True)]
        if not self.packs:
            return [(best - p) << _BITS for p in scores]
        scarce = self._scarce()
        for n, state in enumerate(states) if scarce else ():
            if any(state.free[number] > 0 for number in scarce):
                scores[n] -= _BEST  # others may need what is free here
        # among equal scores, nodes with the least capacity first, so that the fewest are in use; of
        # these, those of which the domains are in use
        empties = [self.table.empties[state.kind] for state in states]
        return [
            (best - p) << _BITS | b << _EMPTIES | e
            for p, b, e in zip(scores, bounds, empties, strict=True)
        ]

    def _scarce(self) -> list[int]:
        """Return the extended resources that a pod of this class does not request."""
        requested = {number for number, amount in self.needs if amount > 0}
        resources = self.table.resources.items()
        return [n for name, n in resources if "/" in name and n not in requested]

    def _static(self, kind: int) -> tuple[int, _Reasons]:
        """Return the score of a static kind of nodes, and no reasons; -1 and why if refused."""
        if kind == GONE:
            return -1, ()
        table, plain = self.table, self._plain
        found = plain.get(table.plain[kind])
        if found is None:
            found = self._answers.static(self.sample, *self._static_plugins, table.samples[kind])
            plain[table.plain[kind]] = found
        if isinstance(found, Unschedulable):
            return -1, found.reasons
        refused = self._asks.refused(self.table.marks[kind])
        return (-1, (refused,)) if refused else (found, ())

    def _count(self, state: NodeState, number: int, before: int) -> None:
        """Count the nodes of a state anew, in all that is derived."""
        if number:
            self._counted[state] = number
        else:
            del self._counted[state]
        if self._reasons is not None:
            self._due.setdefault(state, before)
        fits = self._fits[state]
        if not fits:
            return
        self.total += (number - before) * fits
        for (chain, unit), sums in self._sums.items():
            _add(sums, self._path(state, chain), (number - before) * (fits // unit * unit))
        if self._buckets is not None and not (number and before):
            self._move_in_order(state, joins=bool(number))

    def _move_in_order(self, state: NodeState, *, joins: bool) -> None:
        """Add a state to the order, or take it out. O(log n)."""
        assert self._buckets is not None
        rank = self._rank[state]
        bucket: Any = self._buckets.get(rank)
        if not joins:
            bucket.remove(state)
            if not bucket:
                del self._buckets[rank]
        elif bucket is None:
            self._buckets[rank] = {state}
        else:
            bucket.add(state)

    def _note_reasons(self, state: NodeState, change: int) -> None:
        assert self._reasons is not None
        for reason in self.reasons_of(state):
            self._reasons[reason] = self._reasons.get(reason, 0) + change

    def reasons_of(self, state: NodeState) -> _Reasons:
        """Return why nodes in a state refuse such pods, in kube-scheduler's words."""
        if state.kind == GONE or self._fits[state]:
            return ()
        static = self._kinds[state.kind][1]
        if static:
            return static
        names = {number: name for name, number in self.table.resources.items()}
        short = [n for n, amount in self.compared if state.free[n] < amount]
        named = sorted(names[n] for n in short if n != PODS)
        full = ["Too many pods"] if PODS in short else []
        return (*full, *(f"Insufficient {name}" for name in named))

    def _path(self, state: NodeState, chain: Chain) -> Path | None:
        """Return the domain of the nodes in a state; None if they lack a label of the chain."""
        if state.kind == GONE:
            return None
        labels = self.table.samples[state.kind].labels
        try:
            return tuple([(key, labels[key]) for key in chain])
        except KeyError:
            return None

    def __repr__(self) -> str:
        return f"<Memo of pods like {self.sample.name!r}>"


def _add(sums: dict[Path, int], path: Path | None, change: int) -> None:
    if path is not None:
        sums[path] = sums.get(path, 0) + change


def _order(state: NodeState) -> tuple[Any, ...]:
    # nodes that only plugins tell apart are equal in the first; sets have an order by addresses
    return state.order, state.number
