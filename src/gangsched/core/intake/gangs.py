"""Which gang a pod group belongs to, and its tree: its own, that of its bundle, or its parents'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.core.moves.rejection import reject
from gangsched.core.records.gang import GangRecord
from gangsched.core.state import State
from gangsched.model import GroupKey, Pod
from gangsched.primitives.counters import MemberState
from gangsched.primitives.families import bundle_problem, family_problem, family_tree
from gangsched.primitives.gang_tree import REGULAR, SubGroup, group_tree, under
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["add_group", "gang_of_group", "grow_tree", "regroup"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING


def gang_of_group(state: State, info: PodGroupInfo, pod: Pod) -> GangRecord:
    """Return the gang of a group; a new one for the first member."""
    records = state.records
    gang = records.gang_of.get(info.key)
    if gang is None:
        key = _gang_key(state, info)
        gang = records.gangs.get(key)
        if gang is None:
            gang = GangRecord(key, records.number(), pod.created_at)
            gang.failures, gang.backoff_until = info.failures, info.backoff_until
            gang.reason = info.failure
            records.gangs[key] = gang
        add_group(state, gang, info)
    elif gang.infos[info.key] is not info:  # the group was forgotten in this call, and is back
        gang.infos[info.key] = info
    return gang


def add_group(state: State, gang: GangRecord, info: PodGroupInfo) -> None:
    """Count a group among those of a gang, if it belongs to it."""
    if _gang_key(state, info) == gang.key:
        gang.infos[info.key] = info
        state.records.gang_of[info.key] = gang
        grow_tree(state, gang)


def _gang_key(state: State, info: PodGroupInfo) -> str:
    """Return the key of the gang that a group belongs to: its own, or that of its bundle.

    Groups that state the same bundle are one gang. One that only names another does not join it.
    """
    spec = info.spec
    if spec is not None and spec.parent is not None:
        return f"tree:{state.records.registry.root(info.key)}"
    if spec is None or not spec.bundle:
        return info.key
    return "bundle:" + " ".join(sorted({info.key, *spec.bundle}))


def grow_tree(state: State, gang: GangRecord) -> None:
    """Give a gang the tree that its groups state by now.

    If the groups of a bundle disagree, each of those that have members keeps its own tree: members
    that go alone stay within the domain of their group.
    """
    infos, registry = gang.infos, state.records.registry
    tree, problem = REGULAR, ""
    if infos and gang.is_tree:
        root = GroupKey(gang.key.removeprefix("tree:"))
        levels = state.settings.levels
        problem = family_problem(registry, root, levels.problem, levels.problem_below)
        tree = family_tree(registry, root)
        for info in infos.values():
            info.above = registry.above(info.key)
            info.derive()
    elif infos and not gang.is_bundle:
        (info,) = infos.values()
        tree = info.tree
    elif infos:
        specs = [info.spec for info in infos.values() if info.spec is not None]
        named = {*infos, *(name for spec in specs for name in spec.bundle)}
        problem = bundle_problem(registry, named)
        keys = sorted(infos if problem else named)
        trees = tuple([under(group_tree(key, registry.spec(key), None), key) for key in keys])
        tree = SubGroup(gang.key, children=trees)
    if tree != gang.tree or problem != gang.problem:
        gang.set_tree(tree, problem)
        state.records.tenancy.renew(gang, state.records.on_nodes(), state.records.holds)


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
            grow_tree(state, gang)
            state.touch(gang)


def _move_group(state: State, info: PodGroupInfo, gang: GangRecord) -> None:
    """Move a group with its members from one gang to another."""
    records = state.records
    members = [record for record in gang.members.values() if record.info is info]
    if any(record.state is _WAITING for record in members):
        reject(state, gang, "starts with others of its bundle")
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
        record.leaf = other.leaf_of(info, record.role)
        other.members[record.uid] = record
        if record.state is _UNSCHEDULED:
            other.pending[record.uid] = record
    grow_tree(state, gang)
    records.tenancy.renew(other, records.on_nodes(), records.holds)
    state.touch(other)
