"""Whether waiting members may go by now, or can start no more where they wait."""

from __future__ import annotations

from gangsched._core._registry import PodGroupInfo
from gangsched.errors import GangschedError
from gangsched.framework.lifecycle import assume_and_release, reject
from gangsched.framework.placement import topology
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import State
from gangsched.outcomes import Unschedulable, Wait

__all__ = ["falls_astray", "recheck_permit"]


def recheck_permit(state: State, info: PodGroupInfo, *, now: float) -> bool:
    """Ask again whether a group's waiting members may go; let them go if so."""
    waiting = state.waiting.of(info.key)
    if not waiting:
        return False
    members = [state.members[pod.uid] for pod in waiting]
    try:
        if isinstance(extension_points.permit(state, members[0], now), Wait | Unschedulable):
            return False
        return assume_and_release.let_go(state, members, now=now)
    except GangschedError as error:
        state.deferred.append(error)
        return False


def falls_astray(state: State, info: PodGroupInfo, *, now: float) -> bool:
    """Let a group fall that waits on nodes where it cannot start; say whether it did."""
    reason = topology.fall_reason(state, info) if info.key in state.holding else ""
    if reason:
        reject.reject_group(state, info.key, reason, now=now)
    return bool(reason)
