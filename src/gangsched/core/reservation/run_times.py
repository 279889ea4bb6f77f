"""Expected ends of pods, and which gangs are exempt from the reservation.

Rules:
  R1  the end of an overdue pod, and of a pod without an estimate, is unknown;
  R2  run times that raise, or return no instant, count as unknown; the error is raised when the
      call is done;
  R3  a claim keeps its volume after the pod has ended. So a gang with claims that its start binds
      is not exempt by its end, if the reserved gang has such claims too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from gangsched.cluster_objects.claims_of_pods import claims_of
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.core.state.reserved import ActiveReservation
from gangsched.cycle_state import objects_of
from gangsched.errors import PluginError
from gangsched.model import Pod, PodUID
from gangsched.quantity import is_seconds

__all__ = ["end_of", "ends", "expected_end", "is_exempt", "latest", "span"]

_MARGIN: Final = 1e-6
"""Of an instant: more than the error of a few additions."""


def ends(state: State) -> dict[PodUID, float]:
    """Return the expected end of each pod that holds a node, if it is known. O(pods on nodes)."""
    policy = state.reservation.policy
    assert policy is not None
    if policy.run_times is None:
        return {}
    found = {record.uid: expected_end(state, record) for record in state.records.on_nodes()}
    return {uid: end for uid, end in found.items() if end < math.inf}


def expected_end(state: State, record: PodRecord) -> float:
    """Return when a pod that holds a node is expected to end; infinite if that is unknown."""
    policy, now = state.reservation.policy, state.records.now
    started_at = now if record.started_at is None else record.started_at
    end = end_of(state, record.pod, started_at)
    is_overdue = policy is not None and now >= end + policy.overdue_after
    return math.inf if is_overdue else end


def end_of(state: State, pod: Pod, started_at: float | None) -> float:
    """Return when a pod is expected to end; infinite if that is unknown."""
    policy = state.reservation.policy
    if policy is None or policy.run_times is None:
        return math.inf
    try:
        end = policy.run_times.expected_end(pod, started_at=started_at, now=state.records.now)
    except Exception as error:
        return _refused(state, pod, f"raised {error!r}", error)
    if end is None:
        return math.inf
    return end if is_seconds(end) else _refused(state, pod, f"returned {end!r}")


def _refused(state: State, pod: Pod, problem: str, cause: Exception | None = None) -> float:
    """Keep the first problem of a call with run times for its end; the end of a pod is unknown."""
    if not state.call.errors:
        error = PluginError("run_times", "expected_end", pod.key, problem)
        error.__cause__ = cause
        state.call.errors.append(error)
    return math.inf


def is_exempt(state: State, current: ActiveReservation, gang: GangRecord) -> bool:
    """Return whether a gang may use the reserved capacity. O(members).

    These are the gang itself, gangs of a higher priority, and those of which every pod ends before
    the expected start and takes no volume; see R3.
    """
    if gang is current.gang or gang.priority > current.gang.priority:
        return True
    if current.starts_at == math.inf:
        return False
    pending = gang.pending.values()
    return all(end_of(state, record.pod, None) <= current.starts_at for record in pending) and not (
        _take_volumes(state, pending) and _take_volumes(state, _planned(current))
    )


def span(state: State, gang: GangRecord) -> tuple[int, float]:
    """Return the priority of a gang, and the longest run time of its pending members. O(members).

    It is kept until the gang is settled again, since run times change with events only. The end is
    rounded when a run time is added to an instant, so close to the expected start ``is_exempt``
    has to be asked.
    """
    now = state.records.now
    ends = [end_of(state, record.pod, None) - now for record in gang.pending.values()]
    gang.span = found = gang.priority, max(ends, default=0.0)
    return found


def latest(state: State, current: ActiveReservation) -> float:
    """Return a run time with which a gang ends after the expected start in any case."""
    return current.starts_at - state.records.now + _MARGIN * (1.0 + abs(current.starts_at))


def _planned(current: ActiveReservation) -> Iterable[PodRecord]:
    return (record for record, _slot in current.planned)


def _take_volumes(state: State, records: Iterable[PodRecord]) -> bool:
    """Return whether the start of some pods binds volumes. O(pods), and O(their claims)."""
    objects = objects_of(state.settings.cluster)
    return any(
        bool(record.pod.volume_claims) and bool(claims_of(objects, record.pod).delayed)
        for record in records
    )
