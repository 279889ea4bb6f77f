"""StartEstimate: when and where a gang can start, given the expected ends of running pods.

Rules:
  R1  the gang is placed by the code that places it when it starts, on a view of the nodes without
      the pods that will have ended;
  R2  if enough run times are known, the estimate is the earliest instant at which the gang fits;
  R3  otherwise nodes are drained for it: as few as possible, those with the fewest pods first.
      Draining is meant as in Slurm: no new pod is placed there, and no running pod is evicted;
  R4  all placements of one call share a budget of steps (``budget_shares``). When it is exhausted,
      a gang whose members need a search counts as one that does not fit;
  R5  to take pods off the nodes has a budget of the same size. When it is exhausted, nothing else
      is tried. A first placement is always tried if only nodes with room are changed for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, final

from attrs import frozen

from gangsched._core._entity import QueuedEntity
from gangsched._packing.budget import FREE, STEP, Work
from gangsched.errors import GangschedError
from gangsched.framework.backfill.room import Room
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.nodes.reserved_views import without
from gangsched.framework.placement import budget_shares, gang_layout
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.runtime import pod_readers
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, PodUID, Resources

__all__ = ["LEAVE", "LISTED", "StartEstimate", "look_ahead"]

LISTED: Final = 25
"""How many operations it is to find the end of a pod on a node, and what is free without it."""

LEAVE: Final = 60
"""How many operations it is to take a pod off its node, and to restore the node in the end."""


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

    Runtime complexity: O(n log n) for n pods on nodes, and O(log n) placements of the gang. For
    each of these, the pods on nodes with room for a member are taken off.

    Args:
        state: The scheduler's state.
        entity: The gang.
        ends: The expected end of each pod that holds a node and has a known one.
        now: The current instant.
        drains: Whether nodes may be drained for it if the run times are not enough.
    """
    exhausted_searches = state.attempts.exhausted_searches
    look = _Look(state, entity, now)
    try:
        look.prepare()
        return _by_run_times(look, ends) or (_by_draining(look) if drains else None)
    except GangschedError:
        return None  # its own cycle will raise it, and name the pod
    finally:
        state.attempts.exhausted_searches = exhausted_searches
        state.attempts.search_steps += look.steps


@final
class _Look:
    """The placements of one gang on the nodes as they will be.

    If no plugin reads which pods are on nodes, pods leave a node only if it then has room for a
    member. Pods on other nodes stay, because their end gives the gang no room.
    """

    def __init__(self, state: State, entity: QueuedEntity, now: float) -> None:
        assert entity.group is not None
        self.state: State = state
        self.entity: QueuedEntity = entity
        self.now: float = now
        self._group = entity.group
        self._work = Work()
        self._is_begun: bool = False
        self._operations: int = LISTED * sum(
            len(info.holders) for info in state.nodes.infos.values()
        )
        self._left: int = budget_shares.for_views(state.settings) * STEP
        self._room: Room | None = None

    def prepare(self) -> None:
        """Find out which pods may be left on their nodes. O(members), O(members x terms)."""
        state, entity = self.state, self.entity
        members = [
            state.pods.members[pod.uid]
            for each in bundles.pending(state.pods, entity)
            for pod in each.pending
        ]
        if (
            state.settings.profile.signed
            and not pod_readers.depends_on_pods(state.nodes, members)
            and not equivalence.missing(state, self._group)
        ):
            self._room = Room(state.settings, state.pods, state.call, entity)

    @property
    def steps(self) -> int:
        """The steps that it took besides the placements, as questions count them; see ``Ahead``."""
        return max(self._operations - FREE, 0) // STEP

    def plan_without(
        self,
        gone: Mapping[NodeName, Collection[PodUID]],
        nominated: Iterable[ReservedCapacity] = (),
    ) -> Plan | None:
        """Return a plan on the nodes without some pods and nominations; None if there is none.

        Reserved capacity is left out as well: it is this gang's own, or will be given up for it.
        None is returned, too, if the steps do not suffice.
        """
        state, entity, nodes = self.state, self.entity, self.state.nodes
        entries = list(nominated)
        if self._room is not None:
            gone = self._where_it_matters(self._room, gone, entries)
        if not self._may_change(sum(map(len, gone.values()))):
            return None
        with without(nodes, [*nodes.ledger.expected(), *entries], gone):
            if equivalence.missing(state, self._group):
                return None
            of_class = equivalence.class_of(state.settings, nodes, state.pods, state.call, entity)
            if not requeue.may_fit(state, of_class, now=self.now):
                return None
            budget = budget_shares.for_look_ahead(state.settings, state.call)
            if self._work.steps and not budget:
                return None
            found, _refused, _cycles = gang_layout.plan_gang(
                state, entity, now=self.now, budget=budget, work=self._work, explains=False
            )
        return found if isinstance(found, Plan) else None

    def _where_it_matters(
        self,
        room: Room,
        gone: Mapping[NodeName, Collection[PodUID]],
        nominated: Iterable[ReservedCapacity],
    ) -> dict[NodeName, Collection[PodUID]]:
        """Return the pods of those nodes that have room for a member without them. O(pods)."""
        infos, leaving = self.state.nodes.infos, dict[NodeName, list[Resources]]()
        for entry in nominated:
            leaving.setdefault(entry.node, []).append(entry.requests)
        found: dict[NodeName, Collection[PodUID]] = {}
        for name, uids in gone.items():
            info = infos[name]
            free, holders = info.unreserved(), info.holders
            for requests in (*(holders[uid] for uid in uids), *leaving.get(name, ())):
                for resource, amount in requests.items():
                    free[resource] = free.get(resource, 0) + amount
            if room.has_room(free):
                found[name] = uids
        return found

    def _may_change(self, count: int) -> bool:
        """Count pods that are taken off their nodes; return whether the steps suffice for them."""
        is_first, self._is_begun = not self._is_begun, True
        needed = LEAVE * count
        if needed > self._left and not (is_first and self._room is not None):
            self._left = 0
            return False
        self._left = max(self._left - needed, 0)
        self._operations += needed
        return True


