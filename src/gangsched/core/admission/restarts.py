"""Restarts of gangs: judged when a gang is settled, a second after a loss (``running_groups``).

The order of a restart: the notices, then the members that are left are evicted, in one rejection of
the gang. From then on the group is held, so no new pod of it is placed beside an old one. The end
of the last old pod, or of the backoff, lets it queue again. A bundle is restarted as a unit, since
its groups cannot run without each other: by the policy of the group that fell, with one count.

Rules:
  R1  a group is judged after all that the call has read. While a listing is read, a group may have
      too few members for a moment;
  R2  a group that is held, or has just lost members, is not admitted to the queue;
  R3  if a group that is held has members on nodes, its restart goes on: the scheduler was replaced
      in the middle of it. That is not counted again;
  R4  the pod of a dead node terminates for ever, so it is waited for only as long as the longest
      backoff, from the instant of its deletion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Final

from gangsched.core.moves.rejection import reject
from gangsched.core.records.gang import Gang, PodRecord
from gangsched.core.state import State
from gangsched.core.state.running_groups import Fall, GroupMinimum
from gangsched.events import GroupBelowMinimum, GroupRestarted, RestartLimitReached
from gangsched.model import GroupKey, RestartPolicy
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import tree_of
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["awaited", "denial", "due", "forget", "is_under_way", "judge", "returns"]

_BOUND: Final = (MemberState.ASSIGNED,)
_LEAVING: Final = frozenset(
    {
        MemberState.WAITING,
        MemberState.BINDING,
        MemberState.ASSIGNED,
        MemberState.TERMINATING,
    }
)


def judge(state: State, gang: Gang) -> None:
    """Judge the groups of a gang by the members that they have now.

    Runtime complexity: O(groups and roles); O(members) for a group that is restarted.
    """
    for info in list(gang.infos.values()):
        # few groups have members that run, or are remembered: asked for every event
        is_whole = info.has_run and _is_whole(info)
        if is_whole or info.key in state.restarts.lives:
            _judge_group(state, gang, info, is_whole=is_whole)


def _judge_group(state: State, gang: Gang, info: PodGroupInfo, *, is_whole: bool) -> None:
    restarts, key = state.restarts, info.key
    if not info.members:
        restarts.stop(key)
    else:
        fall = _observe(state, info, is_whole=is_whole)
        if fall is not None:
            _fall(state, gang, info, fall)
    if not restarts.is_held(key):
        return
    if info.scheduled and state.settings.can_evict:
        reason = f"pod group {key} is restarted: it fell below its minimum"
        reject(state, gang, reason, evicts=True)
    else:
        _try_start(state, gang, info)


def _observe(state: State, info: PodGroupInfo, *, is_whole: bool) -> Fall | None:
    spec, minimum = info.spec, info.min_available
    return state.restarts.observe(
        info.key,
        None if minimum is None else GroupMinimum(minimum, info.roles),
        spec.restart if spec is not None and state.settings.can_evict else None,
        is_whole=is_whole,
        is_short=partial(_is_short, info),
        is_left=info.scheduled > 0,
        now=state.records.now,
    )


def _fall(state: State, gang: Gang, info: PodGroupInfo, fall: Fall) -> None:
    """Post what follows from a fall, and hold the groups that are restarted."""
    minimum = info.min_available or 0
    state.call.out.append(GroupBelowMinimum(info.key, info.scheduled + info.succeeded, minimum))
    if fall.until is not None and fall.limit is not None:
        for key in _restarted_with(gang, info):
            state.restarts.join(key, fall)
            state.call.out.append(GroupRestarted(key, fall.restarts, fall.limit, fall.until))
        state.touch(gang)
    elif fall.limit is not None:
        state.call.out.append(RestartLimitReached(info.key, fall.restarts))


def _restarted_with(gang: Gang, info: PodGroupInfo) -> Iterator[GroupKey]:
    """Yield a group that is restarted, and the groups of its bundle that run."""
    yield info.key
    for other in gang.infos.values():
        if other is not info and other.was_scheduled:
            yield other.key


def due(state: State) -> None:
    """Note the gangs that are to be looked at by now."""
    for key in state.restarts.due(now=state.records.now):
        gang, info = state.records.gang_of.get(key), state.records.registry.get(key)
        if gang is not None:
            state.touch(gang)
        elif info is not None:
            state.restarts.stop(key)
            state.restarts.try_start(key, gone_at=lambda _until: -math.inf, now=state.records.now)
            if not is_under_way(state, info):
                state.records.quotas.release(key)  # nothing of it has been created again


def forget(state: State, key: GroupKey) -> None:
    """Forget the restarts of a group that has neither members nor a specification."""
    info = state.records.registry.get(key)
    if info is None or (info.spec is None and not info.members):
        state.restarts.forget(key)


# What a restart waits for -----------------------------------------------------------------------


def is_under_way(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group is being restarted, or may be. O(1)."""
    return state.restarts.is_held(info.key) or state.restarts.is_short(info.key)


