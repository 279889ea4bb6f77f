"""What is to be placed, and the search for a way to place it.

Rules:
  R1  members of one kind stand in for each other;
  R2  a kind is put on nodes that its judge takes it on, and of a group that belongs within certain
      nodes, on these alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from attrs import evolve, frozen

from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.pod_class import Judge, PodClass
from gangsched.framework.placement.packing.pack import (
    BudgetExhausted,
    Demand,
    Impossible,
    Packed,
    Quota,
    pack,
)
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.runtime import signatures
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import GroupKey, Resources

__all__ = ["Answer", "Ask", "Judges", "Kind", "Kinds", "Task", "carry_over", "search"]


@final
@frozen
class Ask:
    """How many members of a group must be placed: of a role, or in all where it is empty."""

    group: GroupKey
    role: str
    count: int


class Kind(NamedTuple):
    """What members have in common that may stand in for each other.

    Where no plugin reads what is asked for, members of one class may ask for different things.
    """

    pod_class: PodClass
    requests: Resources
    group: GroupKey
    role: str | None

    def counts_for(self, ask: Ask) -> bool:
        """Say whether such members are among those that are asked for."""
        return self.group == ask.group and (not ask.role or self.role == ask.role)


Kinds: TypeAlias = dict[Kind, list[Member]]
Judges: TypeAlias = Mapping[PodClass, Judge]
Answer: TypeAlias = Packed[NodeClass, Kind] | Impossible[Kind] | BudgetExhausted

_ANYWHERE: Final[Mapping[GroupKey, Domain | None]] = MappingProxyType({})


@final
@frozen
class Task:
    """What is to be placed.

    Attributes:
        state: The scheduler's memory.
        kinds: The members, by kind.
        judges: Who judges nodes for them.
        asks: How many have to be placed, of one group or of all groups of a bundle.
        shared: Whether a plan has, or will have, members of other groups too.
        budget: The number of steps that one search may take.
    """

    state: State
    kinds: Kinds
    judges: Judges
    asks: tuple[Ask, ...]
    shared: bool
    budget: int

    @property
    def needed(self) -> int:
        """How many have to be placed in all."""
        return sum(ask.count for ask in self.asks if not ask.role)

    def met(self, plan: Plan) -> bool:
        """Say whether a plan has enough members. O(members) where more than one thing is asked."""
        if len(self.asks) == 1 and not self.shared:
            return len(plan.placed) >= self.asks[0].count
        return all(plan.count(ask.group, ask.role) >= ask.count for ask in self.asks)

    def part(self, group: GroupKey) -> Task:
        """Return what is to be placed of one group."""
        kinds = {kind: alike for kind, alike in self.kinds.items() if kind.group == group}
        asks = tuple(ask for ask in self.asks if ask.group == group)
        return evolve(self, kinds=kinds, asks=asks)

    def first_of(self, group: GroupKey | None) -> tuple[Member, PodClass]:
        """Return the first member of a group with its class; of any if none of it may be placed."""
        kind, alike = min(self.kinds.items(), key=lambda item: item[0].group != group)
        return alike[0], kind.pod_class


def search(
    task: Task, plan: Plan, budget: int, within: Mapping[GroupKey, Domain | None] = _ANYWHERE
) -> Answer:
    """Look for a way to place as many as are asked for, beside what a plan has; see ``pack``.

    Args:
        task: What is to be placed.
        plan: What is planned already, and the nodes that may be used.
        budget: For how many steps at most; none where it is negative.
        within: The nodes of a group, where not every group may use all of these.
    """
    demands = [Demand(kind, len(alike), kind.requests) for kind, alike in task.kinds.items()]
    quotas = [
        Quota(frozenset(kind for kind in task.kinds if kind.counts_for(ask)), ask.count, str(n))
        for n, ask in enumerate(task.asks)
    ]
    room, nodes = _Room(task.state, task.judges, within), dict(plan.untouched())
    for given, touched in plan.touched().items():
        nodes[given] = nodes.get(given, 0) + len(touched)
    return pack(demands, quotas, list(nodes.items()), room, budget=max(budget, 0))


def carry_over(task: Task, found: Packed[NodeClass, Kind], plan: Plan) -> None:
    """Put into a plan what was found beside it. O(members)."""
    upcoming = {kind: iter(alike) for kind, alike in task.kinds.items()}
    touched = plan.touched()
    for given, takes in found.nodes:
        index = touched[given].pop() if touched.get(given) else None
        for kind, count in takes:
            for _ in range(count):
                index = plan.put(next(upcoming[kind]), given, on=index)
                given = plan.at(index)


@final
class _Room:
    """The nodes, as ``gangsched.framework.placement.packing.pack`` asks about them."""

    def __init__(
        self,
        state: State,
        judges: Judges,
        within: Mapping[GroupKey, Domain | None],
        boundless: str | None = None,
    ) -> None:
        self._state = state
        self._judges = judges
        self._within = within
        self._boundless = boundless
        self._classes = state.nodes.classes

    @property
    def binding(self) -> Collection[str]:
        names = (signatures.fitted(self._state, each.sample) for each in self._judges)
        return frozenset(name for found in names for name in found) - {self._boundless}

    def after(self, node: NodeClass, pod: Kind) -> NodeClass | None:
        domain = self._within.get(pod.group)
        if domain is not None and not domain.has(node):
            return None
        if self._boundless is not None:
            node = self._classes.boundless(node, self._boundless)
        pod_class = pod.pod_class
        if pod_class.judgement(node, self._judges[pod_class]).reasons:
            return None
        return self._classes.taking(node, pod.requests)

    def free(self, node: NodeClass) -> Mapping[str, int]:
        return node.sample.free

    def without(self, resource: str) -> _Room:
        return _Room(self._state, self._judges, self._within, resource)
