"""Preemptors, as ``victim_search`` asks about them: a single pod, or a gang.

Rules:
  R1  whether a preemptor fits is decided as in its scheduling cycle: by the same checks and the
      same placement, and nothing is assumed;
  R2  a gang fits if as many members fit as it needs to start; a single pod fits by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, final

from attrs import define, evolve, field

from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched._packing.budget import EVALUATED
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis, SearchBudgetExhausted, UnschedulableMember
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import choose_node, gang_layout
from gangsched.framework.placement import topology as group_topology
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.preemption.victim_budget import (
    ASK,
    CLASS,
    MEMBER,
    MOVED,
    VictimBudget,
)
from gangsched.framework.preemption.victim_plan import Shortfall
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.runtime import extension_points, filter_and_score, pod_readers
from gangsched.framework.runtime.pod_readers import NodeCheck
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName
from gangsched.outcomes import Outcome, Unschedulable
from gangsched.quantity import MILLI

__all__ = ["GangPreemptor", "SinglePod"]


class _Need(NamedTuple):
    """The number of pods of one class that need a node, and an upper bound on those that fit."""

    asked: Shortfall
    headroom: int


@final
@define(eq=False)
class SinglePod:
    """A regular pod, or a late member of a gang that has started; see ``Preemptor``."""

    settings: Settings
    nodes: Nodes
    pods: Pods
    member: Member
    now: float
    budget: VictimBudget
    _cycle: CycleState | None = field(default=None, init=False)
    _barred: frozenset[int] = field(default=frozenset(), init=False)

    @property
    def required(self) -> tuple[RoleCount, ...]:
        """One pod."""
        info = self.member.group
        return (RoleCount(None if info is None else info.key, None, 1),)

    @property
    def groups(self) -> list[PodGroupInfo]:
        """Its group, if it has one."""
        return [] if self.member.group is None else [self.member.group]

    @property
    def domains(self) -> Sequence[Domain | None]:
        """The domain of its group's other members, if it must join them."""
        info = self.member.group
        return [None if info is None else group_topology.joined(self.nodes, self.pods, info)]

    @property
    def depends_on_pods(self) -> bool:
        """See ``Preemptor``."""
        return pod_readers.depends_on_pods(self.nodes, [self.member])

    @property
    def depends_on_total(self) -> bool:
        """No: what a group requests is asked of a group that has not started."""
        return False

    def shortfalls(self, domain: Domain | None) -> list[Shortfall] | None:
        """See ``Preemptor``."""
        needs = self._needs(domain)
        return None if needs is None else _short(needs)

    def slacks(self, domain: Domain | None) -> list[Shortfall] | None:
        """See ``Preemptor``."""
        needs = self._needs(domain)
        return None if needs is None else _slack(needs)

    def _needs(self, domain: Domain | None) -> list[_Need] | None:
        needed = [(self.member, 1)]
        return _needs(self.settings, self.nodes, needed, domain, self.budget, now=self.now)

    def is_resolvable(self, given: NodeClass) -> bool:
        """See ``Preemptor``."""
        if self._cycle is None:
            return True
        self.budget.count(ASK)
        return filter_and_score.is_resolvable(
            self.settings, self.nodes, self._cycle, self.member, given, self.now
        )

    def bar_nodes(self) -> None:
        """See ``Preemptor``. O(nodes x plugins)."""
        settings, nodes, pod = self.settings, self.nodes, self.member.pod
        cycle = CycleState(self.member.group, nodes.infos, settings.cluster, nodes.counts)
        refused = extension_points.pre_filter(settings, cycle, pod, self.now)
        if isinstance(refused, Unschedulable):
            return
        affected = bool(pod_readers.affected(nodes, pod))
        check = NodeCheck(settings, nodes, cycle, pod, is_affected=affected)
        self.budget.count(ASK * len(nodes.by_index))
        self._barred = frozenset(
            index for index, info in nodes.by_index.items() if not check.is_resolvable(info)
        )

    def lacks_capacity(self) -> bool:
        """Return whether ``pre_filter`` passes, and no node takes the pod as the nodes are now."""
        found = self._best()
        return found is not None and found[0] is None

    def places(self, *, anyway: bool = False) -> list[tuple[Member, int]] | None:
        """See ``Preemptor``."""
        if not anyway and self.budget.ends():
            return None
        found = self._best()
        if found is None or found[0] is None or isinstance(found[1], Unschedulable):
            return None
        return [(self.member, self.nodes.infos[found[0]].index)]

    def fits_on(self, index: int) -> bool:
        """Return whether the filters accept a node as it is now, whatever other nodes are like.

        It is asked of a pod that does not depend on other pods. O(plugins).
        """
        settings, nodes, cycle = self.settings, self.nodes, self._cycle
        if cycle is None:
            return False  # ``pre_filter`` has refused the pod
        self.budget.count(ASK)
        given = nodes.classes.of(index)
        return filter_and_score.accepts(settings, nodes, cycle, self.member, given, self.now)

    def _best(self) -> tuple[NodeName | None, Outcome] | None:
        """Return the best node with the answer of ``pre_score``; None if ``pre_filter`` refuses."""
        settings, nodes, member = self.settings, self.nodes, self.member
        _count_looks(settings, nodes, member.pod_class, self.budget)
        cycle = CycleState(member.group, nodes.infos, settings.cluster, nodes.counts)
        outcome = extension_points.pre_filter(settings, cycle, member.pod, self.now)
        if isinstance(outcome, Unschedulable):
            return None
        self._cycle = cycle
        pod_class, _judge, outcome = filter_and_score.evaluate_nodes(
            settings, nodes, cycle, member, self.now
        )
        (domain,) = self.domains
        node = choose_node.choose(
            settings,
            nodes,
            cycle,
            member,
            pod_class,
            domain,
            barred=self._barred,
            explains=False,
        )
        return (None if isinstance(node, Diagnosis) else node), outcome


