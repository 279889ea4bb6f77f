"""Expected ends of pods, and which entities are exempt from the reservation.

Rules:
  R1  the end of an overdue pod, and of a pod without an estimate, is unknown;
  R2  run times that raise, or return no instant, count as unknown; the error is raised when the
      call is done; see ``extension_points``, R3;
  R3  a claim keeps its volume after the pod has ended. So an entity with claims that its start
      binds is not exempt by its end, if the reserved gang has such claims too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched._volumes import claims_of
from gangsched.cycle_state import objects_of
from gangsched.errors import PluginError
from gangsched.framework.queueing import bundles
from gangsched.framework.state.backfill_state import ActiveReservation
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod, PodUID
from gangsched.quantity import is_seconds

__all__ = ["end_of", "ends", "exempt", "is_exempt", "may_be_exempt"]

_ROUNDING: Final = 1e-3
"""Float tolerance in seconds: enough to reject early, not to admit."""


def ends(state: State, now: float) -> dict[PodUID, float]:
    """Return the expected end of each pod that holds a node, if it is known. O(pods on nodes)."""
    policy = state.reservations.backfill.policy
    assert policy is not None
    found: dict[PodUID, float] = {}
    if policy.run_times is None:
        return found
    members, overdue_after = state.pods.members, policy.overdue_after
    expected_end = policy.run_times.expected_end
    for info in state.nodes.infos.values():
        for uid in info.holders:
            member = members.get(uid)
            if member is None:
                continue
            started_at = now if member.started_at is None else member.started_at
            try:  # what end_of does, without a call for each pod that runs
                end = expected_end(member.pod, started_at=started_at, now=now)
            except Exception as error:
                end = _refused(state.call, member.pod, f"raised {error!r}", error)
            if end is None:
                continue
            if not is_seconds(end):
                end = _refused(state.call, member.pod, f"returned {end!r}")
            if now < end + overdue_after < math.inf:
                found[uid] = end
    return found


def end_of(
    reservations: Reservations, call: CurrentCall, pod: Pod, started_at: float | None, now: float
) -> float:
    """Return when a pod is expected to end; infinite if that is unknown."""
    policy = reservations.backfill.policy
    if policy is None or policy.run_times is None:
        return math.inf
    try:
        end = policy.run_times.expected_end(pod, started_at=started_at, now=now)
    except Exception as error:
        return _refused(call, pod, f"raised {error!r}", error)
    if end is None:
        return math.inf
    return end if is_seconds(end) else _refused(call, pod, f"returned {end!r}")


def _refused(call: CurrentCall, pod: Pod, problem: str, cause: Exception | None = None) -> float:
    """Keep the first problem of a call with run times for its end; the end of a pod is unknown."""
    if not call.deferred:
        error = PluginError("run_times", "expected_end", pod.key, problem)
        error.__cause__ = cause
        call.deferred.append(error)
    return math.inf


def is_exempt(
    settings: Settings,
    pods: Pods,
    reservations: Reservations,
    call: CurrentCall,
    reservation: ActiveReservation,
    entity: QueuedEntity,
    now: float,
) -> bool:
    """Return whether an entity may use the reserved capacity. O(members), then O(1)."""
    entities = (entity,)
    found = exempt(settings, pods, reservations, call, reservation, entities, now)
    return any(True for _entity in found)


def exempt(
    settings: Settings,
    pods: Pods,
    reservations: Reservations,
    call: CurrentCall,
    reservation: ActiveReservation,
    entities: Iterable[QueuedEntity],
    now: float,
) -> Iterator[QueuedEntity]:
    """Yield the entities that may use the reserved capacity.

    These are the gang itself, entities of a higher priority, and entities of which every pod
    ends before the expected start and takes no volume; see R3. If the start is unknown, no entity
    ends in time.
    """
    own, starts_at = reservation.entity.priority, reservation.starts_at
    latest = -math.inf if starts_at == math.inf else starts_at + _ROUNDING
    for entity in entities:
        if entity is reservation.entity:
            yield entity
        else:
            priority, seconds = entity.expected_run or _expected_run(
                reservations, call, entity, now
            )
            if priority > own or (
                # the remembered seconds are rounded, so what they admit is computed exactly
                now + seconds <= latest
                and _all_end(pods, reservations, call, entity, starts_at, now)
                and not _takes_volumes(settings, pods, reservation, entity)
            ):
                yield entity


def may_be_exempt(
    reservations: Reservations,
    call: CurrentCall,
    reservation: ActiveReservation,
    line: EquivalenceQueue,
    now: float,
) -> bool:
    """Return whether an entity of a queue may be exempt; False only if ``exempt`` yields none.

    Runtime complexity: O(members of the entities that have come or changed since the last call).
    """
    runs, own = line.runs, reservation.entity
    if runs.unread:
        unread = runs.unread.values()
        runs.read(
            [each.expected_run or _expected_run(reservations, call, each, now) for each in unread]
        )
    if own.place is Place.UNSCHEDULABLE and own.equivalence_class == line.equivalence_class:
        return True
    starts_at = reservation.starts_at
    ends_in_time = starts_at < math.inf and now + runs.shortest <= starts_at + _ROUNDING
    return runs.highest > own.priority or ends_in_time


def _all_end(
    pods: Pods,
    reservations: Reservations,
    call: CurrentCall,
    entity: QueuedEntity,
    by: float,
    now: float,
) -> bool:
    """Return whether all pods that start with an entity end by an instant."""
    return all(
        end_of(reservations, call, pod, None, now) <= by
        for each in bundles.pending(pods, entity)
        for pod in each.pending
    )


def _takes_volumes(
    settings: Settings, pods: Pods, reservation: ActiveReservation, entity: QueuedEntity
) -> bool:
    """Return whether the start of an entity may take volumes that the reserved gang needs; see R3.

    Runtime complexity: O(pods) if none has claims, else O(their claims + those of the gang).
    """
    objects = objects_of(settings.cluster)

    def takes(pod: Pod) -> bool:
        return bool(pod.volume_claims) and bool(claims_of(objects, pod).delayed)

    return any(
        takes(pod) for each in bundles.pending(pods, entity) for pod in each.pending
    ) and any(
        takes(pods.members[uid].pod) for uid, _node in reservation.planned if uid in pods.members
    )


def _expected_run(
    reservations: Reservations, call: CurrentCall, entity: QueuedEntity, now: float
) -> tuple[int, float]:
    """Return an entity's priority, and the seconds that it runs; remember both. O(members)."""
    ends = (end_of(reservations, call, pod, None, now) for pod in entity.pending)
    entity.expected_run = (entity.priority, max(ends) - now)
    return entity.expected_run
