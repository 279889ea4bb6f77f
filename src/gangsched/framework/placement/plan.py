"""Plan: which member of a gang goes to which node, without a change of the nodes.

Theory of operation. A plan knows nodes by their classes. A node for which nothing is planned is
*untouched*, and of one class all untouched nodes are interchangeable: the plan only counts how many
of them it has used. A *touched* node has a class of its own in the plan, which is the class after
it has taken the members that are planned for it. Both are dict lookups, so a plan with many members
costs little more than counting them. A plugin that reads which pods are on nodes needs the nodes
themselves; see ``gangsched.framework.placement.sibling_search``.

Rules:
  R1  of the untouched nodes of a class the first to arrive is used first;
  R2  the class of a touched node is a class like any other, so its judgement may be known already;
  R3  a plan that is not carried out leaves nothing behind but the judgements of classes;
  R4  what each kind looks at is counted in the budget of the decision. When it is spent, a plan
      may place fewer members than fit, and says no wrong thing: the search decides.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeAlias, final

from attrs import frozen

from gangsched._packing.budget import FIT, MODEL, Budget, BudgetSpent
from gangsched.framework.nodes.judgements import Judge, Within
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.pods import Member
from gangsched.framework.state.role_count import RoleCount
from gangsched.model import GroupKey
from gangsched.options.scheduling_unit import PlacementStrategy, strategy_for

__all__ = ["Domain", "Plan"]

_Entry: TypeAlias = tuple[int, int, int, NodeClass, bool]
# the number of members on the node (0 unless spreading), the negative score, the index, the class,
# and whether the node is touched; no two entries have one index


@final
@frozen
class Domain:
    """The nodes of which a label has one of some values; of no value, no node."""

    key: str
    values: frozenset[str]

    @property
    def within(self) -> Within | None:
        """The key and the value, by which ``Judgements`` finds the nodes; None for more values."""
        if len(self.values) != 1:
            return None
        (value,) = self.values
        return self.key, value

    def has(self, given: NodeClass) -> bool:
        """Return whether the nodes of a class are in the domain."""
        return given.node.labels.get(self.key) in self.values

    def __str__(self) -> str:
        if not self.values:
            return f"the {self.key} of its members, whose nodes have no such label"
        return f"{self.key}={'|'.join(sorted(self.values))}"


@final
class Plan:
    """The planned nodes of the members of a gang.

    Attributes:
        domain: The nodes that may be used from now on; None for all.
        placed: The members in the order in which they were planned, with the index of the node.
    """

    __slots__ = ("_at", "_budget", "_count", "_counted", "_nodes", "_used", "domain", "placed")

    def __init__(self, nodes: Nodes, budget: Budget | None = None) -> None:
        self._nodes = nodes.classes
        self._budget = budget
        self.domain: Domain | None = None
        self._at: dict[int, NodeClass] = {}
        # the members on each node, as far as placed was counted
        self._count: dict[int, int] = {}
        self._counted = 0
        self._used: dict[NodeClass, int] = {}
        self.placed: list[tuple[Member, int]] = []

    def place(
        self,
        pod_class: PodClass,
        judge: Judge,
        members: Sequence[Member],
        placement: PlacementStrategy,
        followers: int = 0,
    ) -> int:
        """Plan as many members of one kind as fit; return their number.

        Runtime complexity: O(members x log members) and O(classes of nodes that are tried).

        Args:
            pod_class: The class of the members.
            judge: The judge of nodes for it.
            members: The members.
            placement: How to choose nodes.
            followers: How many members of other kinds come next that request the same. Packing
                prefers a node that takes them, too.
        """
        if members:
            placement = strategy_for(placement, members[0].requests)
        if placement is PlacementStrategy.PACK:
            return self._pack(pod_class, judge, members, followers)
        return self._by_score(
            pod_class, judge, members, spread=placement is PlacementStrategy.SPREAD
        )

    def put(self, member: Member, given: NodeClass, *, on: int | None = None) -> int:
        """Plan a member for a node of a class: for node *on*, or for the next untouched one.

        Returns:
            The index of the node.
        """
        if on is None:
            used = self._used.get(given, 0)
            on = int(given.nodes[used])
            self._used[given] = used + 1
        self._at[on] = self._nodes.taking(given, member.requests)
        self.placed.append((member, on))
        return on

    def at(self, index: int) -> NodeClass:
        """Return the class of a touched node after its planned members. O(1)."""
        return self._at[index]

    def meets(self, asks: Iterable[RoleCount]) -> bool:
        """Return whether enough members are planned for each number. O(members + asks)."""
        counts: dict[tuple[GroupKey | None, str | None], int] = {}
        for member, _index in self.placed:
            assert member.group is not None  # a plan is about members of groups
            for role in {None, member.role}:
                key = (member.group.key, role)
                counts[key] = counts.get(key, 0) + 1
        return all(counts.get((ask.group, ask.role), 0) >= ask.count for ask in asks)

    def within(self, domain: Domain | None) -> Plan:
        """Return a copy that continues in another domain. O(members)."""
        made = Plan.__new__(Plan)
        made._nodes, made._budget, made.domain = self._nodes, self._budget, domain
        made._at, made._used = self._at.copy(), self._used.copy()
        made._count, made._counted = self._count.copy(), self._counted
        made.placed = self.placed.copy()
        return made

    def only(self, members: Container[int]) -> Plan:
        """Return a plan for some of the members, by number, on the same nodes. O(members)."""
        made = Plan.__new__(Plan)
        made._nodes, made._budget, made.domain = self._nodes, self._budget, self.domain
        made._at, made._used, made.placed = {}, {}, []
        made._count, made._counted = {}, 0
        for member, index in self.placed:
            if member.seq in members:
                before = made._at.get(index)
                given = self._nodes.of(index) if before is None else before
                made.put(member, given, on=index)
        return made

    def become(self) -> list[tuple[int, NodeClass]]:
        """Return the touched nodes, each with its class after the plan."""
        return list(self._at.items())

    def touched(self) -> dict[NodeClass, list[int]]:
        """Return the touched nodes that may be used, by class."""
        found: dict[NodeClass, list[int]] = {}
        for index, given in self._at.items():
            if self._may_use(given):
                found.setdefault(given, []).append(index)
        return found

    def untouched(self) -> list[tuple[NodeClass, int]]:
        """Return the classes that may be used, each with its number of untouched nodes.

        They are in the order of their first node, which does not depend on when a class was made.
        O(classes log classes).
        """
        used = self._used
        counts = (
            (given, len(given.nodes) - used.get(given, 0))
            for given in sorted(self._nodes.occupied(), key=_first_node)
            if self._may_use(given)
        )
        return [(given, count) for given, count in counts if count]

    def _affordable(self, pod_class: PodClass) -> Iterator[tuple[int, NodeClass]]:
        """Iterate over the touched nodes that may be used and that the budget allows to look at.

        Each kind looks at all of them, so members that are all unlike cost their square. When the
        budget is spent, the members go to untouched nodes.
        """
        for index, given in self._at.items():
            if self._may_use(given):
                if self._budget is not None:
                    try:
                        self._budget.work(FIT if pod_class.judgements.has_judged(given) else MODEL)
                    except BudgetSpent:
                        return
                yield index, given

    @property
    def _within(self) -> Within | None:
        return None if self.domain is None else self.domain.within

    def _may_use(self, given: NodeClass) -> bool:
        return self.domain is None or self.domain.has(given)

    # By score -------------------------------------------------------------------------------------

    def _by_score(
        self, pod_class: PodClass, judge: Judge, members: Sequence[Member], *, spread: bool
    ) -> int:
        heap: list[_Entry] = []
        judgement, taking = pod_class.judgements.judgement, self._nodes.taking
        used, at, placed = self._used, self._at, self.placed
        count = self._counts() if spread else {}
        for index, given in self._affordable(pod_class):
            known = judgement(given, judge)
            if not known.reasons:
                heappush(heap, (count.get(index, 0), -known.score, index, given, True))
        ranked = self._untouched(pod_class)
        upcoming, negative, index = next(ranked, None), 0, 0
        for number, member in enumerate(members):
            chosen: NodeClass | None = None
            # the classes come by score and first node, so only those that may go first are met
            while upcoming is not None:
                negative, given = upcoming
                if heap and (0, negative, given.nodes[0]) > heap[0]:
                    break
                upcoming = next(ranked, None)
                if given not in used:
                    chosen = given
                    break
                first = int(given.nodes[used[given]])
                heappush(heap, (0, negative, first, given, False))
            if chosen is not None:
                touched = False
            elif heap:
                _count, negative, index, chosen, touched = heappop(heap)
            else:
                return number
            if not touched:
                nodes, before = chosen.nodes, used.get(chosen, 0)
                index = int(nodes[before])
                used[chosen] = before + 1
                if before + 1 < len(nodes):
                    first = int(nodes[before + 1])
                    heappush(heap, (0, negative, first, chosen, False))
            then = at[index] = taking(chosen, member.requests)
            placed.append((member, index))
            if spread:
                self._counts()
            known = judgement(then, judge)
            if not known.reasons:
                on_it = count[index] if spread else 0
                heappush(heap, (on_it, -known.score, index, then, True))
        return len(members)

    def _counts(self) -> dict[int, int]:
        """Return the number of planned members on each node. O(members since the last call)."""
        count, placed = self._count, self.placed
        for n in range(self._counted, len(placed)):
            index = placed[n][1]
            count[index] = count.get(index, 0) + 1
        self._counted = len(placed)
        return count

    def _untouched(self, pod_class: PodClass) -> Iterator[tuple[int, NodeClass]]:
        ranked = pod_class.judgements.by_rank(self._within)
        used = self._used
        if self.domain is None and not used:  # a class comes once, so it is not used before
            return ranked
        return (
            each
            for each in ranked
            if self._may_use(each[1]) and len(each[1].nodes) > used.get(each[1], 0)
        )

    # On the fewest nodes ----------------------------------------------------------------------

    def _pack(
        self, pod_class: PodClass, judge: Judge, members: Sequence[Member], followers: int
    ) -> int:
        """Fill the touched nodes, then the nodes that take the most members.

        The last members go to the smallest node that takes all of them.
        """
        left = list(reversed(members))
        if self._at:
            touched = [
                (-pod_class.judgements.judgement(given, judge).max_pods, index)
                for index, given in self._affordable(pod_class)
            ]
            for order, index in sorted(touched):
                if order:
                    self._fill(pod_class, judge, left, self._at[index], index)
        for strands in (False, True):
            for given in self._largest(pod_class, strands, left, followers):
                index = int(given.nodes[self._used.get(given, 0)])
                self._used[given] = self._used.get(given, 0) + 1
                self._fill(pod_class, judge, left, given, index)
        return len(members) - len(left)

    def _largest(
        self, pod_class: PodClass, strands: bool, left: Sequence[Member], followers: int
    ) -> Iterator[NodeClass]:
        """Iterate over the class of the next node to fill, for as long as members are left.

        That is the smallest node that takes all that are left, otherwise the largest. A class is
        passed over once, not again for each node that is filled.
        """
        if not left:
            return
        judgements, within = pod_class.judgements, self._within
        for given in judgements.at_least(strands, len(left) + followers, within):
            while left and self._is_usable(given):
                yield given
            if not left:
                return
        for max_pods, given in judgements.below(strands, len(left) + followers, within):
            while left and self._is_usable(given):
                # a smaller node may take the last members
                wanted = len(left) + followers
                is_last = max_pods >= wanted
                yield self._smallest(pod_class, strands, wanted) if is_last else given
            if not left:
                return

    def _smallest(self, pod_class: PodClass, strands: bool, wanted: int) -> NodeClass:
        """Return the class of the smallest node that takes so many members; there is one."""
        large = pod_class.judgements.at_least(strands, wanted, self._within)
        return next(given for given in large if self._is_usable(given))

    def _is_usable(self, given: NodeClass) -> bool:
        return self._may_use(given) and len(given.nodes) > self._used.get(given, 0)

    def _fill(
        self, pod_class: PodClass, judge: Judge, left: list[Member], given: NodeClass, index: int
    ) -> None:
        judgement, taking = pod_class.judgements.judgement, self._nodes.taking
        placed = self.placed
        while left and not judgement(given, judge).reasons:
            member = left.pop()
            given = taking(given, member.requests)
            placed.append((member, index))
        self._at[index] = given


def _first_node(given: NodeClass) -> int:
    first: int = given.nodes[0]
    return first
