"""A pod as the cluster shows it, and the state that follows from it. Nothing changes here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from attrs import evolve

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.records.gang import PodRecord
from gangsched.core.state import State
from gangsched.errors import (
    ClusterStateError,
    InvalidPodGroupError,
    InvalidValueError,
    PluginError,
)
from gangsched.membership import Membership
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodPhase, PodUID
from gangsched.primitives.counters import MemberState

__all__ = [
    "Seen",
    "asks_the_same",
    "conflict",
    "gates",
    "group_shown",
    "look",
    "look_ahead",
    "node_shown",
    "pods_shown",
    "seen_as",
    "spelled",
    "wanted_state",
]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
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


def look(state: State, uid: PodUID) -> Seen | None:
    """Read a pod; ask about its group and its class. Nothing changes.

    Raises:
        ClusterStateError: The cluster state shows another pod.
        PluginError: A plugin, or ``membership``, raised.
    """
    found = _look(state, uid)
    return None if found is None else spelled(state, found)


def spelled(state: State, seen: Seen) -> Seen:
    """Return a pod with its role as the specification of its group, as it is now, spells it."""
    claim = seen.claim
    info = None if claim is None else state.records.registry.get(claim.group)
    if claim is None or info is None or info.spec is None or not info.spells_roles:
        return seen
    spec, labels, name = info.spec, seen.pod.labels, seen.pod.name
    problem = seen.problem or spec.member_problem(claim.role, labels, name)
    claim = evolve(claim, role=spec.path_of(claim.role, labels, name))
    return seen._replace(claim=claim, problem=problem)


def _look(state: State, uid: PodUID) -> Seen | None:
    if uid in state.call.seen:
        return cast("Seen | None", state.call.seen[uid])
    pod = state.settings.cluster.pod(uid)
    if pod is not None and pod.uid != uid:
        raise ClusterStateError(uid, f"is shown by the cluster state as the pod {pod.uid}")
    return None if pod is None else seen_as(state, pod)


def look_ahead(state: State, uids: Iterable[PodUID]) -> None:
    """Read pods before anything changes; forgotten when the next event is taken in.

    Raises:
        ClusterStateError: The cluster state shows another pod.
        PluginError: A plugin, or ``membership``, raised.
    """
    found = {uid: _look(state, uid) for uid in uids}
    state.call.seen.update(found)


def node_shown(state: State, name: NodeName) -> Node | None:
    """Return a node as the cluster shows it.

    Raises:
        ClusterStateError: The cluster state shows another node.
    """
    node = state.settings.cluster.node(name)
    if node is not None and node.name != name:
        raise ClusterStateError(name, f"is shown by the cluster state as the node {node.name}")
    return node


def pods_shown(state: State, name: NodeName) -> list[PodUID]:
    """Return the pods on a node, as the cluster shows them. O(pods there).

    Raises:
        ClusterStateError: The cluster state shows a pod there that is on another node.
    """
    found = list(state.settings.cluster.pods_on(name))
    for pod in found:
        if pod.node_name != name:
            raise ClusterStateError(pod.key, f"is shown on {name}, is on {pod.node_name}")
    return [pod.uid for pod in found]


def group_shown(state: State, key: GroupKey) -> PodGroup | None:
    """Return the specification of a group as the cluster shows it, and its members number copies.

    Raises:
        ClusterStateError: The cluster state shows another group.
    """
    spec = state.settings.cluster.pod_group(key)
    if spec is not None and spec.key != key:
        raise ClusterStateError(key, f"is shown by the cluster state as the group {spec.key}")
    info = state.records.registry.get(key)
    return spec if spec is None or info is None else spec.with_copies_of(info.members.roles())


def seen_as(state: State, pod: Pod) -> Seen:
    """Ask about the group and the class of a pod. Nothing changes.

    Raises:
        PluginError: A plugin, or ``membership``, raised.
    """
    claim: Membership | None = None
    problem: InvalidPodGroupError | None = None
    try:
        claim = state.settings.membership(pod)
    except InvalidPodGroupError as error:
        problem = error
    except InvalidValueError as error:
        problem = InvalidPodGroupError(f"pod {pod.key}", error.field, error.value, error.expected)
    except Exception as error:
        raise _misbehaved(pod, f"raised {error!r}") from error
    if claim is not None and not isinstance(claim, Membership):
        raise _misbehaved(pod, f"returned {claim!r}")
    needs_node = pod.node_name is None and not pod.is_finished and pod.deleted_at is None
    state.evaluator.selectors(pod)  # an error comes now, or it would come in the middle
    return Seen(pod, claim, problem, state.evaluator.class_of(pod) if needs_node else None)


def asks_the_same(record: PodRecord, seen: Seen) -> bool:
    """Return whether a pod asks for what it asked for when it got its class."""
    before, now = record.pod_class, seen.pod_class
    return before is not None and now is not None and before.signature == now.signature


def _misbehaved(pod: Pod, problem: str) -> PluginError:
    return PluginError("membership", "membership", pod.key, problem)


def conflict(state: State, seen: Seen, record: PodRecord | None) -> InvalidPodGroupError | None:
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


def wanted_state(state: State, seen: Seen, problem: InvalidPodGroupError | None) -> MemberState:
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
    not_checked = state.settings.profile.not_checked
    unchecked = [name for name in not_checked if _states(pod, name)] if not_checked else []
    if unchecked:
        reasons.append(f"has constraints that no plugin checks: {', '.join(unchecked)}")
    info = None if group is None else state.records.registry.get(group)
    spec = None if info is None else info.spec
    if spec is not None and spec.unmodelled:
        held = ", ".join(spec.unmodelled)
        reasons.append(f"pod group {spec.key} has constraints that are not modelled: {held}")
    unclear = "" if spec is None else state.settings.levels.problem(spec)
    if spec is not None and unclear:
        reasons.append(f"pod group {spec.key} has a topology that is not known: {unclear}")
    return reasons


def _states(pod: Pod, name: str) -> bool:
    """Return whether an attribute of a pod is a hard constraint."""
    if name == "topology_spread_constraints":
        return any(each.is_hard for each in pod.topology_spread_constraints)
    return bool(getattr(pod, name))
