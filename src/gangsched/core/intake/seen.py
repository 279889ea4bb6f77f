"""A pod as the cluster shows it, and the state that follows from it. Nothing changes here."""

from __future__ import annotations

from typing import Final, NamedTuple

from gangsched._core._counters import MemberState
from gangsched.core.pod_class import PodClass
from gangsched.core.records import PodRecord
from gangsched.core.state import State
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.membership import Membership
from gangsched.model import GroupKey, Pod, PodPhase, PodUID

__all__ = ["Seen", "conflict", "gates", "look", "seen_as", "wanted_state"]

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
        PluginError: A plugin, or ``membership``, raised.
    """
    pod = state.settings.cluster.pod(uid)
    return None if pod is None else seen_as(state, pod)


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
    needs_node = pod.node_name is None and not pod.is_finished and pod.deleted_at is None
    return Seen(pod, claim, problem, state.evaluator.class_of(pod) if needs_node else None)


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