@final
@define(eq=False)
class GangPreemptor:
    """The members of a gang that has not started, or of all gangs of a bundle; see ``Preemptor``.

    Attributes:
        state: The scheduler's state.
        entity: The gang's entity.
        info: The gang's group.
        now: The current instant.
        budget: The steps that the search for victims may take.
    """

    state: State
    entity: QueuedEntity
    info: PodGroupInfo
    now: float
    budget: VictimBudget
    _needed: dict[Domain | None, list[tuple[Member, int]]] = field(
        init=False, factory=dict[Domain | None, list[tuple[Member, int]]]
    )
    _cycles: Mapping[int, CycleState] | None = field(default=None, init=False)

    @property
    def parties(self) -> list[tuple[QueuedEntity, PodGroupInfo]]:
        """The groups that start together, with their entities."""
        pending = bundles.pending(self.state.pods, self.entity)
        return [(each, each.group) for each in pending if each.group is not None]

    @property
    def required(self) -> tuple[RoleCount, ...]:
        """The number of members that the quorum of each group lacks, in total and by role."""
        state = self.state
        return tuple(gang_layout.asks(state.settings, state.pods, state.call, self.entity))

    @property
    def groups(self) -> list[PodGroupInfo]:
        """The groups that start together."""
        return [info for _each, info in self.parties]

    @property
    def domains(self) -> Sequence[Domain | None]:
        """The values of the topology label that the gang must share; none for a bundle."""
        spec, groups = self.info.spec, self.groups
        topology = None if spec is None else spec.topology
        if topology is None or not topology.required or len(groups) > 1:
            return [None]
        here = group_topology.joined(self.state.nodes, self.state.pods, self.info)
        if here is not None:
            return [here]
        nodes = self.state.nodes.infos.values()
        values = {info.node.labels.get(topology.key) for info in nodes} - {None}
        return [Domain(topology.key, frozenset({value})) for value in sorted(map(str, values))]

    @property
    def depends_on_pods(self) -> bool:
        """See ``Preemptor``."""
        members = self.state.pods.members
        pending = [members[pod.uid] for each, _info in self.parties for pod in each.pending]
        return pod_readers.depends_on_pods(self.state.nodes, pending)

    @property
    def depends_on_total(self) -> bool:
        """See ``Preemptor``."""
        state = self.state
        wanted = equivalence.needed_in_total(state.settings, state.pods, state.call, self.info)
        return bool(wanted)

    def shortfalls(self, domain: Domain | None) -> list[Shortfall] | None:
        """See ``Preemptor``."""
        needs = self._needs(domain)
        return None if needs is None else _short(needs)

    def slacks(self, domain: Domain | None) -> list[Shortfall] | None:
        """See ``Preemptor``."""
        needs = self._needs(domain)
        return None if needs is None else _slack(needs)

    def _needs(self, domain: Domain | None) -> list[_Need] | None:
        state, needed = self.state, self._needed.get(domain)
        if not state.settings.profile.signed:
            return None  # no filter may be asked before ``pre_filter`` has passed
        if needed is None:
            needed = self._needed[domain] = list(self._count_needed(domain))
        return _needs(state.settings, state.nodes, needed, domain, self.budget, now=self.now)

    def is_resolvable(self, given: NodeClass) -> bool:
        """See ``Preemptor``."""
        state, seen = self.state, set[PodClass]()
        for each, info in self.parties:
            for pod in each.pending:
                member = state.pods.members[pod.uid]
                if state.settings.profile.signed:
                    if member.pod_class in seen:
                        continue
                    seen.add(member.pod_class)
                    cycle = CycleState(
                        info, state.nodes.infos, state.settings.cluster, state.nodes.counts
                    )
                elif self._cycles is None:
                    return True  # no filter may be asked before ``pre_filter`` has passed
                else:
                    cycle = self._cycles[member.seq]
                self.budget.count(ASK)
                if filter_and_score.is_resolvable(
                    state.settings, state.nodes, cycle, member, given, self.now
                ):
                    return True
        return False

    def fits_on(self, index: int) -> bool | None:
        """Not known: a gang of one pod is placed as any gang."""
        return None

    def bar_nodes(self) -> None:
        """Bar none: what refuses a member may be that a sibling is not planned yet."""

    def places(self, *, anyway: bool = False) -> list[tuple[Member, int]] | None:
        """See ``Preemptor``."""
        state, budget = self.state, self.budget
        if equivalence.missing(state, self.info) or (not anyway and budget.ends()):
            return None
        steps = min(budget.each, budget.each if anyway else budget.left)
        found, refused, cycles = gang_layout.plan_gang(
            state, self.entity, now=self.now, budget=steps, work=budget.work, explains=False
        )
        classes = max(map(len, self._needed.values()), default=0)
        budget.count(CLASS * classes + MEMBER * len(cycles))
        if refused is None:
            self._cycles = cycles
        if isinstance(found, UnschedulableMember):
            budget.is_exhausted |= isinstance(found.proof, SearchBudgetExhausted)
        return found.placed if isinstance(found, Plan) else None

    def _count_needed(self, domain: Domain | None) -> Iterable[tuple[Member, int]]:
        """Yield one member of each class of which members are needed, with their number.

        These are the minimum of each role, and of the others those that arrived first; but of no
        class more than empty nodes could take. Where members differ, another choice may be possible
        too; so the numbers are only an estimate.
        """
        for each, _info in self.parties:
            members = sorted((self.state.pods.members[p.uid] for p in each.pending), key=_arrival)
            whole, *roles = equivalence.role_counts(self.state.settings, self.state.call, each)
            if len(members) > whole.count and len({m.pod_class for m in members}) > 1:
                members = self._those_that_fit_first(members, domain)
            taken: list[Member] = []
            for ask in roles:
                taken += [member for member in members if member.role == ask.role][: ask.count]
            chosen = {member.seq for member in taken}
            others = [member for member in members if member.seq not in chosen]
            taken += others[: max(whole.count - len(taken), 0)]
            of_class: dict[PodClass, list[Member]] = {}
            for member in taken:
                of_class.setdefault(member.pod_class, []).append(member)
            for alike in of_class.values():
                yield alike[0], len(alike)

    def _those_that_fit_first(
        self, members: Sequence[Member], domain: Domain | None
    ) -> list[Member]:
        """Return the members in their order, but those last of whose class fewer can ever fit.

        Otherwise a member that fits nowhere, whatever is evicted, would keep a gang from preempting
        that can start without it. O(classes of pods x classes of nodes).
        """
        left: dict[PodClass, int] = {}
        first, last = list[Member](), list[Member]()
        for member in members:
            pod_class = member.pod_class
            if pod_class not in left:
                left[pod_class] = self._most_on_empty_nodes(member, domain)
            left[pod_class] -= 1
            (first if left[pod_class] >= 0 else last).append(member)
        return first + last

    def _most_on_empty_nodes(self, member: Member, domain: Domain | None) -> int:
        """Return an upper bound on the pods like one that fit if all other pods were evicted."""
        state, total = self.state, 0
        cycle = CycleState(
            member.group, state.nodes.infos, state.settings.cluster, state.nodes.counts
        )
        for given in state.nodes.classes.occupied():
            if domain is not None and not domain.has(given):
                continue
            self.budget.count(ASK)
            each = _most_on_empty_node(given, member)
            if each and filter_and_score.is_resolvable(
                state.settings, state.nodes, cycle, member, given, self.now
            ):
                total += each * len(given.nodes)
        return total


