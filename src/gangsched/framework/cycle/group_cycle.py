"""One decision about a whole gang: its members are placed, reserved and released, or none is.

Rules:
  R1  the members are planned on one view of the nodes; nothing is assumed before the plan has as
      many members as the gang needs;
  R2  a gang that is not released holds no node when the call ends, unless a permit plugin lets it
      wait: it has one reason and one backoff, and no member waits for another;
  R3  elastic members are placed if they fit, and never at the cost of the members that are needed;
  R4  plugins that answer for a group are asked before those that answer for a member;
  R5  if a plugin raises, the state from before the cycle is restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.explain import UnschedulableMember
from gangsched.framework.lifecycle import assume, group_attempt, notices, release
from gangsched.framework.lifecycle.entity_outcomes import (
    CycleEnded,
    Outcome,
    PermitGranted,
    Rejected,
)
from gangsched.framework.lifecycle.transition import apply_verdict
from gangsched.framework.placement import budget_shares, gang_layout
from gangsched.framework.placement.gang_layout import unschedulable
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles
from gangsched.framework.runtime import extension_points
from gangsched.framework.runtime.extension_points import Waits
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable

__all__ = ["schedule"]

_Cycles: TypeAlias = Mapping[int, CycleState]


def schedule(state: State, entity: QueuedEntity, info: PodGroupInfo, *, now: float) -> Outcome:
    """Place a gang, and return its release or the rejection of its attempt.

    Runtime complexity: O(members x log nodes) where like members are placed one after the other;
    see ``gang_placement`` where that is not enough.
    """
    budget = budget_shares.for_attempt(
        state.settings, state.pods, state.reservations, state.call, entity
    )
    found, refused, cycles = gang_layout.plan_gang(state, entity, now=now, budget=budget)
    if isinstance(found, Plan):
        return _take(state, entity, info, found, cycles, now=now)
    unschedulable = refused or found
    assert unschedulable is not None
    outcome = _fail(state, entity, info, unschedulable, cycles, now=now)
    # the classes that nodes would have moved to are otherwise kept while no node changes
    state.nodes.classes.forget_unused()
    return outcome


def _take(
    state: State,
    entity: QueuedEntity,
    info: PodGroupInfo,
    plan: Plan,
    cycles: _Cycles,
    *,
    now: float,
) -> Outcome:
    """Assume the members on their nodes, and ask Reserve, Permit, PreBind and Bind."""
    members = [member for member, _index in plan.placed]
    together = [members] if info.bundle is None else _by_entity(members)
    assume.assume_together(state.nodes, state.pods, together, plan.placed, plan.become(), cycles)
    begun: list[PodGroupInfo] = []
    if info.bundle is not None:
        groups = [party[0].group for party in together]
        others = [group for group in groups if group is not None and group is not info]
        begun = [other for other in others if group_attempt.begin(other, now=now)]
    try:
        answer, waits = _reserve_and_permit(state.settings, state.call, together, now=now)
    except GangschedError:
        for member in reversed(members):
            extension_points.unreserve(state.settings, state.call, member, "refused", now)
            assume.unassume(state.nodes, state.pods, member)
        for other in begun:
            group_attempt.abandon(other)
        raise
    if not waits and isinstance(answer, PermitGranted):
        return answer
    if not isinstance(answer, UnschedulableMember):
        released = set[int]() if answer is None else {m.seq for m in answer.parties[0].members}
        # the first deadline that comes ends the waits of all
        shortest = min((_timeout(each) for each in waits.values()), default=0.0)
        for member in members:
            if member.seq not in released:
                own = waits.get(member.seq, ())
                assume.wait(state, member, own, now=now, timeout=shortest)
        return answer or CycleEnded()
    verdict: RejectGroup | EvictGroup | None = None
    for member in reversed(members):
        found = assume.give_back(
            state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now
        )
        verdict = verdict or found
    for party in together:
        party[0].entity.refill()
    for other in begun:
        group_attempt.abandon(other)
    return _fail(state, entity, info, answer, cycles, now=now, verdict=verdict)


def _by_entity(members: Iterable[Member]) -> list[list[Member]]:
    """Return the members of the groups of a bundle, by group."""
    parties: dict[int, list[Member]] = {}
    for member in members:
        parties.setdefault(member.entity.seq, []).append(member)
    return list(parties.values())


def _timeout(waits: Waits) -> float:
    return min(seconds for _name, seconds in waits)


def _reserve_and_permit(
    settings: Settings, call: CurrentCall, together: list[list[Member]], *, now: float
) -> tuple[PermitGranted | UnschedulableMember | None, Mapping[int, Waits]]:
    """Ask Reserve and Permit for one group after the other, then PreBind and Bind for all.

    Returns:
        The release, the member that is refused, or None if too few may go for a quorum; and the
        plugins that let a member wait, by its number. Members of a bundle do not wait.
    """
    waits: dict[int, Waits] = {}
    for party in together:
        refused = _reserve(settings, party, now=now)
        if refused is not None:
            return refused, {}
        found = _permit(settings, party, now=now)
        if isinstance(found, UnschedulableMember):
            return found, {}
        if found and len(together) > 1:
            why = "the groups of a bundle do not wait on permit"
            return unschedulable(together[0][0], why), {}
        waits |= found
    kept: list[Member] = []
    if waits:
        kept = [member for member in together[0] if member.seq in waits]
        together = [[member for member in together[0] if member.seq not in waits]]
        if not (together[0] and release.is_quorum_without(settings, call, together[0], kept)):
            return None, waits
    last = together[-1][-1]
    granted = release.prepare(settings, call, *together, now=now, kept=kept)
    return (granted, waits) if granted else (unschedulable(last, last.reason), {})


def _reserve(
    settings: Settings, members: list[Member], *, now: float
) -> UnschedulableMember | None:
    """Ask Reserve for the members of one group; return the first that is refused."""
    for_all = settings.profile.group_wide["reserve"]
    for_each = settings.profile.per_member["reserve"]
    outcome = extension_points.reserve(settings, members[0], now, for_all)
    if isinstance(outcome, Unschedulable):
        return unschedulable(members[0], outcome.reason)
    point = "reserve of each"
    for member, asked in extension_points.concerned_among(settings, members, point, for_each):
        outcome = extension_points.reserve(settings, member, now, asked)
        if isinstance(outcome, Unschedulable):
            return unschedulable(member, outcome.reason)
    return None


def _permit(
    settings: Settings, members: list[Member], *, now: float
) -> UnschedulableMember | dict[int, Waits]:
    """Ask Permit for one group.

    Returns:
        The first member that is refused; otherwise the plugins that let members wait, by the number
        of the member.
    """
    for_all = settings.profile.group_wide["permit"]
    shared = extension_points.permit(settings, members[0], now, for_all)
    if isinstance(shared, Unschedulable):
        return unschedulable(members[0], shared.reason)
    waits = {member.seq: shared for member in members} if shared else {}
    for_each = settings.profile.per_member["permit"]
    for member in members if for_each else ():
        own = extension_points.permit(settings, member, now, for_each)
        if isinstance(own, Unschedulable):
            return unschedulable(member, own.reason)
        if own:
            waits[member.seq] = (*shared, *own)
    return waits


def _fail(
    state: State,
    entity: QueuedEntity,
    info: PodGroupInfo,
    unschedulable: UnschedulableMember,
    cycles: _Cycles,
    *,
    now: float,
    verdict: RejectGroup | EvictGroup | None = None,
) -> Rejected:
    """Ask PostFilter about a gang that is not released; return the rejection of its attempt."""
    member = state.pods.members[unschedulable.uid]
    reason = unschedulable.reason
    answer = verdict or extension_points.post_filter(
        state.settings, cycles[member.seq], member.pod, reason, now
    )
    entity.unschedulable_member = unschedulable
    notices.tell_unschedulable(state.call, member, reason)
    diagnosis = unschedulable.diagnosis
    lacks_capacity = diagnosis is not None and not diagnosis.refusal
    if diagnosis is None:
        entity.note_refusal_by_plugin()
    else:
        entity.failed_step = state.attempts.step
    own = {
        party.group.key for party in bundles.pending(state.pods, entity) if party.group is not None
    }
    if isinstance(answer, EvictGroup):
        if answer.group == info.key:
            return Rejected(answer.reason, evict=True)
        apply_verdict(state, answer, now=now)
    elif isinstance(answer, RejectGroup | HoldGroup):
        if answer.group in own:
            reason = answer.reason
        else:
            apply_verdict(state, answer, now=now)
    awaits_event = diagnosis is not None and not lacks_capacity
    return Rejected(reason, lacks_capacity=lacks_capacity, awaits_event=awaits_event)
