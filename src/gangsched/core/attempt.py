"""An attempt of a gang: its members take nodes, wait on permit, are released, or give nodes back.

Rules:
  R1  permit is granted to enough members for each quorum together, or to none;
  R2  a rejection gives back every node on which a member waits, at once;
  R3  capacity that an attempt gives back was taken since the step at which the attempt began, so it
      does not help what failed with it before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve

from gangsched._core import _quorum
from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched._core._standing import is_quorum
from gangsched._plugin_calls import name_of
from gangsched.core import notices
from gangsched.core.gang import Gang, PodRecord, by_group, by_seq
from gangsched.core.points import Waits
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.events import (
    Bind,
    Evict,
    GroupBound,
    GroupRejected,
    GroupScheduled,
    PodRejected,
    PodWaiting,
    Release,
)
from gangsched.explain import UnschedulableMember
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Unschedulable

__all__ = [
    "Verdict",
    "allow",
    "apply_verdict",
    "assume",
    "begin",
    "evict",
    "fail",
    "give_back",
    "is_quorum_without",
    "note_progress",
    "prepare",
    "recheck",
    "refuse",
    "reject",
    "release",
    "succeed",
    "wait",
]

Verdict = RejectGroup | EvictGroup | HoldGroup

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING
_BINDING: Final = MemberState.BINDING
_STARTED: Final = (MemberState.ASSIGNED, MemberState.SUCCEEDED, MemberState.FAILED)


# Nodes that members take and give back ----------------------------------------------------------


def begin(state: State, gang: Gang) -> None:
    """Begin an attempt of each group of a gang unless one is under way."""
    if not gang.began:
        gang.began = gang.round = state.records.step
        if gang.tried:
            gang.count_tried()
    for info in gang.infos.values():
        if info.attempt_started_at is None:
            info.attempts += 1
            info.attempt_started_at = state.records.now
            if not info.scheduled:
                info.started_by = 0  # what it released has left


def assume(
    state: State, record: PodRecord, slot: int, cycle: CycleState, *, is_taken: bool
) -> None:
    """Assume a pod on a node. The caller lets it wait on permit, releases it or undoes this."""
    record.cycle = cycle
    record.attempt = max(record.attempt, state.records.attempt_floor) + 1
    record.round = record.gang.round
    state.records.move(record, _WAITING, slot, is_taken=is_taken)
    state.pods_tried = True


def wait(state: State, record: PodRecord, waits: Waits, timeout: float) -> None:
    """Let an assumed pod wait on permit, and post ``PodWaiting``. O(log n)."""
    info, node = record.info, record.node
    assert node is not None
    plugins = tuple([name for name, _seconds in waits])
    entry = state.records.waiting.wait(
        record.uid,
        node=node,
        timeout=timeout,
        now=state.records.now,
        group=None if info is None else info.key,
        attempt=record.attempt if info is None else info.attempts,
        plugins=plugins,
    )
    remaining = 0 if info is None else max(state.points.members_needed(info) or 0, 0)
    notice = PodWaiting(record.uid, node, entry.deadline, remaining, record.attempt, plugins)
    state.out.append(notice)
    state.asked = record.gang


def give_back(
    state: State, record: PodRecord, to: MemberState, cause: str
) -> RejectGroup | EvictGroup | None:
    """Take an assumed pod off its node; return the verdict of a plugin on its group.

    The counts change before ``unreserve`` is called, so a plugin sees the group without the pod.
    """
    records = state.records
    if records.waiting.remove(record.uid) is not None:
        state.given_back[record.uid] = None  # another scheduler may have bound it meanwhile
    slot, round_ = record.slot, record.round
    # plugins are told the node, so the record keeps it until they are
    records.move(record, to, slot)
    verdict = state.points.unreserve(record, cause, state.records.now)
    records.move(record, to, -1, since=state.gains.since(record.gang.began))
    record.cycle = None
    if to is _UNSCHEDULED:
        record.round = round_
        record.pod_class = record.pod_class or state.evaluator.class_of(record.pod)
    state.pods_tried = True
    return verdict


# Permit -----------------------------------------------------------------------------------------


def prepare(
    state: State, members: Sequence[PodRecord], kept: Sequence[PodRecord] = ()
) -> tuple[list[Bind], dict[int, str]] | str:
    """Ask PreBind and Bind of members that may go together; nothing changes.

    Args:
        state: The state.
        members: The members.
        kept: Members of the same groups that hold nodes and keep waiting.

    Returns:
        The binds, and why members are refused, by number; or why too few are left for a quorum.
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
    if without and not is_quorum_without(state, members, without):
        return next(iter(refused.values()), "")
    return binds, refused


def is_quorum_without(
    state: State, members: Sequence[PodRecord], without: Sequence[PodRecord]
) -> bool:
    """Return whether members may be released though others that hold nodes do not count."""
    for info in {r.info.key: r.info for r in members if r.info is not None}.values():
        needed = state.points.roles_needed(info)
        lost = [record for record in without if record.info is info]
        for role, more in needed.items():
            if more + (sum(r.role == role for r in lost) if role else len(lost)) > 0:
                return False
    left_out = {record.seq for record in without}
    return any(record.seq not in left_out for record in members)


