"""Whom a reservation concerns: when pods end, by what is known, and who need not heed it.

Rules:
  R1  who is overdue is taken to end nobody knows when, and so is who is not spoken of;
  R2  run times that raise, or are no instants, count as not known, and are told when the call is
      done; see ``extension_points``, R3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from gangsched._core._entity import QueuedEntity
from gangsched.errors import PluginError
from gangsched.framework.queueing import bundles
from gangsched.framework.state.reservation_state import Promise
from gangsched.framework.state.scheduler_state import State
from gangsched.model import Pod, PodUID
from gangsched.quantity import is_seconds

__all__ = ["end_of", "ends", "free", "is_free"]

_ROUNDING: Final = 1e-3
"""Seconds: a run time that was taken from an instant is near enough to say no, not to say yes."""


def ends(state: State, now: float) -> dict[PodUID, float]:
    """Return when who holds a node will have left it, of whom it is known. O(pods on nodes)."""
    policy = state.reserving.policy
    assert policy is not None
    found: dict[PodUID, float] = {}
    if policy.run_times is None:
        return found
    for info in state.nodes.infos.values():
        for uid in info.holders:
            member = state.members.get(uid)
            if member is not None:
                started_at = now if member.started_at is None else member.started_at
                end = end_of(state, member.pod, started_at, now)
                if now < end + policy.overdue_after < math.inf:
                    found[uid] = end
    return found


def end_of(state: State, pod: Pod, started_at: float | None, now: float) -> float:
    """Return when a pod is expected to end; infinite where nobody knows."""
    policy = state.reserving.policy
    if policy is None or policy.run_times is None:
        return math.inf
    problem: PluginError | None = None
    end: float | None = None
    try:
        end = policy.run_times.expected_end(pod, started_at=started_at, now=now)
        if end is not None and not is_seconds(end):
            problem = PluginError("run_times", "expected_end", pod.key, f"returned {end!r}")
    except Exception as error:
        problem = PluginError("run_times", "expected_end", pod.key, f"raised {error!r}")
        problem.__cause__ = error
    if problem is not None:
        if not state.deferred:
            state.deferred.append(problem)
        return math.inf
    return math.inf if end is None else end


def is_free(state: State, promise: Promise, entity: QueuedEntity, now: float) -> bool:
    """Say whether an entity need not heed a reservation. O(members), and O(1) asked again."""
    return any(True for _entity in free(state, promise, (entity,), now))


def free(
    state: State, promise: Promise, entities: Iterable[QueuedEntity], now: float
) -> Iterator[QueuedEntity]:
    """Yield those of some entities who need not heed a reservation; see ``is_free``."""
    own, starts_at = promise.entity.priority, promise.starts_at
    latest = -math.inf if starts_at == math.inf else starts_at + _ROUNDING
    for entity in entities:
        if entity is promise.entity:
            yield entity
        else:
            priority, seconds = entity.prospect or _prospect(state, entity, now)
            if priority > own or (
                now + seconds <= latest and _all_end(state, entity, starts_at, now)
            ):
                yield entity


def _all_end(state: State, entity: QueuedEntity, by: float, now: float) -> bool:
    """Say whether all who are to start with an entity end by an instant, to the last digit."""
    return all(
        end_of(state, pod, None, now) <= by
        for each in bundles.pending(state, entity)
        for pod in each.pending
    )


def _prospect(state: State, entity: QueuedEntity, now: float) -> tuple[int, float]:
    """Return an entity's priority, and for how many seconds it runs. O(members)."""
    ends = (end_of(state, pod, None, now) for pod in entity.pending)
    entity.prospect = (entity.priority, max(ends) - now)
    return entity.prospect
