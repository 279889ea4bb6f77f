"""Task and Kind: the members to be placed; and the search for a placement of enough of them.

Rules:
  R1  members of one kind are interchangeable;
  R2  a kind is placed only on nodes that its judge accepts. If its group must be within a domain,
      it is placed only there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from attrs import define, evolve, field

from gangsched._packing.budget import Work
from gangsched._packing.pack import (
    BudgetExhausted,
    Demand,
    Impossible,
    Packed,
    Quota,
    pack,
)
from gangsched.constraints.matchers import PodMatcher
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.judgements import Judge
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_classes import NodeClasses
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.runtime import signatures
from gangsched.framework.runtime.pod_readers import Affecting, NodeCheck
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, Resources

__all__ = ["Answer", "Judges", "Kind", "Kinds", "Task", "carry_over", "search"]


class Kind(NamedTuple):
    """What interchangeable members have in common.

    The requests are part of it, because a pod class has pods with different requests if no plugin
    reads them. The carried terms that are about a member are, because they depend on its labels,
    which the pod class leaves out for most pods. The same holds for what makes it stand in the way
    of a gang with a reservation, and for which matchers of its siblings select it.
    """

    pod_class: PodClass
    requests: Resources
    group: GroupKey
    role: str | None
    affected: frozenset[Affecting] = frozenset()
    selected: frozenset[PodMatcher] = frozenset()

    def counts_for(self, ask: RoleCount) -> bool:
        """Return whether members of this kind count for a number that is asked for."""
        return ask.covers(self.group, self.role)


Kinds: TypeAlias = dict[Kind, list[Member]]
Judges: TypeAlias = Mapping[PodClass, Judge]
Answer: TypeAlias = Packed[NodeClass, Kind] | Impossible[Kind] | BudgetExhausted

_ANYWHERE: Final[Mapping[GroupKey, Domain | None]] = MappingProxyType({})


@final
@define(eq=False)  # not frozen, which doubles the cost of making one for each decision
class Task:
    """Members that are to be placed; it does not change.

    Attributes:
        settings: What the caller set.
        nodes: The nodes.
        pods: The known pods and groups.
        kinds: The members, by kind.
        judges: The judge of nodes for each class of these members.
        asks: How many must be placed, of one group or of all groups of a bundle.
        shared: Whether the plan also has members of other groups, now or later.
        budget: The number of steps that greedy plans and searches may take together.
        work: The operations of the decision so far.
        begun: How many steps the decision had taken when these searches began.
        checks: The plugins that read the pods on nodes, for each kind; empty if there are none.
        explains: Whether the reasons of a failure are wanted. Where only the plan is, as in a
            search for victims, they would take a third of the time.
        diagnoses: Why no node takes a member of a kind as the nodes are, for the kinds of which
            that is known.
        followers: How many members of later kinds request the same as one of a kind; 0 where a kind
            has no entry. Signatures tell which members are alike. Without them each is a kind of
            its own, and packing would look for a node for each alone.
    """

    settings: Settings
    nodes: Nodes
    pods: Pods
    kinds: Kinds
    judges: Judges
    asks: tuple[RoleCount, ...]
    shared: bool
    budget: int
    work: Work
    begun: int
    checks: Mapping[Kind, NodeCheck] = field(factory=dict[Kind, NodeCheck])
    explains: bool = True
    diagnoses: dict[Kind, Diagnosis] = field(factory=dict[Kind, Diagnosis])
    followers: Mapping[Kind, int] = field(factory=dict[Kind, int])

    @property
    def needed(self) -> int:
        """The number of members that must be placed in all."""
        return sum(ask.count for ask in self.asks if ask.role is None)

    @property
    def left(self) -> int:
        """The number of steps that are left for greedy plans and searches."""
        return self.budget - (self.work.steps - self.begun)

    def met(self, plan: Plan) -> bool:
        """Return whether a plan has enough members. O(asks + members), O(1) for a single ask."""
        if len(self.asks) == 1 and not self.shared:
            return len(plan.placed) >= self.asks[0].count
        return plan.meets(self.asks)

    def part(self, group: GroupKey) -> Task:
        """Return the part of the task that concerns one group."""
        kinds = {kind: alike for kind, alike in self.kinds.items() if kind.group == group}
        asks = tuple(ask for ask in self.asks if ask.group == group)
        return evolve(self, kinds=kinds, asks=asks)

    def first_of(self, group: GroupKey | None) -> tuple[Member, PodClass]:
        """Return the first member of a group and its class; of any group if it has no member."""
        kind, alike = min(self.kinds.items(), key=lambda item: item[0].group != group)
        return alike[0], kind.pod_class


def search(
    task: Task, plan: Plan, budget: int, within: Mapping[GroupKey, Domain | None] = _ANYWHERE
) -> Answer:
    """Search for a placement of as many members as are asked for, beside a plan; see ``pack``.

    Args:
        task: The members.
        plan: The members that are planned already, and the nodes that may be used.
        budget: The number of steps at most; a negative number counts as 0.
        within: The domain of each group; a group that is missing may use all nodes of the plan.
    """
    demands = [Demand(kind, len(alike), kind.requests) for kind, alike in task.kinds.items()]
    quotas = [
        Quota(frozenset(kind for kind in task.kinds if kind.counts_for(ask)), ask.count, str(n))
        for n, ask in enumerate(task.asks)
    ]
    model = _NodeModel(task.settings, task.nodes.classes, task.judges, within)
    nodes = dict(plan.untouched())
    for given, touched in plan.touched().items():
        nodes[given] = nodes.get(given, 0) + len(touched)
    return pack(
        demands,
        quotas,
        list(nodes.items()),
        model,
        budget=max(budget, 0),
        work=task.work,
        explains=task.explains,
    )


def carry_over(task: Task, found: Packed[NodeClass, Kind], plan: Plan) -> None:
    """Add the placement that ``search`` has found to its plan. O(members)."""
    upcoming = {kind: iter(alike) for kind, alike in task.kinds.items()}
    touched = plan.touched()
    for given, takes in found.nodes:
        index = touched[given].pop() if touched.get(given) else None
        for kind, count in takes:
            for _ in range(count):
                index = plan.put(next(upcoming[kind]), given, on=index)
                given = plan.at(index)


@final
class _NodeModel:
    """The nodes as ``gangsched._packing.pack.NodeModel``."""

    def __init__(
        self,
        settings: Settings,
        classes: NodeClasses,
        judges: Judges,
        within: Mapping[GroupKey, Domain | None],
        boundless: str | None = None,
    ) -> None:
        self._settings = settings
        self._judges = judges
        self._within = within
        self._boundless = boundless
        self._classes = classes

    @property
    def binding(self) -> Collection[str]:
        names = (signatures.fitted(self._settings, each.sample) for each in self._judges)
        return frozenset(name for found in names for name in found) - {self._boundless}

    def after(self, node: NodeClass, pod: Kind) -> NodeClass | None:
        domain = self._within.get(pod.group)
        if domain is not None and not domain.has(node):
            return None
        if self._boundless is not None:
            node = self._classes.boundless(node, self._boundless)
        pod_class = pod.pod_class
        if pod_class.judgements.refuses(node, self._judges[pod_class]):
            return None
        return self._classes.taking(node, pod.requests)

    def free(self, node: NodeClass) -> Mapping[str, int]:
        return node.free

    def without(self, resource: str) -> _NodeModel:
        return _NodeModel(self._settings, self._classes, self._judges, self._within, resource)
