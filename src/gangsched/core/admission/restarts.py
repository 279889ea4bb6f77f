"""Restarts of gangs: judged when a gang is settled, a second after a loss (``running_groups``).

The order of a restart: the notices, then the members that are left are evicted, in one rejection of
the gang. From then on the group is held, so no new pod of it is placed beside an old one. The end
of the last old pod, or of the backoff, lets it queue again. A bundle is restarted as a unit, since
its groups cannot run without each other: by the policy of the group that fell, with one count.

A copy of a role, or a role of pods, that has a policy of its own (``Role.restart``) is restarted
alone in the same way, while its group has enough without it: only its members are evicted and kept
from nodes, and the others run on. So is a group below a group of groups. A group of groups falls
when fewer children than it wants meet their minima; then all members below it are evicted.

With ``RestartPolicy.repair`` a fall begins no restart: lost members are replaced while the others
stay. If that fails, ``attempt/repair`` says which parts are restarted. What has a required domain
is such a part, too.

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
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Final, final

from attrs import evolve, frozen

from gangsched.core.admission.lacking import short_of
from gangsched.core.moves.rejection import evict_part, reject
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.core.state.running_groups import Fall, GroupMinimum, is_within
from gangsched.events import (
    CopyBound,
    GroupBelowMinimum,
    GroupBound,
    GroupRestarted,
    RestartLimitReached,
)
from gangsched.model import GroupKey, PodGroup, RestartPolicy
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING, PodGroupInfo
from gangsched.primitives.standing import least_needed

__all__ = [
    "Part",
    "awaited",
    "denial",
    "due",
    "forget",
    "has_fallen",
    "held_copies",
    "is_under_way",
    "judge",
    "repaired",
    "restart",
    "returns",
]

_FALLEN: Final = "it fell below its minimum"
_BOUND: Final = (MemberState.ASSIGNED,)
_LEAVING: Final = frozenset(
    {
        MemberState.WAITING,
        MemberState.BINDING,
        MemberState.ASSIGNED,
        MemberState.TERMINATING,
    }
)


@final
@frozen
class Part:
    """What is restarted as one: a group of groups, a group, or a copy or a role of one.

    Attributes:
        gang: The gang of it.
        key: The group, or the group of groups.
        spec: Its specification; None if there is none.
        infos: The groups that its pods are of.
        tree: Its minima; of a group of groups, what lies below it in the tree of the gang.
        path: The key of the tree within its group; ``""`` if it is all of a group.
    """

    gang: GangRecord
    key: GroupKey
    spec: PodGroup | None
    infos: list[PodGroupInfo]
    tree: SubGroup
    path: str = ""

    @property
    def has_members(self) -> bool:
        """Whether there is a pod of it, in any state."""
        if not self.path:
            return any(info.members for info in self.infos)
        (info,) = self.infos
        return any(info.members.has_role(leaf.role) for leaf in self.tree.leaves)

    @property
    def policy(self) -> RestartPolicy | None:
        """Whether it is restarted, and how."""
        if self.path:
            return self.tree.restart
        return None if self.spec is None else self.spec.restart

    @property
    def is_repaired(self) -> bool:
        """Whether its lost members are replaced before it is restarted."""
        return self.policy is not None and self.policy.repair

    @property
    def minimum(self) -> GroupMinimum | None:
        """What its group states by now; None if nothing is stated."""
        spec = self.spec
        if spec is not None:
            return GroupMinimum(spec.min_groups or spec.min_available, spec.roles)
        claimed = None if self.tree.group is None else self.infos[0].min_available
        return None if claimed is None else GroupMinimum(claimed)

    def count(self, states: Collection[MemberState] = HOLDING) -> int:
        """Return how many of its members are in some states. O(leaves)."""
        if not self.path:
            return sum(info.members.in_states(states) for info in self.infos)
        (info,) = self.infos
        return sum(info.members.in_states(states, leaf.role) for leaf in self.tree.leaves)

    def lacks(self, held: Collection[MemberState] = HOLDING, tree: SubGroup | None = None) -> int:
        """Return how many members it lacks for its minima, or for those of *tree*. O(sub groups).

        Members that have succeeded count as in ``standing``; 0 or less if the minima are met.
        """
        tree = tree or self.tree
        if self.tree.group is not None:
            (info,) = self.infos
            return info.stands(held, pending=(), tree=tree).needed
        return least_needed(tree, short_of(self.gang, self.infos, held))

    def is_short(self, minimum: GroupMinimum) -> bool:
        """Return whether too few members for a minimum hold a node, or have succeeded."""
        if self.tree.group is None:
            return self.lacks(tree=evolve(self.tree, wanted=minimum.members)) > 0
        tree = minimum.part(self.path)
        return tree is not None and self.lacks(tree=tree) > 0


def _parts(state: State, gang: GangRecord) -> Iterator[Part]:
    """Yield what is restarted as one, in the order of R5; each once those above are judged."""
    registry, lives = state.records.registry, state.restarts.lives
    for sub in gang.tree.sub_groups() if gang.is_tree else ():
        if sub.group is None:
            key = GroupKey(sub.key)
            yield Part(gang, key, registry.spec(key), _below(gang, key), sub)
    for info in list(gang.infos.values()):
        # few groups have members that run, or are remembered: asked for every event
        if not (info.has_run or info.key in lives):
            continue
        yield Part(gang, info.key, info.spec, [info], info.tree)
        for sub in info.tree.sub_groups() if info.tree.restarted else ():
            if sub.restart is not None:
                yield Part(gang, info.key, info.spec, [info], sub, sub.key)


def judge(state: State, gang: GangRecord) -> None:
    """Judge the groups of a gang by the members that they have now.

    Runtime complexity: O(sub groups); O(members) for what is restarted.
    """
    registry = state.records.registry
    for part in _parts(state, gang):
        above = registry.above(part.key) if part.tree.group is None else part.infos[0].above
        if not _is_under_way_above(state, part.key, above, part.path):
            _judge_part(state, part)


def _judge_part(state: State, part: Part) -> None:
    restarts, key, path, can_evict = state.restarts, part.key, part.path, state.settings.can_evict
    is_part = part.is_repaired and bool(path)
    if is_part and restarts.get(key, path) is None:
        return  # its group falls, and it is remembered only once it was restarted
    if not part.has_members:
        restarts.stop(key, path or None)
    else:
        minimum = part.minimum
        is_whole = minimum is not None and part.lacks(_BOUND) <= 0
        if is_whole:
            _post_bound(state, part)
        fall = restarts.observe(
            key,
            minimum,
            part.policy if can_evict else None,
            is_whole=is_whole,
            is_short=(lambda _minimum: False) if is_part else part.is_short,
            is_left=part.count() > 0,
            now=state.records.now,
            path=path,
        )
        if fall is not None:
            _post(state, part, fall)
    if not restarts.is_held(key, path):
        return
    if not (part.count() and can_evict):
        # its restart ends once nothing stands in its way
        gone_at = partial(_gone_at, part)
        restarts.try_start(key, gone_at=gone_at, now=state.records.now, path=path)
        return
    _evict(state, part)


def _evict(state: State, part: Part) -> None:
    """Evict the members of what is being restarted."""
    why = "lost members fit nowhere beside the others" if part.is_repaired else _FALLEN
    reason = f"{_name(part.key, part.path)} is restarted: {why}"
    for info in part.infos:
        state.restarts.stop(info.key, part.path or None)
    if part.path or part.gang.is_tree:
        evict_part(state, _members(part.gang, part.key, part.path), reason)
    else:
        reject(state, part.gang, reason, evicts=True)


def _post_bound(state: State, part: Part) -> None:
    """Post that a group of groups is bound as a whole, or a copy again after its restart."""
    life = state.restarts.get(part.key, part.path)
    if life is not None and life.runs_with is not None:
        return
    bound = part.count(_BOUND)
    if part.path:
        if life is not None and life.until > -math.inf:
            state.call.out.append(CopyBound(part.key, part.path, bound))
    elif part.tree.group is None:
        attempt = max(info.started_by for info in part.infos)
        if attempt:
            state.call.out.append(GroupBound(part.key, attempt, bound))


def _post(state: State, part: Part, fall: Fall) -> None:
    """Post what follows from a fall, and hold the groups that are restarted with this one."""
    out, key, path = state.call.out, part.key, part.path
    minimum = least_needed(part.tree, lambda each: each.least)
    found = minimum - part.lacks()
    if part.tree.key == "" and not part.infos[0].has_copies:  # else many may be of no whole copy
        found = sum(info.scheduled + info.succeeded for info in part.infos)
    out.append(GroupBelowMinimum(key, found, minimum, path))
    if fall.until is not None:
        _hold(state, part, fall)
    elif fall.limit is not None:
        out.append(RestartLimitReached(key, fall.restarts, path))


def _hold(state: State, part: Part, fall: Fall) -> None:
    """Post that a restart begins, and hold the groups that are restarted with this one."""
    key, path, gang = part.key, part.path, part.gang
    if fall.until is not None and fall.limit is not None:
        # the groups of a bundle that run are restarted with a group of it
        joined = [] if path or gang.is_tree else [*gang.infos.values()]
        others = [info.key for info in joined if info.key != key and info.was_scheduled]
        for other in others:
            state.restarts.join(other, fall)
        for each in (key, *others):
            notice = GroupRestarted(each, fall.restarts, fall.limit, fall.until, path)
            state.call.out.append(notice)
        state.touch(gang)


# What is repaired -------------------------------------------------------------------------------


def _may_restart(state: State, part: Part) -> bool:
    """Return whether a part is repaired, and may be restarted once more for that. O(1)."""
    life, policy = state.restarts.get(part.key, part.path), part.policy
    if policy is None or not policy.repair:
        return False
    if part.gang.is_bundle and not part.gang.is_tree and not part.path:
        # its groups are restarted as a unit, by the policy of the one that fell
        return life is not None and life.has_fallen and life.restarts < policy.max_restarts
    return life is None or (life.restarts < policy.max_restarts and not life.is_held)


def repaired(state: State, gang: GangRecord) -> list[tuple[Part, list[PodRecord]]]:
    """Return the parts that may be restarted so that lost members find nodes, the inner ones first.

    Runtime complexity: O(members x parts).

    Returns:
        Each part, with the members that its restart is about.
    """
    found = [each for each in _parts(state, gang) if _may_restart(state, each) and each.count()]
    is_unit = gang.is_bundle and not gang.is_tree
    units = [each for each in found if is_unit and not each.path]
    return [
        (part, [*gang.members.values()] if part in units else _members(gang, part.key, part.path))
        for part in reversed(found)
        if part not in units[1:]
    ]


def has_fallen(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group, or one above it, has lost members that are replaced. O(levels)."""
    lives = [state.restarts.get(key) for key in (info.key, *(spec.key for spec in info.above))]
    return any(life is not None and life.has_fallen for life in lives)


