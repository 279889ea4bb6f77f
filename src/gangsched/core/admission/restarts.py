"""Restarts of gangs: judged when a gang is settled, a second after a loss (``running_groups``).

The order of a restart: the notices, then the members that are left are evicted, in one rejection of
the gang. From then on the group is held, so no new pod of it is placed beside an old one. The end
of the last old pod, or of the backoff, lets it queue again. A bundle is restarted as a unit, since
its groups cannot run without each other: by the policy of the group that fell, with one count.

A copy of a role, or a role of pods, that has a policy of its own (``Role.restart``) is restarted
alone in the same way, while its group has enough without it: only its members are evicted and kept
from nodes, and the others run on. So is a group below a group of groups.

Rules:
  R1  a group is judged after all that the call has read. While a listing is read, a group may have
      too few members for a moment;
  R2  a group that is held, or has just lost members, is not admitted to the queue;
  R3  if a group that is held has members on nodes, its restart goes on: the scheduler was replaced
      in the middle of it. That is not counted again;
  R4  the pod of a dead node terminates for ever, so it is waited for only as long as the longest
      backoff, from the instant of its deletion;
  R5  a group goes before its parts, and a copy before what it consists of: while it is being
      restarted, or may be, they are not judged, and they are forgotten once it is restarted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from gangsched.core.moves.rejection import evict_part, reject
from gangsched.core.records.gang import Gang, PodRecord
from gangsched.core.state import State
from gangsched.core.state.running_groups import Fall, GroupMinimum, is_within
from gangsched.events import CopyBound, GroupBelowMinimum, GroupRestarted, RestartLimitReached
from gangsched.model import GroupKey, RestartPolicy
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING, PodGroupInfo
from gangsched.primitives.standing import least_needed

__all__ = [
    "awaited",
    "denial",
    "due",
    "forget",
    "held_copies",
    "is_under_way",
    "judge",
    "returns",
]

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

    Runtime complexity: O(sub groups); O(members) for what is restarted.
    """
    for info in list(gang.infos.values()):
        # few groups have members that run, or are remembered: asked for every event
        is_whole = info.has_run and _is_whole(info, info.tree)
        if is_whole or info.key in state.restarts.lives:
            _judge_group(state, gang, info, is_whole=is_whole)
        if info.tree.restarted and (info.has_run or info.key in state.restarts.lives):
            _judge_parts(state, gang, info)


def _judge_group(state: State, gang: Gang, info: PodGroupInfo, *, is_whole: bool) -> None:
    restarts, key, spec = state.restarts, info.key, info.spec
    if not info.members:
        restarts.stop(key)
    else:
        policy = None if spec is None else spec.restart
        fall = _observe(state, info, info.tree, policy, is_whole=is_whole)
        if fall is not None:
            _fall(state, gang, info, fall)
    if not restarts.is_held(key):
        return
    if info.scheduled and state.settings.can_evict:
        reason = f"pod group {key} is restarted: it fell below its minimum"
        if gang.is_tree:
            restarts.stop(key)
            evict_part(state, _members(gang, info, ""), reason)
        else:
            reject(state, gang, reason, evicts=True)
    else:
        _try_start(state, gang, info, "")


def _judge_parts(state: State, gang: Gang, info: PodGroupInfo) -> None:
    """Judge what of a group is restarted alone, unless what it is part of is being restarted."""
    tree, restarts, under_way = info.tree, state.restarts, [""]
    for sub in tree.sub_groups():
        path, policy = sub.key, tree.restarted.get(sub.key)
        if policy is None or any(
            is_within(path, above) and _is_under_way(state, info, above) for above in under_way
        ):
            continue
        under_way.append(path)
        if not any(info.members.has_role(leaf.role) for leaf in sub.leaves):
            restarts.stop(info.key, path)
        else:
            life, is_whole = restarts.get(info.key, path), _is_whole(info, sub)
            was_restarted = life is not None and not life.runs_with and life.until > -math.inf
            if is_whole and was_restarted:
                state.call.out.append(CopyBound(info.key, path, _scheduled(info, sub, _BOUND)))
            fall = _observe(state, info, sub, policy, is_whole=is_whole)
            if fall is not None:
                _fall_of_part(state, gang, info, sub, fall)
        if not restarts.is_held(info.key, path):
            continue
        if _scheduled(info, sub) and state.settings.can_evict:
            reason = f"{path} of pod group {info.key} is restarted: it fell below its minimum"
            evict_part(state, _members(gang, info, path), reason)
        else:
            _try_start(state, gang, info, path)


