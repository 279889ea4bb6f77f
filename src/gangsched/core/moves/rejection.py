"""What a rejection gives back, and how a failure is counted.

Rules:
  R1  a rejection gives back every node on which a member waits, at once; that of a part of a gang
      is about its members alone;
  R2  backoff, failures and the reason are noted by ``count`` alone, for the gang and its groups.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

from gangsched.core.moves.attempt_steps import evict, give_back
from gangsched.core.records.gang import GangRecord, PodRecord, by_seq
from gangsched.core.state import State
from gangsched.events import GroupRejected, PodRejected
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup
from gangsched.primitives.counters import MemberState

__all__ = ["Verdict", "apply_verdict", "count", "evict_part", "reject"]

Verdict: TypeAlias = RejectGroup | EvictGroup | HoldGroup

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def count(state: State, gang: GangRecord, reason: str, *, backs_off: bool) -> None:
    """Count a failure of a gang, and let it back off if waiting for a node would not help."""
    now, failures, until = state.records.now, gang.failures + 1, gang.backoff_until
    if backs_off:
        until = now + state.settings.backoff.delay(failures)
        # if the clock is too coarse for the delay, the next instant ends the backoff
        until = max(until, math.nextafter(now, math.inf))
    gang.queued_at = now
    gang.note_failures(failures, until, reason)


def reject(
    state: State,
    gang: GangRecord,
    reason: str,
    *,
    evicts: bool = False,
    backs_off: bool = True,
) -> None:
    """Reject the attempt of a gang: every waiting member gives its node back. O(members).

    Args:
        state: The state.
        gang: The gang.
        reason: Why.
        evicts: Whether its bound members are evicted.
        backs_off: Whether it backs off.
    """
    if evicts:
        for record in sorted(gang.members.values(), key=by_seq):
            evict(state, record, reason)
        for info in gang.infos.values():
            info.was_scheduled = info.is_binding = False
            state.restarts.stop(info.key)
    _give_back(state, gang.waiting.values(), reason)
    count(state, gang, reason, backs_off=backs_off)
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
        state.call.out.append(GroupRejected(info.key, number, reason, until))
    gang.end_attempt()
    if evicts:
        gang.refused = None  # its backoff ends with time alone
    gang.untold = reason  # its pods are told once it is known where it belongs
    state.touch(gang)


def evict_part(state: State, members: Collection[PodRecord], reason: str) -> None:
    """Take some members of a gang off their nodes; the others run on, or wait on. O(members)."""
    for record in sorted(members, key=by_seq):
        evict(state, record, reason)
    _give_back(state, [r for r in members if r.state is MemberState.WAITING], reason)


def _give_back(state: State, waiting: Iterable[PodRecord], reason: str) -> None:
    for record in sorted(waiting, key=by_seq):
        node = record.node
        assert node is not None
        # a verdict is dropped: its gang, or its part of it, is being rejected already
        give_back(state, record, _UNSCHEDULED, "rejected")
        record.reason = reason
        state.call.out.append(PodRejected(record.uid, node, reason))


def apply_verdict(state: State, verdict: Verdict, *, backs_off: bool = True) -> None:
    """Reject, and if the verdict says so evict, the group that a verdict names."""
    gang = state.records.gang_of.get(verdict.group)
    if gang is not None:
        evicts = isinstance(verdict, EvictGroup)
        reject(state, gang, verdict.reason, evicts=evicts, backs_off=backs_off)