def release(
    state: State, members: Sequence[PodRecord], binds: list[Bind], refused: dict[int, str]
) -> None:
    """Release members to be bound. O(members)."""
    gang, waiting = members[0].gang, state.records.waiting
    bind_of = {bind.uid: bind for bind in binds}
    released: list[PodRecord] = []
    for some in by_group(members):
        info = some[0].info
        gone = [record for record in some if record.seq not in refused]
        for record in gone:
            if waiting.earliest < math.inf:
                waiting.remove(record.uid)
            state.records.move(record, _BINDING, record.slot)
            state.pods_changed = True
        if info is not None and info.attempt_started_at is not None:
            succeed(state, info)
        if info is not None and gone:
            state.out.append(Release(info.key, tuple([record.uid for record in gone])))
        state.out += [bind_of[record.uid] for record in gone]
        released += gone
    for record in members:
        if record.seq in refused:
            give_back(state, record, _UNSCHEDULED, "refused")
            notices.tell(state, record, refused[record.seq])
    if gang.backoff_until <= state.records.now:  # otherwise the bind of a member has failed since
        gang.failures, gang.backoff_until, gang.reason = 0, -math.inf, ""
        for info in gang.infos.values():  # a member that goes alone has begun no attempt
            info.failures, info.backoff_until, info.failure = 0, -math.inf, ""
    gang.refused, gang.giving_way = None, ""
    if not gang.waiting:
        gang.began, gang.is_whole = 0, False
        if gang.tried:
            gang.count_tried()
    for record in members:
        if record.seq in refused:
            refuse(state, record, refused[record.seq])
            break


def recheck(state: State, gang: Gang) -> bool:
    """Ask the pending permit plugins of waiting members again; return whether some were released.

    A plugin that answers for the whole group is asked about one member.
    """
    profile, points = state.settings.profile, state.points
    members = sorted(gang.waiting.values(), key=by_seq)
    wide, each = profile.group_wide["permit"]
    try:
        blocked, left, refused = False, dict[int, list[str]](), dict[int, str]()
        for info_members in by_group(members):
            first = info_members[0]
            pending = {n for r in info_members for n in _pending(state, r)}
            asked = tuple(p for p in wide if p is profile.quorum or name_of(p) in pending)
            answer = points.permit(first, state.records.now, asked)
            if isinstance(answer, Unschedulable):
                refused[first.seq] = answer.reason
                blocked = True
                continue
            blocked = blocked or bool(answer)
            done = {name_of(plugin) for plugin in wide} - {name for name, _t in answer}
            for record in info_members:
                names = [name for name in _pending(state, record) if name not in done]
                own = tuple(p for p in each if name_of(p) in names)
                if own:
                    found = points.permit(record, state.records.now, own)
                    if isinstance(found, Unschedulable):
                        refused[record.seq] = found.reason
                    else:
                        waits = {name for name, _t in found}
                        mine = {name_of(plugin) for plugin in own}
                        names = [n for n in names if n in waits or n not in mine]
                left[record.seq] = names
        ready = [r for r in members if not left.get(r.seq) and r.seq not in refused]
        kept = [r for r in members if r not in ready]
        prepared: Any = ""
        if not blocked and ready and (not kept or is_quorum_without(state, ready, kept)):
            prepared = prepare(state, ready, kept)
    except GangschedError as error:
        points.deferred.append(error)
        return False
    for record in members:
        if record.seq in refused:
            state.refused[record.uid] = refused[record.seq]
    if not isinstance(prepared, str):
        release(state, ready, *prepared)
        return True
    quorum = "" if profile.quorum is None else name_of(profile.quorum)
    for record in members:
        _note_pending(state, record, [*left.get(record.seq, _pending(state, record)), quorum])
    return False


def allow(state: State, record: PodRecord, plugin: str) -> None:
    """Note that a permit plugin allows a waiting pod."""
    _note_pending(state, record, [name for name in _pending(state, record) if name != plugin])


def _pending(state: State, record: PodRecord) -> tuple[str, ...]:
    entry = state.records.waiting.get(record.uid)
    return () if entry is None else entry.pending_plugins


def _note_pending(state: State, record: PodRecord, names: Sequence[str]) -> None:
    entry = state.records.waiting.get(record.uid)
    if entry is not None:
        pending = tuple([name for name in entry.pending_plugins if name in names])
        if pending != entry.pending_plugins:
            state.records.waiting.replace(evolve(entry, pending_plugins=pending))


# The end of an attempt --------------------------------------------------------------------------


def succeed(state: State, info: PodGroupInfo) -> None:
    """End an attempt whose members are released, and post ``GroupScheduled``. O(1)."""
    info.was_scheduled = info.is_binding = True
    info.started_by = info.attempts
    if info.members.collected and info.stands(done=False).is_met:
        info.members.forget_collected()  # they belong to what ran before, not to this start
    info.last_failure_at = info.attempt_started_at = None
    since = state.records.now if info.complete_at is None else info.complete_at
    state.out.append(
        GroupScheduled(info.key, info.attempts, info.scheduled, state.records.now - since)
    )