def _observe(
    state: State,
    info: PodGroupInfo,
    sub: SubGroup,
    policy: RestartPolicy | None,
    *,
    is_whole: bool,
) -> Fall | None:
    spec, members = info.spec, info.min_available
    minimum = None if members is None else GroupMinimum(members)
    if spec is not None and spec.roles:
        minimum = GroupMinimum(spec.min_available, spec.roles)
    return state.restarts.observe(
        info.key,
        minimum,
        policy if state.settings.can_evict else None,
        is_whole=is_whole,
        is_short=partial(_is_short, info, sub.key),
        is_left=_scheduled(info, sub) > 0,
        now=state.records.now,
        path=sub.key,
    )


def _fall(state: State, gang: Gang, info: PodGroupInfo, fall: Fall) -> None:
    """Post what follows from the fall of a group, and hold the groups that are restarted."""
    minimum, found = info.min_available or 0, info.scheduled + info.succeeded
    if info.has_copies:  # there may be many that do not count, since their copies are not whole
        found = minimum - info.stands(pending=()).needed
    state.call.out.append(GroupBelowMinimum(info.key, found, minimum))
    if fall.until is not None and fall.limit is not None:
        for key in _restarted_with(gang, info):
            state.restarts.join(key, fall)
            state.call.out.append(GroupRestarted(key, fall.restarts, fall.limit, fall.until))
        state.touch(gang)
    elif fall.limit is not None:
        state.call.out.append(RestartLimitReached(info.key, fall.restarts))


def _fall_of_part(state: State, gang: Gang, info: PodGroupInfo, sub: SubGroup, fall: Fall) -> None:
    """Post what follows from the fall of a part of a group."""
    key, path = info.key, sub.key
    minimum = least_needed(sub, lambda each: each.least)
    found = minimum - info.stands(pending=(), tree=sub).needed
    state.call.out.append(GroupBelowMinimum(key, found, minimum, path))
    if fall.until is not None and fall.limit is not None:
        state.call.out.append(GroupRestarted(key, fall.restarts, fall.limit, fall.until, path))
        state.touch(gang)
    elif fall.limit is not None:
        state.call.out.append(RestartLimitReached(key, fall.restarts, path))


def _restarted_with(gang: Gang, info: PodGroupInfo) -> Iterator[GroupKey]:
    """Yield a group that is restarted, and the groups of its bundle that run."""
    yield info.key
    for other in () if gang.is_tree else gang.infos.values():
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
            for path in list(state.restarts.lives.get(key, ())):
                state.restarts.try_start(key, gone_at=_now, now=state.records.now, path=path)
            if not is_under_way(state, info):
                state.records.quotas.release(key)  # nothing of it has been created again


def _now(_until: float) -> float:
    return -math.inf


def forget(state: State, key: GroupKey) -> None:
    """Forget the restarts of a group that has neither members nor a specification."""
    info = state.records.registry.get(key)
    if info is None or (info.spec is None and not info.members):
        state.restarts.forget(key)


# What a restart waits for -----------------------------------------------------------------------


