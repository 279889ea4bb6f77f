"""Making room for who fits nowhere, at the cost of lower priorities.

Rules:
  R1  only who had a turn and fits nowhere makes room: not who is incomplete, who was turned down
      for another reason, or who waits for room that is kept already;
  R2  first there is a plan on which all who are needed have room; without one nothing happens;
  R3  the room is kept before anybody goes, and before anybody is told of what is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched.errors import GangschedError
from gangsched.events import Evict, Nominated
from gangsched.framework.lifecycle import reject
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import nominator
from gangsched.framework.preemption import candidates, victim_search
from gangsched.framework.preemption.preemptor import Alone, Gang, MakingRoom
from gangsched.framework.preemption.victim_search import Displacement
from gangsched.framework.queueing import equivalence, requeue
from gangsched.framework.state.nomination import Kept, Nomination
from gangsched.framework.state.scheduler_state import HOLDING, State
from gangsched.model import NodeName, PodUID
from gangsched.outcomes import EvictGroup

__all__ = ["conclude"]


def conclude(
    state: State, entity: QueuedEntity, nomination: Nomination | None, *, now: float
) -> None:
    """Draw the consequences of a turn that is over.

    Args:
        state: The scheduler's memory.
        entity: Whose turn it was.
        nomination: The room that was kept for it, with its stand-ins aside; None for none.
        now: The current instant.
    """
    if nomination is not None and _conclude_nominated(state, nomination, now=now):
        return
    if state.preemption is not None and _fits_nowhere(state, entity):
        priority, displaces = equivalence.reach_of(state, entity)
        try:
            _make_room(state, entity, priority, displaces, now=now)
        except GangschedError as error:
            state.deferred.append(error)


def _conclude_nominated(state: State, nomination: Nomination, *, now: float) -> bool:
    """End the turn of who had room kept; say whether no more room has to be made for it."""
    members = [state.members.get(uid) for uid in nomination.kept]
    if any(member is not None and member.state in HOLDING for member in members):
        # whatever of the room is left over is free for others
        nominator.lapse(state, nomination, "", now=now)
        return True
    if nomination.awaited:
        nominator.step_back(state, nomination)
        nominator.hold_back(state, nomination, now=now)
        return True
    # its nodes have changed since, or a plugin turns it down
    nodes = nominator.drop(state, nomination, "nobody is in the way, and it cannot start")
    # to itself it is no news
    requeue.gain(state, nodes, now=now, since=-1, disproved=nomination.entity.shape)
    return False


def _fits_nowhere(state: State, entity: QueuedEntity) -> bool:
    """Say whether the turn of an entity ended because there is no room."""
    if not len(entity) or entity.place is Place.ACTIVE or state.queue.is_gated(entity):
        return False
    unschedulable_member = entity.unschedulable_member
    if unschedulable_member is None or unschedulable_member.diagnosis is not None:
        return True
    # it says nothing of the other members that go alone
    return len(entity) > 1 and equivalence.goes_alone(state, entity.group)


def _make_room(
    state: State, entity: QueuedEntity, priority: int, displaces: bool, *, now: float
) -> None:
    info = entity.group
    if not requeue.reaches_somebody(state, priority, displaces):
        return
    if info is not None and info.key in state.holding:
        # what it holds itself is room too
        unschedulable_member = entity.unschedulable_member
        reason = (
            "makes room as a whole" if unschedulable_member is None else unschedulable_member.reason
        )
        reject.reject_group(state, info.key, reason, now=now)
        if not len(entity) or state.queue.is_gated(entity):
            return
    tasks: Iterable[MakingRoom] = (
        _alone(state, entity, now)
        if info is None or equivalence.goes_alone(state, info)
        else (Gang(state, entity, info, now),)
    )
    for task in tasks:
        found = _plan(state, task, priority, displaces)
        if found is not None:
            _carry_out(state, entity, task, found, priority, now=now)
            return


def _alone(state: State, entity: QueuedEntity, now: float) -> Iterator[Alone]:
    """Yield the pending members that lack capacity, the first to come first, each class once.

    Each member goes alone, so a member that no eviction helps must not keep another from it. The
    last one that was tried is not enough to know: those before it may have failed for other
    reasons.
    """
    members = sorted((state.members[pod.uid] for pod in entity.pending), key=attrgetter("seq"))
    classes = set[PodClass]()
    for member in members:
        if state.profile.signed:
            if member.pod_class in classes:
                continue
            classes.add(member.pod_class)
        task = Alone(state, member, now)
        if len(members) == 1 or task.lacks_capacity():
            yield task


def _plan(state: State, task: MakingRoom, priority: int, displaces: bool) -> Displacement | None:
    assert state.preemption is not None
    units = candidates.units(state, priority, task.groups)
    if not displaces:
        units = [unit for unit in units if unit.nomination is not None]
    budget, exhausted_searches = state.budget, state.exhausted_searches
    state.budget = min(budget, state.preemption.search_budget)
    try:
        return victim_search.find(state, task, units)
    finally:
        state.budget, state.exhausted_searches = budget, exhausted_searches


def _carry_out(
    state: State,
    entity: QueuedEntity,
    task: MakingRoom,
    found: Displacement,
    priority: int,
    *,
    now: float,
) -> None:
    nomination = _nominate(state, entity, task, found, priority, now=now)
    who = f"pod {entity.pod.key}" if entity.group is None else f"pod group {entity.group.key}"
    reason = f"makes room for {who}"
    freed: list[NodeName] = []
    for unit in found.units:
        if unit.nomination is not None:
            freed += nominator.drop(state, unit.nomination, reason)
    nominator.keep(state, nomination)
    told = len(state.out)
    for unit in found.units:
        for info in unit.groups:
            reject.carry_out(state, EvictGroup(info.key, reason), now=now)
        if unit.member is not None and unit.member.state is MemberState.WAITING:
            freed.append(reject.put_out(state, unit.member, reason, now=now))
        elif unit.member is not None:
            reject.evict(state, unit.member, reason)
    for member in found.members:
        reject.evict(state, member, reason)
    victims = tuple(effect.uid for effect in state.out[told:] if isinstance(effect, Evict))
    notice = Nominated(
        nomination.group,
        priority,
        tuple((kept.uid, kept.node) for kept in nomination.kept.values()),
        victims,
        nomination.deadline,
    )
    state.out.insert(told, notice)
    nomination.awaited[:] = candidates.on_their_way(state, nomination.nodes)
    nominator.hold_back(state, nomination, now=now)
    for unit in found.units:
        if unit.nomination is not None:
            nominator.send_back(state, unit.nomination, now=now)
    requeue.gain(state, freed, now=now)


def _nominate(
    state: State,
    entity: QueuedEntity,
    task: MakingRoom,
    found: Displacement,
    priority: int,
    *,
    now: float,
) -> Nomination:
    assert state.preemption is not None
    kept: dict[PodUID, Kept] = {}
    for member, index in found.places:
        node = state.nodes.by_index[index].node.name
        group = None if member.group is None else member.group.key
        uid = member.pod.uid
        kept[uid] = Kept.make(member.pod, member.seq, node, group, member.role)
    specs = tuple((info.key, info.spec) for info in task.groups)
    deadline = now + state.preemption.grace
    return Nomination(entity, priority, kept, task.asks, specs, [], deadline)
