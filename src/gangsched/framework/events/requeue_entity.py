"""Where an entity belongs after a fact about it.

Rules:
  R1  readiness is a level: whoever may be tried is active, whatever the fact was;
  R2  a fact about a group that has not started is one about its bundle too.
"""

from __future__ import annotations

from gangsched._core._counters import MemberState
from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.lifecycle import permit_recheck, reject
from gangsched.framework.queueing import bundles, requeue
from gangsched.framework.state.scheduler_state import State
from gangsched.model import Pod
from gangsched.outcomes import Unschedulable

__all__ = ["is_started", "review", "settle", "settle_alone", "settle_siblings", "take_as_left"]

_STARTED = (MemberState.ASSIGNED, MemberState.SUCCEEDED, MemberState.FAILED)


def settle(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put an entity where it belongs after a fact about it, and who starts with it."""
    has_started = is_started(entity)
    settle_alone(state, entity, now=now)
    if not (has_started and is_started(entity)):
        settle_siblings(state, entity, now=now)


def settle_siblings(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put the other groups of an entity's bundle where they belong. O(groups in it)."""
    for sibling in bundles.siblings(state, None if entity.group is None else entity.group.spec):
        settle_alone(state, sibling, now=now)


def is_started(entity: QueuedEntity) -> bool:
    """Say whether an entity waits for nobody: a regular pod, or a group that was let go."""
    return entity.group is None or entity.group.was_scheduled


def settle_alone(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Put an entity where it belongs after a fact about it, and nobody else. O(log n)."""
    info = entity.group
    state.reserving.news_of(entity)
    if info is not None:
        if info.complete_at is None and info.is_complete:
            info.complete_at = now
        take_as_left(info)
        if not info.was_scheduled and _has_started(state, info):
            # also after a restart, when nobody remembers letting it go
            info.was_scheduled = True
    pod: Pod | None = entity.pod if len(entity) else None
    if pod is None and info is not None and info.waiting:
        pod = state.members[state.waiting.of(info.key)[0].uid].pod
    if pod is None:
        requeue.forget(state, entity)
        state.queue.remove(entity, now=now)
        return
    requeue.stir(state, entity)
    held = bundles.pre_enqueue(state, pod, info, now)
    if isinstance(held, Unschedulable):
        if info is not None and info.key in state.holding:
            reject.reject_group(state, info.key, held.reason, now=now)
        else:
            reject.gate(state, entity, held, now=now)
        return
    if info is not None and info.key in state.holding and bundles.is_shared(state, entity):
        # it began alone, and starts with others now
        reject.reject_group(state, info.key, "starts with others of its bundle", now=now)
        return
    if info is not None and permit_recheck.falls_astray(state, info, now=now):
        return
    if info is not None and permit_recheck.recheck_permit(state, info, now=now):
        return
    if not len(entity):
        state.queue.remove(entity, now=now)
        return
    active = entity.place is Place.ACTIVE
    if not active or not entity.ready_count:
        # of a round under way, whoever was still to be tried may just have gone
        entity.refill()
    if not active or not state.queue.is_ranked(entity):
        state.queue.activate(entity, now=now)


def review(state: State, entity: QueuedEntity, *, now: float) -> None:
    """Reconsider an entity of which a pod changed, if that may change where it belongs."""
    held = bundles.pre_enqueue(state, entity.pod, entity.group, now)
    is_held = isinstance(held, Unschedulable)
    is_shared = bundles.is_shared(state, entity)
    if is_shared or is_held != state.queue.is_gated(entity) or not state.profile.signed:
        settle(state, entity, now=now)


def take_as_left(info: PodGroupInfo | None) -> None:
    """Take a group as one that was never let go when nobody of those who were is left."""
    if info is not None and not info.scheduled and not info.members.started:
        info.was_scheduled = False


def _has_started(state: State, info: PodGroupInfo) -> bool:
    """Say whether a quorum of members has had nodes. O(1) while too few could have."""
    minimum = info.min_available
    if minimum is None or info.members.started < minimum:
        return False
    # who finished without ever having had a node has started nothing
    started = [m for m in state.of_group(info) if m.state in _STARTED and m.pod.node_name]
    return len(started) >= minimum and all(
        sum(m.role == role for m in started) >= least for role, least in info.roles.items()
    )
