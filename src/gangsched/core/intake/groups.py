"""Events about pod groups: the specification is made to agree with the cluster."""

from __future__ import annotations

from typing import Final

from gangsched.core.intake.gangs import regroup
from gangsched.core.intake.pods import read_pod, tell_priority
from gangsched.core.intake.seen import group_shown, look_ahead
from gangsched.core.records.gang import PodRecord
from gangsched.core.state import State
from gangsched.model import GroupKey
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
    family = registry.family(key)
    if spec is None:
        if before is None:
            return
        registry.delete_spec(key, now=state.records.now)
        state.restarts.forget(key)
        state.call.removed[key] = None
    elif spec != before:
        tree = registry.set_spec(spec).tree
        state.restarts.forget_parts(key, kept=tree.restarted)
        now = state.records.now
        state.restarts.resume(key, spec.restarts, spec.restarting_until, now=now)
        for path, (restarts, until) in spec.copy_restarts.items():
            if path in tree.restarted:
                state.restarts.resume(key, restarts, until, now=now, path=path)
    else:
        return
    named = {
        key,
        *(() if spec is None else spec.bundle),
        *(() if before is None else before.bundle),
        *registry.naming(key),  # they wait for it, or for what it says
        *family,
        *registry.family(key),
    }
    respelled = (before is not None and before.has_copies) != (spec is not None and spec.has_copies)
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


def _members_of(state: State, info: PodGroupInfo) -> list[PodRecord]:
    gang = state.records.gang_of.get(info.key)
    return [] if gang is None else [r for r in gang.members.values() if r.info is info]
