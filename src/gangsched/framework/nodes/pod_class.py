"""PodClass: like pods, evaluated once.

Pods with one signature get one answer from each class of nodes, so the answers are kept, and only
classes that are new are asked. The classes that can take such a pod stand in order, best first.

Invariants (checked by ``_check``):
  I1  after ``refresh`` each class that a node is in is judged: feasible with a score, or not with
      a reason;
  I2  the order holds the feasible classes that a node is in, by score, highest first;
  I3  the reasons count the nodes that cannot take such a pod, and ``headroom`` sums the others'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, final

from sortedcontainers import SortedList

from gangsched.errors import InternalError
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.node_class import Move, NodeClass, NodeClasses
from gangsched.framework.nodes.node_table import Nodes
from gangsched.model import NodeName, Pod

__all__ = ["Judge", "Judgement", "PodClass"]


class Judge(Protocol):
    """How a node is judged for pods of one class."""

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        """Return the headroom, and the reasons against a node; none for a feasible node."""
        ...

    def before_scoring(self, found: Sequence[NodeClass]) -> None:
        """Prepare for the scoring of the feasible classes *found*."""
        ...

    def score(self, given: NodeClass) -> int:
        """Return how good a feasible node is."""
        ...


class _Rank(NamedTuple):
    """Where a class of nodes that can take such a pod stands.

    Attributes:
        score: By score, the best first.
        room: By whether it strands something, then by room.
    """

    score: tuple[int, int, NodeClass]
    room: tuple[bool, int, int, NodeClass]


class Judgement(NamedTuple):
    """What is known of a class of nodes.

    Attributes:
        score: How good such a node is.
        room: How many such pods it could take at most; 0 where it can take none.
        reasons: Why it can take none; empty where it can.
    """

    score: int
    room: int
    reasons: tuple[str, ...]


@final
class PodClass:
    """The nodes, as pods of one signature see them.

    Attributes:
        signature: What these pods have in common.
        sample: One of these pods.
        labels: The keys of the labels that are read of nodes for these pods.
        users: How many pods are of this class.
        answers: What plugins said of parts of nodes; kept by the judge.
        headroom: How many such pods the cluster could take at most, one kind of pod at a time.
    """

    __slots__ = (
        "_by_room",
        "_epoch",
        "_judged",
        "_nodes",
        "_order",
        "_ordered",
        "_reasons",
        "_seen",
        "answers",
        "headroom",
        "labels",
        "sample",
        "signature",
        "users",
    )

    def __init__(
        self, signature: Hashable, sample: Pod, labels: frozenset[str] = frozenset()
    ) -> None:
        self.signature: Hashable = signature
        self.sample: Pod = sample
        self.labels: frozenset[str] = labels
        self.users: int = 0
        self.headroom: int = 0
        self.answers: dict[Hashable, Any] = {}
        self._seen = -1
        self._epoch = 0
        self._nodes = 0
        self._judged: dict[NodeClass, Judgement] = {}
        self._ordered: dict[NodeClass, _Rank] = {}
        # either order is made when it is first asked for
        self._order: Any = None
        self._by_room: Any = None
        self._reasons: Counter[str] = Counter()

    def refresh(self, nodes: Nodes, judge: Judge) -> None:
        """Judge every class of nodes that is new since the last time.

        Runtime complexity: O(nodes that changed) and O(new classes x plugins); nothing when none
        changed.
        """
        classes = nodes.classes
        if self._seen == classes.version:
            self._forget_unused(classes)
            return
        moves = classes.since(self._seen)
        if moves is None:
            found: dict[NodeClass, int] = {c: len(c.nodes) for c in classes.occupied()}
        else:
            found = _net(moves)
        self._judge(found, judge)
        # whatever a plugin raises, it has raised by now
        if moves is None:
            self.headroom = self._nodes = 0
            self._order = self._by_room = None
            self._reasons.clear()
            self._ordered = {c: self._rank(c) for c in found if not self._judged[c].reasons}
        for node_class, count in found.items():
            self._count(node_class, count)
        self._seen = classes.version
        self._forget_unused(classes)

    def _forget_unused(self, classes: NodeClasses) -> None:
        """Forget what is known of classes that are forgotten; all moves are counted by now."""
        if self._epoch != classes.epoch:
            self._epoch = classes.epoch
            self._judged = {c: known for c, known in self._judged.items() if c.nodes}
            self.answers.clear()

    def judgement(self, node_class: NodeClass, judge: Judge) -> Judgement:
        """Return what is known of a class, perhaps of one that no node is in yet."""
        known = self._judged.get(node_class)
        if known is None:
            self._judge((node_class,), judge)
            known = self._judged[node_class]
        return known

    def ranked(self) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the classes that can take such a pod: (score, class), best first."""
        return ((-score, found) for score, _number, found in self._in_order())

    def rooms(self) -> Iterator[tuple[NodeClass, int]]:
        """Iterate over the classes that can take such a pod, with how many a node could take."""
        return ((found, self._judged[found].room) for found in self._ordered)

    def by_room(self, strands: bool, wanted: int) -> Iterator[NodeClass]:
        """Iterate over the classes that can take such a pod, for laying many of them out.

        First those with room for *wanted* at once, the one with the least room first; then the
        others, the one with the most room first.

        Args:
            strands: Classes with something scarce to give that such a pod does not ask for, or
                else the others.
            wanted: How many such pods are to be placed.
        """
        if self._by_room is None:
            self._by_room = SortedList(rank.room for rank in self._ordered.values())
        order = self._by_room
        enough = order.bisect((strands, wanted))
        for entry in order.islice(enough):
            if entry[0] is not strands:
                break
            yield entry[3]
        for entry in order.islice(0, enough, reverse=True):
            if entry[0] is not strands:
                break
            yield entry[3]

    def _in_order(self) -> Any:
        if self._order is None:
            self._order = SortedList(rank.score for rank in self._ordered.values())
        return self._order

    def _rank(self, found: NodeClass) -> _Rank:
        known, asked = self._judged[found], self.sample.requests
        strands = any(
            "/" in name and amount > 0 and name not in asked
            for name, amount in found.sample.free.items()
        )
        return _Rank(
            (-known.score, found.number, found), (strands, known.room, found.number, found)
        )

    def best(self, nodes: Nodes) -> NodeName | None:
        """Return the best node, of equals the first to come; None when none can take such a pod.

        Runtime complexity: O(classes of the best score).
        """
        index, top = -1, 0
        for score, _number, found in self._in_order():
            if index >= 0 and score != top:
                break
            if not found.nodes:
                continue
            first: int = found.nodes[0]
            index, top = (first if index < 0 else min(index, first)), score
        return None if index < 0 else nodes.by_index[index].node.name

    def takes(self, node_class: NodeClass | None) -> bool:
        """Say whether nodes of a class can take such a pod. O(1)."""
        known = None if node_class is None else self._judged.get(node_class)
        return known is not None and not known.reasons

    def diagnosis(self) -> Diagnosis:
        """Say why no node can take such a pod. O(reasons)."""
        return Diagnosis(self._nodes, tuple(sorted(self._reasons.items())))

    def _judge(self, found: Iterable[NodeClass], judge: Judge) -> None:
        feasible: list[tuple[NodeClass, int]] = []
        judged: list[tuple[NodeClass, Judgement]] = []
        for node_class in found:
            if node_class in self._judged:
                continue
            room, reasons = judge.screen(node_class)
            if reasons:
                judged.append((node_class, Judgement(0, 0, reasons)))
            else:
                feasible.append((node_class, room))
        if feasible:
            judge.before_scoring([node_class for node_class, _room in feasible])
            for node_class, room in feasible:
                score = judge.score(node_class)
                judged.append((node_class, Judgement(score, room, ())))
        self._judged.update(judged)

    def _count(self, node_class: NodeClass, count: int) -> None:
        """Take note that so many more nodes are in a class, or fewer."""
        known = self._judged[node_class]
        self._nodes += count
        for reason in known.reasons:
            self._reasons[reason] += count
            if not self._reasons[reason]:
                del self._reasons[reason]
        if known.reasons:
            return
        self.headroom += known.room * count
        if not node_class.nodes:
            # it had nodes when it was last counted, so it stands in order
            rank = self._ordered.pop(node_class)
            if self._order is not None:
                self._order.remove(rank.score)
            if self._by_room is not None:
                self._by_room.remove(rank.room)
        elif node_class not in self._ordered:
            rank = self._ordered[node_class] = self._rank(node_class)
            if self._order is not None:
                self._order.add(rank.score)
            if self._by_room is not None:
                self._by_room.add(rank.room)

    def _check(self, nodes: Nodes, judge: Judge) -> None:
        self.refresh(nodes, judge)
        reasons: Counter[str] = Counter()
        headroom = 0
        order: list[tuple[int, int]] = []
        for found in nodes.classes.occupied():
            room, why_not = judge.screen(found)
            score = 0 if why_not else judge.score(found)
            fresh = Judgement(score, room, why_not)
            if self._judged.get(found) != fresh:
                raise InternalError(f"class {self.signature}: a node is not judged as it is")
            for one in fresh.reasons:
                reasons[one] += len(found.nodes)
            if not fresh.reasons:
                order.append((-score, found.number))
                headroom += room * len(found.nodes)
        if sorted(order) != [entry[:2] for entry in self._in_order()]:
            raise InternalError(f"class {self.signature}: the order of nodes is wrong")
        if self.headroom != headroom:
            raise InternalError(f"class {self.signature}: headroom {self.headroom} is wrong")
        if self._reasons != reasons or self._nodes != len(nodes.infos):
            raise InternalError(f"class {self.signature}: reasons {self._reasons} are wrong")


def _net(moves: Iterable[Move]) -> dict[NodeClass, int]:
    """Return by how many nodes each class has grown or shrunk; classes that did not, with 0."""
    counts: dict[NodeClass, int] = {}
    for old, new in moves:
        if old is not None:
            counts[old] = counts.get(old, 0) - 1
        if new is not None:
            counts[new] = counts.get(new, 0) + 1
    return {found: count for found, count in counts.items() if count or found.nodes}