def restart(state: State, part: Part) -> None:
    """Restart a part: its members are evicted at once, since it may be whole."""
    assert part.policy is not None
    now = state.records.now
    fall = state.restarts.restart(part.key, part.policy, now=now, path=part.path)
    if fall.until is not None:
        _hold(state, part, fall)
        _evict(state, part)


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
                records.quotas.forget(key)


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
    return _is_under_way(state, info.key, "") or _is_under_way_above(state, info.key, info.above)


def _is_under_way_above(
    state: State, key: GroupKey, above: Iterable[PodGroup], path: str = ""
) -> bool:
    """Return whether what a group, or a part of it, belongs to is restarted, or may be."""
    paths = [each for each in state.restarts.lives.get(key, ()) if each != path] if path else []
    parts = [(spec.key, "") for spec in above]
    parts += [(key, each) for each in paths if is_within(path, each)]
    return any(_is_under_way(state, *part) for part in parts)


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
    if life.is_held:
        return f"{_name(key, path)} is being restarted"
    if life.is_short:
        return f"{_name(key, path)} has lost members, and is restarted if they are not replaced"
    return ""


def _name(key: GroupKey, path: str) -> str:
    return f"{path} of pod group {key}" if path else f"pod group {key}"


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


def awaited(state: State, gang: GangRecord, info: PodGroupInfo) -> str:
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


