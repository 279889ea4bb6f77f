"""One decision: the scheduling cycle of one pod, and the binding cycle of who is let go.

Rules:
  R1  the points run in the documented order; the binding cycle begins only when permit has let
      a pod go, with everybody who waited for it;
  R2  a plugin that raises leaves everything as it was before its pod's cycle;
  R3  quorum and release are one step over one state: nothing can come between them.
"""

from __future__ import annotations

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import GangschedError
from gangsched.events import PodUnschedulable
from gangsched.explain import Diagnosis, UnschedulableMember
from gangsched.framework.backfill import reservation
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.config.scheduling_unit import SchedulingUnit
from gangsched.framework.cycle import group_cycle
from gangsched.framework.lifecycle import assume_and_release, permit_recheck, reject
from gangsched.framework.placement import by_node, nominator, topology
from gangsched.framework.preemption import preempt
from gangsched.framework.queueing import bundles, equivalence, requeue
from gangsched.framework.runtime import extension_points, filter_and_score
from gangsched.framework.state.nomination import Nomination
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import NodeName
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable, Wait

__all__ = ["run"]


def run(state: State, *, now: float) -> bool:
    """Make one decision; say whether there was one to make."""
    entity = _next_entity(state, now=now)
    if entity is None:
        return False
    with reservation.turn(state, entity, now=now):
        _have_turn(state, entity, now=now)
    return True


def _have_turn(state: State, entity: QueuedEntity, *, now: float) -> None:
    nomination = nominator.step_aside(state, entity)
    member = nominator.next_member(state, entity) or equivalence.next_member(state, entity)
    state.tick()
    info = entity.group
    gang = None if equivalence.goes_alone(state, info) else info
    begun = gang is not None and gang.attempt_started_at is None
    if gang is not None and begun:
        gang.attempts += 1
        gang.attempt_started_at = now
    turn = requeue.begin_turn(state, entity)
    try:
        if gang is not None and permit_recheck.falls_astray(state, gang, now=now):
            pass
        elif gang is None or gang.key in state.holding:
            _schedule(state, member, CycleState(info, state.nodes.infos), now=now)
        elif _lacks_room(state, member, gang, now):
            pass
        elif _goes_whole(state, gang, nomination):
            group_cycle.schedule(state, entity, gang, now=now)
        else:
            _schedule(state, member, CycleState(info, state.nodes.infos), now=now)
    except GangschedError:
        if nomination is not None:
            nominator.step_back(state, nomination)
        requeue.undo_turn(state, entity, turn)
        if gang is not None and begun:
            gang.attempts -= 1
            gang.attempt_started_at = None
        raise
    preempt.conclude(state, entity, nomination, now=now)


def _goes_whole(state: State, gang: PodGroupInfo, nomination: Nomination | None) -> bool:
    """Say whether one decision is about all members of a gang, in either unit."""
    bundled = bool(bundles.keys(gang.spec))
    whole = state.unit is SchedulingUnit.GROUP or topology.asked(gang) or bundled
    return whole or nomination is not None


def _next_entity(state: State, *, now: float) -> QueuedEntity | None:
    while True:
        entity = state.queue.head()
        if entity is None:
            return None
        own = None if entity.group is None else entity.group.key
        others = [key for key in state.yielding if key != own]
        if not others:
            if not bundles.is_shared(state, entity):
                return entity
            held = bundles.pre_enqueue(state, entity.pod, entity.group, now)
            if not isinstance(held, Unschedulable):
                return entity
            # meanwhile a group that had started with it has lost who was let go
            reject.gate(state, entity, held, now=now)
            continue
        for key in others:
            reject.reject_group(state, key, state.yielding[key], now=now)


def _lacks_room(state: State, member: Member, info: PodGroupInfo, now: float) -> bool:
    """Let an attempt fall before it begins when the cluster lacks what the group needs in all."""
    missing = equivalence.missing(state, info)
    if not missing:
        return False
    member.reason = f"resource gap: {missing}"
    member.entity.unschedulable_member = None
    member.entity.put_aside(member.pod.uid)
    member.entity.failed_step = state.step
    state.out.append(PodUnschedulable(member.pod.uid, member.reason))
    reject.reject_group(state, info.key, member.reason, now=now, proven=True)
    return True


