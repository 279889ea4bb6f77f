"""Facts in: records and nodes are made to agree with what the cluster shows.

There is a module for each kind of event, which ``take_in`` calls.

Rules:
  R1  an event says where to look; what is there is read from the cluster state. So an event may
      come twice, late or out of order;
  R2  what may raise is asked before anything changes;
  R3  the gangs that a fact concerns are noted, and settled later. No policy is asked here.
"""

from __future__ import annotations

from gangsched.cluster_objects import KINDS
from gangsched.core.intake.groups import read_group
from gangsched.core.intake.nodes import objects_changed, read_node, retry
from gangsched.core.intake.pods import read_pod
from gangsched.core.intake.reports import bind_failed, bound, check_answer, permit_answered
from gangsched.core.intake.seen import group_shown, look_ahead, node_shown, pods_shown
from gangsched.core.state import State
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

__all__ = [
    "binds",
    "check_answer",
    "listing",
    "only_adds",
    "read_given_back",
    "retry",
    "take_in",
]


def take_in(state: State, event: Event) -> None:
    """Take in what an event is about."""
    state.call.seen.clear()
    match event:
        case PodAdded(pod) | PodUpdated(pod):
            read_pod(state, pod.uid)
        case PodDeleted(uid):
            read_pod(state, uid)
        case Bound():
            bound(state, event)
        case BindFailed():
            bind_failed(state, event)
        case NodeAdded(node) | NodeUpdated(node):
            read_node(state, node.name)
        case NodeDeleted(name):
            read_node(state, name)
        case PodGroupAdded(group) | PodGroupUpdated(group):
            read_group(state, group.key)
        case PodGroupDeleted(key):
            read_group(state, key)
        case PermitAllowed() | PermitRejected():
            permit_answered(state, event)
        case ObjectChanged(changed):
            objects_changed(state, (type(changed),))
        case ObjectDeleted(name):
            objects_changed(state, (KINDS[name],))


def binds(event: Event) -> bool:
    """Return whether an event may show a pod on a node for the first time."""
    match event:
        case Bound():
            return True
        case PodAdded(pod) | PodUpdated(pod):
            return pod.node_name is not None
        case _:
            return False


def only_adds(event: Event) -> bool:
    """Return whether no group can have fewer members on nodes, or need more, after an event."""
    match event:
        case Bound() | NodeAdded() | PermitAllowed() | ObjectChanged():
            return True
        case PodAdded(pod) | PodUpdated(pod):
            return pod.deleted_at is None and not pod.is_finished
        case _:
            return False


def read_given_back(state: State) -> None:
    """Read the pods that gave nodes back on which they waited: they may be bound there by now."""
    given_back, state.given_back = state.given_back, {}
    state.call.seen.clear()
    for uid in given_back:
        read_pod(state, uid)


def listing(state: State) -> None:
    """Take in all that the cluster shows. O(nodes + pods log pods).

    Pods that left come first: as long as they are counted, a sibling could be released with them. A
    listing does not say in which order pods arrived. Of pods that contradict each other, the one
    that has a node counts first, then the older one.
    """
    state.call.seen.clear()
    cluster, records = state.settings.cluster, state.records
    shown = sorted(cluster.pods(), key=lambda pod: (pod.node_name is None, pod.created_at))
    uids = [pod.uid for pod in shown]
    look_ahead(state, dict.fromkeys([*uids, *records.pods]))
    nodes = [node.name for node in cluster.nodes()]
    # also a node that a snapshot has forgotten, and on which a restored member still waits
    known = [*state.table.slots]
    groups = [group.key for group in cluster.pod_groups()]
    for name in dict.fromkeys([*nodes, *known]):
        node_shown(state, name)
        look_ahead(state, pods_shown(state, name))
    for key in groups:
        group_shown(state, key)
    present = set(uids)
    for uid in [uid for uid in records.pods if uid not in present]:
        read_pod(state, uid)
    for name in dict.fromkeys([*nodes, *known]):
        read_node(state, name)
    records.confirmed = None
    for key in dict.fromkeys([*groups, *(info.key for info in records.registry)]):
        read_group(state, key)
    for uid in dict.fromkeys([*uids, *records.pods]):
        read_pod(state, uid)
    objects_changed(state, KINDS.values())
    for gang in records.gangs.values():
        state.touch(gang)
