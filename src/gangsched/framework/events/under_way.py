"""The effects that were under way when a snapshot was taken, returned again after ``restore``.

The process that took the snapshot may have ended before it performed them, or before their reports
arrived. Without them a pod would stay in binding, or its preemptor would wait, for ever.

Rules:
  R1  the pods are read first: a bind or an eviction that has been done meanwhile is not repeated;
  R2  a repeated ``Bind`` has the attempt of the first one, so a report of either settles it. The
      plugins are asked for it, as for the first one: they remember the volumes;
  R3  the bind of a pod that has changed since it was decided counts as failed. Before a restore it
      cannot be recalled, and stays; now it is posted anew, and must hold for the pod as it is.
"""

from __future__ import annotations

from gangsched.events import Bind, BindFailed, Evict
from gangsched.framework.events import bind_reports, prefetch, reconcile_pod
from gangsched.framework.events.wanted_state import is_being_bound
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings

__all__ = ["read_again"]


def read_again(state: State, *, now: float) -> None:
    """Read the pods with a bind or an eviction under way, and post again what was not done.

    Runtime complexity: O(pods).

    Raises:
        ClusterStateError: The cluster state contradicts itself.
        PluginError: ``membership`` or a plugin raised.
    """
    under_way = _under_way(state.pods)
    try:
        for member in under_way:
            prefetch.pod(state, member.pod.uid)
        for member in under_way:
            reconcile_pod.pod_changed(state, member.pod.uid, now=now)
        for member in under_way:
            if _has_outlived_its_bind(state, member):
                reason = f"pod {member.pod.name} has changed since its bind was decided"
                failed = BindFailed(member.pod.uid, member.attempt, reason)
                bind_reports.bind_failed(state, failed, now=now)
    finally:
        prefetch.close(state.nodes, state.call)
    posted = {effect.uid for effect in state.call.out if isinstance(effect, Bind | Evict)}
    known = {member.seq for member in under_way}
    due = [m for m in _under_way(state.pods) if m.seq in known and m.pod.uid not in posted]
    effects = (_effect(state.settings, member, now=now) for member in due)
    state.call.out[:0] = [effect for effect in effects if effect is not None]


def _has_outlived_its_bind(state: State, member: Member) -> bool:
    """Return whether a pod that is being bound is no longer the one that was placed. O(1)."""
    uid = member.pod.uid
    return (
        state.pods.members.get(uid) is member
        and is_being_bound(member)
        and reconcile_pod.has_left(state.settings, state.pods, state.pod_classes, state.call, uid)
    )


def _under_way(pods: Pods) -> list[Member]:
    return [
        member
        for uid, member in pods.members.items()
        if (is_being_bound(member) if member.node is not None else uid in pods.evicted)
    ]


def _effect(settings: Settings, member: Member, *, now: float) -> Bind | Evict | None:
    """Return what is to be done for a pod again; None if the cluster state shows it as done."""
    pod = member.pod
    if member.node is not None:
        return extension_points.bind(settings, member, now)
    if pod.node_name is None or pod.deleted_at is not None or pod.is_finished:
        return None
    return Evict(pod.uid, pod.node_name, member.reason)
