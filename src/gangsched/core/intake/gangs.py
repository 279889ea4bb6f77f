"""Which gang a pod group belongs to, and the tree of that gang: its own, or that of its bundle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.core import attempt
from gangsched.core.gang import Gang
from gangsched.core.gang_tree import REGULAR, SubGroup, group_tree
from gangsched.core.state import State
from gangsched.model import GroupKey, Pod

__all__ = ["add_group", "gang_of_group", "grow_tree", "regroup"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def gang_of_group(state: State, info: PodGroupInfo, pod: Pod) -> Gang:
    """Return the gang of a group; a new one for the first member."""
    records = state.records
    gang = records.gang_of.get(info.key)
    if gang is None:
        key = _gang_key(state, info)
        gang = records.gangs.get(key)
        if gang is None:
            gang = Gang(key, records.number(), pod.created_at)
            gang.failures, gang.backoff_until = info.failures, info.backoff_until
            gang.reason = info.failure
            records.gangs[key] = gang
        add_group(state, gang, info)
    elif gang.infos[info.key] is not info:  # the group was forgotten in this call, and is back
        gang.infos[info.key] = info
    return gang


def add_group(state: State, gang: Gang, info: PodGroupInfo) -> None:
    """Count a group among those of a gang, if it belongs to it."""
    if _gang_key(state, info) == gang.key:
        gang.infos[info.key] = info
        state.records.gang_of[info.key] = gang
        gang.set_tree(_tree(state, gang))


def _gang_key(state: State, info: PodGroupInfo) -> str:
    """Return the key of the gang that a group belongs to: its own, or that of its bundle.

    Groups that state the same bundle are one gang. One that only names another does not join it.
    """
    spec = info.spec
    if spec is None or not spec.bundle:
        return info.key
    return "bundle:" + " ".join(sorted({info.key, *spec.bundle}))


def _tree(state: State, gang: Gang) -> SubGroup | None:
    """Return the tree of a gang; None while the groups of a bundle disagree."""
    if not gang.infos:
        return REGULAR
    if not gang.is_bundle:
        (info,) = gang.infos.values()
        return group_tree(info.key, info.spec, info.claimed_min)
    trees: list[SubGroup] = []
    names: set[GroupKey] = set()
    for info in gang.infos.values():
        if info.spec is None:
            return None
        names |= {info.key, *info.spec.bundle}
    for key in sorted(names):
        spec = state.records.registry.spec(key)
        if spec is None or {key, *spec.bundle} != names:
            return None
        trees.append(group_tree(key, spec, None))
    return SubGroup(gang.key, children=tuple(trees))


def grow_tree(state: State, gang: Gang, info: PodGroupInfo) -> None:
    """Give a gang the tree that its groups state by now."""
    tree = _tree(state, gang)
    if tree != gang.tree:
        gang.set_tree(tree)


def regroup(state: State, keys: Iterable[GroupKey]) -> None:
    """Put the members of some groups in the gangs that they belong to by now."""
    records = state.records
    for key in sorted(keys):
        gang = records.gang_of.get(key)
        if gang is not None:
            info = gang.infos[key]  # the registry may have forgotten it
            if _gang_key(state, info) != gang.key:
                _move_group(state, info, gang)
    for key in keys:
        gang = records.gang_of.get(key)
        if gang is not None:
            gang.set_tree(_tree(state, gang))
            state.touch(gang)


def _move_group(state: State, info: PodGroupInfo, gang: Gang) -> None:
    """Move a group with its members from one gang to another."""
    records = state.records
    members = [record for record in gang.members.values() if record.info is info]
    if any(record.state is _WAITING for record in members):
        attempt.reject(state, gang, "starts with others of its bundle")
    del records.gang_of[info.key]
    del gang.infos[info.key]
    state.touch(gang)
    if not members:
        return
    other = gang_of_group(state, info, members[0].pod)
    for record in members:
        gang.forget_tried(record)
        del gang.members[record.uid]
        gang.pending.pop(record.uid, None)
        gang.waiting.pop(record.uid, None)
        records.join(record, other)
        other.members[record.uid] = record
        if record.state is _UNSCHEDULED:
            other.pending[record.uid] = record
    gang.set_tree(_tree(state, gang))
    other.set_tree(_tree(state, other))
    state.touch(other)
