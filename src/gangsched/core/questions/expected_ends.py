"""When the running pods of a fork end, as far as their run times are known.

Rules:
  R1  the run times are those of ``Backfill``, asked of the fork; without them no pod ends;
  R2  a pod that is late, but not overdue, ends at once. An overdue pod, or one without a run time,
      keeps running;
  R3  a pod has succeeded when it ends. It is asked about again then: an estimate may have moved.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import final

from attrs import evolve

from gangsched.core.records.gang import PodRecord
from gangsched.core.reservation.run_times import expected_end
from gangsched.core.state import State
from gangsched.events import PodUpdated
from gangsched.model import PodPhase, PodUID

__all__ = ["ExpectedEnds"]


@final
class ExpectedEnds:
    """The expected ends of running pods, the earliest first.

    Args:
        state: The state of the fork.
        before: The state that was forked: what it has of pods is read without a copy.

    Raises:
        PluginError: The run times raised, or returned no instant.
    """

    def __init__(self, state: State, before: State) -> None:
        self._state = state
        self._heap: list[tuple[float, PodUID]] = []
        policy = state.reservation.policy
        self._is_known: bool = policy is not None and policy.run_times is not None
        listed = before if before.records.pods else state  # the fork may have read the cluster
        for record in listed.records.on_nodes() if self._is_known else ():
            self._push(record)

    def note(self, uid: PodUID) -> None:
        """Note that a pod has come to its node. O(log pods)."""
        record = self._state.records.pods.get(uid) if self._is_known else None
        if record is not None and record.slot >= 0:
            self._push(record)

    def next(self) -> float | None:
        """Return the earliest instant at which a pod may end; None without one. O(1)."""
        return max(self._heap[0][0], self._state.records.now) if self._heap else None

    def due(self, now: float) -> list[PodUpdated]:
        """Take out the pods that end by an instant, and return the events that say so."""
        found: list[PodUpdated] = []
        while self._heap and self._heap[0][0] <= now:
            record = self._state.records.pods.get(heappop(self._heap)[1])
            if record is None or record.slot < 0 or not record.pod.node_name:
                continue  # it has left its node
            if expected_end(self._state, record) > now:
                self._push(record)
            else:
                found.append(PodUpdated(evolve(record.pod, phase=PodPhase.SUCCEEDED)))
        return found

    def _push(self, record: PodRecord) -> None:
        end = expected_end(self._state, record)
        if end < math.inf:
            heappush(self._heap, (end, record.uid))
        deferred = self._state.call.errors
        if deferred:
            raise deferred[0]
