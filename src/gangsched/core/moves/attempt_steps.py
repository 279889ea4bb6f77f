"""The steps of an attempt: members take nodes, wait on permit, and give nodes back.

Rule: capacity that an attempt gives back was taken since the step at which the attempt began, so it
does not help what failed with it before.
"""

from __future__ import annotations

from typing import Final

from gangsched.core.points import Waits
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.events import (
    Evict,
    GroupBound,
    PodWaiting,
)
from gangsched.outcomes import EvictGroup, RejectGroup
from gangsched.primitives import quorum
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import is_quorum

__all__ = ["assume", "begin", "evict", "give_back", "note_progress", "take_off", "wait"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING
_BINDING: Final = MemberState.BINDING
_STARTED: Final = (MemberState.ASSIGNED, MemberState.SUCCEEDED, MemberState.FAILED)


# Nodes that members take and give back ----------------------------------------------------------


def begin(state: State, gang: GangRecord) -> None:
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
    state.call.pods_tried = True


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
    state.call.out.append(notice)
    state.call.asked = record.gang


def give_back(
    state: State, record: PodRecord, to: MemberState, cause: str
) -> RejectGroup | EvictGroup | None:
    """Take an assumed pod off its node; return the verdict of a plugin on its group.

    The counts change before ``unreserve`` is called, so a plugin sees the group without the pod.
    """
    cycle, node = record.cycle, record.node
    take_off(state, record, to)
    return state.points.unreserve(record, cycle, node, cause, state.records.now)


def take_off(state: State, record: PodRecord, to: MemberState) -> None:
    """Take an assumed pod off its node; the caller tells plugins, then or later."""
    records, round_ = state.records, record.round
    if records.waiting.remove(record.uid) is not None:
        state.given_back[record.uid] = None  # another scheduler may have bound it meanwhile
    records.move(record, to, -1, since=state.gains.since(record.gang.began))
    record.cycle = None
    if to is _UNSCHEDULED:
        record.round = round_
        record.pod_class = record.pod_class or state.class_of(record)
    state.call.pods_tried = True


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
        state.call.out.append(Evict(record.uid, record.node, reason))


# What a group has reached -----------------------------------------------------------------------


def note_progress(state: State, gang: GangRecord) -> None:
    """Note when groups became complete, have started, and are bound. O(members) at a start."""
    for info in gang.infos.values():
        if info.complete_at is None and info.is_complete:
            info.complete_at = state.records.now
        if not info.scheduled:
            info.was_scheduled = info.is_binding = False
        elif not info.was_scheduled and _has_started(gang, info):
            info.was_scheduled = True
        is_bound = info.is_binding and not info.assumed and info.assigned
        if is_bound and not quorum.lacks_members(info):
            info.is_binding = False
            state.call.out.append(GroupBound(info.key, info.started_by, info.assigned))


def _has_started(gang: GangRecord, info: PodGroupInfo) -> bool:
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
    return is_quorum(info.tree, started)