def _by_run_times(look: _Look, ends: Mapping[PodUID, float]) -> StartEstimate | None:
    state, entity, now = look.state, look.entity, look.now
    leaving: dict[float, dict[NodeName, list[PodUID]]] = {now: {}}
    for name, uid in _others(state.nodes, state.pods, entity):
        end = ends.get(uid)
        if end is None:
            continue
        then = leaving.get(end if end > now else now)
        if then is None:
            then = leaving[end] = {}
        uids = then.get(name)
        if uids is None:
            then[name] = [uid]
        else:
            uids.append(uid)
    instants = sorted(leaving)

    def plan_at(number: int) -> Plan | None:
        gone: dict[NodeName, list[PodUID]] = {}
        for instant in instants[: number + 1]:
            for name, uids in leaving[instant].items():
                gone.setdefault(name, []).extend(uids)
        return look.plan_without(gone)

    start = _first_with_room(state, entity, instants, leaving)
    number, plan = _first(plan_at, start, instants)
    if plan is None:
        return None
    on_nodes = (uids for each in instants[: number + 1] for uids in leaving[each].values())
    gone = {uid for uids in on_nodes for uid in uids}
    capacity, planned = _reserved(state, entity, plan, gone)
    return StartEstimate(instants[number], capacity, planned)


def _by_draining(look: _Look) -> StartEstimate | None:
    state, entity = look.state, look.entity
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
        gone = {name: on_node.get(name, []) for name in drained}
        return look.plan_without(gone, [e for name in drained for e in nominated.get(name, ())])

    least = 0
    room = Room(state.settings, state.pods, state.call, entity).fill(state.nodes)
    while not room.is_enough:
        if least == len(in_order):
            return None
        name = in_order[least]
        holders = state.nodes.infos[name].holders
        room.leave(name, [holders[uid] for uid in on_node.get(name, ())])
        room.leave(name, [entry.requests for entry in nominated.get(name, ())])
        least += 1
    most, plan = _first(plan_with, least, range(len(in_order) + 1))
    if plan is None:
        return None
    capacity, planned = _reserved(state, entity, plan, ())
    drained = frozenset(uid for name in in_order[:most] for uid in on_node.get(name, ()))
    return StartEstimate(math.inf, capacity, planned, drained)


def _first(
    plan_at: Callable[[int], Plan | None], start: int, among: Collection[object]
) -> tuple[int, Plan | None]:
    """Return the first number from *start* on that has a plan, and the plan.

    The steps double until there is a plan; then the last step is halved.
    """
    failed, number, step, last = start - 1, start, 1, len(among) - 1
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


def _first_with_room(
    state: State,
    entity: QueuedEntity,
    instants: Sequence[float],
    leaving: Mapping[float, Mapping[NodeName, Sequence[PodUID]]],
) -> int:
    """Return the number of the first instant with enough free in total, and room on nodes."""
    wanted = _least(state.settings, state.pods, state.call, entity)
    free = defaultdict(int, state.nodes.total())
    for entry in state.nodes.ledger.expected():
        info = state.nodes.infos.get(entry.node)
        for name, amount in ({} if info is None else info.withheld).items():
            free[name] += amount
    room, infos = (
        Room(state.settings, state.pods, state.call, entity).fill(state.nodes),
        state.nodes.infos,
    )
    for number, instant in enumerate(instants):
        for node, uids in leaving[instant].items():
            holders = infos[node].holders
            gone = [holders[uid] for uid in uids]
            room.leave(node, gone)
            for requests in gone:
                for resource, amount in requests.items():
                    free[resource] += amount
        if room.is_enough and all(free[name] >= amount for name, amount in wanted.items()):
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
