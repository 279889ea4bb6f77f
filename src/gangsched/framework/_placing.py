"""Finding nodes for the members of a gang.

Rules:
  R1  like members are placed one after the other, the kinds in the order in which they came;
  R2  where that leaves too few placed, a placement is searched for, within a budget: what can be
      placed is found, or it is proven that it cannot be, or it is said that nobody knows;
  R3  members that are not needed come last, where there is room left for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias, final

from attrs import evolve, frozen

from gangsched._core._packing import Demand, Impossible, Packed, Quota, Undecided, pack
from gangsched._core._registry import PodGroupInfo
from gangsched.explain import Misfit, Shortage
from gangsched.explain import Undecided as NotDecided
from gangsched.framework import _points, _topology
from gangsched.framework._plan import Domain, Plan
from gangsched.framework._shapes import Quotas
from gangsched.framework._state import Member, State
from gangsched.framework.cycle_state import CycleState
from gangsched.framework.node_class import NodeClass
from gangsched.framework.pod_class import Judge, PodClass
from gangsched.outcomes import Unschedulable

__all__ = ["place"]


class _Kind(NamedTuple):
    """What members have in common that may stand in for each other."""

    pod_class: PodClass
    role: str | None


_Kinds: TypeAlias = dict[_Kind, list[Member]]
_Judges: TypeAlias = Mapping[PodClass, Judge]
_Answer: TypeAlias = Packed[NodeClass, _Kind] | Impossible[_Kind] | Undecided


@final
@frozen
class _Task:
    """What is to be placed.

    Attributes:
        state: The scheduler's memory.
        kinds: The members, by kind.
        judges: Who judges nodes for them.
        quotas: How many have to be placed; see ``_shapes.quotas``.
    """

    state: State
    kinds: _Kinds
    judges: _Judges
    quotas: Quotas

    def met(self, plan: Plan) -> bool:
        """Say whether a plan has enough members. O(members) where roles are asked for."""
        (_all, needed), *lacking = self.quotas
        if len(plan.placed) < needed:
            return False
        return not lacking or all(plan.of_role(role) >= count for role, count in lacking)


def place(
    state: State,
    info: PodGroupInfo,
    members: list[Member],
    cycles: Mapping[int, CycleState],
    quotas: Quotas,
    *,
    now: float,
) -> Plan | Misfit:
    """Return a plan that meets *quotas*, or who does not fit.

    Members that are not needed are in it as far as they fit.
    """
    kinds: _Kinds = {}
    judges: dict[PodClass, Judge] = {}
    refused: Misfit | None = None
    for member in members:
        known = _Kind(member.pod_class, member.role)
        if state.profile.signed and known in kinds:
            kinds[known].append(member)
            continue
        pod_class, judge, outcome = _points.judge_nodes(state, cycles[member.seq], member, now)
        if isinstance(outcome, Unschedulable):
            refused = refused or Misfit(member.pod.uid, member.pod.key, outcome.reason, None)
            continue
        kinds[_Kind(pod_class, member.role)] = [member]
        judges[pod_class] = judge
    found = _place(_Task(state, kinds, judges, quotas), info)
    if isinstance(found, Plan):
        return found
    if found is None:
        first = members[0].pod
        return refused or Misfit(first.uid, first.key, "too few members may be placed", None)
    return found


def _place(task: _Task, info: PodGroupInfo) -> Plan | Misfit | None:
    """Try one place for the gang after the other; return the misfit that comes closest."""
    counts = [(kind.pod_class, len(alike)) for kind, alike in task.kinds.items()]
    domains = _topology.domains(task.state, info, counts, task.quotas[0][1])
    left: dict[Domain | None, tuple[Member, PodClass]] = {}
    for domain in domains:
        plan = Plan(task.state, domain)
        misfit = _extend(task, plan)
        if task.met(plan):
            return plan
        if misfit is not None:
            left[domain] = misfit
    budget, closest = task.state.budget, -1
    found: Misfit | None = None
    for domain, (member, pod_class) in left.items():
        answer = _search(task, domain, budget)
        if isinstance(answer, Packed):
            plan = _carry_over(task, answer, domain)
            _extend(task, plan)
            return plan
        budget -= answer.steps
        fits = answer.placed if isinstance(answer, Undecided) else answer.fits
        if fits > closest:
            closest = fits
            found = _misfit(task, member, pod_class, answer, domain)
    if found is None and not domains:
        return _nowhere(task, info)
    if found is not None and isinstance(found.proof, NotDecided):
        task.state.undecided += 1
    return found


def _extend(task: _Task, plan: Plan) -> tuple[Member, PodClass] | None:
    """Place as many members as fit, of those that are not placed; return the first that does not.

    Like members are interchangeable, so of a kind the first ones are placed.
    """
    placed = {member.seq for member, _index in plan.placed}
    misfit: tuple[Member, PodClass] | None = None
    for (pod_class, _role), alike in task.kinds.items():
        left = [member for member in alike if member.seq not in placed] if placed else alike
        count = plan.place(pod_class, task.judges[pod_class], left, task.state.layout)
        if count < len(left) and misfit is None:
            misfit = (left[count], pod_class)
    return misfit


def _search(task: _Task, domain: Domain | None, budget: int) -> _Answer:
    demands = [
        Demand(kind, len(alike), kind.pod_class.sample.requests)
        for kind, alike in task.kinds.items()
    ]
    quotas = [
        Quota(frozenset(k for k in task.kinds if not role or k.role == role), needed, role)
        for role, needed in task.quotas
    ]
    nodes = Plan(task.state, domain).untouched()
    return pack(demands, quotas, nodes, _Room(task.state, task.judges), budget=max(budget, 0))


def _carry_over(task: _Task, found: Packed[NodeClass, _Kind], domain: Domain | None) -> Plan:
    plan = Plan(task.state, domain)
    upcoming = {kind: iter(alike) for kind, alike in task.kinds.items()}
    for given, takes in found.nodes:
        index: int | None = None
        for kind, count in takes:
            for _ in range(count):
                index = plan.put(next(upcoming[kind]), given, on=index)
                given = plan.at(index)
    return plan


def _misfit(
    task: _Task,
    member: Member,
    pod_class: PodClass,
    found: Impossible[_Kind] | Undecided,
    domain: Domain | None,
) -> Misfit:
    needed = task.quotas[0][1]
    diagnosis = pod_class.diagnosis()
    proof: Shortage | NotDecided
    if isinstance(found, Undecided):
        proof = NotDecided(needed, found.placed, found.steps)
    else:
        role, needed = found.quota.name, found.quota.at_least
        proof = Shortage(needed, found.fits, found.exact, role, found.resource, found.in_pieces)
        if domain is not None:
            proof = evolve(proof, within=str(domain))
    nowhere = domain is None and not pod_class.headroom
    return Misfit(
        member.pod.uid, member.pod.key, str(diagnosis if nowhere else proof), diagnosis, proof
    )


def _nowhere(task: _Task, info: PodGroupInfo) -> Misfit:
    """Say that no node that can take a member has the label that the gang belongs within."""
    (pod_class, _role), (member, *_others) = next(iter(task.kinds.items()))
    diagnosis = pod_class.diagnosis()
    if not pod_class.headroom:
        return Misfit(member.pod.uid, member.pod.key, str(diagnosis), diagnosis)
    topology = None if info.spec is None else info.spec.topology
    label = "" if topology is None else topology.key
    reason = f"no node that can take it has the label {label}"
    proof = Shortage(task.quotas[0][1], 0, True, within=label)
    return Misfit(member.pod.uid, member.pod.key, reason, diagnosis, proof)


@final
class _Room:
    """The nodes, as ``gangsched._core._packing`` asks about them."""

    def __init__(self, state: State, judges: _Judges, boundless: str | None = None) -> None:
        self._state = state
        self._judges = judges
        self._boundless = boundless
        self._classes = state.nodes.classes

    @property
    def binding(self) -> Collection[str]:
        names = (_points.fitted(self._state, each.sample) for each in self._judges)
        return frozenset(name for found in names for name in found) - {self._boundless}

    def after(self, node: NodeClass, pod: _Kind) -> NodeClass | None:
        if self._boundless is not None:
            node = self._classes.boundless(node, self._boundless)
        pod_class = pod.pod_class
        if pod_class.judgement(node, self._judges[pod_class]).reasons:
            return None
        return self._classes.taking(node, pod_class.sample.requests)

    def free(self, node: NodeClass) -> Mapping[str, int]:
        return node.sample.free

    def without(self, resource: str) -> _Room:
        return _Room(self._state, self._judges, resource)
