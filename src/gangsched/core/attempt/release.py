"""Members are released to be bound: enough for each quorum together, or none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from gangsched.core.admission.lacking import SATISFIED
from gangsched.core.attempt.ends import Failure, Tried, fail
from gangsched.core.attempt.pending_members import halved
from gangsched.core.moves import attempt_steps, notices
from gangsched.core.records.gang import PodRecord, by_group
from gangsched.core.state import State
from gangsched.events import Bind, GroupScheduled, Release
from gangsched.model import PodUID
from gangsched.outcomes import SKIP
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import Counts, by_role, least_needed

__all__ = ["Prepared", "is_quorum_without", "prepare", "release"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_BINDING: Final = MemberState.BINDING
Prepared: TypeAlias = tuple[list[Bind], dict[int, str]]
"""The binds of members that go, and why others of them are refused, by number."""


def prepare(
    state: State, members: Sequence[PodRecord], kept: Sequence[PodRecord] = ()
) -> Prepared | str:
    """Ask PreBind and Bind of members that may go together; nothing changes.

    Args:
        state: The state.
        members: The members.
        kept: Members of the same groups that hold nodes and keep waiting.

    Returns:
        The binds, and why members are refused; or why too few are left for a quorum.
    """
    refused: dict[int, str] = {}
    binds: list[Bind] = []
    asks = bool(state.settings.profile.pre_bind)
    for record in members:
        denied = state.points.pre_bind(record, state.records.now) if asks else None
        if denied is None:
            binds.append(state.points.bind(record, state.records.now))
        else:
            refused[record.seq] = denied.reason
    without = [*kept, *(record for record in members if record.seq in refused)]
    for record in halved(state, members[0].gang, members, without):
        refused[record.seq] = next(iter(refused.values()))
        without.append(record)
    if without and not is_quorum_without(state, members, without):
        return next(iter(refused.values()), "")
    return binds, refused


def is_quorum_without(
    state: State, members: Sequence[PodRecord], without: Sequence[PodRecord]
) -> bool:
    """Return whether members may be released though others that hold nodes do not count."""
    for info in {r.info.key: r.info for r in members if r.info is not None}.values():
        needed = state.points.roles_needed(info)
        lost = Counter([record.role for record in without if record.info is info])
        if not _is_met_without(info, needed, lost):
            return False
    left_out = {record.seq for record in without}
    return any(record.seq not in left_out for record in members)


def _is_met_without(
    info: PodGroupInfo, needed: Mapping[str, int], lost: Counter[str | None]
) -> bool:
    if info.has_parts:
        gone = by_role(Counts(lost.total()), lambda role: Counts(lost[role]))
        return (
            least_needed(info.tree, lambda sub: needed.get(sub.key, SATISFIED) + gone(sub).held)
            <= 0
        )
    return all(more + (lost[role] if role else lost.total()) <= 0 for role, more in needed.items())


def release(
    state: State, members: Sequence[PodRecord], binds: list[Bind], refused: Mapping[int, str]
) -> None:
    """Release members to be bound. O(members)."""
    gang = members[0].gang
    bind_of = {bind.uid: bind for bind in binds}
    for some in by_group(members):
        gone = [record for record in some if record.seq not in refused]
        _release_group(state, some[0].info, gone, bind_of)
    left = [record for record in members if record.seq in refused]
    for record in left:
        attempt_steps.give_back(state, record, _UNSCHEDULED, "refused")
    if gang.backoff_until <= state.records.now:  # otherwise the bind of a member has failed since
        gang.note_failures(0, -math.inf, "")
    gang.refused, gang.giving_way = None, ""
    if not gang.waiting:
        gang.is_whole = False
        gang.end_attempt()
    for record in left[1:]:
        notices.tell(state, record, refused[record.seq])
    for record in left[:1]:
        failure = Failure(member=record, reason=refused[record.seq], verdict=SKIP)
        fail(state, gang, failure, Tried.ALONE)


def _release_group(
    state: State,
    info: PodGroupInfo | None,
    gone: Sequence[PodRecord],
    bind_of: Mapping[PodUID, Bind],
) -> None:
    """Let members of one group go, and end its attempt, also if all of them were refused."""
    waiting, call = state.records.waiting, state.call
    for record in gone:
        if waiting.earliest < math.inf:
            waiting.remove(record.uid)
        state.records.move(record, _BINDING, record.slot)
        call.pods_changed = True
    if info is not None and info.attempt_started_at is not None:
        _succeed(state, info)
    if info is not None and gone:
        call.out.append(Release(info.key, tuple([record.uid for record in gone])))
    call.out += [bind_of[record.uid] for record in gone]


def _succeed(state: State, info: PodGroupInfo) -> None:
    """End an attempt whose members are released, and post ``GroupScheduled``. O(1)."""
    info.was_scheduled = info.is_binding = True
    info.started_by = info.attempts
    if info.members.collected and info.stands(done=False).is_met:
        info.members.forget_collected()  # they belong to what ran before, not to this start
    info.last_failure_at = info.attempt_started_at = None
    since = state.records.now if info.complete_at is None else info.complete_at
    state.call.out.append(
        GroupScheduled(info.key, info.attempts, info.scheduled, state.records.now - since)
    )
