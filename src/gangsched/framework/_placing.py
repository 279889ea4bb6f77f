"""Finding nodes for the members of a gang.

Rules:
  R1  like members are placed one after the other, the kinds in the order in which they came;
  R2  where that leaves too few placed, a placement is searched for, within a budget: what can be
      placed is found, or it is proven that it cannot be, or it is said that nobody knows;
  R3  members that are not needed come last, where there is room left for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from attrs import evolve, frozen

from gangsched._core._packing import Demand, Impossible, Packed, Quota, Undecided, pack
from gangsched._core._registry import PodGroupInfo
from gangsched.explain import Misfit, Shortage
from gangsched.explain import Undecided as NotDecided
from gangsched.framework import _judging, _signing, _topology
from gangsched.framework._plan import Domain, Plan
from gangsched.framework._state import Member, State
from gangsched.framework.cycle_state import CycleState
from gangsched.framework.node_class import NodeClass
from gangsched.framework.pod_class import Judge, PodClass
from gangsched.model import GroupKey, Resources
from gangsched.outcomes import Unschedulable

__all__ = ["Ask", "place"]


@final
@frozen
class Ask:
    """How many members of a group must be placed: of a role, or in all where it is empty."""

    group: GroupKey
    role: str
    count: int


class _Kind(NamedTuple):
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


_Kinds: TypeAlias = dict[_Kind, list[Member]]
_Judges: TypeAlias = Mapping[PodClass, Judge]
_Answer: TypeAlias = Packed[NodeClass, _Kind] | Impossible[_Kind] | Undecided

_ANYWHERE: Final[Mapping[GroupKey, Domain | None]] = MappingProxyType({})
_LOOK: Final = 100
"""Steps that one combination of values costs at least, for the passes before any search."""


@final
@frozen
class _Task:
    """What is to be placed.

    Attributes:
        state: The scheduler's memory.
        kinds: The members, by kind.
        judges: Who judges nodes for them.
        asks: How many have to be placed, of one group or of all groups of a bundle.
        shared: Whether a plan has, or will have, members of other groups too.
    """

    state: State
    kinds: _Kinds
    judges: _Judges
    asks: tuple[Ask, ...]
    shared: bool

    @property
    def needed(self) -> int:
        """How many have to be placed in all."""
        return sum(ask.count for ask in self.asks if not ask.role)

    def met(self, plan: Plan) -> bool:
        """Say whether a plan has enough members. O(members) where more than one thing is asked."""
        if len(self.asks) == 1 and not self.shared:
            return len(plan.placed) >= self.asks[0].count
        return all(plan.count(ask.group, ask.role) >= ask.count for ask in self.asks)

    def part(self, group: GroupKey) -> _Task:
        """Return what is to be placed of one group."""
        kinds = {kind: alike for kind, alike in self.kinds.items() if kind.group == group}
        asks = tuple(ask for ask in self.asks if ask.group == group)
        return evolve(self, kinds=kinds, asks=asks)


def place(
    state: State,
    groups: Sequence[PodGroupInfo],
    members: Sequence[Member],
    cycles: Mapping[int, CycleState],
    asks: Sequence[Ask],
    *,
    now: float,
) -> Plan | Misfit:
    """Return a plan for members of groups that start together, or who does not fit.

    Members that are not needed are in it as far as they fit.
    """
    kinds: _Kinds = {}
    judges: dict[PodClass, Judge] = {}
    refused: Misfit | None = None
    before: Member | None = None
    alike: list[Member] = []
    for member in members:
        if state.profile.signed and before is not None and _is_like(member, before):
            alike.append(member)
            continue
        assert member.group is not None
        kind = _Kind(member.pod_class, member.requests, member.group.key, member.role)
        if state.profile.signed and kinds and kind in kinds:
            before, alike = member, kinds[kind]
            alike.append(member)
            continue
        pod_class, judge, outcome = _judging.judge_nodes(state, cycles[member.seq], member, now)
        if isinstance(outcome, Unschedulable):
            refused = refused or Misfit(member.pod.uid, member.pod.key, outcome.reason, None)
            continue
        before, alike = member, [member]
        kinds[kind if pod_class is kind.pod_class else kind._replace(pod_class=pod_class)] = alike
        judges[pod_class] = judge
    task = _Task(state, kinds, judges, tuple(asks), len(groups) > 1)
    if task.shared and any(_topology.asked(info) for info in groups):
        found = _place_each(task, groups)
    else:
        found = _place(task, groups[0])
    if found is None:
        first = members[0].pod
        return refused or Misfit(first.uid, first.key, "too few members may be placed", None)
    if isinstance(found, Misfit) and isinstance(found.proof, NotDecided):
        state.undecided += 1
    return found


def _is_like(member: Member, other: Member) -> bool:
    """Say whether members are of one kind, as far as can be seen without comparing requests."""
    return (
        member.pod_class is other.pod_class
        and member.requests is other.requests
        and member.group is other.group
        and member.role == other.role
    )


def _place(task: _Task, info: PodGroupInfo, begun: Plan | None = None) -> Plan | Misfit | None:
    """Try one place for the gang after the other; return the misfit that comes closest."""
    domains = _domains(task, info)
    begun = begun or Plan(task.state)
    left: dict[Domain | None, tuple[Member, PodClass]] = {}
    for domain in domains:
        plan = begun.within(domain)
        misfit = _extend(task, plan)
        if task.met(plan):
            return plan
        if misfit is not None:
            left[domain] = misfit
    budget, closest = task.state.budget, -1
    found: Misfit | None = None
    for domain, (member, pod_class) in left.items():
        answer = _search(task, begun.within(domain), budget)
        if isinstance(answer, Packed):
            plan = begun.within(domain)
            _carry_over(task, answer, plan)
            _extend(task, plan)
            return plan
        budget -= answer.steps
        fits = answer.placed if isinstance(answer, Undecided) else answer.fits
        if fits > closest:
            closest = fits
            found = _misfit(task, member, pod_class, answer, domain)
    if found is None and not domains and task.kinds:
        return _nowhere(task, info)
    return found


def _place_each(task: _Task, groups: Sequence[PodGroupInfo]) -> Plan | Misfit | None:
    """Place the groups of a bundle, each within its own label.

    First one after the other, each with all its members. Where an earlier one takes the room that
    a later one needs, those who are needed of all groups are placed anew, together.
    """
    parts = [(task.part(info.key), info) for info in groups]
    plan = Plan(task.state)
    for part, info in parts:
        found = _place(part, info, plan)
        if found is None:
            return None
        if isinstance(found, Misfit):
            return _place_anew(task, parts, found)
        plan = found
    return plan


def _place_anew(
    task: _Task, parts: Sequence[tuple[_Task, PodGroupInfo]], found: Misfit
) -> Plan | Misfit:
    """Try the values of the labels of all groups of a bundle with each other.

    Of those that are refuted, return the misfit that comes closest: in the order of the groups, as
    the first one that fails, where it fails last.
    """
    left, steps, placed, is_refuted = task.state.budget, 0, 0, True
    closest = (-1, -1)
    groups = [info.key for _part, info in parts]
    for within in product(*(_domains(part, info) for part, info in parts)):
        if steps and left <= 0:
            is_refuted = False
            break
        domains = dict(zip(groups, within, strict=True))
        answer = _search(task, Plan(task.state), left, domains)
        if isinstance(answer, Packed):
            plan = Plan(task.state)
            _carry_over(task, answer, plan)
            for (part, _info), domain in zip(parts, within, strict=True):
                plan = plan.within(domain)
                _extend(part, plan)
            return plan
        cost = max(answer.steps, _LOOK)
        left, steps = left - cost, steps + cost
        if isinstance(answer, Undecided):
            is_refuted, placed = False, max(placed, answer.placed)
            continue
        number = int(answer.quota.name)
        if (number, answer.fits) > closest:
            closest, group = (number, answer.fits), task.asks[number].group
            found = _misfit(task, *_first_of(task, group), answer, domains[group])
    if is_refuted:
        return found
    return _misfit(task, *_first_of(task, None), Undecided(steps, placed), None)


def _first_of(task: _Task, group: GroupKey | None) -> tuple[Member, PodClass]:
    """Return the first member of a group with its class; of any if none of that may be placed."""
    kind, alike = min(task.kinds.items(), key=lambda item: item[0].group != group)
    return alike[0], kind.pod_class


def _domains(task: _Task, info: PodGroupInfo) -> Sequence[Domain | None]:
    """Return where a gang may go, in the order in which to try; None stands for anywhere."""
    if not _topology.asked(info):
        return (None,)
    counts = [(kind.pod_class, len(alike)) for kind, alike in task.kinds.items()]
    return _topology.domains(task.state, info, counts, task.needed)


def _extend(task: _Task, plan: Plan) -> tuple[Member, PodClass] | None:
    """Place as many members as fit, of those that are not placed; return the first that does not.

    Like members are interchangeable, so of a kind the first ones are placed.
    """
    placed = {member.seq for member, _index in plan.placed}
    misfit: tuple[Member, PodClass] | None = None
    for kind, alike in task.kinds.items():
        pod_class = kind.pod_class
        left = [member for member in alike if member.seq not in placed] if placed else alike
        count = plan.place(pod_class, task.judges[pod_class], left, task.state.layout)
        if count < len(left) and misfit is None:
            misfit = (left[count], pod_class)
    return misfit


def _search(
    task: _Task, plan: Plan, budget: int, within: Mapping[GroupKey, Domain | None] = _ANYWHERE
) -> _Answer:
    demands = [Demand(kind, len(alike), kind.requests) for kind, alike in task.kinds.items()]
    quotas = [
        Quota(frozenset(kind for kind in task.kinds if kind.counts_for(ask)), ask.count, str(n))
        for n, ask in enumerate(task.asks)
    ]
    room, nodes = _Room(task.state, task.judges, within), dict(plan.untouched())
    for given, touched in plan.touched().items():
        nodes[given] = nodes.get(given, 0) + len(touched)
    return pack(demands, quotas, list(nodes.items()), room, budget=max(budget, 0))


def _carry_over(task: _Task, found: Packed[NodeClass, _Kind], plan: Plan) -> None:
    upcoming = {kind: iter(alike) for kind, alike in task.kinds.items()}
    touched = plan.touched()
    for given, takes in found.nodes:
        index = touched[given].pop() if touched.get(given) else None
        for kind, count in takes:
            for _ in range(count):
                index = plan.put(next(upcoming[kind]), given, on=index)
                given = plan.at(index)


def _misfit(
    task: _Task,
    member: Member,
    pod_class: PodClass,
    found: Impossible[_Kind] | Undecided,
    domain: Domain | None,
) -> Misfit:
    needed = task.needed
    diagnosis = pod_class.diagnosis()
    proof: Shortage | NotDecided
    if isinstance(found, Undecided):
        proof = NotDecided(needed, found.placed, found.steps)
    else:
        ask = task.asks[int(found.quota.name)]
        group = ask.group if task.shared else None
        proof = Shortage(
            ask.count,
            found.fits,
            found.exact,
            ask.role,
            found.resource,
            found.in_pieces,
            group=group,
        )
        if domain is not None:
            proof = evolve(proof, within=str(domain))
    nowhere = domain is None and not pod_class.headroom
    return Misfit(
        member.pod.uid, member.pod.key, str(diagnosis if nowhere else proof), diagnosis, proof
    )


def _nowhere(task: _Task, info: PodGroupInfo) -> Misfit:
    """Say that no node that can take a member has the label that the gang belongs within."""
    kind, (member, *_others) = next(iter(task.kinds.items()))
    pod_class = kind.pod_class
    diagnosis = pod_class.diagnosis()
    if not pod_class.headroom:
        return Misfit(member.pod.uid, member.pod.key, str(diagnosis), diagnosis)
    topology = None if info.spec is None else info.spec.topology
    label = "" if topology is None else topology.key
    reason = f"no node that can take it has the label {label}"
    proof = Shortage(task.needed, 0, True, within=label)
    return Misfit(member.pod.uid, member.pod.key, reason, diagnosis, proof)


@final
class _Room:
    """The nodes, as ``gangsched._core._packing`` asks about them."""

    def __init__(
        self,
        state: State,
        judges: _Judges,
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
        names = (_signing.fitted(self._state, each.sample) for each in self._judges)
        return frozenset(name for found in names for name in found) - {self._boundless}

    def after(self, node: NodeClass, pod: _Kind) -> NodeClass | None:
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