def _schedule(state: State, member: Member, cycle: CycleState, *, now: float) -> None:
    outcome = extension_points.pre_filter(state, cycle, member.pod, now)
    if isinstance(outcome, Unschedulable):
        _fail(state, member, cycle, outcome.reason, now=now)
        return
    pod_class, judge, outcome = filter_and_score.judge_nodes(state, cycle, member, now)
    domain = None if member.group is None else topology.joined(state, member.group)
    node = nominator.node_for(state, member, pod_class, judge)
    found = by_node.choose(state, cycle, member, pod_class, domain, node)
    if isinstance(found, Diagnosis):
        _fail(state, member, cycle, found, now=now)
    elif isinstance(outcome, Unschedulable):
        _fail(state, member, cycle, outcome.reason, now=now)
    else:
        _place(state, member, cycle, found, now=now)


def _place(state: State, member: Member, cycle: CycleState, node: NodeName, *, now: float) -> None:
    """Assume a pod on a node, and ask whether it may go."""
    pod, info = member.pod, member.group
    before = None if info is None else info.attempt_started_at
    assume_and_release.assume(state, member, cycle, node)
    if info is not None and before is not None and info.key not in state.holding:
        # the time that an attempt has runs from its first member that holds a node
        info.attempt_started_at = now
    try:
        outcome = extension_points.reserve(state, member, now)
        if not isinstance(outcome, Unschedulable):
            outcome = extension_points.permit(state, member, now)
        if isinstance(outcome, Wait):
            assume_and_release.wait(state, member, outcome, now=now)
            return
        if not isinstance(outcome, Unschedulable):
            siblings = () if info is None else state.waiting.of(info.key)
            together = [*(state.members[waiting.uid] for waiting in siblings), member]
            if assume_and_release.let_go(state, together, now=now):
                return
            outcome = Unschedulable(member.reason)
    except GangschedError:
        extension_points.unreserve(state, member, "refused", now)
        assume_and_release.unassume(state, member)
        if info is not None:
            info.attempt_started_at = before
        raise
    verdict = reject.release_node(
        state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now
    )
    member.entity.put_back(pod.uid)
    _fail(state, member, cycle, outcome.reason, now=now, verdict=verdict)


def _fail(
    state: State,
    member: Member,
    cycle: CycleState,
    found: Diagnosis | str,
    *,
    now: float,
    verdict: RejectGroup | EvictGroup | None = None,
) -> None:
    """End the cycle of a pod without a node.

    Args:
        state: The scheduler's memory.
        member: The pod.
        cycle: Its cycle.
        found: Why: where every node refused it, and pods like it fail alike, which and for what.
        now: The current instant.
        verdict: What is decided about its group already.
    """
    entity, info, uid = member.entity, member.group, member.pod.uid
    reason, diagnosis = str(found), found if isinstance(found, Diagnosis) else None
    entity.put_aside(uid)
    try:
        answer = verdict or extension_points.post_filter(state, cycle, member.pod, reason, now)
    except GangschedError:
        entity.put_back(uid)
        raise
    member.reason = reason
    entity.unschedulable_member = UnschedulableMember(uid, member.pod.key, reason, diagnosis)
    if diagnosis is not None:
        entity.failed_step = state.step
    state.out.append(PodUnschedulable(uid, reason))
    own = None if info is None else info.key
    too_few = equivalence.falls_short(state, entity)
    if isinstance(answer, EvictGroup):
        reject.carry_out(state, answer, now=now)
    elif isinstance(answer, RejectGroup | HoldGroup) and answer.group != own:
        reject.reject_group(state, answer.group, answer.reason, now=now)
    elif isinstance(answer, RejectGroup):
        reject.reject_group(state, answer.group, answer.reason, now=now, proven=too_few)
        return
    elif isinstance(answer, HoldGroup):
        if answer.group in state.holding:
            state.yielding[answer.group] = answer.reason
            reject.park_holding(state, entity, now=now)
        else:
            reject.reject_group(state, answer.group, answer.reason, now=now, proven=too_few)
        return
    assume_and_release.after_turn(state, entity, now=now)
