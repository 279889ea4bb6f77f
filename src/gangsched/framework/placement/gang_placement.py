"""Finding nodes for the members of a gang, or of the gangs of a bundle.

Theory of operation. Members are sorted into kinds; members of one kind are interchangeable. A
greedy pass plans one kind after another. For one kind that is optimal. For several kinds it may
place too few, because an early kind takes the nodes that a later kind needs. Then ``search``
decides. Both take steps of one budget. There are three ways, by what the gangs ask for:

- ``_place``: one gang, or a bundle without topologies. If the gang must be within one value of a
  label, each value is tried: first greedily, then by search.
- ``_place_each``: a bundle with topologies. One group is placed after another. If that fails, all
  combinations of values are searched for all groups at once (``_place_anew``).
- ``_place_by_node``: a plugin reads which pods are on nodes for one of the members. The same
  combinations, with ``sibling_search`` for each.

Rules:
  R1  members of a kind are planned in order of arrival, the kinds in the order of their first
      member;
  R2  the result is a plan, a proof that there is none, or that the search budget is exhausted;
  R3  members that are not needed are planned last, with what is left of the nodes. If minima come
      first, they are left out at the end: the nodes are still chosen so that most of them fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Final

from attrs import evolve

from gangsched._core._registry import PodGroupInfo
from gangsched._packing.budget import EVALUATED, READ, Budget, Work
from gangsched._packing.pack import BudgetExhausted, Impossible, Packed
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis, SearchBudgetExhausted, Shortage, UnschedulableMember
from gangsched.framework.nodes.judgements import Judge
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import choose_node, sibling_search, topology
from gangsched.framework.placement.complete_search import Kind, Kinds, Task, carry_over, search
from gangsched.framework.placement.like_runs import runs
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.queueing import quotas
from gangsched.framework.runtime import filter_and_score, signatures
from gangsched.framework.runtime.pod_readers import NodeCheck
from gangsched.framework.state.pods import Member
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.scheduler_state import State
from gangsched.model import Resources
from gangsched.outcomes import Unschedulable

__all__ = ["place"]


_LOOK: Final = 100
"""The least number of steps that one combination of values costs, for its greedy passes."""

_OF_CAPACITY: Final = ("Insufficient ", "Too many pods")
"""How the reasons begin that a proof says already."""

_reads_pods: Final = attrgetter("reads_pods")
_arrival: Final[Callable[[Member], int]] = attrgetter("seq")


def place(
    state: State,
    groups: Sequence[PodGroupInfo],
    members: Sequence[Member],
    cycles: Mapping[int, CycleState],
    asks: Sequence[RoleCount],
    *,
    now: float,
    budget: int,
    work: Work | None = None,
    explains: bool = True,
) -> Plan | UnschedulableMember:
    """Return a plan for members of groups that start together, or a member that does not fit.

    The plan also has the members beyond the minimum, as far as they fit. See ``gang_layout`` for
    the arguments.
    """
    kinds: Kinds = {}
    judges: dict[PodClass, Judge] = {}
    refused: UnschedulableMember | None = None
    of_kind: dict[Hashable, list[Member]] = {}
    signed = state.settings.profile.signed
    is_affected = False
    work = Work() if work is None else work
    if not signed:
        work.steps += work.count(READ * len(members))
    for affected, selected, run in runs(state.nodes, members, signed=signed):
        member = run[0]
        assert member.group is not None
        kind = Kind(
            member.pod_class, member.requests, member.group.key, member.role, affected, selected
        )
        key: Hashable = kind
        if not signed:  # a class is of this decision alone; members that are alike share it
            key = (signatures.within_cycle(state.settings, member.pod), *kind[1:])
        alike = of_kind.get(key)
        if alike is not None:
            alike += run
            continue
        of_kind[key] = run
        is_affected = is_affected or bool(affected)
        if not signed:  # nothing is known of the nodes from an earlier decision
            work.steps += work.count(EVALUATED * state.nodes.classes.count)
        pod_class, judge, outcome = filter_and_score.evaluate_nodes(
            state.settings, state.nodes, cycles[member.seq], member, now
        )
        if isinstance(outcome, Unschedulable):
            # those that are like it are refused, too
            refused = refused or UnschedulableMember(
                member.pod.uid, member.pod.key, outcome.reason, None
            )
            continue
        if pod_class is not kind.pod_class:
            kind = kind._replace(pod_class=pod_class)
        kinds[kind] = run
        judges[pod_class] = judge
    checks: dict[Kind, NodeCheck] = {}
    if is_affected or any(map(_reads_pods, judges)):
        checks = {
            kind: NodeCheck(
                state.settings,
                state.nodes,
                cycles[alike[0].seq],
                alike[0].pod,
                is_affected=bool(kind.affected),
            )
            for kind, alike in kinds.items()
        }
    shared = len(groups) > 1
    task = Task(
        state.settings,
        state.nodes,
        state.pods,
        kinds,
        judges,
        tuple(asks),
        shared,
        budget,
        work,
        work.steps,
        checks,
        explains,
        followers={} if signed else _followers(kinds),
    )
    if checks:
        found = _place_by_node(task, groups)
    elif task.shared and any(topology.asked(info) for info in groups):
        found = _place_each(task, groups)
    else:
        found = _place(task, groups[0], _empty(task))
    taken = work.steps - task.begun
    state.attempts.search_steps += taken
    state.call.steps += taken
    if found is None:
        first = members[0].pod
        return refused or UnschedulableMember(
            first.uid, first.key, "too few members may be placed", None
        )
    if isinstance(found, Plan) and not (checks and state.settings.profile.minima_first):
        plan, found = found, _allowed(task, found)
        if checks and found is not plan:
            # a member that stays may have been placed for the sake of one that does not
            allowed = [member for member, _index in found.placed]
            allowed.sort(key=_arrival)
            return place(
                state,
                groups,
                allowed,
                cycles,
                asks,
                now=now,
                budget=budget,
                work=work,
                explains=explains,
            )
    if isinstance(found, UnschedulableMember) and isinstance(found.proof, SearchBudgetExhausted):
        state.attempts.exhausted_searches += 1
    return found


def _followers(kinds: Kinds) -> dict[Kind, int]:
    """Return for each kind how many members of later kinds request the same. O(kinds)."""
    counts: dict[Resources, int] = {}
    found: dict[Kind, int] = {}
    for kind, alike in reversed(kinds.items()):
        found[kind] = counts.get(kind.requests, 0)
        counts[kind.requests] = found[kind] + len(alike)
    return found


def _allowed(task: Task, plan: Plan) -> Plan:
    """Return the plan without the elastic members that may not start now.

    These are all of them if minima come first, and otherwise those that exceed a quota. O(members x
    roles).
    """
    minima_first = task.settings.profile.minima_first
    if not (minima_first or task.pods.quotas.is_used):
        return plan
    least = _least(task, plan)
    members = [member for member, _index in plan.placed]
    if not minima_first:
        needed = [member for member in members if member.seq in least]
        elastic = [member for member in members if member.seq not in least]
        least = {member.seq for member in quotas.within(task.pods, needed, elastic)}
    return plan if len(least) == len(members) else plan.only(least)


def _least(task: Task, plan: Plan) -> set[int]:
    """Return the numbers of the first members planned for each need. O(members x roles)."""
    kept: set[int] = set()
    for ask in sorted(task.asks, key=lambda ask: not ask.role):  # a role counts for the total too
        of_group = [m for m, _i in plan.placed if m.group is not None and m.group.key == ask.group]
        able = [m.seq for m in of_group if not ask.role or m.role == ask.role]
        missing = ask.count - sum(seq in kept for seq in able)
        kept.update([seq for seq in able if seq not in kept][: max(missing, 0)])
    return kept


def _empty(task: Task) -> Plan:
    """Return an empty plan; half of the steps are kept for the search.

    A single kind looks at no node that another one has touched, so it takes no steps.
    """
    if len(task.kinds) == 1:
        return Plan(task.nodes)
    return Plan(task.nodes, Budget(max(task.left, 0) // 2, task.work))


def _place(task: Task, info: PodGroupInfo, begun: Plan) -> Plan | UnschedulableMember | None:
    """Place a gang in the domain that takes most of its members, the first of equal domains.

    If none will do, return a member of the domain that comes closest.
    """
    domains = _domains(task, info)
    left: dict[Domain | None, tuple[Member, PodClass]] = {}
    best: Plan | None = None
    planned, is_labelled = len(begun.placed), False
    for domain, most in domains:
        is_labelled = True
        # all nodes come last, and only if no value will do
        if best is not None and (domain is None or most <= len(best.placed) - len(begun.placed)):
            break
        plan = begun.within(domain)
        rest = _extend(task, plan)
        planned = max(planned, len(plan.placed))
        if task.met(plan) and (best is None or len(plan.placed) > len(best.placed)):
            best = plan
        if rest is not None:
            left[domain] = rest
    if best is not None:
        return best
    budget, closest = task.left, -1
    found: UnschedulableMember | None = None
    for domain, (member, pod_class) in left.items():
        answer = search(task, begun.within(domain), budget)
        if isinstance(answer, Packed):
            plan = begun.within(domain)
            carry_over(task, answer, plan)
            _extend(task, plan)
            return plan
        budget -= answer.steps
        if isinstance(answer, BudgetExhausted):
            answer = evolve(answer, placed=max(answer.placed, min(planned, task.needed)))
        fits = answer.placed if isinstance(answer, BudgetExhausted) else answer.fits
        if fits > closest:
            closest = fits
            found = _unschedulable(task, member, pod_class, answer, domain)
    if found is None and not is_labelled and task.kinds:
        return _unlabelled(task, info)
    return found


def _place_by_node(task: Task, groups: Sequence[PodGroupInfo]) -> Plan | UnschedulableMember | None:
    """Place groups of which a plugin reads where the members are; see ``sibling_search``.

    Each combination of places for the groups is tried. If all are refuted, the one that comes
    closest is reported.
    """
    found: UnschedulableMember | None = None
    left, steps, closest = task.left, 0, -1
    places = [list(_domains(task.part(info.key), info)) for info in groups]
    for within in product(*([domain for domain, _most in each] for each in places)):
        if steps and left <= 0:
            return _unschedulable(task, *task.first_of(None), BudgetExhausted(steps, closest), None)
        domains = {info.key: domain for info, domain in zip(groups, within, strict=True)}
        answer = sibling_search.place(task, domains, left)
        if answer is None or isinstance(answer, Plan):
            return answer
        for pod_class, judge in task.judges.items():
            pod_class.judgements.refresh(task.nodes, judge)  # without the members that were tried
        cost = max(answer.steps, _LOOK)
        left, steps = left - cost, steps + cost
        domain = domains[answer.kind.group]
        if isinstance(answer.answer, BudgetExhausted):
            spent = evolve(answer.answer, steps=steps)
            return _unschedulable(
                task, answer.member, answer.kind.pod_class, spent, domain, answer.diagnosis
            )
        if answer.answer.fits > closest:
            closest = answer.answer.fits
            found = _unschedulable(
                task, answer.member, answer.kind.pod_class, answer.answer, domain, answer.diagnosis
            )
    if found is None and task.kinds:
        return _unlabelled(
            task, next(i for i, each in zip(groups, places, strict=True) if not each)
        )
    return found


def _place_each(task: Task, groups: Sequence[PodGroupInfo]) -> Plan | UnschedulableMember | None:
    """Place the groups of a bundle, each within its own label.

    First one group after another, each with all its members. If an earlier group takes nodes that
    a later one needs, the needed members of all groups are placed together.
    """
    parts = [(task.part(info.key), info) for info in groups]
    plan = _empty(task)
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
    """Try all combinations of the domains of the groups of a bundle.

    If all are refuted, return a member of the combination that comes closest: the one of which the
    first group that fails is the last in order.
    """
    left, steps = task.left, 0
    closest = (-1, -1)
    groups = [info.key for _part, info in parts]
    places = [[domain for domain, _most in _domains(part, info)] for part, info in parts]
    for within in product(*places):
        if steps and left <= 0:
            return _unschedulable(task, *task.first_of(None), BudgetExhausted(steps, 0), None)
        domains = dict(zip(groups, within, strict=True))
        answer = search(task, Plan(task.nodes), left, domains)
        if isinstance(answer, Packed):
            plan = _empty(task)
            carry_over(task, answer, plan)
            for (part, _info), domain in zip(parts, within, strict=True):
                plan = plan.within(domain)
                _extend(part, plan)
            return plan
        cost = max(answer.steps, _LOOK)
        left, steps = left - cost, steps + cost
        if isinstance(answer, BudgetExhausted):  # nothing is left for other combinations
            return _unschedulable(task, *task.first_of(None), evolve(answer, steps=steps), None)
        number = int(answer.quota.name)
        if (number, answer.fits) > closest:
            closest, group = (number, answer.fits), task.asks[number].group
            assert group is not None  # a task is about members of groups
            found = _unschedulable(task, *task.first_of(group), answer, domains[group])
    return found


def _domains(task: Task, info: PodGroupInfo) -> Iterable[tuple[Domain | None, float]]:
    """Return the domains of a gang in the order in which to try them; see ``topology.domains``."""
    if not topology.asked(info):
        return ((None, math.inf),)
    counts = [(kind.pod_class, len(alike)) for kind, alike in task.kinds.items()]
    return topology.domains(task.nodes, task.pods, info, counts, task.needed)


def _extend(task: Task, plan: Plan) -> tuple[Member, PodClass] | None:
    """Plan as many further members as fit; return the first one that does not, None if all fit.

    Members of one kind are interchangeable, so the first of them are planned.
    """
    placed = {member.seq for member, _index in plan.placed}
    rest: tuple[Member, PodClass] | None = None
    for kind, alike in task.kinds.items():
        pod_class = kind.pod_class
        left = [member for member in alike if member.seq not in placed] if placed else alike
        count = plan.place(
            pod_class,
            task.judges[pod_class],
            left,
            task.settings.placement,
            followers=task.followers.get(kind, 0),
        )
        if count < len(left) and rest is None:
            rest = (left[count], pod_class)
    return rest


def _unschedulable(
    task: Task,
    member: Member,
    pod_class: PodClass,
    found: Impossible[Kind] | BudgetExhausted,
    domain: Domain | None,
    diagnosis: Diagnosis | None = None,
) -> UnschedulableMember:
    """Return the member that keeps the gang from starting: one that fits nowhere, if there is one.

    Args:
        task: What was to be placed.
        member: The first member that could not be placed.
        pod_class: Its class.
        found: Why no placement was found.
        domain: The nodes that were tried; None for all.
        diagnosis: Why no node took the member after its siblings were placed; None if the
            constraints among them were not looked at.
    """
    if not task.explains:
        spent: SearchBudgetExhausted | None = None
        if isinstance(found, BudgetExhausted):
            spent = SearchBudgetExhausted(task.needed, found.placed, found.steps)
        reason = "no placement was found"
        return UnschedulableMember(member.pod.uid, member.pod.key, reason, None, spent)
    after_siblings = diagnosis
    nowhere = _needed_and_nowhere(task)
    if nowhere is not None:
        kind, member = nowhere
        diagnosis = _diagnosis(task, kind)
    elif diagnosis is None:
        diagnosis = pod_class.judgements.diagnosis()
    proof: Shortage | SearchBudgetExhausted
    if isinstance(found, BudgetExhausted):
        proof = SearchBudgetExhausted(task.needed, found.placed, found.steps)
    else:
        ask = task.asks[int(found.quota.name)]
        group = ask.group if task.shared else None
        proof = Shortage(
            ask.count,
            found.fits,
            found.exact,
            ask.role or "",
            found.resource,
            found.in_pieces,
            group=group,
            beside_others=not found.alone,
        )
        if domain is not None:
            proof = evolve(proof, within=str(domain))
    fits_alone = bool(pod_class.judgements.headroom)
    if after_siblings is not None and isinstance(found, Impossible) and not found.fits:
        fits_alone = False
    if nowhere is not None or (domain is None and not fits_alone):
        reason = str(diagnosis)
    elif isinstance(proof, SearchBudgetExhausted):
        reason = str(proof) if after_siblings is None else f"{proof}: {after_siblings}"
    elif after_siblings is not None and proof.resource is None:
        reason = f"{proof}: {after_siblings}"
    else:
        reason = f"{proof}{_refused_for_constraints(diagnosis)}"
    return UnschedulableMember(member.pod.uid, member.pod.key, reason, diagnosis, proof)


def _needed_and_nowhere(task: Task) -> tuple[Kind, Member] | None:
    """Return the first member that fits on no node, if too few others are left. O(kinds x asks).

    What else is short does not matter then: the gang cannot start before this one fits somewhere.
    """
    for ask in task.asks:
        counted = [(kind, alike) for kind, alike in task.kinds.items() if kind.counts_for(ask)]
        able = sum(len(alike) for kind, alike in counted if kind.pod_class.judgements.headroom)
        nowhere = [
            (kind, alike[0]) for kind, alike in counted if not kind.pod_class.judgements.headroom
        ]
        if nowhere and able < ask.count:
            return nowhere[0]
    return None


def _diagnosis(task: Task, kind: Kind) -> Diagnosis:
    """Return why no node takes the members of a kind, as the nodes are now. O(nodes)."""
    check, known = task.checks.get(kind), task.diagnoses.get(kind)
    if known is not None:
        return known
    if check is None:
        return kind.pod_class.judgements.diagnosis()
    return choose_node.diagnosis(task.nodes, kind.pod_class, check)


def _refused_for_constraints(diagnosis: Diagnosis) -> str:
    """Return which nodes refuse a member for another reason than a lack of capacity."""
    named = [
        f"{count} {reason}"
        for reason, count in diagnosis.reasons
        if not reason.startswith(_OF_CAPACITY)
    ]
    return f"; of {diagnosis.nodes} nodes: {', '.join(named)}" if named else ""


def _unlabelled(task: Task, info: PodGroupInfo) -> UnschedulableMember:
    """Return that no feasible node has the label of the gang's topology."""
    kind, (member, *_others) = next(iter(task.kinds.items()))
    pod_class = kind.pod_class
    diagnosis = pod_class.judgements.diagnosis()
    if not pod_class.judgements.headroom:
        return UnschedulableMember(member.pod.uid, member.pod.key, str(diagnosis), diagnosis)
    assert info.spec is not None
    assert info.spec.topology is not None
    label = info.spec.topology.key
    reason = f"no node that can take it has the label {label}"
    proof = Shortage(task.needed, 0, True, within=label)
    return UnschedulableMember(member.pod.uid, member.pod.key, reason, diagnosis, proof)