def _gone_at(part: Part, until: float) -> float:
    """Return until when old pods are waited for, after a backoff that ends at *until*."""
    left = _leaving(part.gang, part.key, part.path)
    if any(record.state is not MemberState.TERMINATING for record in left):
        return math.inf
    deleted = [record.pod.deleted_at for record in left]
    ended_at = max((until if at is None else at for at in deleted), default=-math.inf)
    return (part.policy or RestartPolicy()).longest_backoff + ended_at


def _leaving(gang: GangRecord, key: GroupKey, path: str) -> list[PodRecord]:
    """Return the pods that a restart waits for. O(members).

    Members of what is being restarted have nodes only if they are old ones.
    """
    return [record for record in _members(gang, key, path) if record.state in _LEAVING]


# What is restarted ------------------------------------------------------------------------------


def _members(gang: GangRecord, key: GroupKey, path: str) -> list[PodRecord]:
    """Return the pods of a group, of a part of it, or below a group of groups. O(members)."""
    groups = {info.key for info in _below(gang, key)}
    members = gang.members.values()
    return [r for r in members if r.info and r.info.key in groups and is_within(r.role, path)]


def _below(gang: GangRecord, key: GroupKey) -> list[PodGroupInfo]:
    """Return the groups of pods below a group of groups, or that group. O(groups x levels)."""
    infos = gang.infos.values()
    return [info for info in infos if key == info.key or any(s.key == key for s in info.above)]
