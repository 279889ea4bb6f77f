"""How an attempt ends without success: in ``fail``, whatever was tried and whatever went wrong.

A cycle tries members *together* (those that lack a minimum), *in turn* (one of them, which then
waits on permit for the others) or *alone* (those of groups that lack nothing). What follows from a
failure:

- the member to blame is told, and PostFilter is asked about it unless a plugin has decided;
- a verdict about the gang rejects it; one about another group rejects that;
- tried together, or as the last one in turn: the attempt is over, and the gang is rejected;
- in turn, while others wait or are still to be tried: they keep what they hold, and go on;
- alone: the failure is counted, and what runs goes on.

Rule: if no node takes a member, its demand is blocked, and nodes that may take more wake it. If a
plugin refused it, or the gang is evicted, only time helps: the gang backs off.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from attrs import frozen

from gangsched.core.attempt.pending_members import demand_of
from gangsched.core.moves import notices
from gangsched.core.moves.rejection import apply_verdict, count, reject
from gangsched.core.placement.proof import Proof
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis, UnschedulableMember
from gangsched.outcomes import SKIP, EvictGroup, HoldGroup, Outcome, RejectGroup, Verdict

__all__ = ["Failure", "Tried", "ask_post_filter", "fail"]


class Tried(enum.Enum):
    """How members were tried; see the module."""

    TOGETHER = "together"
    IN_TURN = "in turn"
    ALONE = "alone"


@frozen(eq=False, kw_only=True)
class Failure:
    """What went wrong.

    Attributes:
        member: The member to blame. Without a *cycle* of its own, plugins see a fresh one.
        reason: What it is told.
        diagnosis: Why no node takes it; None if a plugin refused it.
        proof: What is known beyond that about the gang as a whole.
        verdict: What a plugin has decided already; None to ask PostFilter.
        in_total: Whether the nodes lack capacity in total, so that no member is to blame.
        told: Further members that are told the same, all of them in order; empty for the one.
    """

    member: PodRecord
    reason: str
    diagnosis: Diagnosis | None = None
    proof: Proof | None = None
    cycle: CycleState | None = None
    verdict: Outcome | Verdict | None = None
    in_total: bool = False
    told: Sequence[PodRecord] = ()

    @property
    def lacks_capacity(self) -> bool:
        """Whether nodes may help, and time does not."""
        return self.diagnosis is not None or self.in_total


def fail(state: State, gang: GangRecord, failure: Failure, tried: Tried) -> None:
    """End an attempt, or the part of it that failed; see the module."""
    member = failure.member
    if tried is Tried.IN_TURN:
        gang.count_tried({member})
    verdict = failure.verdict or ask_post_filter(state, gang, failure)
    if tried is not Tried.ALONE:
        member.round = gang.round
    _note_refused(gang, failure)
    for record in failure.told or (member,):
        notices.tell(state, record, failure.reason)
    own: RejectGroup | HoldGroup | EvictGroup | None = None
    if isinstance(verdict, RejectGroup | HoldGroup | EvictGroup):
        if verdict.group in gang.infos:
            own = verdict
        else:
            apply_verdict(state, verdict)
    if tried is Tried.IN_TURN and _goes_on(state, gang, own):
        return
    _end(state, gang, failure, tried, own)


def _end(
    state: State,
    gang: GangRecord,
    failure: Failure,
    tried: Tried,
    verdict: RejectGroup | HoldGroup | EvictGroup | None,
) -> None:
    """Reject a gang, or count the failure of members that go alone, and block what fails alike."""
    evicts = isinstance(verdict, EvictGroup)
    is_blocked = failure.lacks_capacity and not evicts
    if tried is Tried.TOGETHER:
        gang.is_whole = False
        if is_blocked:  # with what was tried; members that waited are pending afterwards, too
            _block(state, gang, gang.demand)
    if verdict is None and tried is Tried.ALONE:
        count(state, gang, failure.reason, backs_off=not is_blocked)
    else:
        reason = failure.reason if verdict is None else verdict.reason
        reject(state, gang, reason, evicts=evicts, backs_off=not is_blocked)
    if tried is Tried.IN_TURN and failure.lacks_capacity and gang.pending:
        _try_whole_next(state, gang, failure, is_rejected=verdict is not None)
    elif tried is Tried.ALONE and is_blocked:
        _block(state, gang, demand_of(state, gang))


def ask_post_filter(state: State, gang: GangRecord, failure: Failure) -> Outcome | Verdict:
    """Return what PostFilter says of a failure; nothing changes."""
    if failure.in_total:
        return SKIP
    record = failure.member
    cycle = failure.cycle or record.cycle or state.cycle(record)
    if any(info.is_binding for info in gang.infos.values()):
        cycle.bind_failures, cycle.can_evict = record.bind_failures, state.settings.can_evict
    return state.points.post_filter(cycle, record.pod, failure.reason, state.records.now)


def _note_refused(gang: GangRecord, failure: Failure) -> None:
    member = failure.member
    gang.refused = None
    if not failure.in_total:
        gang.refused = UnschedulableMember(
            member.uid,
            member.pod.key,
            failure.reason,
            failure.diagnosis,
            failure.proof,
            group=member.info.key if gang.is_bundle and member.info is not None else None,
        )


def _block(state: State, gang: GangRecord, demand: Demand) -> None:
    """Keep a gang out of the queue until nodes may take more."""
    state.queue.put(gang, QueuePlace.NOWHERE, demand)
    state.queue.block(demand)


# In turn ----------------------------------------------------------------------------------------


def _goes_on(
    state: State, gang: GangRecord, verdict: RejectGroup | HoldGroup | EvictGroup | None
) -> bool:
    """Let an attempt go on though a member has failed, if it may; return whether it does."""
    if isinstance(verdict, HoldGroup) and gang.waiting:
        gang.giving_way = verdict.reason
        state.giving_way += 1
        notices.tell_gang(state, gang, verdict.reason)
        _park_waiting(state, gang)
        _wake_without(state, gang)
        return True
    if verdict is not None:
        return False
    if gang.untried():
        return True
    if gang.waiting:
        _park_waiting(state, gang)
        return True
    return False


def _park_waiting(state: State, gang: GangRecord) -> None:
    """Park a gang whose members wait and that cannot be completed now; it keeps its nodes."""
    if state.gains.last >= gang.round:
        gang.round = state.records.step + 1  # a node may take more since the round began
        if gang.tried:
            gang.count_tried()
        return
    _block(state, gang, demand_of(state, gang))


def _wake_without(state: State, gang: GangRecord) -> None:
    """Wake what may fit once a gang has given way, so that its turn comes. O(demands).

    What failed before the gang took its nodes has failed with them already.
    """
    since = state.gains.since(gang.began)
    state.table.begin()
    try:
        for record in gang.waiting.values():
            state.table.take(record.slot, record.needs, -1)
        for demand in state.queue.blocked():
            if demand is not gang.demand and demand.blocked_at > since and demand.could_fit():
                state.queue.unblock(demand)
    finally:
        state.table.rewind()
        state.table.end()


def _try_whole_next(state: State, gang: GangRecord, failure: Failure, *, is_rejected: bool) -> None:
    """Let the next attempt be about the whole gang, unless it is known to fail.

    Pod by pod it was in its own way, or others were: whether it fits as a whole is not known.
    """
    gang.is_whole = True
    if is_rejected:
        return
    own, found = demand_of(state, gang), failure.diagnosis
    may_fit = state.queue.could_fit(own) or state.queue.preempts(own, None)
    gang.is_whole = may_fit and not (found and found.refusal)  # PreFilter looks at no placement
    if not gang.is_whole:
        _block(state, gang, own)
