"""A plan: which member goes to which node, laid over the nodes without touching them.

Rules:
  R1  nodes of one class are interchangeable: of those that nothing is planned for, the first to
      come is taken first;
  R2  what a node becomes by taking a member is a class too, so a plan asks plugins nothing that
      was asked before;
  R3  a plan that is not carried out leaves no trace but answers that were kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeAlias, final

from attrs import frozen

from gangsched.framework.config.scheduling_unit import PlacementStrategy
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.pod_class import Judge, PodClass
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import GroupKey

__all__ = ["Domain", "Plan"]

_Entry: TypeAlias = tuple[int, int, int, int, NodeClass, bool]
# how many members are on it (where that counts), score (negative), index, class number, class,
# whether the node is touched


@final
@frozen
class Domain:
    """The nodes with one of some values of a label."""

    key: str
    values: frozenset[str]

    def has(self, given: NodeClass) -> bool:
        """Say whether the nodes of a class are among them."""
        return given.sample.node.labels.get(self.key) in self.values

    def __str__(self) -> str:
        return f"{self.key}={'|'.join(sorted(self.values))}"


@final
class Plan:
    """Members with the nodes that are meant for them.

    Attributes:
        domain: The nodes that may be used from now on; None for all.
        placed: The members in the order in which they were placed, with the index of the node.
    """

    __slots__ = ("_at", "_count", "_nodes", "_used", "domain", "placed")

    def __init__(self, state: State) -> None:
        self._nodes = state.nodes.classes
        self.domain: Domain | None = None
        self._at: dict[int, NodeClass] = {}
        self._count: dict[int, int] = {}
        self._used: dict[NodeClass, int] = {}
        self.placed: list[tuple[Member, int]] = []

    def place(
        self,
        pod_class: PodClass,
        judge: Judge,
        members: Sequence[Member],
        placement: PlacementStrategy,
    ) -> int:
        """Place as many of some like members as fit; return how many.

        Runtime complexity: O(members x log members) and O(classes of nodes that are looked at).
        """
        if placement is PlacementStrategy.AUTO:
            scarce = any("/" in name for member in members[:1] for name in member.requests)
            placement = PlacementStrategy.PACK if scarce else PlacementStrategy.SCORE
        if placement is PlacementStrategy.PACK:
            return self._pack(pod_class, judge, members)
        return self._by_score(
            pod_class, judge, members, spread=placement is PlacementStrategy.SPREAD
        )

    def put(self, member: Member, given: NodeClass, *, on: int | None = None) -> int:
        """Place a member on a node of a class: on a certain one, or else on an untouched one.

        Returns:
            The index of the node.
        """
        if on is None:
            used = self._used.get(given, 0)
            on = int(given.nodes[used])
            self._used[given] = used + 1
        self._at[on] = self._nodes.taking(given, member.requests)
        self._count[on] = self._count.get(on, 0) + 1
        self.placed.append((member, on))
        return on

    def at(self, index: int) -> NodeClass:
        """Return what a node for which something is planned becomes. O(1)."""
        return self._at[index]

    def count(self, group: GroupKey, role: str) -> int:
        """Return how many members of a group are placed: of a role, or in all. O(members)."""
        return sum(
            member.group is not None
            and member.group.key == group
            and (not role or member.role == role)
            for member, _index in self.placed
        )

    def within(self, domain: Domain | None) -> Plan:
        """Return a copy that goes on in another domain. O(members)."""
        made = Plan.__new__(Plan)
        made._nodes, made.domain = self._nodes, domain
        made._at, made._count, made._used = self._at.copy(), self._count.copy(), self._used.copy()
        made.placed = self.placed.copy()
        return made

    def become(self) -> list[tuple[int, NodeClass]]:
        """Return what the nodes for which something is planned become."""
        return list(self._at.items())

    def touched(self) -> dict[NodeClass, list[int]]:
        """Return the nodes that may be used and for which something is planned, by class."""
        found: dict[NodeClass, list[int]] = {}
        for index, given in self._at.items():
            if self._may_use(given):
                found.setdefault(given, []).append(index)
        return found

    def untouched(self) -> list[tuple[NodeClass, int]]:
        """Return the classes that may be used, with how many of their nodes are untouched."""
        used = self._used
        counts = (
            (given, len(given.nodes) - used.get(given, 0))
            for given in self._nodes.occupied()
            if self._may_use(given)
        )
        return [(given, count) for given, count in counts if count]

    def _may_use(self, given: NodeClass) -> bool:
        return self.domain is None or self.domain.has(given)

    # Where the score plugins say --------------------------------------------------------------

    def _by_score(
        self, pod_class: PodClass, judge: Judge, members: Sequence[Member], *, spread: bool
    ) -> int:
        heap: list[_Entry] = []
        for index, given in self._at.items():
            if self._may_use(given):
                self._offer(heap, pod_class, judge, index, given, spread=spread)
        ranked = self._untouched(pod_class)
        upcoming = next(ranked, None)
        for number, member in enumerate(members):
            while upcoming is not None and (not heap or (0, -upcoming[0]) <= heap[0][:2]):
                score, given = upcoming
                first = int(given.nodes[self._used.get(given, 0)])
                heappush(heap, (0, -score, first, given.number, given, False))
                upcoming = next(ranked, None)
            if not heap:
                return number
            _count, negative, index, _number, given, touched = heappop(heap)
            if touched:
                self.put(member, given, on=index)
            else:
                self.put(member, given)
                used = self._used[given]
                if used < len(given.nodes):
                    first = int(given.nodes[used])
                    heappush(heap, (0, negative, first, given.number, given, False))
            self._offer(heap, pod_class, judge, index, self._at[index], spread=spread)
        return len(members)

    def _offer(
        self,
        heap: list[_Entry],
        pod_class: PodClass,
        judge: Judge,
        index: int,
        given: NodeClass,
        *,
        spread: bool,
    ) -> None:
        known = pod_class.judgement(given, judge)
        if not known.reasons:
            count = self._count[index] if spread else 0
            heappush(heap, (count, -known.score, index, given.number, given, True))

    def _untouched(self, pod_class: PodClass) -> Iterator[tuple[int, NodeClass]]:
        used = self._used
        for score, given in pod_class.ranked():
            if self._may_use(given) and len(given.nodes) > used.get(given, 0):
                yield score, given

    # On the fewest nodes ----------------------------------------------------------------------

    def _pack(self, pod_class: PodClass, judge: Judge, members: Sequence[Member]) -> int:
        """Fill the nodes that are touched already, then those with the most room.

        The last members go where just so many fit: on the node with the least room that is
        enough for all that are left.
        """
        left = list(reversed(members))
        rooms = [
            (-pod_class.judgement(given, judge).room, index)
            for index, given in self._at.items()
            if self._may_use(given)
        ]
        for room, index in sorted(rooms):
            if left and room:
                self._fill(pod_class, judge, left, self._at[index], index)
        for strands in (False, True):
            while left:
                given = self._roomiest(pod_class, strands, len(left))
                if given is None:
                    break
                index = int(given.nodes[self._used.get(given, 0)])
                self._used[given] = self._used.get(given, 0) + 1
                self._fill(pod_class, judge, left, given, index)
        return len(members) - len(left)

    def _roomiest(self, pod_class: PodClass, strands: bool, wanted: int) -> NodeClass | None:
        for given in pod_class.by_room(strands, wanted):
            if self._may_use(given) and len(given.nodes) > self._used.get(given, 0):
                return given
        return None

    def _fill(
        self, pod_class: PodClass, judge: Judge, left: list[Member], given: NodeClass, index: int
    ) -> None:
        while left and not pod_class.judgement(given, judge).reasons:
            member = left.pop()
            given = self._nodes.taking(given, member.requests)
            self.placed.append((member, index))
        self._at[index] = given
