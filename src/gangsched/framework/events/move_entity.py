"""Which entities an event about one entity concerns.

Rules:
  R1  readiness is a level: an entity that may be tried is active, whatever the event was;
  R2  an event about a group that has not started concerns every group of its bundle.
"""

from __future__ import annotations

from gangsched._core._bundle import Bundle
from gangsched._core._entity import QueuedEntity
from gangsched.framework.lifecycle import group_attempt
from gangsched.framework.lifecycle.entity_outcomes import CHANGED
from gangsched.framework.lifecycle.transition import transition
from gangsched.framework.queueing import bundles
from gangsched.framework.state.scheduler_state import State
from gangsched.model import GroupKey
from gangsched.outcomes import Unschedulable

__all__ = ["move_if_needed", "move", "move_bundle", "move_siblings"]


def move(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Move a changed entity, and if needed the other groups of its bundle, to the right queue."""
    if entity.group is None:
        transition(state, entity, CHANGED, now=now)
        return
    was_started = group_attempt.is_started(entity)
    transition(state, entity, CHANGED, now=now)
    if not (was_started and group_attempt.is_started(entity)):
        move_siblings(state, entity, now=now)


def move_siblings(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Move the other groups of an entity's bundle to the right queue; see ``move_bundle``."""
    info = entity.group
    if info is not None and info.bundle is not None:
        move_bundle(state, info.bundle, info.key, now=now)


def move_bundle(state: State, bundle: Bundle, changed: GroupKey, *, now: float) -> None:
    """Move the groups of a bundle to the right queue after one of them has changed.

    As long as the bundle is not complete and no group of it is queued, nothing changes for the
    others. Otherwise each of them is asked. O(groups) then, O(1) amortised before.
    """
    call = state.call
    if bundles.is_complete(state.settings, state.pods, call, bundle, changed, now):
        first = bundles.lead(state.pods, bundle)
        if first is not None:
            # otherwise each sibling would ask all groups again
            call.complete = (bundle, first)
    elif bundles.close(state.pods, state.queue, bundle):
        return
    try:
        for sibling in bundles.siblings(state.pods, bundle, changed):
            transition(state, sibling, CHANGED, now=now)
    finally:
        call.complete = None


def move_if_needed(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Settle an entity after one of its pods changed, if its queue may change."""
    denied = bundles.pre_enqueue(
        state.settings, state.pods, state.call, entity.pod, entity.group, now
    )
    is_denied = isinstance(denied, Unschedulable)
    is_shared = not is_denied and bundles.is_shared(state.pods, entity)
    if is_shared or is_denied != state.queue.is_gated(entity) or not state.settings.profile.signed:
        move(state, entity, now=now)
