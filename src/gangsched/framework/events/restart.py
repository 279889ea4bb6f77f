"""Restarting groups that have fallen below their minimum.

The order of a restart: the notices, then the members that are left are evicted, in one rejection of
the group. From then on the group is held (``group_life``), so no new pod of it is placed beside an
old one. The report of the last old pod, or the end of the backoff, lets it queue again.

Rules:
  R1  a group is judged after all that the call has read, see ``group_life``;
  R2  if a group that is held has members on nodes, its restart goes on: the scheduler was replaced
      in the middle of it. That is not counted again.
"""

from __future__ import annotations

from gangsched.events import (
    GroupBelowMinimum,
    GroupRemoved,
    GroupRestarted,
    RestartLimitReached,
)
from gangsched.framework.events import move_entity
from gangsched.framework.lifecycle import group_life
from gangsched.framework.lifecycle.transition import apply_verdict
from gangsched.framework.state.scheduler_state import State
from gangsched.outcomes import EvictGroup

__all__ = ["settle"]


def settle(state: State, *, now: float) -> None:
    """Judge the groups whose members have changed, or whose backoff is over.

    Runtime complexity: O(roles) for each, and O(members) for each that is restarted.
    """
    pods, out = state.pods, state.call.out
    while state.call.touched:
        key = next(iter(state.call.touched))
        del state.call.touched[key]
        info = pods.registry.get(key)
        if info is None or (info.spec is None and not info.members):
            pods.restarts.forget(key)
            out.append(GroupRemoved(key))
            continue
        if not info.members:
            pods.restarts.stop(key)
            group_life.try_start(pods, info, now=now)
            continue
        scheduled = group_life.on_nodes(pods, info)
        fall = group_life.observe(state.settings, pods, info, now=now)
        if fall is not None:
            out.append(GroupBelowMinimum(key, scheduled, info.min_available or 0))
            if fall.until is not None and fall.limit is not None:
                out.append(GroupRestarted(key, fall.restarts, fall.limit, fall.until))
            elif fall.limit is not None:
                out.append(RestartLimitReached(key, fall.restarts))
        if not pods.restarts.is_held(key):
            continue
        if info.scheduled and state.settings.can_evict:
            reason = f"pod group {key} is restarted: it fell below its minimum"
            apply_verdict(state, EvictGroup(key, reason), now=now)
        elif group_life.try_start(pods, info, now=now):
            move_entity.move(state, pods.entities[key], now=now)
