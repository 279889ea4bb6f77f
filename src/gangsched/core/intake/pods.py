"""Events about pods: the record of a pod is made to agree with what the cluster shows."""

from __future__ import annotations

import math
from typing import Final

from gangsched.core.intake.assumed import (
    check_waiting,
    confirm,
    evict_if_due,
    note_change_while_bound,
    what_happened,
)
from gangsched.core.intake.gangs import gang_of_group, grow_tree
from gangsched.core.intake.seen import (
    Seen,
    asks_the_same,
    conflict,
    gates,
    look,
    look_ahead,
    wanted_state,
)
from gangsched.core.moves.lost_nodes import lose
from gangsched.core.preemption import nominations
from gangsched.core.records.gang import GangRecord, PodRecord, QueuePlace, by_seq
from gangsched.core.state import State
from gangsched.errors import ClusterStateError, InvalidPodGroupError
from gangsched.events import (
    PodNotAdmitted,
    PodRefused,
    PriorityOverruled,
)
from gangsched.model import GroupKey, Pod, PodUID
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["is_another", "read_pod", "tell_priority"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING
_BINDING: Final = MemberState.BINDING
_ASSIGNED: Final = MemberState.ASSIGNED
_REFUSED: Final = MemberState.REFUSED
_GATED: Final = MemberState.GATED
_TERMINATING: Final = MemberState.TERMINATING
_EVICTED: Final = {
    **dict.fromkeys((_GATED, _UNSCHEDULED, _ASSIGNED), _TERMINATING),
    MemberState.SUCCEEDED: MemberState.ENDED,
}
"""States of evicted pods, by what the states would be otherwise."""


def read_pod(state: State, uid: PodUID, *, is_bound: bool = False) -> None:
    """Make the record of a pod agree with the cluster. O(log n).

    Args:
        state: The state.
        uid: The pod.
        is_bound: Whether a bind in its last attempt was reported as done.

    Raises:
        ClusterStateError: The cluster state does not show that.
    """
    seen, record = look(state, uid), state.records.pods.get(uid)
    if seen is None:
        if record is not None:
            _forget(state, record, "deleted")
        return
    pod = seen.pod
    is_shown_elsewhere = pod.node_name is not None or pod.is_finished
    if record is not None and record.is_being_bound:
        if is_bound and pod.node_name is None:
            raise ClusterStateError(pod.key, "was bound, and the cluster state does not show it")
        if not is_shown_elsewhere:
            note_change_while_bound(state, record, pod)
            return
    if record is not None and is_another(record, seen):
        _read_another(state, record, seen)
        return
    problem = seen.problem or conflict(state, seen, record)
    wanted = wanted_state(state, seen, problem)
    if record is None:
        _admit(state, seen, wanted, problem)
    else:
        _update(state, record, seen, wanted, problem)
    if is_shown_elsewhere and state.records.waiting.earliest < math.inf:
        _check_neighbours(state, uid)


def _check_neighbours(state: State, uid: PodUID) -> None:
    """Take members off a node on which they wait, if a pod there leaves too little. O(pods there).

    Another scheduler may have bound it, or it requests more than before.
    """
    record = state.records.pods.get(uid)
    if record is not None and record.slot >= 0:
        holders = state.records.holders(record.slot)
        check_waiting(state, [each for each in holders if each.state is MemberState.WAITING])


def _read_another(state: State, record: PodRecord, seen: Seen) -> None:
    """Forget a pod, and read it as another one, which is evicted if the first one was to be."""
    pod, started_at, reason = seen.pod, record.started_at, record.reason
    is_evicted, was_being_bound = record.is_evicted, record.is_being_bound
    if record.is_assumed and pod.node_name == record.node:
        confirm(state, record)
    _forget(state, record, "changed")
    read_pod(state, pod.uid)
    fresh = state.records.pods.get(pod.uid)
    if fresh is None or pod.node_name is None:
        return
    if started_at is not None:
        fresh.started_at = started_at
    nominations.note_replaced(state, record, fresh)
    if is_evicted:
        fresh.is_evicted, fresh.reason = True, reason
        read_pod(state, pod.uid)
        if was_being_bound:
            evict_if_due(state, fresh, reason)


def is_another(record: PodRecord, seen: Seen) -> bool:
    """Return whether a pod must be treated as a new one: its group, role or priority changed."""
    claim = seen.claim
    group = None if record.info is None else record.info.key
    if group != (None if claim is None else claim.group):
        return True
    if record.role != (None if claim is None else claim.role):
        return True
    return record.pod.priority != seen.pod.priority


def _admit(
    state: State, seen: Seen, wanted: MemberState, problem: InvalidPodGroupError | None
) -> None:
    """Take in a pod that was not known."""
    pod, claim, records = seen.pod, seen.claim, state.records
    info, minimum, priority, spec = None, None, None, None
    if claim is not None:
        known = records.registry.get(claim.group)
        spec = None if known is None else known.spec
        if known is not None and known.claims:
            minimum, priority = known.claimed_min, known.priority
        info = records.registry.join(pod, claim, wanted)
        gang = gang_of_group(state, info, pod)
    else:
        gang = GangRecord(f"pod:{pod.uid}", records.number(), pod.created_at)
        before = records.gangs.get(gang.key)
        if before is not None:
            state.queue.put(before, QueuePlace.NOWHERE)  # it is read as another pod now
        records.gangs[gang.key] = gang
    record = PodRecord(pod, records.number(), gang, info, None if claim is None else claim.role)
    record.attempt = records.attempt_floor
    records.add(record)
    state.note_event(gang)
    if info is not None and (
        info.claimed_min != minimum or info.spec is not spec or len(gang.members) < 2
    ):
        grow_tree(state, gang)
    _set_state(state, record, seen, wanted, problem)
    if info is not None and priority is not None and info.priority != priority:
        tell_priority(state, info)


def tell_priority(state: State, info: PodGroupInfo) -> None:
    """Post which members are overruled for the first time, as their group has another priority.

    Runtime complexity: O(members that the group agreed with), and each leaves them for good.
    """
    agreeing = state.agreeing.pop(info.key, {})
    for record in sorted(agreeing.values(), key=by_seq):
        _tell_priority(state, record)


def _tell_priority(state: State, record: PodRecord) -> None:
    """Post that a pending member is overruled, once; or note that it is not.

    The priority of a group changes back and forth as members come and go. Each member would be
    told each time, so members of ascending priority would cause a square of notices.
    """
    info, is_pending = record.info, record.state in (_UNSCHEDULED, _WAITING, _BINDING)
    if info is None or record.is_overruled or not is_pending:
        return
    own, used = record.pod.priority, info.priority
    if own == used:
        state.agreeing.setdefault(info.key, {})[record.uid] = record
        return
    record.is_overruled = True
    state.call.out.append(PriorityOverruled(record.uid, info.key, own, used))


def _forget_agreeing(state: State, record: PodRecord, key: GroupKey) -> None:
    agreeing = state.agreeing.get(key, {})
    if agreeing.pop(record.uid, None) is not None and not agreeing:
        del state.agreeing[key]


def _update(
    state: State,
    record: PodRecord,
    seen: Seen,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
) -> None:
    """Make the record of a known pod, which is the same pod still, agree with the cluster."""
    pod, info, before, is_assumed = seen.pod, record.info, record.state, record.is_assumed
    priority = None if info is None else info.priority
    claims_another = _claims_another(record, seen, wanted)
    if claims_another:  # before anything changes, since what is read may raise an error
        look_ahead(state, _refused(state, info))
    if not is_assumed and record.pod != pod:
        state.note_event(record.gang)
    if record.slot >= 0 and _looks_different(state, record, pod):
        state.call.pods_changed = True
    if before is _REFUSED or claims_another:
        _claim(state, record, seen, wanted)
    if is_assumed:
        if _update_assumed(state, record, seen, wanted, problem):
            return
    else:
        if wanted is _UNSCHEDULED and not asks_the_same(record, seen):
            record.reason = ""  # it is about what the pod asked for before
            if before is _UNSCHEDULED:  # those to be told are the last ones; see ``notices``
                record.gang.pending[record.uid] = record.gang.pending.pop(record.uid)
        state.records.replace(record, pod)
    _set_state(state, record, seen, wanted, problem)
    if info is not None and info.priority != priority:
        tell_priority(state, info)


def _claims_another(record: PodRecord, seen: Seen, wanted: MemberState) -> bool:
    """Return whether a member claims another minimum or priority of its group than it did."""
    info, claim, pod = record.info, seen.claim, seen.pod
    if claim is None or info is None or record.state is _REFUSED:
        return False  # what a refused member claims was never entered
    says = None if wanted is _REFUSED else (claim.min_available, pod.priority)
    return says != info.claims.get(pod.uid)


def _looks_different(state: State, record: PodRecord, pod: Pod) -> bool:
    """Return whether terms about pods may be answered differently beside a newer version of one."""
    if record.pod.labels != pod.labels:
        return True
    stated = state.records.selections.stated.get(pod.uid)
    return stated is not None and stated != state.evaluator.selectors(pod)


def _claim(state: State, record: PodRecord, seen: Seen, wanted: MemberState) -> None:
    """Enter what a member claims; read the members again that were refused by what it claimed."""
    info, claim, registry = record.info, seen.claim, state.records.registry
    if claim is None or info is None:
        return
    if record.state is _REFUSED:
        registry.join(seen.pod, claim, wanted)
        grow_tree(state, record.gang)
    elif registry.update_claim(seen.pod, claim, wanted):
        grow_tree(state, record.gang)
        _read_refused(state, info)


def _update_assumed(
    state: State,
    record: PodRecord,
    seen: Seen,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
) -> bool:
    """Update a pod that is assumed on a node; return whether it still is."""
    pod, known, records = seen.pod, record.pod, state.records
    if pod.node_name == record.node:
        records.replace(record, pod)
        confirm(state, record)
        return False
    if wanted is _UNSCHEDULED:
        records.replace(record, pod)
        if known != pod and not asks_the_same(record, seen):
            record.pod_class = state.class_of(record, seen.pod_class)
            check_waiting(state, [record])
        state.touch(record.gang)
        return True
    why = f"pod {pod.name} {what_happened(state, record, pod, problem)}"
    reason = record.reason
    lose(state, record, why, "changed", wanted)
    records.replace(record, pod)
    evict_if_due(state, record, reason)
    return False


def _set_state(
    state: State,
    record: PodRecord,
    seen: Seen,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
) -> None:
    """Put a pod that is not assumed in the state that the cluster shows."""
    pod, records = seen.pod, state.records
    if record.is_evicted:
        wanted = _EVICTED.get(wanted, wanted)
    slot = -1
    if pod.node_name is not None and not pod.is_finished:
        slot = state.table.slot(pod.node_name)
    if slot != record.slot:
        state.call.pods_changed = True
        _note_end_on_node(state, record)
    if wanted in (MemberState.ENDED, MemberState.FAILED) and record.info is not None:
        _note_end(state, record, record.info, wanted)
    is_new = record.state is not wanted or record.slot != slot
    records.move(record, wanted, slot)
    is_pending = wanted is _UNSCHEDULED
    record.pod_class = state.class_of(record, seen.pod_class) if is_pending else None
    if slot < 0:
        record.started_at = None
    elif record.started_at is None:
        record.started_at = records.now
    state.touch(record.gang)
    if wanted is _UNSCHEDULED and is_new:
        _tell_priority(state, record)
    elif wanted in (_REFUSED, _GATED):
        _tell_reason(state, record, problem, is_new=is_new)


def _note_end_on_node(state: State, record: PodRecord) -> None:
    """Note that a pod leaves the node that it holds, if it has one, unless it was evicted."""
    if record.slot >= 0 and not record.is_evicted:
        state.note_outside()


def _note_end(state: State, record: PodRecord, info: PodGroupInfo, wanted: MemberState) -> None:
    """Note that a member ends or fails; it is in the state of before."""
    if record.state is MemberState.SUCCEEDED and wanted is MemberState.ENDED:
        info.members.collect(record.role)
    if wanted is MemberState.FAILED and record.pod.deleted_at is None:
        for spec in info.above:
            state.restarts.note_failed(spec.key, None, now=state.records.now)
        state.restarts.note_failed(info.key, record.role, now=state.records.now)


def _tell_reason(
    state: State, record: PodRecord, problem: InvalidPodGroupError | None, *, is_new: bool
) -> None:
    """Post why a pod is refused or not admitted, if that or the reason is new."""
    event: type[PodRefused | PodNotAdmitted] = PodRefused
    reason = str(problem)
    if record.state is _GATED:
        group = None if record.info is None else record.info.key
        event, reason = PodNotAdmitted, "; ".join(gates(state, record.pod, group))
    if is_new or reason != record.reason:
        record.reason = reason
        state.call.out.append(event(record.uid, reason))


def _forget(state: State, record: PodRecord, cause: str) -> None:
    """Forget a pod that is gone, or is read as another one."""
    records, info, gang = state.records, record.info, record.gang
    said = None if info is None else (info.claimed_min, info.claimed_priority)
    priority = None if info is None else info.priority
    if info is not None and said != info.claims.claimed(without=record.uid):
        look_ahead(state, _refused(state, info))
    state.note_event(gang)
    if record.is_assumed:
        how = "was deleted" if cause == "deleted" else "has changed"
        lose(state, record, f"pod {record.pod.name} {how}", cause, _TERMINATING)
    if record.slot >= 0:
        state.call.pods_changed = True
        _note_end_on_node(state, record)
    has_succeeded = cause == "deleted" and record.state is MemberState.SUCCEEDED
    records.forget(record)
    state.given_back.pop(record.uid, None)
    state.touch(gang)
    if info is None:
        return
    if has_succeeded:
        info.members.collect(record.role)
    _forget_agreeing(state, record, info.key)
    records.registry.leave(info.key, record.uid, now=state.records.now)
    if not info.members:
        state.call.removed[info.key] = None
    elif said != (info.claimed_min, info.claimed_priority):
        grow_tree(state, gang)
        _read_refused(state, info)
        if info.claims and info.priority != priority:
            tell_priority(state, info)


def _refused(state: State, info: PodGroupInfo | None) -> list[PodUID]:
    """Return the members of a group that are refused because they contradict others."""
    if info is None or not info.members.count(_REFUSED):
        return []
    gang = state.records.gang_of.get(info.key)
    members = () if gang is None else gang.members.values()
    return [r.uid for r in members if r.info is info and r.state is _REFUSED]


def _read_refused(state: State, info: PodGroupInfo) -> None:
    """Read the members again that were refused because they contradicted others."""
    for uid in _refused(state, info):
        read_pod(state, uid)
