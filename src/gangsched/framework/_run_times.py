"""Whom a reservation concerns: when pods end, by what is known, and who need not heed it.

Rules:
  R1  who is overdue is taken to end nobody knows when, and so is who is not spoken of;
  R2  run times that raise, or are no instants, count as not known, and are told when the call is
      done; see ``_points``, R3.
"""

from __future__ import annotations

import math
from typing import Final

from gangsched._core._entity import QueuedEntity
from gangsched.errors import PluginError
from gangsched.framework import _bundles
from gangsched.framework._reserving import Promise
from gangsched.framework._state import State
from gangsched.model import Pod, PodUID
from gangsched.quantity import is_seconds

__all__ = ["ROUNDING", "end_of", "ends", "is_free"]

ROUNDING: Final = 1e-3
"""Seconds: a run time that was taken from an instant is near enough to say no, not to say yes."""


def ends(state: State, now: float) -> dict[PodUID, float]:
    """Return when who holds a node will have left it, as far as is known. O(pods on nodes)."""
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
                found[uid] = end if end + policy.overdue_after > now else math.inf
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
    """Say whether an entity need not heed a reservation. O(members)."""
    if entity is promise.entity:
        return True
    priority, seconds = entity.prospect or _prospect(state, entity, now)
    if priority > promise.entity.priority:
        return True
    if promise.starts_at == math.inf or now + seconds > promise.starts_at + ROUNDING:
        return False
    return all(
        end_of(state, pod, None, now) <= promise.starts_at
        for each in _bundles.pending(state, entity)
        for pod in each.pending
    )


def _prospect(state: State, entity: QueuedEntity, now: float) -> tuple[int, float]:
    """Return an entity's priority, and for how many seconds it runs. O(members)."""
    ends = (end_of(state, pod, None, now) for pod in entity.pending)
    entity.prospect = (entity.priority, max(ends, default=now) - now)
    return entity.prospect
