"""Facts in: records and nodes are made to agree with what the cluster shows.

Rules:
  R1  an event says where to look; what is there is read from the cluster state. So an event may
      come twice, late or out of order;
  R2  what may raise is asked before anything changes;
  R3  the gangs that a fact concerns are noted, and settled later. No policy is asked here but
      ``unreserve``, which is told that a pod gives its node back;
  R4  while a bind is under way the pod is left alone: its report, its end or a node settles it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.cluster_objects import KINDS
from gangsched.core import attempt, notices
from gangsched.core.gang_tree import REGULAR, SubGroup, group_tree
from gangsched.core.pod_class import PodClass
from gangsched.core.preemption import nominations
from gangsched.core.records import Gang, PodRecord, QueuePlace
from gangsched.core.state import State
from gangsched.errors import ClusterStateError, InvalidPodGroupError, InvalidValueError
from gangsched.events import (
    BindFailed,
    Bound,
    Event,
    Evict,
    GroupPartlyBound,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUpdated,
    PriorityOverruled,
)
from gangsched.framework.runtime.calls import name_of
from gangsched.membership import Membership
from gangsched.model import GroupKey, NodeName, Pod, PodPhase, PodUID
from gangsched.outcomes import EvictGroup

__all__ = [
    "Seen",
    "check_answer",
    "gates",
    "listing",
    "read_group",
    "read_node",
    "read_pod",
    "regroup",
    "take_in",
]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING
_BINDING: Final = MemberState.BINDING
_ASSIGNED: Final = MemberState.ASSIGNED
_REFUSED: Final = MemberState.REFUSED
_GATED: Final = MemberState.GATED
_TERMINATING: Final = MemberState.TERMINATING


class Seen(NamedTuple):
    """A pod as the cluster shows it, with what was asked about it."""

    pod: Pod
    claim: Membership | None
    problem: InvalidPodGroupError | None
    pod_class: PodClass | None


def take_in(state: State, event: Event) -> None:
    """Take in what an event is about."""
    match event:
        case PodAdded(pod) | PodUpdated(pod):
            read_pod(state, pod.uid)
        case PodDeleted(uid):
            read_pod(state, uid)
        case Bound():
            _bound(state, event)
        case BindFailed():
            _bind_failed(state, event)
        case NodeAdded(node) | NodeUpdated(node):
            read_node(state, node.name)
        case NodeDeleted(name):
            read_node(state, name)
        case PodGroupAdded(group) | PodGroupUpdated(group):
            read_group(state, group.key)
        case PodGroupDeleted(key):
            read_group(state, key)
        case PermitAllowed() | PermitRejected():
            _permit_answered(state, event)
        case ObjectChanged(value):
            _object_changed(state, type(value))
        case ObjectDeleted(kind):
            _object_changed(state, KINDS[kind])


def listing(state: State) -> None:
    """Take in all that the cluster shows. O(nodes + pods log pods).

    Pods that left come first: as long as they are counted, a sibling could be released with them. A
    listing does not say in which order pods arrived. Of pods that contradict each other, the one
    that has a node counts first, then the older one.
    """
    cluster, records = state.settings.cluster, state.records
    shown = sorted(cluster.pods(), key=lambda pod: (pod.node_name is None, pod.created_at))
    uids = [pod.uid for pod in shown]
    present = set(uids)
    for uid in [uid for uid in records.pods if uid not in present]:
        read_pod(state, uid)
    nodes = [node.name for node in cluster.nodes()]
    known = [node.name for node in state.table.nodes if node is not None]
    for name in dict.fromkeys([*nodes, *known]):
        read_node(state, name)
    groups = [group.key for group in cluster.pod_groups()]
    for key in dict.fromkeys([*groups, *(info.key for info in records.registry)]):
        read_group(state, key)
    for uid in dict.fromkeys([*uids, *records.pods]):
        read_pod(state, uid)
    for gang in records.gangs.values():
        state.touch(gang)


# Pods -------------------------------------------------------------------------------------------


def _look(state: State, uid: PodUID) -> Seen | None:
    """Read a pod; ask about its group and its class. Nothing changes.

    Raises:
        PluginError: A plugin, or ``membership``, raised.
    """
    pod = state.settings.cluster.pod(uid)
    if pod is None:
        return None
    claim: Membership | None = None
    problem: InvalidPodGroupError | None = None
    try:
        claim = state.settings.membership(pod)
    except InvalidPodGroupError as error:
        problem = error
    except InvalidValueError as error:
        problem = InvalidPodGroupError(f"pod {pod.key}", error.field, error.value, error.expected)
    needs_node = pod.node_name is None and not pod.is_finished and pod.deleted_at is None
    return Seen(pod, claim, problem, state.evaluator.class_of(pod) if needs_node else None)


def read_pod(state: State, uid: PodUID) -> None:
    """Make the record of a pod agree with the cluster. O(log n)."""
    seen, record = _look(state, uid), state.records.pods.get(uid)
    if seen is None:
        if record is not None:
            _forget(state, record, "deleted")
        return
    pod = seen.pod
    is_shown_elsewhere = pod.node_name is not None or pod.is_finished
    if record is not None and _is_being_bound(record) and not is_shown_elsewhere:
        _note_change_while_bound(state, record, pod)
        return
    if record is not None and _is_another(record, seen):
        if record.is_assumed and pod.node_name == record.node:
            _confirm(state, record)
        started_at = record.started_at
        _forget(state, record, "changed")
        record = None
        read_pod(state, uid)
        fresh = state.records.pods.get(uid)
        if fresh is not None and pod.node_name is not None and started_at is not None:
            fresh.started_at = started_at
        return
    problem = seen.problem or _conflict(state, seen, record)
    wanted = _wanted(state, seen, problem)
    if record is None:
        _admit(state, seen, wanted, problem)
    else:
        _update(state, record, seen, wanted, problem)


def _note_change_while_bound(state: State, record: PodRecord, pod: Pod) -> None:
    """Count what a pod requests now on the node that it is being bound to.

    A pod that was deleted meanwhile terminates there.
    """
    state.records.replace(record, pod)
    if pod.deleted_at is not None and record.state is _BINDING:
        state.records.move(record, _TERMINATING, record.slot)
    state.touch(record.gang)


def _is_being_bound(record: PodRecord) -> bool:
    return record.cycle is not None and record.state is not _WAITING


def _is_another(record: PodRecord, seen: Seen) -> bool:
    """Return whether a pod must be treated as a new one: its group, role or priority changed."""
    claim = seen.claim
    group = None if record.info is None else record.info.key
    if group != (None if claim is None else claim.group):
        return True
    if record.role != (None if claim is None else claim.role):
        return True
    return record.pod.priority != seen.pod.priority


def _conflict(state: State, seen: Seen, record: PodRecord | None) -> InvalidPodGroupError | None:
    """Return why a pod cannot be in the group that it claims; None if it can."""
    if seen.claim is None:
        return None
    registry = state.records.registry
    if record is not None and record.state is not _REFUSED:
        info = registry.get(seen.claim.group)
        stated = None if info is None or info.spec is None else info.spec.priority
        if not registry.is_strict or stated is None or stated == seen.pod.priority:
            return None
    return registry.conflict(seen.pod, seen.claim)


def _wanted(state: State, seen: Seen, problem: InvalidPodGroupError | None) -> MemberState:
    """Return the state of a pod that is not assumed, by what the cluster shows: the first row."""
    pod = seen.pod
    if problem is not None and pod.node_name is None:
        return _REFUSED  # also once it has finished: its claim never counts
    if pod.phase is PodPhase.SUCCEEDED:
        # a kubelet may report success for a pod that it was told to stop
        has_run = pod.node_name is not None and pod.deleted_at is None
        return MemberState.SUCCEEDED if has_run else MemberState.ENDED
    if pod.phase is PodPhase.FAILED:
        return MemberState.FAILED
    if pod.deleted_at is not None:
        return _TERMINATING
    if pod.node_name is not None:
        return _ASSIGNED
    group = None if seen.claim is None else seen.claim.group
    return _GATED if gates(state, pod, group) else _UNSCHEDULED


def gates(state: State, pod: Pod, group: GroupKey | None) -> list[str]:
    """Return what keeps a pod from being scheduled though nothing is wrong with it."""
    reasons: list[str] = []
    if pod.scheduling_gates:
        reasons.append(f"has scheduling gates: {', '.join(pod.scheduling_gates)}")
    if pod.unmodelled:
        reasons.append(f"has constraints that are not modelled: {', '.join(pod.unmodelled)}")
    unchecked = [name for name in state.settings.profile.not_checked if _states(pod, name)]
    if unchecked:
        reasons.append(f"has constraints that no plugin checks: {', '.join(unchecked)}")
    info = None if group is None else state.records.registry.get(group)
    spec = None if info is None else info.spec
    if spec is not None and spec.unmodelled:
        held = ", ".join(spec.unmodelled)
        reasons.append(f"pod group {spec.key} has constraints that are not modelled: {held}")
    return reasons


def _states(pod: Pod, name: str) -> bool:
    """Return whether an attribute of a pod is a hard constraint."""
    if name == "topology_spread_constraints":
        return any(each.is_hard for each in pod.topology_spread_constraints)
    return bool(getattr(pod, name))


def _admit(
    state: State, seen: Seen, wanted: MemberState, problem: InvalidPodGroupError | None
) -> None:
    """Take in a pod that was not known."""
    pod, claim, records = seen.pod, seen.claim, state.records
    info: PodGroupInfo | None = None
    if claim is not None:
        info = records.registry.join(pod, claim, wanted)
        gang = _gang_of_group(state, info, pod)
    else:
        gang = Gang(f"pod:{pod.uid}", records.number(), pod.created_at, state.table)
        before = records.gangs.get(gang.key)
        if before is not None:
            state.queue.put(before, QueuePlace.NOWHERE)  # it is read as another pod now
        records.gangs[gang.key] = gang
    record = PodRecord(pod, records.number(), gang, info, None if claim is None else claim.role)
    record.attempt = records.attempt_floor
    records.add(record)
    state.note_event(gang)
    if info is not None:
        _grow_tree(state, gang, info)
    _set_state(state, record, seen, wanted, problem)


def _update(
    state: State,
    record: PodRecord,
    seen: Seen,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
) -> None:
    pod, claim, records = seen.pod, seen.claim, state.records
    known, before = record.pod, record.state
    if known != pod and not record.is_assumed:
        state.note_event(record.gang)
    if claim is not None and record.info is not None:
        if before is _REFUSED:
            records.registry.join(pod, claim, wanted)
            _grow_tree(state, record.gang, record.info)
        elif records.registry.update_claim(pod, claim, wanted):
            _grow_tree(state, record.gang, record.info)
            _read_refused(state, record.info)
    if record.is_assumed:
        if pod.node_name == record.node:
            records.replace(record, pod)
            _confirm(state, record)
        elif wanted is _UNSCHEDULED:
            records.replace(record, pod)
            if known != pod and seen.pod_class is not record.pod_class:
                record.pod_class = seen.pod_class
                _check_waiting(state, [record])
            state.touch(record.gang)
            return
        else:
            why = f"pod {pod.name} {_what_happened(state, record, pod, problem)}"
            _put_down(state, record, why, "changed", wanted)
            records.replace(record, pod)
    else:
        records.replace(record, pod)
    _set_state(state, record, seen, wanted, problem)


def _set_state(
    state: State,
    record: PodRecord,
    seen: Seen,
    wanted: MemberState,
    problem: InvalidPodGroupError | None,
) -> None:
    """Put a pod that is not assumed in the state that the cluster shows."""
    pod, records, before = seen.pod, state.records, record.state
    if record.is_evicted:
        if wanted in (_GATED, _UNSCHEDULED, _ASSIGNED):
            wanted = _TERMINATING
        elif wanted is MemberState.SUCCEEDED:
            wanted = MemberState.ENDED
    slot = -1
    if pod.node_name is not None and not pod.is_finished:
        slot = state.table.slot(pod.node_name)
    if slot != record.slot:
        state.pods_changed = True
    is_new = before is not wanted or record.slot != slot
    records.move(record, wanted, slot)
    record.pod_class = seen.pod_class if wanted is _UNSCHEDULED else None
    if slot < 0:
        record.started_at = None
    elif record.started_at is None:
        record.started_at = state.now
    state.touch(record.gang)
    if wanted is _REFUSED:
        record.reason = str(problem)
        if is_new:
            state.out.append(PodRefused(pod.uid, record.reason))
    elif wanted is _GATED:
        group = None if record.info is None else record.info.key
        reason = "; ".join(gates(state, pod, group))
        if is_new or reason != record.reason:
            record.reason = reason
            state.out.append(PodNotAdmitted(pod.uid, reason))
    elif wanted is _UNSCHEDULED and is_new:
        info = record.info
        if info is not None and info.priority != pod.priority:
            state.out.append(PriorityOverruled(pod.uid, info.key, pod.priority, info.priority))


def _confirm(state: State, record: PodRecord) -> None:
    """Make an assumed pod assigned: the cluster shows it on its node."""
    node = record.node
    assert node is not None
    state.records.waiting.remove(record.uid)
    if record.is_evicted:
        state.records.move(record, _TERMINATING, record.slot)
    else:
        state.records.move(record, _ASSIGNED, record.slot)
    record.cycle = None
    record.pod_class = None
    record.bind_failures = 0
    record.started_at = state.now
    reason, record.reason, record.told = record.reason, "", ""
    state.out.append(PodScheduled(record.uid, node))
    state.points.post_bind(record, state.now)
    if record.is_evicted and not record.pod.is_finished and record.pod.deleted_at is None:
        state.out.append(Evict(record.uid, node, reason or "evicted"))
        nominations.note_evicted(state, record)


def _put_down(state: State, record: PodRecord, why: str, cause: str, to: MemberState) -> None:
    """Take an assumed pod off its node after an event, and apply the verdict on its group."""
    node, was_waiting = record.node, record.state is _WAITING
    assert node is not None
    verdict = attempt.give_back(state, record, to, cause)
    record.reason = why
    state.out.append(PodRejected(record.uid, node, why))
    if verdict is not None and not record.is_evicted:
        info = state.records.registry.get(verdict.group)
        is_tried = info is not None and info.attempt_started_at is not None
        # a member that was released before: no attempt depends on it
        if was_waiting or is_tried or isinstance(verdict, EvictGroup):
            attempt.apply_verdict(state, verdict)
    state.touch(record.gang)


def _what_happened(
    state: State, record: PodRecord, pod: Pod, problem: InvalidPodGroupError | None
) -> str:
    """Return why a pod can no longer hold the node that it was assumed on."""
    if problem is not None and pod.node_name is None:
        return f"contradicts its group: {problem}"
    if pod.is_finished:
        return "has succeeded" if pod.phase is PodPhase.SUCCEEDED else "has failed"
    if pod.deleted_at is not None:
        return "is terminating"
    if pod.node_name is not None:
        return f"was bound to {pod.node_name}"
    group = None if record.info is None else record.info.key
    return "; ".join(gates(state, pod, group))


def _forget(state: State, record: PodRecord, cause: str) -> None:
    """Forget a pod that is gone, or is read as another one."""
    records, info, gang = state.records, record.info, record.gang
    state.note_event(gang)
    if record.is_assumed:
        how = "was deleted" if cause == "deleted" else "has changed"
        _put_down(state, record, f"pod {record.pod.name} {how}", cause, _TERMINATING)
    if record.slot >= 0:
        state.pods_changed = True
    records.forget(record)
    state.touch(gang)
    if info is None:
        return
    said = (info.claimed_min, info.claimed_priority)
    records.registry.leave(info.key, record.uid, now=state.now)
    if not info.members:
        state.removed[info.key] = None
    elif said != (info.claimed_min, info.claimed_priority):
        _grow_tree(state, gang, info)
        _read_refused(state, info)


def _read_refused(state: State, info: PodGroupInfo) -> None:
    """Read the members again that were refused because they contradicted others."""
    gang = state.records.gang_of.get(info.key)
    for record in [] if gang is None else list(gang.members.values()):
        if record.info is info and record.state is _REFUSED:
            read_pod(state, record.uid)


# Reports and answers ----------------------------------------------------------------------------


def _bound(state: State, event: Bound) -> None:
    record, pod = state.records.pods.get(event.uid), state.settings.cluster.pod(event.uid)
    awaited = record is not None and _is_being_bound(record) and record.attempt == event.attempt
    if awaited and pod is not None and pod.node_name is None:
        raise ClusterStateError(pod.key, "was bound, and the cluster state does not show it")
    read_pod(state, event.uid)


def _bind_failed(state: State, event: BindFailed) -> None:
    """Take a pod whose bind failed off its node; it is tried again after a backoff."""
    read_pod(state, event.uid)
    record = state.records.pods.get(event.uid)
    if record is None or not _is_being_bound(record) or record.attempt != event.attempt:
        return
    gang, was_evicted = record.gang, record.is_evicted
    record.is_evicted = False  # it was never bound, so there is nothing to evict
    assert record.cycle is not None
    record.cycle.bind_failures = record.bind_failures + 1
    record.cycle.can_evict = state.settings.can_evict
    verdict = attempt.give_back(state, record, _UNSCHEDULED, "bind_failed")
    notices.tell(state, record, f"binding rejected: {event.reason}")
    gang.failures = max(gang.failures, record.bind_failures)
    record.bind_failures += 1
    attempt.note_progress(state, gang)
    if isinstance(verdict, EvictGroup) and not was_evicted:
        attempt.apply_verdict(state, verdict)
    elif not was_evicted:
        attempt.fail(state, gang, record.reason, backs_off=True)
        _tell_partly_bound(state, record, event.reason)
    state.touch(gang)
    read_pod(state, event.uid)


def _tell_partly_bound(state: State, record: PodRecord, reason: str) -> None:
    """Post that a group does not run although members of it hold nodes."""
    info = record.info
    if info is None or not info.scheduled or not attempt.lacks_members(info):
        return
    if not state.settings.can_evict:
        reason += "; the other members stay on their nodes, since the host evicts no pods"
    assert info.min_available is not None
    state.out.append(
        GroupPartlyBound(info.key, info.scheduled, info.min_available, record.uid, reason)
    )


def check_answer(state: State, event: PermitAllowed | PermitRejected) -> None:
    """Require a plugin that may give an answer.

    Raises:
        InvalidValueError: No permit plugin of the profile has the name (``plugin``), or it counts
            the quorum and is said to allow a pod.
    """
    profile = state.settings.profile
    if event.plugin not in profile.permit_names:
        found = ", ".join(map(repr, profile.permit_names)) or "none"
        expected = f"the name of a permit plugin of the profile; these are: {found}"
        raise InvalidValueError("plugin", event.plugin, expected)
    quorum = profile.quorum
    if isinstance(event, PermitAllowed) and quorum is not None and name_of(quorum) == event.plugin:
        expected = "a plugin other than the one that counts the quorum of gangs"
        raise InvalidValueError("plugin", event.plugin, expected)


def _permit_answered(state: State, event: PermitAllowed | PermitRejected) -> None:
    check_answer(state, event)
    read_pod(state, event.uid)
    record, waiting = state.records.pods.get(event.uid), state.records.waiting
    entry = waiting.get(event.uid)
    if record is None or entry is None or record.attempt != event.attempt:
        return
    if isinstance(event, PermitRejected):
        state.refused[event.uid] = f"{event.plugin} rejected it: {event.reason}"
    else:
        wide = state.settings.profile.group_wide["permit"]
        together = [record]
        if record.info is not None and any(name_of(plugin) == event.plugin for plugin in wide):
            together = [r for r in record.gang.waiting.values() if r.info is record.info]
        for each in together:
            attempt.allow(state, each, event.plugin)
    state.touch(record.gang)


# Nodes and objects ------------------------------------------------------------------------------


def read_node(state: State, name: NodeName) -> None:
    """Make a node agree with the cluster; members that wait there may lose it."""
    node, table = state.settings.cluster.node(name), state.table
    state.records.set_node(name, node)
    state.pods_changed = True
    for pod in state.settings.cluster.pods_on(name):
        record = state.records.pods.get(pod.uid)
        if record is not None and record.state is _UNSCHEDULED:
            read_pod(state, pod.uid)  # another scheduler has bound it
    slot = table.slots.get(name)
    if slot is None:
        return
    waiting = [r for r in state.records.holders(slot) if r.state is _WAITING]
    if node is None:
        for record in waiting:
            why = f"node {name} of pod {record.pod.name} is gone"
            if record.state is _WAITING:
                _put_down(state, record, why, "node_gone", _UNSCHEDULED)
                _fail_alone(state, record, why)
    elif waiting:
        _check_waiting(state, waiting)


def _check_waiting(state: State, records: Iterable[PodRecord]) -> None:
    """Take waiting pods off their nodes that could not be placed there any more."""
    table = state.table
    for record in records:
        if record.state is not _WAITING or record.pod_class is None:
            continue
        node_state = table.state_of[record.slot]
        short = any(node_state.free[number] < 0 for number, _amount in record.pod_class.compared)
        if short or not record.pod_class.accepts(node_state):
            node = record.node
            why = f"node {node} of pod {record.pod.name} takes it no longer"
            _put_down(state, record, why, "changed", _UNSCHEDULED)
            _fail_alone(state, record, why)
        state.touch(record.gang)


def _fail_alone(state: State, record: PodRecord, why: str) -> None:
    """Let a regular pod that lost its node back off; a group fails by its verdict."""
    if record.info is None and record.state is _UNSCHEDULED:
        attempt.fail(state, record.gang, why, backs_off=True)


def _object_changed(state: State, kind: type) -> None:
    """Drop the answers that may depend on an object, and let all be tried again."""
    state.evaluator.forget()
    state.pods_changed = True
    for gang in list(state.records.gangs.values()):
        if gang.place is QueuePlace.NOT_ADMITTED or gang.waiting:
            state.touch(gang)
    state.queue.wake_all()


# Groups and gangs -------------------------------------------------------------------------------


def read_group(state: State, key: GroupKey) -> None:
    """Make the specification of a group agree with the cluster."""
    records, registry = state.records, state.records.registry
    spec = state.settings.cluster.pod_group(key)
    info = registry.get(key)
    before = None if info is None else info.spec
    if spec is None:
        if before is None:
            return
        registry.delete_spec(key, now=state.now)
    elif spec != before:
        registry.set_spec(spec)
    else:
        return
    named = {
        key,
        *(() if spec is None else spec.bundle),
        *(() if before is None else before.bundle),
    }
    regroup(state, named)
    info = registry.get(key)
    if info is not None:
        for record in [
            r
            for r in _members_of(state, info)
            if r.state in (_GATED, _UNSCHEDULED, _WAITING, _REFUSED)
        ]:
            read_pod(state, record.uid)
    gang = records.gang_of.get(key)
    if gang is not None:
        state.note_event(gang)
        state.touch(gang)


def _members_of(state: State, info: PodGroupInfo) -> list[PodRecord]:
    gang = state.records.gang_of.get(info.key)
    return [] if gang is None else [r for r in gang.members.values() if r.info is info]


def _gang_of_group(state: State, info: PodGroupInfo, pod: Pod) -> Gang:
    """Return the gang of a group; a new one for the first member."""
    records = state.records
    gang = records.gang_of.get(info.key)
    if gang is None:
        key = _gang_key(state, info)
        gang = records.gangs.get(key)
        if gang is None:
            gang = Gang(key, records.number(), pod.created_at, state.table)
            gang.failures, gang.backoff_until = info.failures, info.backoff_until
            gang.reason = info.failure
            records.gangs[key] = gang
        gang.infos[info.key] = info
        records.gang_of[info.key] = gang
        gang.set_tree(_tree(state, gang))
    return gang


def _gang_key(state: State, info: PodGroupInfo) -> str:
    """Return the key of the gang that a group belongs to: its own, or that of its bundle."""
    spec = info.spec
    if spec is None or not spec.bundle:
        return info.key
    return "bundle:" + min(info.key, *spec.bundle)


def _tree(state: State, gang: Gang) -> SubGroup | None:
    """Return the tree of a gang; None while a minimum is unknown or its groups disagree."""
    if not gang.infos:
        return REGULAR
    if not gang.key.startswith("bundle:"):
        (info,) = gang.infos.values()
        return group_tree(info.key, info.spec, info.claimed_min)
    trees: list[SubGroup] = []
    names: set[GroupKey] = set()
    for info in gang.infos.values():
        if info.spec is None:
            return None
        names |= {info.key, *info.spec.bundle}
    for key in sorted(names):
        spec = state.settings.cluster.pod_group(key)
        if spec is None or {key, *spec.bundle} != names:
            return None
        tree = group_tree(key, spec, None)
        assert tree is not None
        trees.append(tree)
    return SubGroup(gang.key, children=tuple(trees))


def _grow_tree(state: State, gang: Gang, info: PodGroupInfo) -> None:
    """Give a gang the tree that its groups state by now."""
    tree = _tree(state, gang)
    if tree != gang.tree:
        gang.set_tree(tree)


def regroup(state: State, keys: Iterable[GroupKey]) -> None:
    """Put the members of some groups in the gangs that they belong to by now."""
    records = state.records
    for key in sorted(keys):
        info = records.registry.get(key)
        gang = records.gang_of.get(key)
        if info is None or gang is None:
            continue
        if _gang_key(state, info) != gang.key:
            _move_group(state, info, gang)
    for key in keys:
        gang = records.gang_of.get(key)
        if gang is not None:
            gang.set_tree(_tree(state, gang))
            state.touch(gang)


def _move_group(state: State, info: PodGroupInfo, gang: Gang) -> None:
    """Move a group with its members from one gang to another."""
    records = state.records
    members = [record for record in gang.members.values() if record.info is info]
    if any(record.state is _WAITING for record in members):
        attempt.reject(state, gang, "starts with others now")
    del records.gang_of[info.key]
    del gang.infos[info.key]
    state.touch(gang)
    if not members:
        return
    other = _gang_of_group(state, info, members[0].pod)
    for record in members:
        del gang.members[record.uid]
        gang.pending.pop(record.uid, None)
        gang.waiting.pop(record.uid, None)
        record.gang = other
        other.members[record.uid] = record
        if record.state is _UNSCHEDULED:
            other.pending[record.uid] = record
    gang.set_tree(_tree(state, gang))
    other.set_tree(_tree(state, other))
    state.touch(other)
