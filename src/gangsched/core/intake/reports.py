"""Reports of binds, and answers to pods that wait on permit."""

from __future__ import annotations

from typing import Final

from gangsched.core.attempt.waiting_members import allow
from gangsched.core.intake.pods import read_pod
from gangsched.core.moves import attempt_steps, notices
from gangsched.core.moves.lost_nodes import lose
from gangsched.core.state import State
from gangsched.errors import InvalidValueError
from gangsched.events import (
    BindFailed,
    Bound,
    PermitAllowed,
    PermitRejected,
)
from gangsched.primitives.counters import MemberState
from gangsched.profile.calls import name_of

__all__ = ["bind_failed", "bound", "check_answer", "permit_answered"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


def bound(state: State, event: Bound) -> None:
    """Take in that a pod was bound.

    Raises:
        ClusterStateError: The cluster state does not show it.
    """
    record = state.records.pods.get(event.uid)
    is_bound = record is not None and record.attempt == event.attempt
    read_pod(state, event.uid, is_bound=is_bound)


def bind_failed(state: State, event: BindFailed) -> None:
    """Take a pod whose bind failed off its node; it is tried again after a backoff."""
    read_pod(state, event.uid)
    record = state.records.pods.get(event.uid)
    if record is None or not record.is_being_bound or record.attempt != event.attempt:
        return
    gang, cycle = record.gang, record.cycle
    assert cycle is not None
    cycle.bind_failures = record.bind_failures + 1
    cycle.can_evict = state.settings.can_evict
    lose(state, record, event.reason, "bind_failed", _UNSCHEDULED)
    record.is_evicted = False  # it was never bound, so there is nothing to evict
    notices.tell(state, record, f"binding rejected: {event.reason}")
    gang.failures = max(gang.failures, record.bind_failures)
    record.bind_failures += 1
    attempt_steps.note_progress(state, gang)
    read_pod(state, event.uid)


def check_answer(state: State, event: PermitAllowed | PermitRejected) -> None:
    """Require a plugin that may give an answer.

    Raises:
        InvalidValueError: No permit plugin of the profile has the name (``plugin``), or it counts
            the quorum and is said to allow a pod.
    """
    profile = state.settings.profile
    names = [name_of(plugin) for plugin in profile.permit]
    if event.plugin not in names:
        found = ", ".join(map(repr, names)) or "none"
        expected = f"the name of a permit plugin of the profile; these are: {found}"
        raise InvalidValueError("plugin", event.plugin, expected)
    quorum = profile.quorum
    if isinstance(event, PermitAllowed) and quorum is not None and name_of(quorum) == event.plugin:
        expected = "a plugin other than the one that counts the quorum of gangs"
        raise InvalidValueError("plugin", event.plugin, expected)


def permit_answered(state: State, event: PermitAllowed | PermitRejected) -> None:
    """Take in the answer of a permit plugin."""
    check_answer(state, event)
    read_pod(state, event.uid)
    record, waiting = state.records.pods.get(event.uid), state.records.waiting
    entry = waiting.get(event.uid)
    if record is None or entry is None or record.attempt != event.attempt:
        return
    if isinstance(event, PermitRejected):
        state.call.refused[event.uid] = f"{event.plugin} rejected it: {event.reason}"
    else:
        wide, _each = state.settings.profile.group_wide["permit"]
        together = [record]
        if record.info is not None and any(name_of(plugin) == event.plugin for plugin in wide):
            together = [r for r in record.gang.waiting.values() if r.info is record.info]
        for each in together:
            allow(state, each, event.plugin)
    state.touch(record.gang)
