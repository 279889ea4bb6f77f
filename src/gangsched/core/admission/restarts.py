"""Restarts of gangs: judged when a gang is settled, a second after a loss (``running_groups``).

The order of a restart: the notices, then the members that are left are evicted, in one rejection of
the gang. From then on the group is held, so no new pod of it is placed beside an old one. The end
of the last old pod, or of the backoff, lets it queue again. A bundle is restarted as a unit, since
its groups cannot run without each other: by the policy of the group that fell, with one count.

A copy of a role, or a role of pods, that has a policy of its own (``Role.restart``) is restarted
alone in the same way, while its group has enough without it: only its members are evicted and kept
from nodes, and the others run on. So is a group below a group of groups. A group of groups falls
when fewer children than it wants meet their minima; then all members below it are evicted.

Rules:
  R1  a group is judged after all that the call has read. While a listing is read, a group may have
      too few members for a moment;
  R2  a group that is held, or has just lost members, is not admitted to the queue;
  R3  if a group that is held has members on nodes, its restart goes on: the scheduler was replaced
      in the middle of it. That is not counted again;
  R4  the pod of a dead node terminates for ever, so it is waited for only as long as the longest
      backoff, from the instant of its deletion;
  R5  a group of groups goes before its children, a group before its parts, and a copy before what
      it consists of: while it is being restarted, or may be, they are not judged. Parts are
      forgotten once their group is restarted; a child keeps its count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from gangsched.core.moves.rejection import evict_part, reject
from gangsched.core.records.gang import Gang, PodRecord
from gangsched.core.state import State
from gangsched.core.state.running_groups import Fall, GroupMinimum, is_within
from gangsched.events import (
    CopyBound,
    GroupBelowMinimum,
    GroupBound,
    GroupRestarted,
    RestartLimitReached,
)
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

_RESTARTED: Final = " is restarted: it fell below its minimum"
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
    if gang.is_tree:
        for sub in gang.tree.sub_groups():
            if sub.group is None:
                _judge_parent(state, gang, sub)
    for info in list(gang.infos.values()):
        if info.above and _is_under_way_above(state, info):
            continue
        # few groups have members that run, or are remembered: asked for every event
        is_whole = info.has_run and _is_whole(info, info.tree)
        if is_whole or info.key in state.restarts.lives:
            _judge_group(state, gang, info, is_whole=is_whole)
        if info.tree.restarted and (info.has_run or info.key in state.restarts.lives):
            _judge_parts(state, gang, info)


def _judge_parent(state: State, gang: Gang, sub: SubGroup) -> None:
    """Judge a group of groups, unless one above it is being restarted."""
    restarts, key = state.restarts, GroupKey(sub.key)
    info, below = state.records.registry.get(key), _below(gang, key)
    if not any(each.members for each in below):
        restarts.stop(key)
    elif info is not None and info.spec is not None and not _is_under_way_above(state, info):
        standing = partial(_standing_children, gang, sub)
        is_whole, life = standing(_BOUND) >= sub.wanted, restarts.get(key)
        attempt = max(each.started_by for each in below)
        if is_whole and attempt and (life is None or life.runs_with is None):
            bound = sum(each.assigned for each in below)
            state.call.out.append(GroupBound(key, attempt, bound))
        fall = restarts.observe(
            key,
            GroupMinimum(sub.wanted),
            info.spec.restart if state.settings.can_evict else None,
            is_whole=is_whole,
            is_short=lambda minimum: standing(HOLDING) < minimum.members,
            is_left=any(each.scheduled for each in below),
            now=state.records.now,
        )
        if fall is not None:
            minimum = least_needed(sub, lambda each: each.least)
            found = minimum - _lacks(gang, sub, HOLDING)
            _post(state, gang, key, fall, GroupBelowMinimum(key, found, minimum))
    if restarts.is_held(key):
        if any(each.scheduled for each in below) and state.settings.can_evict:
            for each in below:
                restarts.stop(each.key)
            evict_part(state, _members(gang, key, ""), f"pod group {key}{_RESTARTED}")
        else:
            _try_start(state, gang, key, "")


def _judge_group(state: State, gang: Gang, info: PodGroupInfo, *, is_whole: bool) -> None:
    restarts, key, spec = state.restarts, info.key, info.spec
    if not info.members:
        restarts.stop(key)
    else:
        policy = None if spec is None else spec.restart
        fall = _observe(state, info, info.tree, policy, is_whole=is_whole)
        if fall is not None:
            minimum, found = info.min_available or 0, info.scheduled + info.succeeded
            if info.has_copies:  # many may not count, since their copies are not whole
                found = minimum - info.stands(pending=()).needed
            below = GroupBelowMinimum(key, found, minimum)
            _post(state, gang, key, fall, below, joined=_restarted_with(gang, info))
    if not restarts.is_held(key):
        return
    if info.scheduled and state.settings.can_evict:
        reason = f"pod group {key}{_RESTARTED}"
        if gang.is_tree:
            restarts.stop(key)
            evict_part(state, _members(gang, key, ""), reason)
        else:
            reject(state, gang, reason, evicts=True)
    else:
        _try_start(state, gang, key, "")


def _judge_parts(state: State, gang: Gang, info: PodGroupInfo) -> None:
    """Judge what of a group is restarted alone, unless what it is part of is being restarted."""
    tree, restarts, key, under_way = info.tree, state.restarts, info.key, [""]
    for sub in tree.sub_groups():
        path, policy = sub.key, tree.restarted.get(sub.key)
        if policy is None or any(
            is_within(path, above) and _is_under_way(state, key, above) for above in under_way
        ):
            continue
        under_way.append(path)
        if not any(info.members.has_role(leaf.role) for leaf in sub.leaves):
            restarts.stop(key, path)
        else:
            life, is_whole = restarts.get(key, path), _is_whole(info, sub)
            was_restarted = life is not None and not life.runs_with and life.until > -math.inf
            if is_whole and was_restarted:
                state.call.out.append(CopyBound(key, path, _scheduled(info, sub, _BOUND)))
            fall = _observe(state, info, sub, policy, is_whole=is_whole)
            if fall is not None:
                minimum = least_needed(sub, lambda each: each.least)
                found = minimum - info.stands(pending=(), tree=sub).needed
                _post(state, gang, key, fall, GroupBelowMinimum(key, found, minimum, path))
        if not restarts.is_held(key, path):
            continue
        if _scheduled(info, sub) and state.settings.can_evict:
            reason = f"{path} of pod group {key}{_RESTARTED}"
            evict_part(state, _members(gang, key, path), reason)
        else:
            _try_start(state, gang, key, path)


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


def _post(
    state: State,
    gang: Gang,
    key: GroupKey,
    fall: Fall,
    notice: GroupBelowMinimum,
    *,
    joined: Sequence[GroupKey] = (),
) -> None:
    """Post what follows from a fall, and hold the groups that are restarted with this one."""
    out, path = state.call.out, notice.path
    out.append(notice)
    if fall.until is not None and fall.limit is not None:
        for other in joined:
            state.restarts.join(other, fall)
        for each in (key, *joined):
            out.append(GroupRestarted(each, fall.restarts, fall.limit, fall.until, path))
        state.touch(gang)
    elif fall.limit is not None:
        out.append(RestartLimitReached(key, fall.restarts, path))


def _restarted_with(gang: Gang, info: PodGroupInfo) -> list[GroupKey]:
    """Return the other groups of a bundle that run: they are restarted with a group of it."""
    others = () if gang.is_tree else gang.infos.values()
    return [other.key for other in others if other is not info and other.was_scheduled]


def due(state: State) -> None:
    """Note the gangs that are to be looked at by now."""
    records, restarts = state.records, state.restarts
    for key in restarts.due(now=records.now):
        gang, info = records.gang_of.get(key), records.registry.get(key)
        if info is not None and info.spec is not None and info.spec.min_groups is not None:
            gang = records.gangs.get(f"tree:{records.registry.root(key)}")
        if gang is not None:
            state.touch(gang)
        elif info is not None:
            restarts.stop(key)
            for path in list(restarts.lives.get(key, ())):
                restarts.try_start(key, gone_at=_now, now=records.now, path=path)
            if not is_under_way(state, info):
                records.quotas.release(key)  # nothing of it has been created again


def _now(_until: float) -> float:
    return -math.inf


def forget(state: State, key: GroupKey) -> None:
    """Forget the restarts of a group that has neither members nor a specification."""
    info = state.records.registry.get(key)
    if info is None or (info.spec is None and not info.members):
        state.restarts.forget(key)


# What a restart waits for -----------------------------------------------------------------------


def is_under_way(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group, or one above it, is being restarted, or may be. O(levels)."""
    return _is_under_way(state, info.key, "") or _is_under_way_above(state, info)


