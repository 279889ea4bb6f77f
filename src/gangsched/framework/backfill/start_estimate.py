"""When and where a gang can start, by what is known of those who hold nodes.

Rules:
  R1  it is placed by the same code that places it when it starts, on the nodes as they will be;
  R2  where run times are known, that is the earliest instant at which it fits;
  R3  where they are not, nodes are drained for it: as few as will do, those with the fewest
      holders first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import final

from attrs import frozen

from gangsched._core._entity import QueuedEntity
from gangsched.errors import GangschedError
from gangsched.framework.nodes.reserved_capacity import Need
from gangsched.framework.nodes.reserved_views import without
from gangsched.framework.placement import gang_layout
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import NodeName, PodUID

__all__ = ["Outlook", "look_ahead"]


@final
@frozen
class Outlook:
    """Where and when a gang can start.

    Attributes:
        starts_at: When; infinite where nobody knows.
        needs: What it needs of which node.
    """

    starts_at: float
    needs: Mapping[NodeName, Need]


def look_ahead(
    state: State, entity: QueuedEntity, ends: Mapping[PodUID, float], *, now: float, drains: bool
) -> Outlook | None:
    """Return when and where a gang can start; None where it cannot, or not by what is known.

    Runtime complexity: O(pods that hold nodes x log of these), and a placement of the gang for
    O(log) of the instants at which some of them end.

    Args:
        state: The scheduler's memory.
        entity: The gang.
        ends: When who holds a node will have left it, of whom it is known.
        now: The current instant.
        drains: Whether nodes may be drained for it where run times are not enough.
    """
    exhausted_searches = state.exhausted_searches
    try:
        return _by_run_times(state, entity, ends, now) or (
            _by_draining(state, entity, now) if drains else None
        )
    except GangschedError:
        return None  # its own cycle will raise it, and name the pod
    finally:
        state.exhausted_searches = exhausted_searches


def _by_run_times(
    state: State, entity: QueuedEntity, ends: Mapping[PodUID, float], now: float
) -> Outlook | None:
    leaving: dict[float, list[tuple[NodeName, PodUID]]] = {now: []}
    for name, uid in _others(state, entity):
        end = max(ends.get(uid, math.inf), now)
        if end < math.inf:
            leaving.setdefault(end, []).append((name, uid))
    instants = sorted(leaving)

    def plan_at(number: int) -> Plan | None:
        gone = (each for instant in instants[: number + 1] for each in leaving[instant])
        return _plan_without(state, entity, gone, now)

    number, plan = _first(plan_at, _first_with_enough(state, entity, instants, leaving), instants)
    if plan is None:
        return None
    gone = {uid for instant in instants[: number + 1] for _name, uid in leaving[instant]}
    return Outlook(instants[number], _needs(state, entity, plan, gone))


def _by_draining(state: State, entity: QueuedEntity, now: float) -> Outlook | None:
    on_node: dict[NodeName, list[tuple[NodeName, PodUID]]] = {}
    for name, uid in _others(state, entity):
        on_node.setdefault(name, []).append((name, uid))
    order = sorted(on_node.values(), key=lambda on_it: (len(on_it), _index(state, on_it[0][0])))

    def plan_with(number: int) -> Plan | None:
        return _plan_without(state, entity, (each for one in order[:number] for each in one), now)

    least, most = 0, len(order)
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
    return Outlook(math.inf, _needs(state, entity, plan, ()))


def _first(
    plan_at: Callable[[int], Plan | None], start: int, instants: Collection[float]
) -> tuple[int, Plan | None]:
    """Return the first number from *start* on with a plan: by steps that double, then by halves."""
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
    """Return the number of the first instant at which enough is free in all. O(holders)."""
    wanted = _least(state, entity)
    free = defaultdict(int, state.nodes.total())
    for info in map(state.nodes.infos.get, state.nodes.needs):
        for name, amount in ({} if info is None else info.kept).items():
            free[name] += amount
    for number, instant in enumerate(instants):
        for name, uid in leaving[instant]:
            for resource, amount in state.nodes.infos[name].holders[uid].items():
                free[resource] += amount
        if all(free[resource] >= amount for resource, amount in wanted.items()):
            return number
    return len(instants)


def _least(state: State, entity: QueuedEntity) -> dict[str, int]:
    """Return what a gang needs at least, by resource: the members that ask for the least."""
    found = defaultdict[str, int](int)
    for each in bundles.pending(state, entity):
        count = equivalence.needed(state, each)
        members = [state.members[pod.uid].requests for pod in each.pending]
        for name in {name for requests in members for name in requests}:
            found[name] += sum(sorted(requests.amount(name) for requests in members)[:count])
    return found


def _plan_without(
    state: State, entity: QueuedEntity, gone: Iterable[tuple[NodeName, PodUID]], now: float
) -> Plan | None:
    """Return a plan for a gang on the nodes as they are without some pods; None for none."""
    leaving: dict[NodeName, list[PodUID]] = {}
    for name, uid in gone:
        leaving.setdefault(name, []).append(uid)
    assert entity.group is not None
    with without(state.nodes, leaving):
        if equivalence.missing(state, entity.group):
            return None
        if not requeue.may_fit(state, equivalence.shape(state, entity), now=now):
            return None
        found, _refused, _cycles = gang_layout.lay_out(state, entity, now=now)
    return found if isinstance(found, Plan) else None


def _needs(
    state: State, entity: QueuedEntity, plan: Plan, gone: Collection[PodUID]
) -> dict[NodeName, Need]:
    """Return what the members of a plan that are needed ask for, by node."""
    found: dict[NodeName, Need] = {}
    for member, index in _needed(state, entity, plan):
        info = state.nodes.by_index[index]
        name = info.node.name
        if name not in found:
            found[name] = Need(uid for uid in info.holders if uid in gone)
        found[name].add(member.requests)
    return found


def _needed(state: State, entity: QueuedEntity, plan: Plan) -> list[tuple[Member, int]]:
    """Return the first members of a plan that are enough for all that is asked for."""
    asked = gang_layout.asks(state, entity)
    chosen = set[int]()
    for ask in sorted(asked, key=lambda ask: not ask.role):  # what is asked of roles counts in all
        of_it = [
            member
            for member, _index in plan.placed
            if member.group is not None
            and member.group.key == ask.group
            and (not ask.role or member.role == ask.role)
        ]
        count = sum(member.seq in chosen for member in of_it)
        for member in of_it:
            if count < ask.count and member.seq not in chosen:
                chosen.add(member.seq)
                count += 1
    return [placed for placed in plan.placed if placed[0].seq in chosen]


def _others(state: State, entity: QueuedEntity) -> Iterable[tuple[NodeName, PodUID]]:
    """Yield who holds which node, but for the gang's own members."""
    for name, info in state.nodes.infos.items():
        for uid in info.holders:
            member = state.members.get(uid)
            if member is None or member.entity is not entity:
                yield name, uid


def _index(state: State, name: NodeName) -> int:
    return state.nodes.infos[name].index
