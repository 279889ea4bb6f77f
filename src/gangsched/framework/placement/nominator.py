"""Nominations: made by preemption, kept while the victims terminate, used in the owner's cycle.

Theory of operation
    Preemption plans a node for each pod that the preemptor needs, and evicts the victims. They
    take time to terminate. Meanwhile the capacity must not go to other pods of the same or a
    lower priority, so it is reserved: one entry of the ledger for each nominated pod. The entity
    waits outside the queue (``await_victims``).

    Between cycles ``review`` looks at every nomination. If the awaited pods are gone, the entity
    is activated at once, whatever is left of its backoff. If the deadline has passed, or the
    nomination does not fit its pods any more, it lapses: the capacity is free for all, and the
    entity is requeued. Only ``advance`` ends a nomination at the very instant of its deadline:
    with a grace of 0 the events of that instant report that the victims are gone. A victim whose
    bind is under way is evicted when the bind has ended. The deadline waits for that, and then
    leaves it the whole grace. An awaited pod whose ``deleted_at`` is still to come, as the
    ``deletionTimestamp`` of Kubernetes is while the containers stop, is not overdue. If none is,
    the nomination gets another deadline instead of lapsing, and the entity is tried, as other
    nodes may have become free.

    In its own cycle the entity is exempt from its nomination (``leave_out``), and its pods go
    to the nominated nodes first (``node_for``, ``plan``). If its pods hold nodes afterwards, the
    nomination is used up. If pods are still awaited, the capacity is withheld again
    (``withhold_again``). If it cannot start although the nodes are free, the nomination lapses.

    A nomination of a higher priority may overlap with one of a lower priority while victims of
    both terminate. So a nominated node is checked in two states: now, without what is reserved
    for others; and later, without awaited pods and without reservations of lower priorities. A
    pod must fit in both.

    A nomination is not a reservation: it is for a known node, and its victims are terminating
    already. A reservation is for an expected start, evicts no pod, and other entities may use
    its capacity meanwhile if they end in time; see ``gangsched.framework.backfill``.

Rules:
  R1  while pods are awaited, the entity is outside the queue; it is activated when they are gone,
      when the nomination lapses, and by an event about itself;
  R2  in its cycle the entity goes to the nominated nodes if they still take it; if it cannot
      start although no pod is awaited, the nomination lapses;
  R3  a nominated pod that has changed or is gone, or whose node is gone, is dropped; if too few
      are left, the nomination lapses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched.cycle_state import CycleState
from gangsched.events import NominationLapsed
from gangsched.framework.nodes.judgements import Judge
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import topology as group_topology
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state.nomination import NominatedPod, Nomination
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, PodUID
from gangsched.outcomes import Unschedulable

__all__ = [
    "add",
    "await_victims",
    "holds_capacity",
    "lapse",
    "next_deadline",
    "next_member",
    "note_evicted",
    "node_for",
    "plan",
    "readmit",
    "remove",
    "review",
    "leave_out",
    "withhold_again",
]

_LEAST_WAIT = 1.0
"""Seconds between two deadlines of a nomination, at the least: the grace may be 0."""
_FINISHED = (MemberState.SUCCEEDED, MemberState.FAILED, MemberState.ENDED)


def holds_capacity(pods: Pods, uid: PodUID) -> bool:
    """Return whether a pod holds capacity of a node. O(1)."""
    member = pods.members.get(uid)
    if member is None:
        return False
    return member.node is not None or (
        member.pod.node_name is not None and member.state not in _FINISHED
    )


def next_deadline(pods: Pods, reservations: Reservations) -> float | None:
    """Return the earliest deadline of a nomination that awaits pods. O(awaited pods)."""
    running = (
        each.deadline
        for each in reservations.nominations.values()
        if each.awaited and not _awaits_bind(pods, each)
    )
    return min(running, default=None)


def note_evicted(
    settings: Settings, reservations: Reservations, uid: PodUID, *, now: float
) -> None:
    """Let the grace of a victim begin, whose eviction was put off until its bind ended.

    Runtime complexity: O(awaited pods).
    """
    if settings.preemption is None:
        return
    for nomination in reservations.nominations.values():
        if uid in nomination.awaited:
            nomination.deadline = max(nomination.deadline, now + settings.preemption.grace)


def _awaits_bind(pods: Pods, nomination: Nomination) -> bool:
    """Return whether a victim is not evicted yet, because its bind is under way. O(awaited)."""
    awaited = (pods.members.get(uid) for uid in nomination.awaited if uid in pods.evicted)
    return any(member is not None and member.node is not None for member in awaited)


# Adding and removing --------------------------------------------------------------------------


def add(nodes: Nodes, reservations: Reservations, nomination: Nomination) -> None:
    """Add a nomination, and reserve its capacity. O(pods x log nodes)."""
    reservations.nominations[nomination.entity.seq] = nomination
    nodes.reserve(nomination.reserved)


def remove(
    state: State, nomination: Nomination, reason: str, uids: Iterable[PodUID] | None = None
) -> list[NodeName]:
    """Remove a nomination and free its capacity; return the nodes. No entity is requeued.

    Args:
        state: The scheduler's state.
        nomination: The nomination.
        reason: Why it lapses; if it is empty, no notice says so.
        uids: The pods that the notice names; None for those that are still nominated.
    """
    _free(state.nodes, nomination.pods.values())
    del state.reservations.nominations[nomination.entity.seq]
    if reason:
        named = [*nomination.pods] if uids is None else uids
        pods = tuple(uid for uid in named if uid in state.pods.members)
        state.call.out.append(NominationLapsed(nomination.group, pods, reason))
    return nomination.nodes


def lapse(
    state: State,
    nomination: Nomination,
    reason: str,
    *,
    now: float,
    uids: Iterable[PodUID] | None = None,
) -> None:
    """Remove a nomination; requeue its entity if it waited, and all that the capacity may help."""
    nodes = remove(state, nomination, reason, uids)
    readmit(state, nomination, now=now)
    requeue.gain(state, nodes, now=now)


def readmit(state: State, nomination: Nomination, *, now: float) -> None:
    """Return the entity of a removed nomination to the queue, if it waited outside."""
    entity = nomination.entity
    if state.queue.is_gated(entity) and len(entity):
        refusal = bundles.pre_enqueue(
            state.settings, state.pods, state.call, entity.pod, entity.group, now
        )
        if isinstance(refusal, Unschedulable):
            entity.reason = entity.denial = refusal.reason
        else:
            state.queue.activate(entity, now=now)


def _free(nodes: Nodes, pods: Iterable[NominatedPod]) -> None:
    pods = list(pods)
    nodes.release([each.reserved for each in pods])
    _note_departed(nodes, pods)


def _note_departed(nodes: Nodes, pods: Iterable[NominatedPod]) -> None:
    # a reservation was planned around them, and may start earlier without
    if nodes.ledger.expecting:
        nodes.departed += [each.uid for each in pods]


# Before and after the owner's cycle -------------------------------------------------------------


def leave_out(nodes: Nodes, reservations: Reservations, entity: QueuedEntity) -> Nomination | None:
    """Show an entity its own nominated capacity as free in its cycle; return its nomination.

    None if it has no nomination.
    """
    nomination = reservations.nominations.get(entity.seq)
    if nomination is not None:
        nodes.leave_out(nomination.reserved)
        _note_departed(nodes, nomination.pods.values())
    return nomination


def withhold_again(nodes: Nodes, nomination: Nomination) -> None:
    """Withhold the capacity of a nomination again after a cycle that did not use it."""
    nodes.withhold(nomination.reserved)


def await_victims(state: State, nomination: Nomination, *, now: float) -> None:
    """Take the entity out of the queue until the awaited pods are gone; activate it if they are."""
    entity = nomination.entity
    if _is_free(state.pods, nomination):
        _activate(state, nomination, now=now)
        return
    entity.refill()
    state.queue.gate(entity, now=now)
    requeue.forget(state.attempts, entity)
    nodes, pods = len(nomination.nodes), _pods(nomination)
    where = "1 node is" if nodes == 1 else f"{nodes} nodes are"
    entity.denial = f"{where} nominated, waiting for {pods} to terminate"
    entity.reason = entity.denial


# Between cycles -------------------------------------------------------------------------------


def review(state: State, *, now: float, passing: bool = False) -> None:
    """Activate the entities whose nominated nodes are free, and remove obsolete nominations.

    Runtime complexity: O(nominated pods).

    Args:
        state: The scheduler's state.
        now: The current instant.
        passing: Whether the host lets this instant pass, so that deadlines at it are over.
    """
    if state.reservations.overdue:
        state.reservations.overdue = {
            uid for uid in state.reservations.overdue if uid in state.pods.members
        }
    for nomination in list(state.reservations.nominations.values()):
        uids = [*nomination.pods]  # those on nodes that are gone are dropped meanwhile
        reason = _why_obsolete(state, nomination, now=now)
        is_over = nomination.deadline < now or (passing and nomination.deadline <= now)
        # first, as it drops the pods that are gone
        is_awaiting = not reason and not _is_free(state.pods, nomination)
        if is_awaiting and is_over and not _awaits_bind(state.pods, nomination):
            owners = state.settings, state.pods, state.reservations
            reason = _conclude_grace(*owners, nomination, now)
            is_awaiting = bool(reason)
        if reason:
            lapse(state, nomination, reason, now=now, uids=uids)
        elif not is_awaiting and nomination.entity.place is not Place.ACTIVE:
            _activate(state, nomination, now=now)


def _conclude_grace(
    settings: Settings, pods: Pods, reservations: Reservations, nomination: Nomination, now: float
) -> str:
    """Return why a nomination lapses at its deadline; empty if it goes on with another one."""
    left = [uid for uid in nomination.awaited if holds_capacity(pods, uid)]
    overdue = [uid for uid in left if not _may_still_terminate(pods, uid, now=now)]
    reservations.overdue.update(overdue)
    if overdue:
        return f"{_pods(nomination)} did not terminate in time"
    policy = settings.preemption
    grace = 0.0 if policy is None else policy.grace  # None: a snapshot of another scheduler
    nomination.deadline = now + max(grace, _LEAST_WAIT)
    return ""


def _may_still_terminate(pods: Pods, uid: PodUID, *, now: float) -> bool:
    """Return whether the deletion of a pod gives it time beyond an instant. O(1)."""
    member = pods.members.get(uid)
    return member is not None and (member.pod.deleted_at or now) > now


def _why_obsolete(state: State, nomination: Nomination, *, now: float) -> str:
    """Drop pods that changed, and return why the nomination lapses; empty if it does not."""
    for uid, nominated in list(nomination.pods.items()):
        if not _is_unchanged(state.pods, nominated) or nominated.node not in state.nodes.infos:
            del nomination.pods[uid]
            _free(state.nodes, (nominated,))
            requeue.gain(state, (nominated.node,), now=now)
    if not nomination.is_sufficient:
        return "too few nominated pods or nodes are left"
    reach = equivalence.preemption_reach(state.settings, state.pods, nomination.entity)
    if reach[0] != nomination.priority:
        return "the priority has changed"
    for key, spec in nomination.specs:
        info = state.pods.registry.get(key)
        if (None if info is None else info.spec) != spec:
            return f"the specification of pod group {key} has changed"
    return ""


def _is_unchanged(pods: Pods, nominated: NominatedPod) -> bool:
    member = pods.members.get(nominated.uid)
    pending = member is not None and member.state is MemberState.UNSCHEDULED
    return pending and member is not None and member.seq == nominated.seq


def _is_free(pods: Pods, nomination: Nomination) -> bool:
    """Return whether no pod is awaited any more. O(1) amortised."""
    awaited = nomination.awaited
    while awaited and not holds_capacity(pods, awaited[-1]):
        awaited.pop()
    return not awaited


def _activate(state: State, nomination: Nomination, *, now: float) -> None:
    """Activate an entity whose nominated nodes are free, without waiting for its backoff."""
    entity = nomination.entity
    refusal = bundles.pre_enqueue(
        state.settings, state.pods, state.call, entity.pod, entity.group, now
    )
    if isinstance(refusal, Unschedulable):
        lapse(state, nomination, refusal.reason, now=now)
        return
    state.queue.remove(entity, now=now)
    entity.backoff_until = -math.inf
    if entity.group is not None:
        entity.group.backoff_until = -math.inf
    entity.refill()
    state.queue.activate(entity, now=now)


# In the owner's cycle ---------------------------------------------------------------------------


def next_member(pods: Pods, reservations: Reservations, entity: QueuedEntity) -> Member | None:
    """Return the pod of a nomination that is for one pod; None for any other entity."""
    nomination = reservations.nominations.get(entity.seq)
    if nomination is None or len(nomination.pods) > 1:
        return None
    return pods.members[next(iter(nomination.pods))]


def node_for(
    nodes: Nodes,
    reservations: Reservations,
    member: Member,
    pod_class: PodClass,
    judge: Judge,
    domain: Domain | None,
) -> NodeName | None:
    """Return the nominated node of a pod, if it is free, takes the pod, and is in its domain.

    The members of its gang may have left that domain since, and others run in another one.
    Runtime complexity: O(nominations).
    """
    nomination = reservations.nominations.get(member.entity.seq)
    nominated = None if nomination is None else nomination.pods.get(member.pod.uid)
    if nomination is None or nominated is None or nomination.awaited:
        return None
    if domain is not None and not domain.has(nodes.classes.of(nodes.infos[nominated.node].index)):
        return None
    now_and_later = _now_and_later(nodes, reservations, nomination, nominated.node)
    is_refused = any(
        pod_class.judgements.judgement(given, judge).reasons for given in now_and_later
    )
    return None if is_refused else nominated.node


def plan(
    state: State,
    entity: QueuedEntity,
    members: Sequence[Member],
    cycles: Mapping[int, CycleState],
    *,
    now: float,
) -> Plan | None:
    """Return a plan with each nominated pod on its node; None if one of them does not fit there.

    Runtime complexity: O(pods), and O(nominations) for each node.
    """
    nomination = state.reservations.nominations.get(entity.seq)
    if nomination is None or nomination.awaited:
        return None
    found, taken = Plan(state.nodes), dict[int, list[NodeClass]]()
    by_uid = {member.pod.uid: member for member in members}
    for nominated in nomination.pods.values():
        member = by_uid.get(nominated.uid)
        if member is None or not _is_in_its_domain(state.nodes, state.pods, member, nomination):
            return None
        index = state.nodes.infos[nominated.node].index
        given = found.at(index) if index in taken else state.nodes.classes.of(index)
        asked = taken.get(index) or _now_and_later(
            state.nodes, state.reservations, nomination, nominated.node
        )
        pod_class, judge, answer = filter_and_score.evaluate_nodes(
            state.settings, state.nodes, cycles[member.seq], member, now
        )
        if isinstance(answer, Unschedulable):
            return None
        if any(pod_class.judgements.judgement(each, judge).reasons for each in asked):
            return None
        found.put(member, given, on=index)
        taken[index] = [state.nodes.classes.taking(each, member.requests) for each in asked]
    return found


def _now_and_later(
    nodes: Nodes, reservations: Reservations, nomination: Nomination, name: NodeName
) -> list[NodeClass]:
    """Return the class of a nominated node now, and after the pods of others have terminated.

    Now: without what is reserved for other nominations, as their pods are not there yet. Later:
    without the pods that others await, and with what is reserved for nominations of the same or
    a higher priority. Both are needed where the node offers less than when it was nominated.
    """
    classes, info = nodes.classes, nodes.infos[name]
    now = later = classes.of(info.index)
    for entry in info.nominated:
        if entry.owner == nomination.entity.seq:
            continue
        now = classes.giving_back(now, entry.requests)
        if entry.priority < nomination.priority:
            later = classes.giving_back(later, entry.requests)
    others = (each for each in reservations.nominations.values() if each is not nomination)
    for uid in dict.fromkeys(uid for other in others for uid in other.awaited):
        if uid in info.holders:
            later = classes.giving_back(later, info.holders[uid])
    return [now] if now is later else [now, later]


def _is_in_its_domain(nodes: Nodes, pods: Pods, member: Member, nomination: Nomination) -> bool:
    """Return whether the nominated nodes of a gang still share one value of its topology label."""
    info = member.group
    topology = None if info is None or info.spec is None else info.spec.topology
    if info is None or topology is None or not topology.required:
        return True
    names = (each.node for each in nomination.pods.values() if each.group == info.key)
    values = {nodes.infos[name].node.labels.get(topology.key) for name in names}
    joined = group_topology.joined(nodes, pods, info)
    return len(values) == 1 and None not in values and (joined is None or values <= joined.values)


def _pods(nomination: Nomination) -> str:
    count = len(nomination.awaited)
    return "1 pod" if count == 1 else f"{count} pods"