def returns(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group was restarted, and has not been tried since its backoff. O(1)."""
    life, failed_at = state.restarts.get(info.key), info.last_failure_at
    return life is not None and failed_at is not None and failed_at < life.until


def denial(state: State, info: PodGroupInfo) -> str:
    """Return why a group that is being restarted, or may be, must not queue; or ``""``. O(1)."""
    life = state.restarts.lives.get(info.key)
    if life is None:
        return ""
    if life.is_held:
        return f"pod group {info.key} is being restarted"
    if life.short_since is not None:
        return f"pod group {info.key} has lost members, and is restarted if they are not replaced"
    return ""


def awaited(state: State, gang: Gang, info: PodGroupInfo) -> str:
    """Return which old pod the restart of a group waits for; empty if it waits for none."""
    old = _leaving(gang, info) if state.restarts.is_held(info.key) else []
    if not old:
        return ""
    pod, more = old[0].pod, f" and {len(old) - 1} more" if len(old) > 1 else ""
    where = "" if pod.node_name is None else f" on node {pod.node_name}"
    how = "has not ended" if pod.deleted_at is None else "is terminating"
    return f": pod {pod.name}{where} {how}{more}"


def _try_start(state: State, gang: Gang, info: PodGroupInfo) -> None:
    """End the restart of a group once nothing stands in its way."""
    gone_at = partial(_gone_at, gang, info)
    state.restarts.try_start(info.key, gone_at=gone_at, now=state.records.now)


def _gone_at(gang: Gang, info: PodGroupInfo, until: float) -> float:
    """Return until when old pods are waited for, after a backoff that ends at *until*."""
    if info.scheduled:
        return math.inf
    if not info.members.count(MemberState.TERMINATING):
        return -math.inf
    policy = (None if info.spec is None else info.spec.restart) or RestartPolicy()
    deleted = [record.pod.deleted_at for record in _leaving(gang, info)]
    return policy.longest_backoff + max(until if at is None else at for at in deleted)


def _leaving(gang: Gang, info: PodGroupInfo) -> list[PodRecord]:
    """Return the pods that the restart of a group waits for. O(members).

    Members of a group that is being restarted have nodes only if they are old ones.
    """
    return [r for r in gang.members.values() if r.info is info and r.state in _LEAVING]


def _is_whole(info: PodGroupInfo) -> bool:
    """Return whether enough members are bound, or have succeeded. O(roles)."""
    return info.min_available is not None and info.stands(_BOUND, pending=()).is_met


def _is_short(info: PodGroupInfo, minimum: GroupMinimum) -> bool:
    """Return whether too few members for a minimum hold a node, or have succeeded. O(roles)."""
    return not info.stands(pending=(), tree=tree_of(minimum.members, minimum.roles)).is_met
