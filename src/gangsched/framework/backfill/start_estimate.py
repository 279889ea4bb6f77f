"""StartEstimate: when and where a gang can start, given the expected ends of running pods.

Rules:
  R1  the gang is placed by the code that places it when it starts, on a view of the nodes without
      the pods that will have ended;
  R2  if enough run times are known, the estimate is the earliest instant at which the gang fits;
  R3  otherwise nodes are drained for it: as few as possible, those with the fewest pods first.
      Draining is meant as in Slurm: no new pod is placed there, and no running pod is evicted;
  R4  all placements of one call share a budget of steps (``budget_shares``). When it is exhausted,
      a gang whose members need a search counts as one that does not fit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import final

from attrs import frozen

from gangsched._core._entity import QueuedEntity
from gangsched.errors import GangschedError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.nodes.reserved_views import without
from gangsched.framework.placement import budget_shares, gang_layout
from gangsched.framework.placement.packing.budget import Work
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, PodUID

__all__ = ["StartEstimate", "look_ahead"]


@final
@frozen
class StartEstimate:
    """When and where a gang can start.

    Attributes:
        starts_at: The expected start; infinite if it is unknown, as nodes are drained for it.
        capacity: The capacity to reserve, by node.
        planned: The members that it is reserved for, each with its node.
        drained: If nodes are drained, the pods on them.
    """

    starts_at: float
    capacity: dict[NodeName, ReservedCapacity]
    planned: tuple[tuple[PodUID, NodeName], ...]
    drained: frozenset[PodUID] = frozenset()


def look_ahead(
    state: State, entity: QueuedEntity, ends: Mapping[PodUID, float], *, now: float, drains: bool
) -> StartEstimate | None:
    """Estimate when and where a gang can start; return None if it cannot, as far as is known.

    Runtime complexity: O(n log n) for n pods on nodes, and O(log n) placements of the gang.

    Args:
        state: The scheduler's state.
        entity: The gang.
        ends: The expected end of each pod that holds a node and has a known one.
        now: The current instant.
        drains: Whether nodes may be drained for it if the run times are not enough.
    """
    exhausted_searches = state.attempts.exhausted_searches
    work = Work()
    try:
        return _by_run_times(state, entity, ends, now, work) or (
            _by_draining(state, entity, now, work) if drains else None
        )
    except GangschedError:
        return None  # its own cycle will raise it, and name the pod
    finally:
        state.attempts.exhausted_searches = exhausted_searches


def _by_run_times(
    state: State, entity: QueuedEntity, ends: Mapping[PodUID, float], now: float, work: Work
) -> StartEstimate | None:
    leaving: dict[float, list[tuple[NodeName, PodUID]]] = {now: []}
    for name, uid in _others(state.nodes, state.pods, entity):
        end = max(ends.get(uid, math.inf), now)
        if end < math.inf:
            leaving.setdefault(end, []).append((name, uid))
    instants = sorted(leaving)

    def plan_at(number: int) -> Plan | None:
        gone = (each for instant in instants[: number + 1] for each in leaving[instant])
        return _plan_without(state, entity, gone, now, work)

    number, plan = _first(plan_at, _first_with_enough(state, entity, instants, leaving), instants)
    if plan is None:
        return None
    gone = {uid for instant in instants[: number + 1] for _name, uid in leaving[instant]}
    capacity, planned = _reserved(state, entity, plan, gone)
    return StartEstimate(instants[number], capacity, planned)


def _by_draining(
    state: State, entity: QueuedEntity, now: float, work: Work
) -> StartEstimate | None:
    on_node: dict[NodeName, list[PodUID]] = {}
    for name, uid in _others(state.nodes, state.pods, entity):
        on_node.setdefault(name, []).append(uid)
    # a node is empty only when its nominated pods have come and gone, too
    nominated = {n: info.nominated for n, info in state.nodes.infos.items() if info.nominated}
    names = dict.fromkeys([*on_node, *nominated])

    def order(name: NodeName) -> tuple[int, int]:
        count = len(on_node.get(name, ())) + len(nominated.get(name, ()))
        return count, state.nodes.infos[name].index

    in_order = sorted(names, key=order)

    def plan_with(number: int) -> Plan | None:
        drained = in_order[:number]
        gone = ((name, uid) for name in drained for uid in on_node.get(name, ()))
        entries = (entry for name in drained for entry in nominated.get(name, ()))
        return _plan_without(state, entity, gone, now, work, nominated=entries)

    least, most = 0, len(in_order)
    plan = plan_with(most)
    if plan is None:
        return None
    while least < most:
        middle = (least + most) // 2
        found = plan_with(middle)
        if found is None:
            least = middle + 1
        else:
            most, plan = middle, found
    capacity, planned = _reserved(state, entity, plan, ())
    drained = frozenset(uid for name in in_order[:most] for uid in on_node.get(name, ()))
    return StartEstimate(math.inf, capacity, planned, drained)


def _first(
    plan_at: Callable[[int], Plan | None], start: int, instants: Collection[float]
) -> tuple[int, Plan | None]:
    """Return the first number from *start* on that has a plan, and the plan.

    The steps double until there is a plan; then the last step is halved.
    """
    failed, number, step, last = start - 1, start, 1, len(instants) - 1
    found: Plan | None = None
    while number <= last:
        found = plan_at(number)
        if found is not None:
            break
        failed = number
        number = last if number < last < number + step else number + step
        step *= 2
    if found is None:
        return number, None
    while number - failed > 1:
        middle = (number + failed) // 2
        plan = plan_at(middle)
        if plan is None:
            failed = middle
        else:
            number, found = middle, plan
    return number, found


def _first_with_enough(
    state: State,
    entity: QueuedEntity,
    instants: Sequence[float],
    leaving: Mapping[float, Iterable[tuple[NodeName, PodUID]]],
) -> int:
    """Return the number of the first instant at which enough is free in total. O(pods)."""
    wanted = _least(state.settings, state.pods, state.call, entity)
    free = defaultdict(int, state.nodes.total())
    for entry in state.nodes.ledger.expected():
        info = state.nodes.infos.get(entry.node)
        for name, amount in ({} if info is None else info.withheld).items():
            free[name] += amount
    for number, instant in enumerate(instants):
        for name, uid in leaving[instant]:
            for resource, amount in state.nodes.infos[name].holders[uid].items():
                free[resource] += amount
        if all(free[resource] >= amount for resource, amount in wanted.items()):
            return number
    return len(instants)


def _least(
    settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity
) -> dict[str, int]:
    """Return a lower bound on the requests of the members that a gang needs, by resource."""
    found = defaultdict[str, int](int)
    for each in bundles.pending(pods, entity):
        count = equivalence.needed(settings, call, each)
        members = [pods.members[pod.uid].requests for pod in each.pending]
        for name in {name for requests in members for name in requests}:
            found[name] += sum(sorted(requests.amount(name) for requests in members)[:count])
    return found


def _plan_without(
    state: State,
    entity: QueuedEntity,
    gone: Iterable[tuple[NodeName, PodUID]],
    now: float,
    work: Work,
    *,
    nominated: Iterable[ReservedCapacity] = (),
) -> Plan | None:
    """Return a plan for a gang on the nodes without some pods and nominations; None if none fits.

    Reserved capacity is left out as well: it is this gang's own, or will be released for it.
    """
    leaving: dict[NodeName, list[PodUID]] = {}
    for name, uid in gone:
        leaving.setdefault(name, []).append(uid)
    assert entity.group is not None
    with without(state.nodes, [*state.nodes.ledger.expected(), *nominated], leaving):
        if equivalence.missing(state, entity.group):
            return None
        if not requeue.may_fit(
            state,
            equivalence.class_of(state.settings, state.nodes, state.pods, state.call, entity),
            now=now,
        ):
            return None
        budget = budget_shares.for_look_ahead(state.settings, state.call)
        if work.steps and not budget:
            return None
        found, _refused, _cycles = gang_layout.plan_gang(
            state, entity, now=now, budget=budget, work=work, explains=False
        )
    return found if isinstance(found, Plan) else None


def _reserved(
    state: State, entity: QueuedEntity, plan: Plan, gone: Collection[PodUID]
) -> tuple[dict[NodeName, ReservedCapacity], tuple[tuple[PodUID, NodeName], ...]]:
    """Return the capacity to reserve for the members of a plan that are needed, and these."""
    found: dict[NodeName, ReservedCapacity] = {}
    planned: list[tuple[PodUID, NodeName]] = []
    for member, index in _needed(state.settings, state.pods, state.call, entity, plan):
        info = state.nodes.by_index[index]
        name = info.node.name
        if name not in found:
            returning = (uid for uid in info.holders if uid in gone)
            found[name] = ReservedCapacity.expecting(entity.seq, name, entity.priority, returning)
        found[name].add(member.requests)
        planned.append((member.pod.uid, name))
    return found, tuple(planned)


def _needed(
    settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity, plan: Plan
) -> list[tuple[Member, int]]:
    """Return the first members of a plan that are enough for the quorum and the role minima."""
    asked = gang_layout.asks(settings, pods, call, entity)
    chosen = set[int]()
    # first the minima of roles: their members count for the quorum too
    for ask in sorted(asked, key=lambda ask: ask.role is None):
        of_it = [
            member
            for member, _index in plan.placed
            if member.group is not None and ask.covers(member.group.key, member.role)
        ]
        count = sum(member.seq in chosen for member in of_it)
        for member in of_it:
            if count < ask.count and member.seq not in chosen:
                chosen.add(member.seq)
                count += 1
    return [placed for placed in plan.placed if placed[0].seq in chosen]


def _others(nodes: Nodes, pods: Pods, entity: QueuedEntity) -> Iterable[tuple[NodeName, PodUID]]:
    """Yield the pods on nodes, each with its node, except the gang's own members."""
    for name, info in nodes.infos.items():
        for uid in info.holders:
            member = pods.members.get(uid)
            if member is None or member.entity is not entity:
                yield name, uid
