"""How the search budget of one call is shared among the parts of its decision.

Theory of operation. ``Settings.search_budget`` is a number of steps for a call as a whole. Its
parts come one after the other: a look ahead for a reservation, the attempt, and the search for
victims if the attempt fails. What one part leaves, the later parts have too. So that no part is
left with nothing, a part does not get the share that is kept for the parts after it.

``CurrentCall.steps`` has the steps of the parts so far. Each part counts its operations anew; see
``packing.budget``.

Rules:
  R1  looking ahead may take a quarter of the budget. The attempt may take what is left, but not the
      half that is kept for victims if it may preempt. Their search may take what is left then, and
      that half at least;
  R2  a decision whose parts together take no more than a quarter of the budget is as if each part
      had the whole budget;
  R3  a budget of 0 is 0 for each part.
"""

from __future__ import annotations

from typing import Final

from gangsched._core._entity import QueuedEntity
from gangsched._packing.budget import FREE, STEP
from gangsched.framework.queueing import requeue
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.settings import Settings

__all__ = ["for_attempt", "for_look_ahead", "for_victims", "for_views"]

_FOR_LOOK_AHEAD: Final = 4
_FOR_VICTIMS: Final = 2


def for_look_ahead(settings: Settings, call: CurrentCall) -> int:
    """Return how many steps may still be taken to look ahead in this call. O(1)."""
    return max(settings.search_budget // _FOR_LOOK_AHEAD - call.steps, 0)


def for_views(settings: Settings) -> int:
    """Return how many steps it may take to change nodes to look ahead for one gang. O(1)."""
    return settings.search_budget // _FOR_LOOK_AHEAD


def for_attempt(
    settings: Settings,
    pods: Pods,
    reservations: Reservations,
    call: CurrentCall,
    entity: QueuedEntity,
) -> int:
    """Return how many steps the attempt of an entity may take. O(priorities)."""
    total = settings.search_budget
    kept = 0
    if settings.preemption is not None and requeue.may_preempt_others(
        pods, reservations, entity.priority, True
    ):
        kept = total // _FOR_VICTIMS
    return max(total - kept - call.steps, 0)


def for_victims(settings: Settings, call: CurrentCall) -> int:
    """Return how many steps the search for victims may take after the attempt. O(1)."""
    total, taken = settings.search_budget, call.steps
    if taken:  # then the operations that are not counted are used up, and are granted anew
        taken += FREE // STEP
    return max(total - taken, total // _FOR_VICTIMS)
