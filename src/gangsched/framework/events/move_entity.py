"""Which entities an event about one entity concerns.

Rules:
  R1  readiness is a level: an entity that may be tried is active, whatever the event was;
  R2  an event about a group that has not started concerns every group of its bundle.
"""

from __future__ import annotations

from gangsched._core._entity import QueuedEntity
from gangsched.framework.lifecycle import group_attempt
from gangsched.framework.lifecycle.entity_outcomes import CHANGED
from gangsched.framework.lifecycle.transition import transition
from gangsched.framework.queueing import bundles
from gangsched.framework.state.scheduler_state import State
from gangsched.outcomes import Unschedulable

__all__ = ["move_if_needed", "move", "move_siblings"]


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
    """Move the other groups of an entity's bundle to the right queue. O(groups in it)."""
    for sibling in bundles.siblings(
        state.pods, None if entity.group is None else entity.group.spec
    ):
        transition(state, sibling, CHANGED, now=now)


def move_if_needed(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Settle an entity after one of its pods changed, if its queue may change."""
    denied = bundles.pre_enqueue(
        state.settings, state.pods, state.call, entity.pod, entity.group, now
    )
    is_denied = isinstance(denied, Unschedulable)
    is_shared = bundles.is_shared(state.pods, entity)
    if is_shared or is_denied != state.queue.is_gated(entity) or not state.settings.profile.signed:
        move(state, entity, now=now)
