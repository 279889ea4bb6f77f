"""Who asks for a reservation, and who of them is helped first.

Rules:
  R1  who asks is helped in the order of priority, then of how often it was helped in vain, then of
      age; who cannot be helped stands in nobody's way;
  R2  who would not fit on the empty cluster is not looked at again until a node changes.
"""

from __future__ import annotations

from typing import NamedTuple

from gangsched._core._entity import QueuedEntity
from gangsched.framework.backfill import run_times, start_estimate
from gangsched.framework.backfill.start_estimate import Outlook
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.state.scheduler_state import State
from gangsched.model import GroupKey, PodUID

__all__ = ["Help", "first", "may_ask"]


class Help(NamedTuple):
    """The reservation that a gang would get, and when who holds a node will have left it."""

    entity: QueuedEntity
    outlook: Outlook
    ends: dict[PodUID, float]


def first(state: State, now: float, *, above: int | None = None) -> Help | None:
    """Return how the first is helped who asks and can be.

    Runtime complexity: O(who asks), plus, for each who may have a reservation and not yet is known
    to be beyond help, see ``_outlook.look_ahead``.

    Args:
        state: The scheduler's memory.
        now: The current instant.
        above: Ask only for who has a higher priority than that.
    """
    mine = state.reserving
    asking = [
        key
        for key in list(mine.asking)
        if may_ask(state, key)
        and (above is None or state.entities[key].priority > above)
        and _qualifies(state, key, now)
    ]
    if not asking:
        return None
    ends = run_times.ends(state, now)
    for key in sorted(asking, key=lambda key: (_place_of(state, key), key)):
        entity = state.entities[key]
        found = start_estimate.look_ahead(state, entity, ends, now=now, drains=not mine.is_weary)
        if found is not None:
            return Help(entity, found, ends)
        if not mine.is_weary:
            mine.hopeless[key] = state.nodes.altered
    return None


def may_ask(state: State, key: GroupKey) -> bool:
    """Say whether a gang is still one that has to start, and may. O(1)."""
    mine, entity = state.reserving, state.entities.get(key)
    info = None if entity is None else entity.group
    if entity is None or info is None or info.was_scheduled or not len(entity):
        mine.forget(key)
    return (
        key in mine.asking
        and entity is not None
        and not state.queue.is_gated(entity)
        and key not in state.holding
    )


def _qualifies(state: State, key: GroupKey, now: float) -> bool:
    """Say whether a gang that asks for a reservation may have one, if it can be helped."""
    mine = state.reserving
    policy = mine.policy
    assert policy is not None
    entity = state.entities[key]
    info = entity.group
    assert info is not None
    # where a plugin alone says how many it needs, nobody knows since when they are there
    since = info.created_at if info.complete_at is None else info.complete_at
    mature_at = since + policy.after_seconds
    if now < mature_at:
        mine.settled_until = min(mine.settled_until, mature_at)
        return False
    return (
        entity.failures >= policy.after_attempts
        and _size(state, entity) >= policy.least_members
        and mine.hopeless.get(key) != state.nodes.altered
    )


def _place_of(state: State, key: GroupKey) -> tuple[int, int, float]:
    """Return the place of a gang among those that ask: smaller goes first."""
    entity = state.entities[key]
    return (-entity.priority, state.reserving.lapses.get(key, 0), entity.created_at)


def _size(state: State, entity: QueuedEntity) -> int:
    """Return how many members must be placed for a gang to start."""
    return sum(equivalence.needed(state, each) for each in bundles.pending(state, entity))
