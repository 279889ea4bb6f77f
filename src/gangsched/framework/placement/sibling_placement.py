"""SiblingPlacement: members of a gang on a view of the nodes, and one greedy pass.

The nodes show each member as soon as it is placed, so plugins that read which pods are on nodes see
it. See ``gangsched.framework.placement.sibling_search`` for the search that starts from here.

Rules:
  R1  within a kind, members are placed in order of arrival;
  R2  members are taken back in the reverse order in which they were placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from attrs import define, field

from gangsched.explain import Diagnosis
from gangsched.framework.placement import choose_node
from gangsched.framework.placement.complete_search import Kind, Task
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.placement.tentative import Tentative
from gangsched.framework.state.pods import Member
from gangsched.model import GroupKey
from gangsched.options.scheduling_unit import PlacementStrategy

__all__ = ["Refused", "SiblingPlacement", "Within"]

Within: TypeAlias = Mapping[GroupKey, Domain | None]
"""The nodes of each group; None for all."""


class Refused(NamedTuple):
    """The first member that no node could take."""

    kind: Kind
    member: Member
    diagnosis: Diagnosis


@define(eq=False)
class SiblingPlacement:
    """Members that are placed one after another.

    Attributes:
        task: The members that are to be placed.
        within: The nodes of each group.
        tentative: The members on the nodes.
        left: The members of each kind that are not placed, the first to come last.
        counts: How many members are placed for each ask.
        positions: How many members of each kind are placed on each node.
        used: How many members are placed on each node.
    """

    task: Task
    within: Within
    tentative: Tentative
    left: dict[Kind, list[Member]] = field(init=False)
    counts: list[int] = field(init=False)
    positions: dict[tuple[Kind, int], int] = field(factory=dict[tuple[Kind, int], int])
    used: dict[int, int] = field(factory=dict[int, int])
    _kinds: list[Kind] = field(factory=list[Kind])
    # the nodes in use that may take a kind; made anew after a member is taken back
    _open: dict[Kind, dict[int, None]] = field(factory=dict[Kind, dict[int, None]])

    def __attrs_post_init__(self) -> None:
        self.left = {kind: alike[::-1] for kind, alike in self.task.kinds.items()}
        self.counts = [0] * len(self.task.asks)

    def is_met(self) -> bool:
        """Return whether as many members are placed as are asked for. O(asks)."""
        asks = self.task.asks
        return all(count >= ask.count for count, ask in zip(self.counts, asks, strict=True))

    def plan(self) -> Plan:
        """Return the placement as a plan. O(members)."""
        made, touched = Plan(self.task.nodes), set[int]()
        for member, index in self.tentative.placed:
            given = made.at(index) if index in touched else self.tentative.original(index)
            made.put(member, given, on=index)
            touched.add(index)
        return made

    def take_back(self) -> None:
        """Take all members back."""
        while self.tentative.placed:
            self.pop()

    def put(self, kind: Kind, index: int) -> None:
        """Place the next member of a kind on a node."""
        self.tentative.put(self.left[kind].pop(), index)
        self._kinds.append(kind)
        for nodes in self._open.values():
            nodes[index] = None
        self.used[index] = self.used.get(index, 0) + 1
        self.positions[kind, index] = self.positions.get((kind, index), 0) + 1
        self._count(kind, 1)

    def pop(self) -> None:
        """Take back the member that was placed last."""
        member, index = self.tentative.placed[-1]
        self.tentative.pop()
        kind = self._kinds.pop()
        self._open.clear()
        self.used[index] -= 1
        if not self.used[index]:
            del self.used[index]
        self.left[kind].append(member)
        self.positions[kind, index] -= 1
        if not self.positions[kind, index]:
            del self.positions[kind, index]
        self._count(kind, -1)

    def _count(self, kind: Kind, change: int) -> None:
        for n, ask in enumerate(self.task.asks):
            self.counts[n] += change * kind.counts_for(ask)

    def domain(self, kind: Kind) -> Domain | None:
        """Return the domain of a kind's group; None if all nodes may be used."""
        return self.within.get(kind.group)

    def asked(self) -> int:
        """Return how often plugins were asked about a node so far. O(kinds)."""
        return sum(check.asked for check in self.task.checks.values())

    def greedy(self, budget: int) -> Refused | None:
        """Place each member on the best node; return the first that no node could take.

        If the plugins were asked about more nodes than *budget*, the next member is returned.
        """
        refused: Refused | None = None
        placed, most = True, self.asked() + budget
        while placed:  # a member may be accepted only beside one that is placed after it
            placed = False
            for kind, left in self.left.items():
                while left:
                    if self.asked() > most:
                        found = kind.pod_class.judgements.diagnosis()
                        return refused or Refused(kind, left[-1], found)
                    index = self._best(kind, len(left) + self.task.followers.get(kind, 0))
                    if index is None:
                        refused = refused or self._refusal(kind, left[-1])
                        break
                    self.put(kind, index)
                    placed = True
        return refused

    def _refusal(self, kind: Kind, member: Member) -> Refused:
        check, nodes = self.task.checks[kind], self.task.nodes
        kind.pod_class.judgements.refresh(nodes, self.task.judges[kind.pod_class])
        if not self.task.explains:
            return Refused(kind, member, kind.pod_class.judgements.diagnosis())
        found = choose_node.diagnosis(nodes, kind.pod_class, check, self.domain(kind))
        if not self.tentative.placed and self.domain(kind) is None:
            self.task.diagnoses[kind] = found
        return Refused(kind, member, found)

    def _best(self, kind: Kind, wanted: int) -> int | None:
        nodes, pod_class, domain = self.task.nodes, kind.pod_class, self.domain(kind)
        pod_class.judgements.refresh(nodes, self.task.judges[pod_class])
        placement = self.task.settings.placement
        if placement is PlacementStrategy.AUTO:
            scarce = any("/" in name for name in kind.requests)
            placement = PlacementStrategy.PACK if scarce else PlacementStrategy.SCORE
        check = self.task.checks[kind]
        if placement is PlacementStrategy.SCORE or check.named is not None:
            return choose_node.best(nodes, pod_class, check, domain)
        by_index = nodes.by_index
        pack = placement is PlacementStrategy.PACK
        order = self._packed(kind, wanted) if pack else self._spread(kind)
        return next((index for index in order if not check.refusal(by_index[index])), None)

    def _packed(self, kind: Kind, wanted: int) -> Iterator[int]:
        """Iterate over nodes: those in use first, then those that take the most members."""
        classes, domain = self.task.nodes.classes, self.domain(kind)
        check = self.task.checks[kind]
        judge = self.task.judges[kind.pod_class]
        used, may_take = self.used, self._open.get(kind)
        if may_take is None:
            may_take = self._open[kind] = dict.fromkeys(used)
        in_use: list[tuple[int, int]] = []
        for index in tuple(may_take):
            given = classes.of(index)
            known = kind.pod_class.judgements.judgement(given, judge)
            if known.reasons:
                del may_take[index]
            elif domain is None or domain.has(given):
                in_use.append((-known.max_pods, index))
        yield from (index for _order, index in sorted(in_use))
        order = choose_node.packed(kind.pod_class, domain, check, wanted)
        yield from (index for index in order if index not in used)

    def _spread(self, kind: Kind) -> Iterator[int]:
        """Iterate over nodes: those with the fewest members of the gang first, then by score."""
        counts: dict[int, int] = {}
        for _member, index in self.tentative.placed:
            counts[index] = counts.get(index, 0) + 1
        used: list[tuple[int, int, int]] = []
        check = self.task.checks[kind]
        for score, index in choose_node.ranked(
            kind.pod_class.judgements.ranked(), self.domain(kind), check
        ):
            if index in counts:
                used.append((counts[index], -score, index))
            else:
                yield index
        yield from (index for _count, _score, index in sorted(used))
