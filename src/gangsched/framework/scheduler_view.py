"""What can be read of a scheduler between two calls: its lists, its reasons and its parts.

Rules:
  R1  nothing here changes the state;
  R2  a question that may ask a plugin is refused inside a call, and a call is refused inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gangsched._core._counters import MemberState
from gangsched._core._one_call import OneCall
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupRegistry
from gangsched._core._waiting import WaitingMap
from gangsched.framework.backfill import reservation as reserving
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.what_if import listing
from gangsched.framework.what_if import why as answers
from gangsched.listings import BindingRow, GroupRow, Listing, PendingRow, RunningRow
from gangsched.options.backfill import Reservation

__all__ = ["SchedulerView"]

_Rows = TypeVar("_Rows")


class SchedulerView:
    """What a scheduler shows of itself; ``Scheduler`` adds the calls that change it."""

    __slots__ = ("_call", "_now", "_state")

    _call: OneCall
    _now: float
    _state: State

    def pending(self) -> Listing[PendingRow]:
        """Return the pods and groups that need nodes, in the order in which they would be tried.

        Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods log pods).

        Raises:
            PluginError: A plugin raised.
        """
        with self._call("pending"):
            return self._rows(listing.pending)

    def binding(self) -> Listing[BindingRow]:
        """Return the pods whose bind is in progress, in the order of arrival.

        Each was released and waits for ``Bound`` or ``BindFailed``. After ``restore``, these are
        the binds that were in progress when the snapshot was taken; the next call returns them
        again. Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods).
        """
        with self._call("binding"):
            return listing.binding(self._state.pods)

    def running(self) -> Listing[RunningRow]:
        """Return the pods and groups that are bound, in the order of arrival.

        Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods).
        """
        with self._call("running"):
            return listing.running(self._state.pods, self._now)

    def groups(self) -> Listing[GroupRow]:
        """Return the pod groups with their counts, in the order of arrival.

        Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods log pods).

        Raises:
            PluginError: A plugin raised.
        """
        with self._call("groups"):
            return self._rows(listing.groups)

    def _rows(self, rows: Callable[[State, float], _Rows]) -> _Rows:
        return answers.asked(self._state.call, lambda: rows(self._state, self._now))

    @property
    def can_evict(self) -> bool:
        """Whether the host performs evictions, as far as the scheduler was told."""
        return self._state.settings.can_evict

    @property
    def queue(self) -> SchedulingQueue:
        """The scheduling queue; do not change it."""
        return self._state.queue

    @property
    def gated_pods(self) -> int:
        """The number of pods with a gate, which are not in the queue. O(pods)."""
        gated = MemberState.GATED
        return sum(member.state is gated for member in self._state.pods.members.values())

    @property
    def registry(self) -> PodGroupRegistry:
        """The pod groups; do not change them."""
        return self._state.pods.registry

    @property
    def waiting(self) -> WaitingMap:
        """The pods that wait on permit; do not change them."""
        return self._state.pods.waiting

    @property
    def reservation(self) -> Reservation | None:
        """The reservation of capacity for a gang; None if there is none. O(its nodes)."""
        return reserving.reservation(self._state.reservations)

    @property
    def exhausted_searches(self) -> int:
        """How many searches ended with their budget, without a placement and without a proof."""
        return self._state.attempts.exhausted_searches

    def __repr__(self) -> str:
        state = self._state
        queue = state.queue
        return (
            f"<Scheduler unit={state.settings.unit.value} now={self._now!r}"
            f" nodes={len(state.nodes.infos)} pods={len(state.pods.members)}"
            f" waiting={len(state.pods.waiting)} active={len(queue.active)}"
            f" backoff={len(queue.backoff)} unschedulable={len(queue.unschedulable)}>"
        )
