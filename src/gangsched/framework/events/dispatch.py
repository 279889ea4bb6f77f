"""Events in: which function reads which event.

Rules:
  R1  everything that an event concerns is read before anything changes; see ``prefetch``. The
      caller of ``survey`` and ``take_in`` closes the prefetch, even if one of them raises;
  R2  a listing is taken in as events: pods that have left first, then nodes, groups and pods;
  R3  a listing does not say in which order pods arrived. Of pods that contradict each other, the
      pod that has a node counts first, then the older one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, assert_never

from gangsched.cluster_objects import KINDS
from gangsched.events import (
    BindFailed,
    Bound,
    Event,
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
    PodUpdated,
)
from gangsched.framework.events import (
    bind_reports,
    move_entity,
    permit_answers,
    prefetch,
    reconcile,
    reconcile_pod,
)
from gangsched.framework.placement import nominator
from gangsched.framework.queueing import quotas
from gangsched.framework.state.scheduler_state import State
from gangsched.model import Pod

__all__ = ["listing", "survey", "take_in"]

T = TypeVar("T")


def survey(state: State, event: Event) -> None:
    """Read everything that an event concerns; nothing changes.

    Raises:
        ClusterStateError: The cluster state shows a pod on a node that it does not say so of.
        InvalidValueError: The plugin that is said to allow or reject a pod cannot do so.
        PluginError: ``membership`` or a plugin raised.
    """
    match event:
        case PodAdded(pod) | PodUpdated(pod):
            prefetch.pod(state, pod.uid)
        case PodDeleted(uid) | Bound(uid) | BindFailed(uid):
            prefetch.pod(state, uid)
        case NodeAdded(node) | NodeUpdated(node):
            prefetch.node(state, node.name)
        case NodeDeleted(name):
            prefetch.node(state, name)
        case PodGroupAdded(group) | PodGroupUpdated(group):
            prefetch.group(state, group.key)
        case PodGroupDeleted(key):
            prefetch.group(state, key)
        case PermitAllowed(uid) | PermitRejected(uid):
            permit_answers.check(state.settings.profile, event)
            prefetch.pod(state, uid)
        case ObjectChanged() | ObjectDeleted():
            pass  # plugins read objects in the cycles of the pods that are requeued
        case _:
            assert_never(event)


def take_in(state: State, event: Event, *, now: float) -> None:
    """Make the state agree with what ``survey`` has read."""
    match event:
        case PodAdded(pod) | PodUpdated(pod):
            reconcile_pod.pod_changed(state, pod.uid, now=now)
        case PodDeleted(uid):
            reconcile_pod.pod_changed(state, uid, now=now)
        case Bound():
            bind_reports.bound(state, event, now=now)
        case NodeAdded(node) | NodeUpdated(node):
            reconcile.node_changed(state, node.name, now=now)
        case NodeDeleted(name):
            reconcile.node_changed(state, name, now=now)
        case PodGroupAdded(group) | PodGroupUpdated(group):
            reconcile.group_changed(state, group.key, now=now)
        case PodGroupDeleted(key):
            reconcile.group_changed(state, key, now=now)
        case ObjectChanged(value):
            reconcile.objects_changed(state, type(value), now=now)
        case ObjectDeleted(kind):
            reconcile.objects_changed(state, KINDS[kind], now=now)
        case BindFailed():
            bind_reports.bind_failed(state, event, now=now)
        case PermitAllowed() | PermitRejected():
            permit_answers.answered(state, event, now=now)
        case _:
            assert_never(event)


def listing(state: State, *, now: float) -> None:
    """Take in all that the cluster state shows. O(nodes + pods log pods).

    Pods that left their group or their node unnoticed come first. As long as they are counted,
    an event about a sibling could release the group with them.
    """
    try:
        prefetch.everything(state)
        nodes = [node.name for node in state.settings.cluster.nodes()]
        groups = [group.key for group in state.settings.cluster.pod_groups()]
        for key in groups:
            prefetch.spec(state.settings, state.call, key)
        shown = [pod.uid for pod in sorted(state.settings.cluster.pods(), key=_by_right)]
        known = (state.settings, state.pods, state.pod_classes, state.call)
        for uid in [uid for uid in state.pods.members if reconcile_pod.has_left(*known, uid)]:
            reconcile_pod.pod_changed(state, uid, now=now)
        for name in _union(nodes, state.nodes.infos):
            reconcile.node_changed(state, name, now=now)
        for key in _union(groups, [info.key for info in state.pods.registry]):
            reconcile.group_changed(state, key, now=now)
        listed = (
            prefetch.look(state.settings, state.pod_classes, state.call, uid) for uid in shown
        )
        quotas.charge_listed(
            state.pods,
            (
                (each.pod, each.claim)
                for each in listed
                if each is not None and each.problem is None
            ),
        )
        for uid in _union(shown, state.pods.members):
            reconcile_pod.pod_changed(state, uid, now=now)
        reconcile.objects_changed(state, *KINDS.values(), now=now)
        nominator.review(state, now=now)
        for waiting in quotas.that_fit(state.pods):  # a limit may be another since a restart
            move_entity.move(state, waiting, now=now)
    finally:
        prefetch.close(state.nodes, state.call)


def _by_right(pod: Pod) -> tuple[bool, float]:
    return (pod.node_name is None, pod.created_at)


def _union(first: Iterable[T], second: Iterable[T]) -> list[T]:
    return list(dict.fromkeys([*first, *second]))
