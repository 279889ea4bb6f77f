"""Whether a group runs, has fallen below its minimum, or is being restarted.

Rules:
  R1  a change of a member is noted at once, and judged at the end of the call. While a listing is
      read, or a pod is read as another one, a group may have too few members for a moment;
  R2  a group that is being restarted is not admitted before its old pods are gone and its backoff
      is over.
"""

from __future__ import annotations

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched._core._restarts import Fall, Minimum
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings

__all__ = ["note", "observe", "on_nodes", "try_start"]


def note(pods: Pods, call: CurrentCall, info: PodGroupInfo) -> None:
    """Note that members of a group have changed, if that may change whether it runs. O(1)."""
    minimum, restarts = info.min_available, pods.restarts
    if (
        restarts.get(info.key) is not None
        or (minimum is not None and info.assigned + info.succeeded >= minimum)
        or pods.quotas.covers(info.key)
    ):
        call.touched[info.key] = None


def observe(settings: Settings, pods: Pods, info: PodGroupInfo, *, now: float) -> Fall | None:
    """Let the restarts know what a group has now; return a fall if this is one.

    Runtime complexity: O(roles); O(members) for a group with roles that begins to run.
    """
    spec, minimum = info.spec, info.min_available
    return pods.restarts.observe(
        info.key,
        None if minimum is None else Minimum(minimum, info.roles),
        spec.restart if spec is not None and settings.can_evict else None,
        is_whole=_is_whole(pods, info),
        is_short=_is_short(info),
        now=now,
    )


def try_start(pods: Pods, info: PodGroupInfo, *, now: float) -> bool:
    """Return whether the restart of a group is over, so that it may start. O(1)."""
    # members of a held group that have nodes are old ones
    leaving = info.members.count(MemberState.TERMINATING) + info.scheduled
    return pods.restarts.try_start(info.key, leaving=leaving, now=now)


def on_nodes(info: PodGroupInfo) -> int:
    """Return how many members hold a node, or have succeeded. O(1)."""
    return info.scheduled + info.succeeded


def _is_whole(pods: Pods, info: PodGroupInfo) -> bool:
    """Return whether enough members are bound, or have succeeded."""
    minimum = info.min_available
    if minimum is None or info.assigned + info.succeeded < minimum:
        return False
    if not info.roles:
        return True
    bound = [each.role for each in pods.of_group(info) if each.state is MemberState.ASSIGNED]
    return all(
        bound.count(role) + info.role(role).succeeded >= least for role, least in info.roles.items()
    )


def _is_short(info: PodGroupInfo) -> bool:
    """Return whether too few members hold a node, or have succeeded."""
    minimum = info.min_available
    if minimum is None or on_nodes(info) < minimum:
        return True
    counts = ((info.role(role), least) for role, least in info.roles.items())
    return any(role.scheduled + role.succeeded < least for role, least in counts)
