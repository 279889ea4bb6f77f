"""Which entities an event about one entity concerns.

Rules:
  R1  readiness is a level: an entity that may be tried is active, whatever the event was;
  R2  an event about a group that has not started concerns every group of its bundle.
"""

from __future__ import annotations

from gangsched._core._bundle import Bundle
from gangsched._core._counters import MemberState
from gangsched._core._entity import QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched.framework.lifecycle import group_attempt, notices
from gangsched.framework.lifecycle.entity_outcomes import CHANGED
from gangsched.framework.lifecycle.transition import transition
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey
from gangsched.outcomes import Unschedulable

__all__ = ["move", "move_if_needed", "move_siblings"]


def move(state: State, entity: QueuedEntity, *, now: float, arrived: Member | None = None) -> None:
    """Move a changed entity, and if needed the other groups of its bundle, to the right queue.

    Args:
        state: The scheduler's state.
        entity: The entity.
        now: The current instant.
        arrived: The member that was admitted; None if something else has changed.
    """
    info = entity.group
    if info is None:
        transition(state, entity, CHANGED, now=now)
        return
    if (
        arrived is not None
        and entity.seq not in state.reservations.nominations
        and _fails_like_others(state.settings, state.nodes, state.call, state.queue, arrived)
    ):
        state.reservations.backfill.note_event(entity)
        state.queue.note_changed(entity)
        pod_class = filter_and_score.judged(state.settings, state.nodes, arrived.pod_class, now)
        notices.tell_unschedulable(state.call, arrived, str(pod_class.judgements.diagnosis()))
        return
    was_started = group_attempt.is_started(entity)
    transition(state, entity, CHANGED, now=now)
    if not (was_started and group_attempt.is_started(entity)):
        move_siblings(state, info.bundle, info.key, now=now)


def _fails_like_others(
    settings: Settings, nodes: Nodes, call: CurrentCall, queue: SchedulingQueue, arrived: Member
) -> bool:
    """Return whether a late member of a started group is like one that is known to fail.

    A late member is placed alone, so it fails too, and its entity stays where it is. Otherwise each
    of many late members would be tried again for each one that arrives. O(classes of members).
    """
    return (
        arrived.state is MemberState.UNSCHEDULED
        and queue.is_blocked(arrived.entity)
        and equivalence.joins_alike(settings, nodes, call, arrived)
    )


def move_siblings(state: State, bundle: Bundle | None, changed: GroupKey, *, now: float) -> None:
    """Move the groups of a bundle to the right queue after one of them has changed.

    As long as the bundle is not complete and no group of it is queued, nothing changes for the
    others. Otherwise each of them is asked. O(groups) then, O(1) amortised before.
    """
    if bundle is None:
        return
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
        call.complete = ()


def move_if_needed(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Settle an entity after one of its pods changed, if its queue may change.

    A parked entity is behind those of its equivalence class. If it is of another class by now, such
    as that of entities that may preempt, nothing is known about it.
    """
    settings = state.settings
    denied = bundles.pre_enqueue(settings, state.pods, state.call, entity.pod, entity.group, now)
    is_denied = isinstance(denied, Unschedulable)
    is_shared = bundles.is_shared(state.pods, entity)
    if (
        is_shared
        or is_denied != state.queue.is_gated(entity)
        or not settings.profile.signed
        or _has_another_class(settings, state.nodes, state.pods, state.call, entity)
    ):
        move(state, entity, now=now)


def _has_another_class(
    settings: Settings, nodes: Nodes, pods: Pods, call: CurrentCall, entity: QueuedEntity
) -> bool:
    """Return whether an entity is parked in a class that is no longer its own. O(members)."""
    parked = entity.equivalence_class
    if parked is None:
        return False
    return parked != equivalence.class_of(settings, nodes, pods, call, entity)
