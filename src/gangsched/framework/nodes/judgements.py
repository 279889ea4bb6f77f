"""Judgements: the answers of plugins for all nodes, for pods that get equal answers.

Theory of operation. Pods with equal signatures get equal answers for each class of nodes. So one
judgement is kept for each class of nodes. An infeasible class has reasons. A feasible class has a
score and an upper bound on how many such pods a node takes. ``refresh`` reads the log of moves of
nodes between classes, judges the new classes, and updates the counts.

In practice each node reports its own amount of memory, so a cluster has about as many classes as
nodes, and many of them have equal scores. So classes are kept in an order, and classes with equal
scores by their first node. The best node is the first node of the first class. The order does not
depend on how nodes are divided into classes: a label that is read for one pod more changes no
other pod's node.

Classes of pods that differ only in what plugins read which are not asked about classes of nodes
share their judgements. Gangs with affinity have a class of pods each, because their terms name
them. Judgements of their own would have to follow all moves of the nodes, for each gang.

Invariants (checked by ``_check``):
  I1  after ``refresh`` each class with nodes has a judgement;
  I2  the orders have the feasible classes with nodes, by score or by pods per node, and then by
      first node;
  I3  the classes by the value of a label are those of I2; see ``label_values``;
  I4  the reasons count the nodes that cannot take such a pod, and ``headroom`` is the sum of the
      upper bounds of the other nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.label_values import LabelValues
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_classes import Move, NodeClasses
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.ranking import Ranking
from gangsched.model import NodeName, Resources

__all__ = ["Judge", "Judgement", "Judgements", "Within"]

Within: TypeAlias = tuple[str, str]
"""The key and the value of a label."""


class Judge(Protocol):
    """Evaluates classes of nodes for one class of pods."""

    def screen(self, given: NodeClass) -> tuple[int, tuple[str, ...]]:
        """Return the headroom, and the reasons against a node; none for a feasible node."""
        ...

    def before_scoring(self, found: Sequence[NodeClass]) -> None:
        """Prepare for the scoring of the feasible classes *found*."""
        ...

    def score(self, given: NodeClass) -> int:
        """Return how good a feasible node is."""
        ...

    def quick(self, given: NodeClass) -> Judgement | None:
        """Return what the other methods would answer; None if they have to be asked."""
        ...


class Judgement(NamedTuple):
    """The answers of plugins for a class of nodes.

    Attributes:
        score: The sum of the scores.
        max_pods: An upper bound on the number of such pods that a node can take; 0 if infeasible.
        reasons: Why a node is infeasible; empty if it is feasible.
    """

    score: int
    max_pods: int
    reasons: tuple[str, ...]


@final
class Judgements:
    """The judgements of all nodes, for pods that get equal answers.

    Args:
        requests: What such a pod requests.
        key: The key under which ``PodClasses.alike`` has the judgements; None for none.

    Attributes:
        requests: The requests.
        key: The key.
        sharing: The number of classes of pods that use them.
        answers: Answers of plugins by the part of the node that they read; used by the judge.
        headroom: An upper bound on the number of such pods that the cluster can take, if no other
            pods are placed.
    """

    __slots__ = (
        "_by_label",
        "_by_max_pods",
        "_epoch",
        "_firsts",
        "_judged",
        "_nodes",
        "_order",
        "_reasons",
        "_seen",
        "answers",
        "headroom",
        "key",
        "requests",
        "sharing",
    )

    def __init__(self, requests: Resources, key: Hashable = None) -> None:
        self.requests: Resources = requests
        self.key: Hashable = key
        self.sharing: int = 1
        self.headroom: int = 0
        self.answers: dict[Hashable, Any] = {}
        self._seen = -1
        self._epoch = 0
        self._nodes = 0
        self._judged: dict[NodeClass, Judgement] = {}
        # the feasible classes with nodes, each with its first node when it was last counted
        self._firsts: dict[NodeClass, int] = {}
        # each order is built when it is first needed, since most classes need one or none
        self._order: Ranking | None = None
        self._by_max_pods: Ranking | None = None
        # by the key of each label that a gang with a topology asked about
        self._by_label: dict[str, LabelValues] = {}
        self._reasons: Counter[str] = Counter()

    def follow(self, classes: NodeClasses) -> bool:
        """Do what ``refresh`` would do, if no judge is needed for it; return whether that is so.

        Most nodes that change move between classes that were judged before. O(nodes that changed).
        """
        if self._seen != classes.version:
            moves = classes.since(self._seen)
            found = None if moves is None else _net(moves)
            if found is None or not self._judged.keys() >= found.keys():
                return False
            self._count_all(found, classes)
        self._forget_unused(classes)
        return True

    def behind(self, classes: NodeClasses) -> int:
        """Return how many moves of nodes ``refresh`` would read. O(1)."""
        return classes.version - self._seen

    def refresh(self, nodes: Nodes, judge: Judge) -> None:
        """Judge the classes of nodes that are new since the last call, and update the counts.

        Runtime complexity: O(nodes that changed) and O(new classes x plugins); O(1) if no node has
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
        if not self._judged.keys() >= found.keys():
            self._judge(found, judge)
        # no plugin is called from here on, so nothing raises with half of the counts updated
        if moves is None:
            self.headroom = self._nodes = 0
            self._order = self._by_max_pods = None
            self._by_label = {}
            self._reasons.clear()
            self._firsts = {c: c.nodes[0] for c in found if not self._judged[c].reasons}
        self._count_all(found, classes)
        self._forget_unused(classes)

    def forget(self) -> None:
        """Forget all answers, because something besides the nodes has changed. O(1).

        The next ``refresh`` judges every class of nodes again.
        """
        self._seen = -1
        self._judged = {}
        self.answers.clear()

    def _forget_unused(self, classes: NodeClasses) -> None:
        """Drop the judgements of classes that were dropped; all moves have been counted."""
        if self._epoch != classes.epoch:
            self._epoch = classes.epoch
            self._judged = {c: known for c, known in self._judged.items() if c.nodes}
            self._by_label = {}  # nodes may be told apart by other labels now
            self.answers.clear()

    def judgement(self, node_class: NodeClass, judge: Judge) -> Judgement:
        """Return the judgement of a class, which may have no nodes. O(1), else O(plugins)."""
        known = self._judged.get(node_class)
        if known is None:
            known = judge.quick(node_class)
            if known is not None:
                self._judged[node_class] = known
                return known
            self._judge((node_class,), judge)
            known = self._judged[node_class]
        return known

    def refuses(self, node_class: NodeClass, judge: Judge) -> bool:
        """Return whether nodes of a class cannot take such a pod. O(1), else O(plugins).

        The class is not scored, so this is for nodes of which none will be preferred.
        """
        known = self._judged.get(node_class)
        if known is None:
            known = judge.quick(node_class)
            if known is None:
                return bool(judge.screen(node_class)[1])
            self._judged[node_class] = known
        return bool(known.reasons)

    def has_judged(self, node_class: NodeClass) -> bool:
        """Return whether the judgement of a class is known, so that no plugin is asked. O(1)."""
        return node_class in self._judged

    def ranked(self, within: Within | None = None) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the feasible classes, best first: (score, class).

        Args:
            within: The key and the value of a label that the nodes must have; None for all nodes.
        """
        return ((-rank, found) for rank, found in self.by_rank(within))

    def by_rank(self, within: Within | None = None) -> Iterator[tuple[int, NodeClass]]:
        """Iterate as ``ranked``, with the negative score: (rank, class)."""
        return iter(self._in_order() if within is None else self._by_score_within(*within))

    def values_of(self, key: str) -> LabelValues:
        """Return the feasible classes by the value of a label.

        Runtime complexity: O(1), the first time O(classes).

        Args:
            key: A label by which nodes are told apart now.
        """
        values = self._by_label.get(key)
        if values is None:
            values = self._by_label[key] = LabelValues(key)
            for found, first in self._firsts.items():
                values.count(found, self._judged[found].max_pods * len(found.nodes))
                values.move(found, first, self._ranks)
        return values

    def _by_score_within(self, key: str, value: str) -> Ranking:
        return self.values_of(key).by_score(value, self._ranks)

    def _ranks(self, found: NodeClass) -> tuple[int, tuple[bool, int]]:
        """Return the rank of a feasible class by score, and its rank in the order of packing."""
        known = self._judged[found]
        return -known.score, (self._strands(found), known.max_pods)

    def with_max_pods(self) -> Iterator[tuple[NodeClass, int]]:
        """Iterate over the feasible classes, each with an upper bound on the pods per node."""
        return ((found, self._judged[found].max_pods) for found in self._firsts)

    def by_max_pods(
        self, strands: bool, wanted: int, within: Within | None = None
    ) -> Iterator[NodeClass]:
        """Iterate over the feasible classes in the order in which packing fills them.

        First the classes whose nodes take *wanted* pods, the smallest first. Then the others, the
        largest first; see ``at_least`` and ``below``.
        """
        yield from self.at_least(strands, wanted, within)
        yield from (given for _max_pods, given in self.below(strands, wanted, within))

    def at_least(
        self, strands: bool, wanted: int, within: Within | None = None
    ) -> Iterator[NodeClass]:
        """Iterate over the feasible classes whose nodes take *wanted* pods, the smallest first.

        Runtime complexity: O(log classes) for each.

        Args:
            strands: Whether to iterate over the classes with a free extended resource that such a
                pod does not request, or over the other classes.
            wanted: The number of such pods that are to be placed.
            within: The key and the value of a label that the nodes must have; None for all nodes.
        """
        order = self._in_packing_order(within)
        for rank, found in order.since(order.position((strands, wanted))):
            if rank[0] is not strands:
                break
            yield found

    def below(
        self, strands: bool, wanted: int, within: Within | None = None
    ) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the feasible classes whose nodes take fewer pods, the largest first.

        Each comes with an upper bound on the pods per node.

        Runtime complexity: O(log classes) for each. See ``at_least`` for the arguments.
        """
        order = self._in_packing_order(within)
        for rank, found in order.before(order.position((strands, wanted))):
            if rank[0] is not strands:
                break
            yield rank[1], found

    def _in_packing_order(self, within: Within | None) -> Ranking:
        """Return the classes in the order in which packing considers them.

        First those whose nodes have no free extended resource that such a pod does not request.
        Within both parts, by the pods per node.
        """
        if within is not None:
            key, value = within
            return self.values_of(key).packing(value, self._ranks)
        if self._by_max_pods is None:
            ranked = (
                ((self._strands(found), self._judged[found].max_pods), first, found)
                for found, first in self._firsts.items()
            )
            self._by_max_pods = Ranking(ranked, self._firsts)
        return self._by_max_pods

    def _in_order(self) -> Ranking:
        """Return the classes by their score, the best first."""
        if self._order is None:
            judged = self._judged
            firsts = self._firsts
            ranked = ((-judged[found].score, first, found) for found, first in firsts.items())
            self._order = Ranking(ranked, firsts)
        return self._order

    def put_in_order(self, *, packs: bool) -> None:
        """Put the feasible classes in the order that the next decision reads.

        Each kind of member of a gang reads its own order. To put all nodes in order for each of
        many kinds takes longer than to place the members, so it is done when their pods come.

        Runtime complexity: O(1), the first time O(classes).

        Args:
            packs: Whether that is the order of packing, or of scores.
        """
        if packs:
            self._in_packing_order(None)
        else:
            self._in_order()

    def _strands(self, found: NodeClass) -> bool:
        """Return whether a node has a free extended resource that such a pod does not request."""
        return not found.scarce <= self.requests.keys()

    def best(self, nodes: Nodes) -> NodeName | None:
        """Return the best node; of equal nodes the first to arrive. None if none is feasible.

        Runtime complexity: O(1) after ``refresh``.
        """
        order = self._in_order()
        found = order.first()
        if found is not None and not found.nodes:  # after refresh each class has some
            found = next((given for _rank, given in order if given.nodes), None)
        return None if found is None else nodes.by_index[found.nodes[0]].node.name

    def takes(self, node_class: NodeClass | None) -> bool:
        """Return whether nodes of a class can take such a pod. O(1)."""
        known = None if node_class is None else self._judged.get(node_class)
        return known is not None and not known.reasons

    def diagnosis(self) -> Diagnosis:
        """Return why no node can take such a pod. O(reasons)."""
        return Diagnosis(self._nodes, tuple(sorted(self._reasons.items())))

    def _judge(self, found: Iterable[NodeClass], judge: Judge) -> None:
        known = self._judged
        judged: dict[NodeClass, Judgement] = {}
        feasible: list[tuple[NodeClass, int]] = []
        quick = judge.quick
        for node_class in found:
            if node_class in known:
                continue
            answer = quick(node_class)
            if answer is not None:
                judged[node_class] = answer
                continue
            max_pods, reasons = judge.screen(node_class)
            if reasons:
                judged[node_class] = Judgement(0, 0, reasons)
            else:
                feasible.append((node_class, max_pods))
        if feasible:
            judge.before_scoring([node_class for node_class, _max_pods in feasible])
            for node_class, max_pods in feasible:
                judged[node_class] = Judgement(judge.score(node_class), max_pods, ())
        known.update(judged)

    def _count_all(self, found: Mapping[NodeClass, int], classes: NodeClasses) -> None:
        """Count more nodes in classes, or fewer if a number is negative."""
        # with each pod on nodes that are all unlike, so what is seldom there is asked about once
        judged, firsts, order, packing = self._judged, self._firsts, self._order, self._by_max_pods
        by_label, headroom = tuple(self._by_label.values()), self.headroom
        for node_class, count in found.items():
            score, max_pods, reasons = judged[node_class]
            if reasons:
                self._count_reasons(reasons, count)
                continue
            headroom += max_pods * count
            nodes = node_class.nodes
            if not nodes:
                firsts.pop(node_class, None)
            elif firsts.get(node_class) != nodes[0]:
                first = firsts[node_class] = nodes[0]
                if order is not None:
                    order.add(-score, first, node_class)
                if packing is not None:
                    packing.add((self._strands(node_class), max_pods), first, node_class)
            for values in by_label:
                values.count(node_class, max_pods * count)
                values.move(node_class, nodes[0] if nodes else -1, self._ranks)
        for ranking in (order, packing):
            if ranking is not None:
                ranking.tidy()
        self._nodes += sum(found.values())
        self.headroom = headroom
        self._seen = classes.version

    def _count_reasons(self, reasons: tuple[str, ...], count: int) -> None:
        for reason in reasons:
            self._reasons[reason] += count
            if not self._reasons[reason]:
                del self._reasons[reason]

    def _check(self, nodes: Nodes, judge: Judge, signature: Hashable) -> None:
        self.refresh(nodes, judge)
        reasons: Counter[str] = Counter()
        headroom = 0
        order: list[tuple[int, int]] = []
        for found in nodes.classes.occupied():
            max_pods, why_not = judge.screen(found)
            score = 0 if why_not else judge.score(found)
            fresh = Judgement(score, max_pods, why_not)
            if self._judged.get(found) != fresh:
                raise InternalError(f"class {signature}: a node is not judged as it is")
            for one in fresh.reasons:
                reasons[one] += len(found.nodes)
            if not fresh.reasons:
                order.append((-score, found.nodes[0]))
                headroom += max_pods * len(found.nodes)
        found_order = self._in_order()
        if sorted(order) != [(rank, self._firsts[found]) for rank, found in found_order]:
            raise InternalError(f"class {signature}: the order of nodes is wrong")
        found_order._check()
        for values in self._by_label.values():
            values._check(self._firsts, lambda found: self._judged[found].max_pods)
        if self.headroom != headroom:
            raise InternalError(f"class {signature}: headroom {self.headroom} is wrong")
        if self._reasons != reasons or self._nodes != len(nodes.infos):
            raise InternalError(f"class {signature}: reasons {self._reasons} are wrong")


def _net(moves: Iterable[Move]) -> dict[NodeClass, int]:
    """Return the net change of the number of nodes of each class; 0 for classes with nodes."""
    counts: dict[NodeClass, int] = {}
    for old, new in moves:
        if old is not None:
            count = counts.get(old, 0) - 1
            if count or old.nodes:
                counts[old] = count
            else:  # the last move of a class without nodes takes one away
                del counts[old]
        if new is not None:
            counts[new] = counts.get(new, 0) + 1
    return counts
