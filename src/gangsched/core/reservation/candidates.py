"""Which gang gets the reservation, of those that qualify for one.

Rules:
  R1  gangs are considered in the order of ``OpenGangs``, once they have waited and failed for long
      enough. A gang that cannot get a reservation is passed over;
  R2  a gang that would not fit on the empty cluster is not considered again before an event about
      it. A node that changes, and may take one of its pods, is such an event, too;
  R3  one decision finds this out of a few gangs, and the next ones of the others.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gangsched.core.admission.lacking import lacking
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.core.reservation import run_times
from gangsched.core.reservation.look_ahead import StartEstimate, look_ahead
from gangsched.core.state import State
from gangsched.model import PodUID
from gangsched.primitives.standing import by_key, least_needed

__all__ = ["Candidate", "first", "may_ask"]

_MOST: Final = 8
"""How many gangs one decision may find not to fit on the empty cluster."""


class Candidate(NamedTuple):
    """A gang that can get the reservation, with its estimate and the run times used for it.

    Attributes:
        gang: The gang.
        estimate: Where and when it can start.
        ends: The expected end of each pod that holds a node and has a known one.
    """

    gang: GangRecord
    estimate: StartEstimate
    ends: dict[PodUID, float]


def first(state: State, *, above: int | None = None) -> Candidate | None:
    """Return the first gang that can get the reservation; None if there is none.

    Runtime complexity: O(gangs that are passed over), and see ``look_ahead`` for each that is not
    known to be infeasible.

    Args:
        state: The state.
        above: Consider only gangs of a higher priority than this.
    """
    mine = state.reservation
    policy = mine.policy
    assert policy is not None
    ends: dict[PodUID, float] | None = None
    tries = 0
    mine.reopen()
    for gang in mine.open.in_order():
        if not gang.members:
            mine.forget(gang)  # its groups have joined other gangs
            continue
        if above is not None and gang.priority <= above:
            break
        due = _complete_since(gang) + policy.after_seconds
        if state.records.now < due:
            if may_ask(state, gang):
                mine.no_candidate_until = min(mine.no_candidate_until, due)
            continue
        if max(gang.failures, 1) < policy.after_attempts or not may_ask(state, gang):
            continue
        if _size(state, gang) < policy.least_members:
            mine.open.discard(gang)  # it is opened again when it fails once more
            continue
        if tries >= _MOST:
            mine.is_cut, mine.has_no_candidate = True, False
            mine.is_contested = above is not None
            return None
        if ends is None:
            ends = run_times.ends(state)
        found = look_ahead(state, gang, ends, drains=not mine.is_drain_paused)
        if found is not None:
            return Candidate(gang, found, ends)
        if not mine.is_drain_paused:
            mine.note_infeasible(gang)
            tries += 1
    return None


def may_ask(state: State, gang: GangRecord) -> bool:
    """Return whether a gang qualifies for a reservation, has not started, and is queued. O(1)."""
    mine = state.reservation
    if state.records.gangs.get(gang.key) is not gang or not gang.pending or gang.is_started:
        mine.forget(gang)
        return False
    outside = (QueuePlace.NOT_ADMITTED, QueuePlace.NOMINATED)
    return gang in mine.qualified and gang.place not in outside and not gang.waiting


def _complete_since(gang: GangRecord) -> float:
    # if only a plugin knows the minimum, it is unknown when the group became complete
    complete = [
        info.created_at if info.complete_at is None else info.complete_at
        for info in gang.infos.values()
    ]
    return max(complete, default=gang.created_at)


def _size(state: State, gang: GangRecord) -> int:
    """Return how many members must be placed for a gang to start."""
    needed = lacking(state, gang)
    return least_needed(gang.tree, by_key(needed))
