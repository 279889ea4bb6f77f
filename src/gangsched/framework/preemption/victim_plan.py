"""What the search for victims asks of a preemptor, and the plan that it returns.

Rules:
  R1  a plan evicts no pod and assumes none; it names the victims, and a node for each pod of the
      preemptor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias, final

from attrs import field, frozen

from gangsched._core._registry import PodGroupInfo
from gangsched.framework.nodes.judgements import Judge
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.nodes_view import Holder
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement.plan import Domain
from gangsched.framework.preemption.eviction_units import EvictionUnit
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.framework.state.pods import Member
from gangsched.framework.state.role_count import RoleCount
from gangsched.model import PodUID

__all__ = ["Cost", "Preemptor", "Shortfall", "Taken", "VictimPlan", "cost_of", "is_one_pod"]

_BASE = 2**31
"""Added to each priority of a sum, so that more pods never cost less; as in kube-scheduler."""


@final
@frozen
class Shortfall:
    """The number of pods of one class that exceed free capacity, or that it exceeds."""

    pod_class: PodClass
    judge: Judge
    count: int


class Preemptor(Protocol):
    """A pod or a gang that needs capacity."""

    @property
    def budget(self) -> VictimBudget:
        """The steps that the search for victims may take."""
        ...

    @property
    def required(self) -> tuple[RoleCount, ...]:
        """The number of its pods that need capacity."""
        ...

    @property
    def groups(self) -> list[PodGroupInfo]:
        """The groups of its pods; none of their members is a victim."""
        ...

    @property
    def domains(self) -> Sequence[Domain | None]:
        """The domains to search, each by itself; None for all nodes."""
        ...

    @property
    def depends_on_pods(self) -> bool:
        """Whether it depends on which pods are on other nodes than those it is placed on."""
        ...

    @property
    def depends_on_total(self) -> bool:
        """Whether it needs capacity in the cluster as a whole, beside that of its own nodes."""
        ...

    def shortfalls(self, domain: Domain | None) -> list[Shortfall] | None:
        """Return the pods that exceed free capacity, or None if unknown.

        An empty list does not mean that all pods fit together.
        """
        ...

    def slacks(self, domain: Domain | None) -> list[Shortfall] | None:
        """Return the number of pods of each class that fit beyond those needed; None if unknown."""
        ...

    def is_resolvable(self, given: NodeClass) -> bool:
        """Return whether evictions may make nodes of a class take one of its pods."""
        ...

    def bar_nodes(self) -> None:
        """Use no node from now on where plugins that read pods say that evictions cannot help."""
        ...

    def fits_on(self, index: int) -> bool | None:
        """Return whether a node takes it as it is now; None if only ``places`` can say."""
        ...

    def places(self, *, anyway: bool = False) -> list[tuple[Member, int]] | None:
        """Return a node for each pod, by index; None if too few pods fit.

        If the steps are spent, that is None too, unless the answer is wanted *anyway*.
        """
        ...


Cost: TypeAlias = tuple[float, int, int, int, float]


@final
@frozen
class VictimPlan:
    """A plan that makes a preemptor fit.

    Attributes:
        places: A node for each pod of the preemptor, by index.
        units: The gangs, bundles and regular pods that are evicted, and the nominations that are
            taken.
        members: The elastic members that are evicted.
        cost: The sort key of R2: highest priority of a victim, gangs, sum of priorities, pods, and
            how early the first victim of the highest priority was created.
        violations: The number of evictions that violate a disruption budget.
        awaited: For a preemptor that depends on other pods, or on the cluster as a whole, those
            that terminate already and must have left, on whichever nodes; None for any other,
            which needs only its nodes.
        held: What the victims hold, if only the filters were asked about the node so far; None if
            the preemptor was placed.
    """

    places: list[tuple[Member, int]]
    units: list[EvictionUnit] = field(factory=list[EvictionUnit])
    members: list[Member] = field(factory=list[Member])
    cost: Cost = (float("-inf"), 0, 0, 0, 0.0)
    violations: int = 0
    awaited: list[PodUID] | None = None
    held: list[Holder] | None = None


def is_one_pod(preemptor: Preemptor) -> bool:
    """Return whether a preemptor needs one node, which may be any."""
    return list(preemptor.domains) == [None] and sum(ask.count for ask in preemptor.required) == 1


Taken: TypeAlias = tuple[EvictionUnit, list[Holder]]
"""A unit, with the capacity that it freed."""


def cost_of(evicted: Sequence[Taken]) -> Cost:
    """Return the cost of a plan; see ``VictimPlan``. O(victims)."""
    each = [
        (unit.priority, len(held) if unit.is_elastic else unit.pods, unit.created_at)
        for unit, held in evicted
    ]
    # no victim if a plugin changed its answer
    highest = max((priority for priority, _pods, _at in each), default=-math.inf)
    return (
        highest,
        sum(unit.gangs for unit, _held in evicted),
        sum((priority + _BASE) * pods for priority, pods, _at in each),
        sum(pods for _priority, pods, _at in each),
        -min((at for priority, _pods, at in each if priority == highest), default=0.0),
    )