def _is_under_way_above(state: State, info: PodGroupInfo) -> bool:
    return any(_is_under_way(state, spec.key, "") for spec in info.above)


def _is_under_way(state: State, key: GroupKey, path: str) -> bool:
    return state.restarts.is_held(key, path) or state.restarts.is_short(key, path)


def returns(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group was restarted, and has not been tried since its backoff. O(1)."""
    life, failed_at = state.restarts.get(info.key), info.last_failure_at
    return life is not None and failed_at is not None and failed_at < life.until


def denial(state: State, info: PodGroupInfo) -> str:
    """Return why a group must not queue since it, or one above, is being restarted, or may be.

    Runtime complexity: O(levels).

    Returns:
        Why; or ``""``.
    """
    for spec in info.above:
        found = _denial(state, spec.key, "")
        if found:
            return found
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
    parts = [(spec.key, "") for spec in info.above]
    parts += [(info.key, path) for path in ("", *held_copies(state, info))]
    held = [part for part in parts if state.restarts.is_held(*part)]
    old = [record for part in held for record in _leaving(gang, *part)]
    if not old:
        return ""
    pod, more = old[0].pod, f" and {len(old) - 1} more" if len(old) > 1 else ""
    where = "" if pod.node_name is None else f" on node {pod.node_name}"
    how = "has not ended" if pod.deleted_at is None else "is terminating"
    return f": pod {pod.name}{where} {how}{more}"


def _try_start(state: State, gang: Gang, key: GroupKey, path: str) -> None:
    """End the restart of a group, or of a part of it, once nothing stands in its way."""
    gone_at = partial(_gone_at, state, gang, key, path)
    state.restarts.try_start(key, gone_at=gone_at, now=state.records.now, path=path)


def _gone_at(state: State, gang: Gang, key: GroupKey, path: str, until: float) -> float:
    """Return until when old pods are waited for, after a backoff that ends at *until*."""
    left = _leaving(gang, key, path)
    if any(record.state is not MemberState.TERMINATING for record in left):
        return math.inf
    info = state.records.registry.get(key)
    policy = None if info is None else info.tree.restarted.get(path)
    if policy is None and info is not None and info.spec is not None:
        policy = info.spec.restart
    deleted = [record.pod.deleted_at for record in left]
    ended_at = max((until if at is None else at for at in deleted), default=-math.inf)
    return (policy or RestartPolicy()).longest_backoff + ended_at


def _leaving(gang: Gang, key: GroupKey, path: str) -> list[PodRecord]:
    """Return the pods that a restart waits for. O(members).

    Members of what is being restarted have nodes only if they are old ones.
    """
    return [record for record in _members(gang, key, path) if record.state in _LEAVING]


# What is restarted ------------------------------------------------------------------------------


def _members(gang: Gang, key: GroupKey, path: str) -> list[PodRecord]:
    """Return the pods of a group, of a part of it, or below a group of groups. O(members)."""
    groups = {info.key for info in _below(gang, key)} or {key}
    members = gang.members.values()
    return [r for r in members if r.info and r.info.key in groups and is_within(r.role, path)]


def _below(gang: Gang, key: GroupKey) -> list[PodGroupInfo]:
    """Return the groups of pods below a group of groups. O(groups x levels)."""
    infos = gang.infos.values() if gang.is_tree else ()
    return [info for info in infos if any(spec.key == key for spec in info.above)]


def _standing_children(gang: Gang, sub: SubGroup, held: Collection[MemberState]) -> int:
    """Return how many children of a group of groups meet their minima. O(sub groups)."""
    return sum(_lacks(gang, child, held) <= 0 for child in sub.children)


def _lacks(gang: Gang, sub: SubGroup, held: Collection[MemberState]) -> int:
    """Return how many members a group lacks, or one of groups. O(sub groups)."""
    if sub.group is None:
        below = sorted(max(_lacks(gang, child, held), 0) for child in sub.children)
        return sum(below[: sub.wanted])
    info = gang.infos.get(sub.group)
    if info is None or info.min_available is None:
        return max(least_needed(sub, lambda each: each.least), 1)
    return info.stands(held, pending=()).needed


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
