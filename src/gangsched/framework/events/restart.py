"""What follows when the members of groups have changed: restarts, quotas, removed groups.

The order of a restart: the notices, then the members that are left are evicted, in one rejection of
the group. From then on the group is held (``group_life``), so no new pod of it is placed beside an
old one. The report of the last old pod, or the end of the backoff, lets it queue again.

A bundle is restarted as a unit, since its groups cannot run without each other: by the policy of
the group that fell, and all its groups have one count.

Rules:
  R1  a group is judged after all that the call has read, see ``group_life``;
  R2  if a group that is held has members on nodes, its restart goes on: the scheduler was replaced
      in the middle of it. That is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterator

from gangsched._core._registry import PodGroupInfo
from gangsched.events import (
    GroupBelowMinimum,
    GroupRemoved,
    GroupRestarted,
    RestartLimitReached,
)
from gangsched.framework.events import move_entity
from gangsched.framework.lifecycle import group_life
from gangsched.framework.lifecycle.transition import apply_verdict
from gangsched.framework.queueing import bundles, quotas
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey
from gangsched.outcomes import EvictGroup

__all__ = ["settle"]


def settle(state: State, *, now: float) -> None:
    """Judge the groups whose members have changed, or whose backoff is over.

    Then the groups that wait for a quota are asked again, if a charge was returned.

    Runtime complexity: O(roles) for each group, and O(members) for each that is restarted; O(n log
    n) for n groups that wait for a quota, if a charge was returned.
    """
    pods, settings, call = state.pods, state.settings, state.call
    while call.touched:
        key = next(iter(call.touched))
        del call.touched[key]
        info = pods.registry.get(key)
        if info is None or (info.spec is None and not info.members):
            pods.restarts.forget(key)
            pods.quotas.release(key)
            call.out.append(GroupRemoved(key))
        else:
            before = bundles.restarting(pods, info)
            _judge(settings, pods, call, info, now=now)
            entity = pods.entities.get(key)
            is_held = pods.restarts.is_held(key)
            if is_held and info.scheduled and settings.can_evict:
                reason = f"pod group {key} is restarted: it fell below its minimum"
                apply_verdict(state, EvictGroup(key, reason), now=now)
            elif is_held:
                group_life.try_start(pods, info, now=now)
            if entity is not None and bundles.restarting(pods, info) != before:
                # pending members wait for the restart too, and no longer than for it
                move_entity.move(state, entity, now=now)
            quotas.charge_running(pods, info)
            quotas.give_back(pods, info)
        if not call.touched and pods.quotas.take_returned():
            for waiting in quotas.that_fit(pods):
                # the first of them may leave too little for the next, which is then refused
                move_entity.move(state, waiting, now=now)


def _judge(
    settings: Settings, pods: Pods, call: CurrentCall, info: PodGroupInfo, *, now: float
) -> None:
    """Post what follows from the members that a group has now."""
    if not info.members:
        pods.restarts.stop(info.key)
        return
    scheduled = group_life.on_nodes(info)
    fall = group_life.observe(settings, pods, info, now=now)
    if fall is None:
        return
    call.out.append(GroupBelowMinimum(info.key, scheduled, info.min_available or 0))
    if fall.until is not None and fall.limit is not None:
        for key in _restarted_with(pods, info):
            pods.restarts.join(key, fall)
            call.touched[key] = None
            call.out.append(GroupRestarted(key, fall.restarts, fall.limit, fall.until))
    elif fall.limit is not None:
        call.out.append(RestartLimitReached(info.key, fall.restarts))


def _restarted_with(pods: Pods, info: PodGroupInfo) -> Iterator[GroupKey]:
    """Yield a group that is restarted, and the groups of its bundle that run. O(groups)."""
    yield info.key
    for entity in bundles.started(pods, pods.entities[info.key]):
        if entity.group is not None:
            yield entity.group.key
