"""Whether a group runs, has fallen below its minimum, or is being restarted.

Rules:
  R1  a change of a member is noted at once, and judged at the end of the call. While a listing is
      read, or a pod is read as another one, a group may have too few members for a moment;
  R2  a group that is being restarted is not admitted before its old pods are gone and its backoff
      is over. Nor is one that has just lost members, until it is known whether it is restarted;
  R3  the pod of a dead node terminates for ever, so it is waited for only as long as the longest
      backoff, from the instant of its deletion.
"""

from __future__ import annotations

import math
from functools import partial

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched._core._restarts import Fall, Minimum
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import RestartPolicy

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
        is_short=partial(_is_short, info),
        is_left=info.scheduled > 0,
        now=now,
    )


def try_start(pods: Pods, info: PodGroupInfo, *, now: float) -> bool:
    """Return whether the restart of a group is over, so that it may start.

    Runtime complexity: O(1); O(members) if the backoff is over, and old pods are terminating.
    """
    return pods.restarts.try_start(info.key, gone_at=partial(_gone_at, pods, info), now=now)


def _gone_at(pods: Pods, info: PodGroupInfo, until: float) -> float:
    """Return until when old pods are waited for, after a backoff that ends at *until*."""
    if info.scheduled:
        return math.inf
    if not info.members.count(MemberState.TERMINATING):
        return -math.inf
    policy = (None if info.spec is None else info.spec.restart) or RestartPolicy()
    deleted = (each.pod.deleted_at for each in pods.leaving(info))
    return policy.longest_backoff + max(until if at is None else at for at in deleted)


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


def _is_short(info: PodGroupInfo, minimum: Minimum) -> bool:
    """Return whether too few members for a minimum hold a node, or have succeeded."""
    if on_nodes(info) < minimum.members:
        return True
    counts = ((info.role(role), least) for role, least in minimum.roles.items())
    return any(role.scheduled + role.succeeded < least for role, least in counts)
