"""Which gang gets the reservation, of those that qualify for one.

Rules:
  R1  gangs are considered in the order of priority, then of how often nodes were drained for them
      until the time limit, then of age. A gang that cannot get a reservation is passed over;
  R2  a gang that would not fit on the empty cluster is not considered again until a node changes;
  R3  when the steps for looking ahead are spent, the gangs that are left are considered in the
      next call.
"""

from __future__ import annotations

from heapq import heapify, heappop
from typing import NamedTuple, TypeAlias

from gangsched._core._entity import QueuedEntity
from gangsched.framework.backfill import run_times, start_estimate
from gangsched.framework.backfill.start_estimate import StartEstimate
from gangsched.framework.config.backfill import Backfill
from gangsched.framework.placement import budget_shares
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, PodUID

__all__ = ["Candidate", "first", "may_ask"]

_Ranked: TypeAlias = tuple[tuple[int, int, float], GroupKey]
"""A gang with its sort key; see R1."""


class Candidate(NamedTuple):
    """A gang that can get the reservation, with its estimate and the run times used for it.

    Attributes:
        entity: The gang's entity.
        estimate: Where and when it can start.
        ends: The expected end of each pod that holds a node and has a known one.
    """

    entity: QueuedEntity
    estimate: StartEstimate
    ends: dict[PodUID, float]


def first(state: State, now: float, *, above: int | None = None) -> Candidate | None:
    """Return the first gang that can get the reservation; None if there is none.

    Runtime complexity: O(gangs that qualify), and see ``start_estimate.look_ahead`` for each
    that may have one and is not known to be infeasible.

    Args:
        state: The scheduler's state.
        now: The current instant.
        above: Consider only gangs of a higher priority than this.
    """
    mine = state.reservations.backfill
    assert mine.policy is not None
    # there may be hundreds, of which the first or second gets it: so a heap, and the size last
    qualified = _due(state, mine.policy, now, above)
    heapify(qualified)
    ends: dict[PodUID, float] | None = None
    while qualified:
        if state.call.steps and not budget_shares.for_look_ahead(state.settings, state.call):
            if not mine.is_drain_paused:  # those that failed are passed over in the next call
                mine.has_no_candidate = False
                mine.is_contested |= above is not None
            break
        _place, key = heappop(qualified)
        entity = state.pods.entities[key]
        if _size(state.settings, state.pods, state.call, entity) < mine.policy.least_members:
            continue
        if ends is None:
            ends = run_times.ends(state, now)
        found = start_estimate.look_ahead(
            state, entity, ends, now=now, drains=not mine.is_drain_paused
        )
        if found is not None:
            return Candidate(entity, found, ends)
        if not mine.is_drain_paused:
            mine.infeasible[key] = state.nodes.altered
    return None


def may_ask(state: State, key: GroupKey) -> bool:
    """Return whether a gang qualifies for a reservation, has not started, and is queued. O(1)."""
    mine, entity = state.reservations.backfill, state.pods.entities.get(key)
    info = None if entity is None else entity.group
    if entity is None or info is None or info.was_scheduled or not len(entity):
        mine.forget(key)
        return False
    return (
        key in mine.qualified
        and not state.queue.is_gated(entity)
        and key not in state.attempts.waiting_since
    )


def _due(state: State, policy: Backfill, now: float, above: int | None) -> list[_Ranked]:
    """Return the gangs that have waited and failed for long enough and may fit, each with its rank.

    The rank is that of R1. One loop without calls, since every decision may ask about hundreds of
    gangs. O(gangs that qualify).
    """
    mine, altered, due = state.reservations.backfill, state.nodes.altered, list[_Ranked]()
    after_seconds, after_attempts = policy.after_seconds, policy.after_attempts
    entities, timeouts, infeasible = state.pods.entities, mine.drain_timeouts, mine.infeasible
    for key in list(mine.qualified):
        if not may_ask(state, key):
            continue
        entity = entities[key]
        info = entity.group
        assert info is not None
        priority = info.priority
        if above is not None and priority <= above:
            continue
        # if only a plugin knows the minimum, it is unknown when the group became complete
        since = info.created_at if info.complete_at is None else info.complete_at
        if now < since + after_seconds:
            mine.no_candidate_until = min(mine.no_candidate_until, since + after_seconds)
        elif entity.failures >= after_attempts and infeasible.get(key) != altered:
            due.append(((-priority, timeouts.get(key, 0), info.created_at), key))
    return due


def _size(settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity) -> int:
    """Return how many members must be placed for a gang to start."""
    return sum(equivalence.needed(settings, call, each) for each in bundles.pending(pods, entity))
