"""Which gang gets the reservation, of those that qualify for one.

Rules:
  R1  gangs are considered in the order of priority, then of how often nodes were drained for them
      until the time limit, then of age. A gang that cannot get a reservation is passed over;
  R2  a gang that would not fit on the empty cluster is not considered again until a node changes;
  R3  one call considers a bounded number of gangs, and takes a bounded number of steps to look
      ahead. The gangs that are left are considered in the next call.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gangsched._core._entity import QueuedEntity
from gangsched.framework.backfill import run_times, start_estimate
from gangsched.framework.backfill.room import Room
from gangsched.framework.backfill.start_estimate import StartEstimate
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement import budget_shares
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.state.backfill_state import BackfillState
from gangsched.framework.state.candidates import Rank
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, PodUID

__all__ = ["MOST", "Candidate", "first", "is_looking", "may_ask"]

MOST: Final = 16
"""How many gangs a call looks ahead for at most."""

_EFFORT: Final = 256
"""How many gangs a call considers at most; to look ahead for one counts as several."""

_PODS: Final = 60
"""On how many nodes and pods it takes as long to look ahead as to consider a gang otherwise."""


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

    Runtime complexity: O(log n) for each gang that has changed since the last call, and see
    ``start_estimate.look_ahead`` for each of at most ``MOST`` gangs. After a change of a node, also
    O(gangs that do not fit on the empty cluster).

    Args:
        state: The scheduler's state.
        now: The current instant.
        above: Consider only gangs of a higher priority than this.
    """
    mine = state.reservations.backfill
    assert mine.policy is not None
    candidates = mine.candidates
    candidates.look_at_nodes(state.nodes)
    candidates.next_later(now)
    for key in list(candidates.unranked):
        _place(state, key, now)
    later = candidates.next_later(now)
    if later is not None:
        mine.no_candidate_until = min(mine.no_candidate_until, later)
    ends: dict[PodUID, float] | None = None
    left, look = _EFFORT, 0
    for rank, key in candidates.in_order():
        if above is not None and -rank[0] <= above:
            break
        is_spent = state.call.steps and not budget_shares.for_look_ahead(state.settings, state.call)
        if is_spent or left <= 0:
            if not mine.is_drain_paused:  # those that failed are passed over in the next call
                mine.has_no_candidate = False
                mine.is_contested |= above is not None
            break
        left -= 1
        entity = state.pods.entities.get(key)
        if (
            not may_ask(state, key)
            or entity is None
            or _size(state.settings, state.pods, state.call, entity) < mine.policy.least_members
        ):
            candidates.drop(key)
            continue
        if not Room(state.settings, state.pods, state.call, entity).may_be_enough(
            candidates.largest
        ):
            mine.infeasible.setdefault(key, state.nodes.altered)
            candidates.put_too_large(key, rank)
            continue
        if ends is None:
            ends, look = run_times.ends(state, now), _effort(state.nodes)
        left -= look
        found = start_estimate.look_ahead(
            state, entity, ends, now=now, drains=not mine.is_drain_paused
        )
        if found is not None:
            return Candidate(entity, found, ends)
        if not mine.is_drain_paused:
            mine.infeasible[key] = state.nodes.altered
            candidates.put_infeasible(key, rank)
    return None


def _effort(nodes: Nodes) -> int:
    """Return how much of ``_EFFORT`` it takes to look ahead for one gang. O(nodes)."""
    pods = sum(len(info.holders) for info in nodes.infos.values())
    return max((len(nodes.infos) + pods) // _PODS, _EFFORT // MOST)


def is_looking(mine: BackfillState) -> bool:
    """Return whether ``first`` had gangs left to look at in this call; see R3. O(1)."""
    if mine.policy is None:
        return False
    return mine.is_contested if mine.reservation is not None else not mine.has_no_candidate


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


def _place(state: State, key: GroupKey, now: float) -> None:
    """Put a gang in the place that it has now; see ``Candidates``. O(log n)."""
    mine = state.reservations.backfill
    policy, candidates = mine.policy, mine.candidates
    assert policy is not None
    candidates.drop(key)
    if not may_ask(state, key):
        return
    entity = state.pods.entities[key]
    info = entity.group
    assert info is not None
    # if only a plugin knows the minimum, it is unknown when the group became complete
    since = info.created_at if info.complete_at is None else info.complete_at
    rank: Rank = (-info.priority, mine.drain_timeouts.get(key, 0), info.created_at)
    if now < since + policy.after_seconds:
        candidates.put_later(key, since + policy.after_seconds)
    elif entity.failures < policy.after_attempts:
        return  # its next failure notes it
    elif mine.infeasible.get(key) == state.nodes.altered:
        candidates.put_infeasible(key, rank)
    else:
        candidates.put(key, rank)


def _size(settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity) -> int:
    """Return how many members must be placed for a gang to start."""
    return sum(equivalence.needed(settings, call, each) for each in bundles.pending(pods, entity))
