"""What was under way when a snapshot was taken: repeated after ``restore``, or failed.

The process that took the snapshot may have ended before it performed its last effects, or before
their reports arrived. Without them a pod would stay in binding for ever.

Rules:
  R1  the pods are read first: a bind or an eviction that has been done meanwhile is not repeated;
  R2  a repeated ``Bind`` has the attempt of the first one, so a report of either settles it. The
      plugins are asked for it, as for the first one: they remember the volumes;
  R3  a bind that is posted anew must hold for the pod as it is. If the pod has changed since its
      bind was decided, and its node does not take it any more, the bind counts as failed. Otherwise
      it stays: the first one may succeed yet, so the capacity must not go to others.
"""

from __future__ import annotations

from gangsched.core.intake.groups import read_group
from gangsched.core.intake.pods import is_another, read_pod
from gangsched.core.intake.reports import bind_failed
from gangsched.core.intake.seen import Seen, asks_the_same, gates, look
from gangsched.core.placement import late
from gangsched.core.records.gang import PodRecord
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.events import Bind, BindFailed, Evict

__all__ = ["read_again"]


def read_again(state: State) -> None:
    """Read the pods that a restored snapshot leaves open, and post again what was not done.

    Runtime complexity: O(pods).

    Raises:
        ClusterStateError: The cluster state contradicts itself.
        PluginError: ``membership`` or a plugin raised.
    """
    state.call.seen.clear()
    records = state.records.pods
    under_way = {uid: r for uid, r in records.items() if r.is_being_bound or r.is_evicted}
    groups, state.unread_groups = state.unread_groups, {}
    for key in groups:
        read_group(state, key)
    unread, state.unread = state.unread, {}
    for uid in list(dict.fromkeys([*unread, *under_way])):
        record = records.get(uid)
        if record is not None and record.is_being_bound and _is_void(state, record):
            reason = f"pod {record.pod.name} has changed since its bind was decided"
            bind_failed(state, BindFailed(uid, record.attempt, reason))
        else:
            read_pod(state, uid)
    posted = {effect.uid for effect in state.call.out if isinstance(effect, Bind | Evict)}
    due = [records[uid] for uid in under_way if uid in records and uid not in posted]
    effects = [_effect(state, record) for record in due]
    state.call.out[:0] = [effect for effect in effects if effect is not None]


def _is_void(state: State, record: PodRecord) -> bool:
    """Return whether the bind of a pod no longer holds for the pod as it is."""
    seen = look(state, record.uid)
    if seen is None or seen.pod.node_name is not None or seen.pod.is_finished:
        return False  # it is gone, bound or over, and read so
    group = None if record.info is None else record.info.key
    return (
        seen.pod.deleted_at is not None
        or is_another(record, seen)
        or bool(gates(state, seen.pod, group))
        or (not asks_the_same(record, seen) and not _takes(state, record, seen))
    )


def _takes(state: State, record: PodRecord, seen: Seen) -> bool:
    """Return whether the node that a pod is being bound to takes the pod as it is now."""
    records, views = state.records, state.views
    assert record.cycle is not None
    before = record.pod, record.pod_class
    with Trial(records) as trial:
        trial.lift([record])
        record.pod = seen.pod
        record.pod_class = pod_class = state.class_of(record, seen.pod_class)
        try:
            asked = late.asked_about(pod_class, record.cycle, record, views)
            return pod_class.memo.refresh().fits(state.table.state_of[record.slot]) > 0 and (
                late.accepted(asked, record, record.cycle, views, record.slot) is None
            )
        finally:
            record.pod, record.pod_class = before


def _effect(state: State, record: PodRecord) -> Bind | Evict | None:
    """Return what is to be done for a pod again; None if the cluster state shows it as done."""
    pod = record.pod
    if record.is_being_bound:
        return state.points.bind(record, state.records.now)
    is_done = pod.node_name is None or pod.deleted_at is not None or pod.is_finished
    if not record.is_evicted or is_done or pod.node_name is None:
        return None
    return Evict(pod.uid, pod.node_name, record.reason)
