"""Finding nodes for the members of a gang.

Rules:
  R1  like members are placed one after the other, the kinds in the order in which they came;
  R2  where that leaves too few placed, a placement is searched for, within a budget: what can be
      placed is found, or it is proven that it cannot be, or it is said that nobody knows;
  R3  members that are not needed come last, where there is room left for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from attrs import evolve

from gangsched._core._registry import PodGroupInfo
from gangsched.explain import SearchBudgetExhausted, Shortage, UnschedulableMember
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.pod_class import Judge, PodClass
from gangsched.framework.placement import topology
from gangsched.framework.placement.packing.pack import BudgetExhausted, Impossible, Packed
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.placement.search import Ask, Kind, Kinds, Task, carry_over, search
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.outcomes import Unschedulable

__all__ = ["place"]


_LOOK: Final = 100
"""Steps that one combination of values costs at least, for the passes before any search."""


def place(
    state: State,
    groups: Sequence[PodGroupInfo],
    members: Sequence[Member],
    cycles: Mapping[int, CycleState],
    asks: Sequence[Ask],
    *,
    now: float,
    budget: int | None = None,
) -> Plan | UnschedulableMember:
    """Return a plan for members of groups that start together, or who does not fit.

    Members that are not needed are in it as far as they fit.
    """
    kinds: Kinds = {}
    judges: dict[PodClass, Judge] = {}
    refused: UnschedulableMember | None = None
    before: Member | None = None
    alike: list[Member] = []
    for member in members:
        if state.profile.signed and before is not None and _is_like(member, before):
            alike.append(member)
            continue
        assert member.group is not None
        kind = Kind(member.pod_class, member.requests, member.group.key, member.role)
        if state.profile.signed and kinds and kind in kinds:
            before, alike = member, kinds[kind]
            alike.append(member)
            continue
        pod_class, judge, outcome = filter_and_score.judge_nodes(
            state, cycles[member.seq], member, now
        )
        if isinstance(outcome, Unschedulable):
            refused = refused or UnschedulableMember(
                member.pod.uid, member.pod.key, outcome.reason, None
            )
            continue
        before, alike = member, [member]
        kinds[kind if pod_class is kind.pod_class else kind._replace(pod_class=pod_class)] = alike
        judges[pod_class] = judge
    steps = state.budget if budget is None else budget
    task = Task(state, kinds, judges, tuple(asks), len(groups) > 1, steps)
    if task.shared and any(topology.asked(info) for info in groups):
        found = _place_each(task, groups)
    else:
        found = _place(task, groups[0], Plan(state))
    if found is None:
        first = members[0].pod
        return refused or UnschedulableMember(
            first.uid, first.key, "too few members may be placed", None
        )
    if isinstance(found, UnschedulableMember) and isinstance(found.proof, SearchBudgetExhausted):
        state.exhausted_searches += 1
    return found


def _is_like(member: Member, other: Member) -> bool:
    """Say whether members are of one kind, as far as can be seen without comparing requests."""
    return (
        member.pod_class is other.pod_class
        and member.requests is other.requests
        and member.group is other.group
        and member.role == other.role
    )


def _place(task: Task, info: PodGroupInfo, begun: Plan) -> Plan | UnschedulableMember | None:
    """Try one place for the gang after the other; return the misfit that comes closest."""
    domains = _domains(task, info)
    left: dict[Domain | None, tuple[Member, PodClass]] = {}
    for domain in domains:
        plan = begun.within(domain)
        misfit = _extend(task, plan)
        if task.met(plan):
            return plan
        if misfit is not None:
            left[domain] = misfit
    budget, closest = task.budget, -1
    found: UnschedulableMember | None = None
    for domain, (member, pod_class) in left.items():
        answer = search(task, begun.within(domain), budget)
        if isinstance(answer, Packed):
            plan = begun.within(domain)
            carry_over(task, answer, plan)
            _extend(task, plan)
            return plan
        budget -= answer.steps
        fits = answer.placed if isinstance(answer, BudgetExhausted) else answer.fits
        if fits > closest:
            closest = fits
            found = _misfit(task, member, pod_class, answer, domain)
    if found is None and not domains and task.kinds:
        return _nowhere(task, info)
    return found


def _place_each(task: Task, groups: Sequence[PodGroupInfo]) -> Plan | UnschedulableMember | None:
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
        if isinstance(found, UnschedulableMember):
            return _place_anew(task, parts, found)
        plan = found
    return plan


def _place_anew(
    task: Task, parts: Sequence[tuple[Task, PodGroupInfo]], found: UnschedulableMember
) -> Plan | UnschedulableMember:
    """Try the values of the labels of all groups of a bundle with each other.

    Of those that are refuted, return the misfit that comes closest: in the order of the groups, as
    the first one that fails, where it fails last.
    """
    left, steps = task.budget, 0
    closest = (-1, -1)
    groups = [info.key for _part, info in parts]
    for within in product(*(_domains(part, info) for part, info in parts)):
        if steps and left <= 0:
            return _misfit(task, *task.first_of(None), BudgetExhausted(steps, 0), None)
        domains = dict(zip(groups, within, strict=True))
        answer = search(task, Plan(task.state), left, domains)
        if isinstance(answer, Packed):
            plan = Plan(task.state)
            carry_over(task, answer, plan)
            for (part, _info), domain in zip(parts, within, strict=True):
                plan = plan.within(domain)
                _extend(part, plan)
            return plan
        cost = max(answer.steps, _LOOK)
        left, steps = left - cost, steps + cost
        if isinstance(answer, BudgetExhausted):  # with that, nothing is left of the budget
            return _misfit(task, *task.first_of(None), evolve(answer, steps=steps), None)
        number = int(answer.quota.name)
        if (number, answer.fits) > closest:
            closest, group = (number, answer.fits), task.asks[number].group
            found = _misfit(task, *task.first_of(group), answer, domains[group])
    return found


def _domains(task: Task, info: PodGroupInfo) -> Sequence[Domain | None]:
    """Return where a gang may go, in the order in which to try; None stands for anywhere."""
    if not topology.asked(info):
        return (None,)
    counts = [(kind.pod_class, len(alike)) for kind, alike in task.kinds.items()]
    return topology.domains(task.state, info, counts, task.needed)


def _extend(task: Task, plan: Plan) -> tuple[Member, PodClass] | None:
    """Place as many members as fit, of those that are not placed; return the first that does not.

    Like members are interchangeable, so of a kind the first ones are placed.
    """
    placed = {member.seq for member, _index in plan.placed}
    misfit: tuple[Member, PodClass] | None = None
    for kind, alike in task.kinds.items():
        pod_class = kind.pod_class
        left = [member for member in alike if member.seq not in placed] if placed else alike
        count = plan.place(pod_class, task.judges[pod_class], left, task.state.placement)
        if count < len(left) and misfit is None:
            misfit = (left[count], pod_class)
    return misfit


def _misfit(
    task: Task,
    member: Member,
    pod_class: PodClass,
    found: Impossible[Kind] | BudgetExhausted,
    domain: Domain | None,
) -> UnschedulableMember:
    needed = task.needed
    diagnosis = pod_class.diagnosis()
    proof: Shortage | SearchBudgetExhausted
    if isinstance(found, BudgetExhausted):
        proof = SearchBudgetExhausted(needed, found.placed, found.steps)
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
    return UnschedulableMember(
        member.pod.uid, member.pod.key, str(diagnosis if nowhere else proof), diagnosis, proof
    )


def _nowhere(task: Task, info: PodGroupInfo) -> UnschedulableMember:
    """Say that no node that can take a member has the label that the gang belongs within."""
    kind, (member, *_others) = next(iter(task.kinds.items()))
    pod_class = kind.pod_class
    diagnosis = pod_class.diagnosis()
    if not pod_class.headroom:
        return UnschedulableMember(member.pod.uid, member.pod.key, str(diagnosis), diagnosis)
    assert info.spec is not None
    assert info.spec.topology is not None
    label = info.spec.topology.key
    reason = f"no node that can take it has the label {label}"
    proof = Shortage(task.needed, 0, True, within=label)
    return UnschedulableMember(member.pod.uid, member.pod.key, reason, diagnosis, proof)