def fail(state: State, gang: Gang, reason: str, *, backs_off: bool) -> None:
    """Count a failure of a gang, and let it back off if waiting for a node would not help."""
    gang.failures += 1
    gang.queued_at = state.records.now
    gang.reason = reason
    if backs_off:
        until = state.records.now + state.settings.backoff.delay(gang.failures)
        # if the clock is too coarse for the delay, the next instant ends the backoff
        gang.backoff_until = max(until, math.nextafter(state.records.now, math.inf))
    for info in gang.infos.values():
        info.failures, info.failure = gang.failures, reason
        info.backoff_until = gang.backoff_until


def refuse(state: State, record: PodRecord, reason: str) -> None:
    """Let a gang back off because a plugin refused a member that goes alone."""
    fail(state, record.gang, reason, backs_off=True)
    record.gang.refused = UnschedulableMember(record.uid, record.pod.key, reason, None)


def reject(
    state: State,
    gang: Gang,
    reason: str,
    *,
    evicts: bool = False,
    backs_off: bool = True,
    tells: bool = True,
) -> None:
    """Reject the attempt of a gang: every waiting member gives its node back. O(members).

    Args:
        state: The state.
        gang: The gang.
        reason: Why.
        evicts: Whether its bound members are evicted.
        backs_off: Whether it backs off.
        tells: Whether its pods are told the reason; otherwise the caller tells them another one.
    """
    if evicts:
        for record in sorted(gang.members.values(), key=by_seq):
            evict(state, record, reason)
        for info in gang.infos.values():
            info.was_scheduled = info.is_binding = False
            state.restarts.stop(info.key)
    for record in sorted(gang.waiting.values(), key=by_seq):
        node = record.node
        assert node is not None
        # a verdict is dropped: the gang is being rejected already
        give_back(state, record, _UNSCHEDULED, "rejected")
        record.reason = reason
        state.out.append(PodRejected(record.uid, node, reason))
    fail(state, gang, reason, backs_off=backs_off)
    infos = gang.infos.values()
    tried = [info for info in infos if info.attempt_started_at is not None]
    for info in tried if tried and not evicts else infos:
        number = info.started_by if evicts else 0
        if not number:
            # no attempt of this scheduler: a plugin rejects it, or it ran already when this began
            info.attempts += info.attempt_started_at is None
            number = info.attempts
        if evicts:
            info.started_by = 0
        info.attempt_started_at = None
        info.last_failure_at = state.records.now
        until = max(gang.backoff_until, state.records.now)
        state.out.append(GroupRejected(info.key, number, reason, until))
    gang.began, gang.giving_way = 0, ""
    if gang.tried:
        gang.count_tried()
    if evicts:
        gang.refused = None  # its backoff ends with time alone
    if tells:
        notices.tell_gang(state, gang, reason)
    state.touch(gang)


def apply_verdict(state: State, verdict: Verdict, *, backs_off: bool = True) -> None:
    """Reject, and if the verdict says so evict, the group that a verdict names."""
    gang = state.records.gang_of.get(verdict.group)
    if gang is not None:
        evicts = isinstance(verdict, EvictGroup)
        reject(state, gang, verdict.reason, evicts=evicts, backs_off=backs_off)


def evict(state: State, record: PodRecord, reason: str) -> None:
    """Ask for the eviction of a pod that is bound or being bound; it no longer counts. O(1).

    While its bind is under way nothing is there to evict, and an eviction may overtake the bind.
    Then ``Evict`` is posted when the bind is reported.
    """
    if record.state not in (MemberState.ASSIGNED, _BINDING) or record.is_evicted:
        return
    record.is_evicted = True
    record.reason = reason
    is_bound = record.state is MemberState.ASSIGNED
    state.records.move(record, MemberState.TERMINATING, record.slot)
    if is_bound and record.node is not None:
        state.out.append(Evict(record.uid, record.node, reason))


# What a group has reached -----------------------------------------------------------------------


def note_progress(state: State, gang: Gang) -> None:
    """Note when groups became complete, have started, and are bound. O(members) at a start."""
    for info in gang.infos.values():
        if info.complete_at is None and info.is_complete:
            info.complete_at = state.records.now
        if not info.scheduled:
            info.was_scheduled = info.is_binding = False
        elif not info.was_scheduled and _has_started(gang, info):
            info.was_scheduled = True
        is_bound = info.is_binding and not info.assumed and info.assigned
        if is_bound and not _quorum.lacks_members(info):
            info.is_binding = False
            state.out.append(GroupBound(info.key, info.started_by, info.assigned))


def _has_started(gang: Gang, info: PodGroupInfo) -> bool:
    """Return whether a quorum of members runs or ran; after a restart, the start is inferred."""
    minimum = info.min_available
    if minimum is None or info.members.started < minimum:
        return False
    started = [
        record.role
        for record in gang.members.values()
        if record.info is info
        and record.state in _STARTED
        and record.pod.node_name is not None
        and record.pod.deleted_at is None
        and not record.is_evicted
    ]
    return is_quorum(minimum, info.roles, started)
