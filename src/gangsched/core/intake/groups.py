"""Events about pod groups: the specification is made to agree with the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangsched.core.intake.gangs import regroup
from gangsched.core.intake.pods import read_pod, tell_priority
from gangsched.core.intake.seen import group_shown, look_ahead
from gangsched.core.records.gang import PodRecord
from gangsched.core.state import State
from gangsched.model import GroupKey, PodGroup
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["read_group"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED
_WAITING: Final = MemberState.WAITING
_REFUSED: Final = MemberState.REFUSED
_GATED: Final = MemberState.GATED


def read_group(state: State, key: GroupKey) -> None:
    """Make the specification of a group agree with the cluster."""
    records, registry = state.records, state.records.registry
    spec = group_shown(state, key)
    info = registry.get(key)
    before = None if info is None else info.spec
    priority = None if info is None else info.priority
    if spec != before and info is not None:
        look_ahead(state, info.members)
    family = [*_named(before), *registry.family(key)]
    if spec is None:
        if before is None:
            return
        registry.delete_spec(key, now=state.records.now)
        state.restarts.forget(key)
        state.call.removed[key] = None
    elif spec != before:
        _specify(state, spec)
    else:
        return
    # those that name it wait for it, or for what it says
    named = {key, *family, *_named(spec), *registry.naming(key), *registry.family(key)}
    respelled = _spelling(before) != _spelling(spec)
    regroup(state, named)
    info = registry.get(key)
    if info is not None:
        for record in [
            r
            for r in _members_of(state, info)
            if respelled or r.state in (_GATED, _UNSCHEDULED, _WAITING, _REFUSED)
        ]:
            read_pod(state, record.uid)
        if info.priority != priority:
            tell_priority(state, info)
    gang = records.gang_of.get(key)
    if gang is not None:
        state.note_event(gang)
        state.touch(gang)


def _spelling(spec: PodGroup | None) -> object:
    """Return what decides which role a member has."""
    if spec is None:
        return (False, (), None)
    cut = (spec.min_available, spec.roles, spec.topology) if spec.has_slices else None
    return (spec.has_copies, spec.labelled_roles, cut)


def _named(spec: PodGroup | None) -> Sequence[GroupKey]:
    return () if spec is None else spec.bundle


def _specify(state: State, spec: PodGroup) -> None:
    """Take over a specification, with what its status says of restarts."""
    tree, restarts = state.records.registry.set_spec(spec).tree, state.restarts
    restarts.forget_parts(spec.key, kept=tree.restarted)
    now = state.records.now
    restarts.resume(spec.key, spec.restarts, spec.restarting_until, now=now)
    for path, (number, until) in spec.copy_restarts.items():
        if path in tree.restarted:
            restarts.resume(spec.key, number, until, now=now, path=path)


def _members_of(state: State, info: PodGroupInfo) -> list[PodRecord]:
    gang = state.records.gang_of.get(info.key)
    return [] if gang is None else [r for r in gang.members.values() if r.info is info]
