"""Whether waiting members may go by now, or can no longer start where they wait.

Rules:
  R1  both are asked again after every event that concerns the group: a permit plugin that said
      Wait is not asked at any other time;
  R2  nothing changes here: the answer is an outcome for ``transition``.
"""

from __future__ import annotations

from gangsched._core._registry import PodGroupInfo
from gangsched.errors import GangschedError
from gangsched.framework.lifecycle import release
from gangsched.framework.lifecycle.entity_outcomes import PermitGranted, Rejected
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement import topology
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.attempts import Attempts
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings
from gangsched.outcomes import Unschedulable, Wait

__all__ = ["astray", "recheck"]


def recheck(
    settings: Settings, pods: Pods, call: CurrentCall, info: PodGroupInfo, *, now: float
) -> PermitGranted | None:
    """Ask the permit plugins again; return the release if the waiting members may go."""
    waiting = pods.waiting.of(info.key)
    if not waiting:
        return None
    members = [pods.members[pod.uid] for pod in waiting]
    try:
        if isinstance(extension_points.permit(settings, members[0], now), Wait | Unschedulable):
            return None
        return release.prepare(settings, call, members, now=now)
    except GangschedError as error:
        call.deferred.append(error)
        return None


def astray(nodes: Nodes, pods: Pods, attempts: Attempts, info: PodGroupInfo) -> Rejected | None:
    """Return the rejection of a group that waits on nodes outside of its topology value."""
    reason = (
        topology.rejection_reason(nodes, pods, info) if info.key in attempts.waiting_since else ""
    )
    return Rejected(reason) if reason else None
