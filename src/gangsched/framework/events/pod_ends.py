"""Pods that no longer use the node they were bound to: which plugins learn of it, and what wakes.

A plugin that counts, such as a quota, refuses pods because of other pods, wherever these run. When
one of those ends, the node that it leaves may help no pod that the plugin refused, so the node
alone would wake none of them. The plugin itself says that it may accept more.

Rules:
  R1  each bound pod ends once: it has succeeded or failed, or it was deleted before that;
  R2  plugins are notified after the event has been taken in, so that what wakes sees its result;
  R3  if a plugin raises, the others are still notified, and the error is raised at the end.
"""

from __future__ import annotations

from attrs import frozen

from gangsched import _plugin_calls as calls
from gangsched._core._counters import MemberState
from gangsched.errors import GangschedError
from gangsched.framework.events import move_entity
from gangsched.framework.queueing import requeue
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, Pod, PodUID

__all__ = ["OnItsNode", "notify", "on_its_node"]

_USING = (MemberState.ASSIGNED, MemberState.TERMINATING)
_OVER = (MemberState.SUCCEEDED, MemberState.FAILED, MemberState.ENDED)


@frozen
class OnItsNode:
    """A pod that uses the node that it was bound to.

    Attributes:
        pod: The pod.
        node: The node.
    """

    pod: Pod
    node: NodeName


def on_its_node(settings: Settings, pods: Pods, uid: PodUID) -> OnItsNode | None:
    """Return a pod if it uses a node; None if not, or if no plugin asks. O(1)."""
    if not settings.profile.end_listeners:
        return None
    member = pods.members.get(uid)
    if member is None or member.state not in _USING or member.pod.node_name is None:
        return None
    return OnItsNode(member.pod, member.pod.node_name)


def notify(state: State, before: OnItsNode | None, *, now: float) -> None:
    """Notify the plugins if a pod has ended; wake what they may accept now.

    With None for *before*, plugins may accept more for another reason, such as other arguments
    after a restart. What only lacks capacity is tried if it may fit the nodes now.

    Runtime complexity: O(plugins); if one wakes others, O(classes of pods), and O(gated entities).
    """
    wakes = before is None
    if before is not None:
        pod = before.pod
        member = state.pods.members.get(pod.uid)
        if member is not None and member.state not in _OVER:
            return
        for plugin in state.settings.profile.end_listeners:
            try:
                wakes |= calls.call(plugin, "pod_ended", pod, bool, pod, before.node, now=now)
            except GangschedError as error:
                state.call.deferred.append(error)
    if not wakes:
        return
    for pod_class in state.pod_classes.by_signature.values():
        pod_class.judgements.forget()
    requeue.objects_changed(state, None, now=now)
    for entity in state.queue.unschedulable:
        if state.queue.is_gated(entity):
            move_entity.move_if_needed(state, entity, now=now)
