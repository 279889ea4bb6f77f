"""One decision about a whole gang: its members placed, reserved and let go in one call, or none.

Rules:
  R1  the members are planned on one view of the nodes; nothing is taken before the plan has as
      many members as the gang needs;
  R2  a gang that is not let go has taken nothing when the call ends, unless a permit plugin lets
      it wait: there is one reason, one rest, and no member waits for another;
  R3  members beyond what is needed are placed if they fit, and never at the cost of the others;
  R4  plugins that answer for a group are asked before those that answer for a member;
  R5  a plugin that raises leaves everything as it was before the gang's cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import GangschedError
from gangsched.events import PodUnschedulable
from gangsched.explain import UnschedulableMember
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.lifecycle import assume_and_release, reject
from gangsched.framework.placement import gang_layout
from gangsched.framework.placement.gang_layout import misfit
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable, Wait

__all__ = ["schedule"]

_Cycles: TypeAlias = Mapping[int, CycleState]


def schedule(state: State, entity: QueuedEntity, info: PodGroupInfo, *, now: float) -> None:
    """Place a gang and let it go, or let its attempt fall.

    Runtime complexity: O(members x log nodes) where like members are placed one after the other;
    see ``gang_placement`` where that is not enough.
    """
    found, refused, cycles = gang_layout.lay_out(state, entity, now=now)
    if isinstance(found, Plan):
        _take(state, entity, info, found, cycles, now=now)
        return
    unschedulable_member = refused or found
    assert unschedulable_member is not None
    _fall(state, entity, info, unschedulable_member, cycles, now=now)
    # what nodes would have become stays known otherwise for as long as no node changes
    state.nodes.classes.forget_unused()


def _take(
    state: State,
    entity: QueuedEntity,
    info: PodGroupInfo,
    plan: Plan,
    cycles: _Cycles,
    *,
    now: float,
) -> None:
    """Let members hold their nodes, and let them go."""
    members = [member for member, _index in plan.placed]
    parties: dict[int, list[Member]] = {}
    for member in members:
        parties.setdefault(member.entity.seq, []).append(member)
    together = list(parties.values())
    assume_and_release.assume_together(state, together, plan.placed, plan.become(), cycles)
    groups = (party[0].group for party in together)
    others = [group for group in groups if group is not None and group is not info]
    for other in others:
        _begin(other, now=now)
    problem: UnschedulableMember | Wait | None = None
    try:
        for party in together:
            problem = problem or _reserve(state, party, now=now) or _permit(state, party, now=now)
        if isinstance(problem, Wait) and others:
            problem = misfit(members[0], "the groups of a bundle do not wait on permit")
        if problem is None and not assume_and_release.let_go(state, *together, now=now):
            problem = misfit(together[-1][-1], together[-1][-1].reason)
    except GangschedError:
        for member in reversed(members):
            extension_points.unreserve(state, member, "refused", now)
            assume_and_release.unassume(state, member)
        for other in others:
            _break_off(other)
        raise
    if isinstance(problem, Wait):
        for member in members:
            assume_and_release.wait(state, member, problem, now=now)
    elif problem is not None:
        verdict: RejectGroup | EvictGroup | None = None
        for member in reversed(members):
            answer = reject.release_node(
                state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now
            )
            verdict = verdict or answer
        for party in together:
            party[0].entity.refill()
        for other in others:
            _break_off(other)
        _fall(state, entity, info, problem, cycles, now=now, verdict=verdict)


def _begin(info: PodGroupInfo, *, now: float) -> None:
    """Take note that another group of the bundle is tried."""
    info.attempts += 1
    info.attempt_started_at = now


def _break_off(info: PodGroupInfo) -> None:
    """Take a try of another group of the bundle as one that was not made: one of them falls."""
    info.attempts -= 1
    info.attempt_started_at = None


def _reserve(state: State, members: list[Member], *, now: float) -> UnschedulableMember | None:
    """Let plugins take what the placements need; return who is turned down, and why."""
    for_all = state.profile.group_wide["reserve"]
    for_each = state.profile.per_member["reserve"]
    outcome = extension_points.reserve(state, members[0], now, for_all)
    if isinstance(outcome, Unschedulable):
        return misfit(members[0], outcome.reason)
    for member in members if for_each else ():
        outcome = extension_points.reserve(state, member, now, for_each)
        if isinstance(outcome, Unschedulable):
            return misfit(member, outcome.reason)
    return None


def _permit(
    state: State, members: list[Member], *, now: float
) -> UnschedulableMember | Wait | None:
    """Ask whether all may go; return who is turned down and why, or the shortest wait."""
    for_each = state.profile.per_member["permit"]
    asked = [(members[0], state.profile.group_wide["permit"])]
    asked += [(member, for_each) for member in members if for_each]
    wait: Wait | None = None
    for member, plugins in asked:
        outcome = extension_points.permit(state, member, now, plugins)
        if isinstance(outcome, Unschedulable):
            return misfit(member, outcome.reason)
        if isinstance(outcome, Wait) and (wait is None or outcome.timeout < wait.timeout):
            wait = outcome
    return wait


def _fall(
    state: State,
    entity: QueuedEntity,
    info: PodGroupInfo,
    unschedulable_member: UnschedulableMember,
    cycles: _Cycles,
    *,
    now: float,
    verdict: RejectGroup | EvictGroup | None = None,
) -> None:
    """End the cycle of a gang that is not let go."""
    member = state.members[unschedulable_member.uid]
    reason = unschedulable_member.reason
    answer = verdict or extension_points.post_filter(
        state, cycles[member.seq], member.pod, reason, now
    )
    member.reason = reason
    entity.unschedulable_member = unschedulable_member
    state.out.append(PodUnschedulable(unschedulable_member.uid, reason))
    proven = unschedulable_member.diagnosis is not None
    if proven:
        entity.failed_step = state.step
    own = {party.group.key for party in bundles.pending(state, entity) if party.group is not None}
    if isinstance(answer, EvictGroup):
        reject.carry_out(state, answer, now=now)
        if answer.group == info.key:
            return
    elif isinstance(answer, RejectGroup | HoldGroup) and answer.group not in own:
        reject.reject_group(state, answer.group, answer.reason, now=now)
    elif isinstance(answer, RejectGroup | HoldGroup):
        reason = answer.reason
    reject.reject_group(state, info.key, reason, now=now, proven=proven)