def _most_on_empty_node(given: NodeClass, member: Member) -> int:
    """Return how many pods like one fit on a node of a class by what it has. O(resources)."""
    allocatable, bound = given.node.allocatable, sys.maxsize
    limit = allocatable.get("pods")
    if limit is not None:
        bound = limit // MILLI
    for name, need in member.requests.items():
        if need > 0:
            bound = min(bound, allocatable.amount(name) // need)
    return bound


def _needs(
    settings: Settings,
    nodes: Nodes,
    needed: Sequence[tuple[Member, int]],
    domain: Domain | None,
    budget: VictimBudget,
    *,
    now: float,
) -> list[_Need] | None:
    """Return what the nodes take of each class of pods, each class considered by itself."""
    if not settings.profile.signed:
        return None
    found: list[_Need] = []
    for member, count in needed:
        _count_looks(settings, nodes, member.pod_class, budget)
        cycle = CycleState(member.group, nodes.infos, settings.cluster, nodes.counts)
        pod_class, judge, _outcome = filter_and_score.evaluate_nodes(
            settings, nodes, cycle, member, now
        )
        headroom = pod_class.judgements.headroom
        if domain is not None:
            headroom = sum(
                each * len(given.nodes)
                for given, each in pod_class.judgements.with_max_pods()
                if domain.has(given)
            )
        found.append(_Need(Shortfall(pod_class, judge, count), headroom))
    return found


def _short(needs: Sequence[_Need]) -> list[Shortfall]:
    """Return the classes of pods that exceed free capacity, and by how many."""
    lacks = (evolve(n.asked, count=n.asked.count - n.headroom) for n in needs)
    return [each for each in lacks if each.count > 0]


def _slack(needs: Sequence[_Need]) -> list[Shortfall]:
    """Return by how many pods free capacity exceeds each class; 0 where it does not."""
    return [evolve(n.asked, count=max(n.headroom - n.asked.count, 0)) for n in needs]


def _count_looks(
    settings: Settings, nodes: Nodes, pod_class: PodClass, budget: VictimBudget
) -> None:
    """Count what it takes to evaluate the nodes for a class of pods, which is about to be done."""
    known = nodes.classes.count
    if settings.profile.signed:
        budget.count(CLASS + MOVED * min(pod_class.judgements.behind(nodes.classes), known))
    else:
        budget.count(CLASS + EVALUATED * known)


def _arrival(member: Member) -> int:
    return member.seq
