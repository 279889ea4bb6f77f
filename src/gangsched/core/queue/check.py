"""Check that the queue and the gangs say the same.

Invariants:
  I1  a gang is in the place that it names, and nowhere else;
  I2  a demand with parked gangs is blocked, or its leader is active or tried now;
  I3  a demand is known exactly while a gang asks for it.
"""

from __future__ import annotations

from collections.abc import Collection

from gangsched.core.queue import Queue
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.errors import InternalError

__all__ = ["check_queue"]


def check_queue(queue: Queue, gangs: Collection[GangRecord]) -> None:
    """Raise ``InternalError`` if the queue contradicts the gangs. O(n log n)."""
    queue._active.check()
    active = set(map(id, queue.active))
    for gang in gangs:
        if (gang.place is QueuePlace.ACTIVE) != (id(gang) in active):
            raise InternalError(f"{gang} is not where it says")
        if gang.place is QueuePlace.BACKOFF and gang.backoff_until < queue.earliest:
            raise InternalError(f"the backoff of {gang} ends before {queue.earliest}")
    asking = [gang for gang in gangs if gang.demand is not None]
    for gang in asking:
        _check_demand(queue, gang, gang.demand)
    known = queue._demands.values()
    parked = sum(gang.place is QueuePlace.PARKED for gang in asking)
    if parked != sum(len(demand.parked) for demand in known):
        raise InternalError("a gang is parked that is not known")
    if {id(gang.demand) for gang in asking} != set(map(id, known)):
        raise InternalError("a demand is known that no gang asks for")
    queue._blocked.check()
    if set(queue._blocked) != {demand for demand in known if demand.blocked_at}:
        raise InternalError("blocked demands are not those that are blocked")


def _check_demand(queue: Queue, gang: GangRecord, demand: Demand) -> None:
    """Check that a gang asks for a known demand, and does not wait in vain if it is parked."""
    if queue._demands.get(demand.key) is not demand:
        raise InternalError(f"the demand of {gang} is not known")
    if gang.place is not QueuePlace.PARKED:
        return
    if gang not in demand.parked:
        raise InternalError(f"{gang} is not parked")
    leader = demand.leader
    if not demand.blocked_at and (leader is None or leader.place is not QueuePlace.ACTIVE):
        raise InternalError(f"{gang} waits for no leader and no node")