def is_under_way(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group is being restarted, or may be. O(1)."""
    return _is_under_way(state, info, "")


def returns(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group was restarted, and has not been tried since its backoff. O(1)."""
    life, failed_at = state.restarts.get(info.key), info.last_failure_at
    return life is not None and failed_at is not None and failed_at < life.until


def denial(state: State, info: PodGroupInfo) -> str:
    """Return why a group that is being restarted, or may be, must not queue; or ``""``. O(1)."""
    return _denial(state, info.key, "")


def _denial(state: State, key: GroupKey, path: str) -> str:
    life = state.restarts.get(key, path)
    if life is None:
        return ""
    name = f"{path} of pod group {key}" if path else f"pod group {key}"
    if life.is_held:
        return f"{name} is being restarted"
    if life.short_since is not None:
        return f"{name} has lost members, and is restarted if they are not replaced"
    return ""


def held_copies(state: State, info: PodGroupInfo) -> dict[str, str]:
    """Return what of a group must get no nodes since it is being restarted alone, or may be.

    Runtime complexity: O(what is remembered of the group).

    Returns:
        By the path of each copy or role, why its members get none.
    """
    if not info.tree.restarted:
        return {}
    paths = sorted(path for path in state.restarts.lives.get(info.key, ()) if path)
    denials = {path: _denial(state, info.key, path) for path in paths}
    return {path: denial for path, denial in denials.items() if denial}


def awaited(state: State, gang: Gang, info: PodGroupInfo) -> str:
    """Return which old pod the restart of a group waits for; empty if it waits for none."""
    paths = ["", *held_copies(state, info)]
    held = [path for path in paths if state.restarts.is_held(info.key, path)]
    old = [record for path in held for record in _leaving(gang, info, path)]
    if not old:
        return ""
    pod, more = old[0].pod, f" and {len(old) - 1} more" if len(old) > 1 else ""
    where = "" if pod.node_name is None else f" on node {pod.node_name}"
    how = "has not ended" if pod.deleted_at is None else "is terminating"
    return f": pod {pod.name}{where} {how}{more}"


def _try_start(state: State, gang: Gang, info: PodGroupInfo, path: str) -> None:
    """End the restart of a group, or of a part of it, once nothing stands in its way."""
    gone_at = partial(_gone_at, gang, info, path)
    state.restarts.try_start(info.key, gone_at=gone_at, now=state.records.now, path=path)


def _gone_at(gang: Gang, info: PodGroupInfo, path: str, until: float) -> float:
    """Return until when old pods are waited for, after a backoff that ends at *until*."""
    if not path and not info.scheduled and not info.members.count(MemberState.TERMINATING):
        return -math.inf
    left = _leaving(gang, info, path)
    if any(record.state is not MemberState.TERMINATING for record in left):
        return math.inf
    policy = info.tree.restarted.get(path) or (None if info.spec is None else info.spec.restart)
    deleted = [record.pod.deleted_at for record in left]
    ended_at = max((until if at is None else at for at in deleted), default=-math.inf)
    return (policy or RestartPolicy()).longest_backoff + ended_at


def _leaving(gang: Gang, info: PodGroupInfo, path: str) -> list[PodRecord]:
    """Return the pods that a restart waits for. O(members).

    Members of what is being restarted have nodes only if they are old ones.
    """
    return [record for record in _members(gang, info, path) if record.state in _LEAVING]


def _members(gang: Gang, info: PodGroupInfo, path: str) -> list[PodRecord]:
    members = gang.members.values()
    return [r for r in members if r.info is info and is_within(r.role, path)]


def _is_under_way(state: State, info: PodGroupInfo, path: str) -> bool:
    return state.restarts.is_held(info.key, path) or state.restarts.is_short(info.key, path)


def _scheduled(info: PodGroupInfo, sub: SubGroup, held: Collection[MemberState] = HOLDING) -> int:
    """Return how many members of a group, or of a part of it, hold nodes. O(leaves)."""
    if not sub.key:
        return info.scheduled
    return sum(info.members.in_states(held, leaf.role) for leaf in sub.leaves)


def _is_whole(info: PodGroupInfo, sub: SubGroup) -> bool:
    """Return whether enough members are bound, or have succeeded. O(sub groups)."""
    tree = sub if sub.key else None
    return info.min_available is not None and info.stands(_BOUND, pending=(), tree=tree).is_met


def _is_short(info: PodGroupInfo, path: str, minimum: GroupMinimum) -> bool:
    """Return whether too few members for a minimum hold a node, or have succeeded."""
    tree = minimum.part(path)
    return tree is not None and not info.stands(pending=(), tree=tree).is_met
