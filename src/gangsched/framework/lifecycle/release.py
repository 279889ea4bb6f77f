"""The binding cycle: PreBind and Bind for members that may go, then their release.

Rules:
  R1  the binding cycle begins only when permit is granted, for every member that waits for it;
  R2  PreBind and Bind are asked of all members before anything changes: they may refuse so many
      that no quorum is left;
  R3  a release is one step over one state. Its effects are one ``Release`` and the binds, in the
      order in which the members took their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gangsched._core._counters import MemberState
from gangsched.events import Bind, Release
from gangsched.framework.lifecycle import assume, group_attempt, notices
from gangsched.framework.lifecycle.entity_outcomes import PermitGranted, Prepared
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName
from gangsched.outcomes import SUCCESS, Unschedulable

__all__ = ["is_quorum_without", "perform", "prepare"]


def prepare(
    settings: Settings,
    call: CurrentCall,
    *parties: list[Member],
    now: float,
    kept: Sequence[Member] = (),
) -> PermitGranted | None:
    """Ask PreBind and Bind of members that may go together. Nothing changes. O(members).

    Args:
        settings: What the caller set.
        call: What the current call gathers.
        parties: The members of one group each, or one regular pod: all are released, or none.
        now: The current instant.
        kept: Members of the group that hold nodes and keep waiting on permit: they do not count
            for the quorum of this release.

    Returns:
        The release; None if members were refused so that no quorum is left. The ``reason`` of
        the last member says why.
    """
    prepared: list[Prepared] = []
    for members in parties:
        found = _prepare(settings, call, members, kept, now=now)
        if found is None:
            parties[-1][-1].reason = members[-1].reason
            return None
        prepared.append(found)
    return PermitGranted(prepared)


def _prepare(
    settings: Settings,
    call: CurrentCall,
    members: list[Member],
    kept: Sequence[Member],
    *,
    now: float,
) -> Prepared | None:
    refused: dict[int, str] = {}
    binds: list[Bind | None] = []
    asked = bool(settings.profile.pre_bind)
    for member in members:
        outcome = extension_points.pre_bind(settings, member, now) if asked else SUCCESS
        if isinstance(outcome, Unschedulable):
            refused[member.seq] = outcome.reason
            binds.append(None)
        else:
            binds.append(extension_points.bind(settings, member, now))
    if refused and not is_quorum_without(
        settings, call, members, [*kept, *(each for each in members if each.seq in refused)]
    ):
        members[-1].reason = next(iter(refused.values()))
        return None
    return Prepared(members, binds, refused)


def is_quorum_without(
    settings: Settings, call: CurrentCall, members: Sequence[Member], without: Sequence[Member]
) -> bool:
    """Return whether some members of a group may be released. O(members x roles).

    Args:
        settings: What the caller set.
        call: What the current call gathers.
        members: The members that are to be released.
        without: Members of the group that hold nodes and do not count: some of *members*, or
            others.
    """
    info = members[-1].group
    needed: Mapping[str, int] = (
        {} if info is None else extension_points.roles_needed(settings, call, info)
    )
    if not needed:
        left_out = {member.seq for member in without}
        return any(member.seq not in left_out for member in members)
    lost = [member.role for member in without]
    return all(
        more + (lost.count(role) if role else len(lost)) <= 0 for role, more in needed.items()
    )


def perform(state: State, prepared: Prepared, *, now: float) -> list[NodeName]:
    """Release members, and return the nodes of those that PreBind refused. O(members)."""
    members, refused = prepared.members, prepared.refused
    last = members[-1]
    info = last.group
    freed: list[NodeName] = []
    released: Sequence[Member] = members
    if refused:
        released = [member for member in members if member.seq not in refused]
    if info is not None:
        if info.key in state.attempts.waiting_since:
            for member in members:
                state.pods.waiting.remove(member.pod.uid)
        if info.attempt_started_at is not None:
            group_attempt.succeed(state.call, info, now=now)
    else:
        state.pods.waiting.remove(last.pod.uid)
    uids = state.pods.put_all(released, MemberState.BINDING)
    # a quorum may run already, and every member that joins it be refused
    if info is not None and uids:
        state.call.out.append(Release(info.key, tuple(uids)))
    for member, effect in zip(members, prepared.binds, strict=True) if refused else ():
        if effect is None:
            assert member.node is not None
            freed.append(member.node)
            assume.give_back(state, member, cause="refused", to=MemberState.UNSCHEDULED, now=now)
            notices.tell_unschedulable(state.call, member, refused[member.seq])
        else:
            state.call.out.append(effect)
    if not refused:
        state.call.out += [effect for effect in prepared.binds if effect is not None]
    assume.note_permit_ended(state.attempts, info)
    return freed
