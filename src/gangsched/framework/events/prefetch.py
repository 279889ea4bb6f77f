"""Reading everything that an event concerns, before anything changes.

Rules:
  R1  all that may raise is asked here: the membership and the signature of every pod that the
      event concerns, and the pods on every node that it touches;
  R2  each is asked once per call, so the answer that was checked is the answer that is used.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, final

from attrs import define

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.errors import ClusterStateError, InvalidPodGroupError, PluginError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime import signatures
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.membership import Membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID

__all__ = ["Seen", "ask", "close", "everything", "group", "look", "node", "pod", "spec"]


@final
@define(eq=False)  # not frozen, which doubles the cost of making one with each event about a pod
class Seen:
    """A pod that was read, with what membership and plugins say of it; it does not change.

    Attributes:
        pod: The pod, as the cluster state shows it.
        claim: The group that it claims; None for a regular pod, and if there is a problem.
        problem: What is malformed in its claim; None if nothing is.
        signature: The key of its equivalence class.
        labels: The keys of the node labels that plugins read for it.
        reads_pods: Whether a plugin evaluates nodes one by one for it; see ``PodsRead``.
        watches_pods: Whether the answers depend on the pods on nodes.
        carried: The terms that it carries to its node; see ``PodsAffected``.
        selected: The pods on nodes that the answers depend on, by labels; see ``PodsSelected``.
        objects: The classes of objects that plugins read for it; see ``ObjectsRead``.
    """

    pod: Pod
    claim: Membership | None
    problem: InvalidPodGroupError | None
    signature: Hashable
    labels: frozenset[str]
    reads_pods: bool
    watches_pods: bool
    carried: tuple[CarriedTerm, ...]
    selected: tuple[PodMatcher, ...]
    objects: frozenset[type[Any]]


def look(
    settings: Settings, pod_classes: PodClasses, call: CurrentCall, uid: PodUID
) -> Seen | None:
    """Return a pod that was read in this call; read it if it was not. None if it is gone.

    Raises:
        ClusterStateError: The cluster state returned a pod with another UID.
        PluginError: ``membership`` or a plugin's ``pod_signature`` raised.
    """
    if uid in call.seen:
        known: Seen | None = call.seen[uid]
        return known
    shown = settings.cluster.pod(uid)
    if shown is not None and shown.uid != uid:
        raise ClusterStateError(uid, f"is shown by the cluster state as the pod {shown.uid}")
    seen = None if shown is None else ask(settings, pod_classes, shown, call.alike)
    call.seen[uid] = seen
    return seen


def pod(state: State, uid: PodUID) -> None:
    """Read a pod, and the siblings that may be admitted when it leaves its group."""
    seen, member = (
        look(state.settings, state.pod_classes, state.call, uid),
        state.pods.members.get(uid),
    )
    if seen is not None:
        node(state, seen.pod.node_name, of_pod=True)
    if member is None:
        return
    node(state, member.pod.node_name, of_pod=True)
    info = member.group
    if info is not None and _may_let_in(info, member, seen):
        for sibling in info.members:
            _pod_alone(state, sibling)


def node(state: State, name: NodeName | None, *, of_pod: bool = False) -> None:
    """Read a node and the pods on it, and each pending pod that has arrived there.

    Args:
        state: The scheduler's state.
        name: The node; None for none.
        of_pod: Whether the event is about a pod of it: then a crowded node is not read.
    """
    if name is None:
        return
    for uid in state.nodes.look(name, of_pod=of_pod):
        member = state.pods.members.get(uid)
        if member is not None and member.state is MemberState.UNSCHEDULED:
            state.call.arrived.setdefault(name, {})[uid] = None
            look(state.settings, state.pod_classes, state.call, uid)


def group(state: State, key: GroupKey) -> None:
    """Read the specification of a group, and every member. O(members)."""
    spec(state.settings, state.call, key)
    info = state.pods.registry.get(key)
    for uid in () if info is None else info.members:
        _pod_alone(state, uid)


def spec(settings: Settings, call: CurrentCall, key: GroupKey) -> PodGroup | None:
    """Return the specification of a group; it is read once per call.

    Raises:
        ClusterStateError: The cluster state returned the specification of another group.
    """
    if key not in call.seen_specs:
        shown = settings.cluster.pod_group(key)
        if shown is not None and shown.key != key:
            raise ClusterStateError(key, f"is shown by the cluster state as the group {shown.key}")
        call.seen_specs[key] = shown
    return call.seen_specs[key]


def everything(state: State) -> None:
    """Read everything that the cluster state shows, and every known pod. O(pods + nodes)."""
    for shown in state.settings.cluster.nodes():
        node(state, shown.name)
    for shown_group in state.settings.cluster.pod_groups():
        spec(state.settings, state.call, shown_group.key)
    for shown_pod in state.settings.cluster.pods():
        _pod_alone(state, shown_pod.uid)
    for uid in state.pods.members:
        _pod_alone(state, uid)


def close(nodes: Nodes, call: CurrentCall) -> None:
    """Forget what was read: it holds in this call only."""
    call.seen.clear()
    call.alike.clear()
    call.seen_specs.clear()
    call.arrived.clear()
    nodes.forget_looks()


def _pod_alone(state: State, uid: PodUID) -> None:
    seen, member = (
        look(state.settings, state.pod_classes, state.call, uid),
        state.pods.members.get(uid),
    )
    if seen is not None:
        node(state, seen.pod.node_name, of_pod=True)
    if member is not None:
        node(state, member.pod.node_name, of_pod=True)


def _may_let_in(info: PodGroupInfo, member: Member, seen: Seen | None) -> bool:
    """Return whether refused siblings may be admitted once a member changes or leaves. O(1).

    They were refused because of the minimum or the priority that the group's members claim. So it
    matters only whether these may change.
    """
    uid = member.pod.uid
    if not info.members.count(MemberState.REFUSED) or uid not in info.claims:
        return False  # if what it claims does not count, no sibling was refused because of it
    if seen is not None and seen.pod is member.pod:
        return False
    if info.claims.claimed(without=uid) != (info.claimed_min, info.claimed_priority):
        return True
    if seen is None or seen.claim is None:
        return False
    return (seen.claim.min_available, seen.pod.priority) != info.claims.get(uid)


def ask(
    settings: Settings,
    pod_classes: PodClasses,
    shown: Pod,
    alike: dict[Hashable, Any] | None = None,
) -> Seen:
    """Return a pod with what membership and plugins say of it.

    What plugins say of pods with equal signatures is equal, so they are asked once for a class.

    Args:
        settings: The settings.
        pod_classes: The known classes.
        shown: The pod.
        alike: Pods of classes that are not known yet, which this call has read; one is added. A
            listing reads every pod before it makes the first class.

    Raises:
        PluginError: ``membership`` or a plugin raised, or returned a value of a wrong type.
    """
    claim: Membership | None = None
    problem: InvalidPodGroupError | None = None
    try:
        claim = settings.membership(shown)
    except InvalidPodGroupError as error:
        problem = error
    except Exception as error:
        raise _misbehaved(shown, f"raised {error!r}") from error
    if claim is not None and not isinstance(claim, Membership):
        raise _misbehaved(shown, f"returned {claim!r}")
    signature = signatures.signature(settings, shown)
    known: Any = None
    if settings.profile.signed:
        known = pod_classes.by_signature.get(signature)
        if known is None and alike is not None:
            known = alike.get(signature)
    if known is not None:
        return Seen(
            shown,
            claim,
            problem,
            known.signature,  # equal, and the same object, which is compared at once
            known.labels,
            known.reads_pods,
            known.watches_pods,
            known.carried,
            known.selected,
            known.objects,
        )
    labels = signatures.labels_read(settings, shown)
    pods_read = signatures.pods_read(settings, shown)
    objects = signatures.objects_read(settings, shown)
    seen = Seen(shown, claim, problem, signature, labels, *pods_read, objects)
    if alike is not None and settings.profile.signed:
        alike[signature] = seen
    return seen


def _misbehaved(shown: Pod, problem: str) -> PluginError:
    return PluginError("membership", "membership", shown.key, problem)
