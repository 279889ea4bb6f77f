"""What can be read of a scheduler between two calls: its lists, its reasons and its parts.

Rules:
  R1  nothing here changes the state;
  R2  a question that may ask a plugin is refused inside a call, and a call is refused inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gangsched.core.one_call import OneCall
from gangsched.core.reading import lists
from gangsched.core.reading.queue_view import SchedulingQueue
from gangsched.core.reading.trees import tree_of_group
from gangsched.core.reading.why import asked
from gangsched.core.reservation import backfill
from gangsched.core.state import State
from gangsched.errors import UnknownPodError
from gangsched.listings import BindingRow, GroupRow, Listing, PendingRow, QuotaRow, RunningRow
from gangsched.model import GroupKey, PodGroup
from gangsched.options.backfill import Reservation
from gangsched.options.levels import Levels
from gangsched.options.quota import Quota
from gangsched.primitives.counters import MemberState
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.primitives.waiting import WaitingMap
from gangsched.resources import Resources
from gangsched.trees import Tree

__all__ = ["SchedulerView"]

_Rows = TypeVar("_Rows")


class SchedulerView:
    """What a scheduler shows of itself; ``Scheduler`` adds the calls that change it."""

    __slots__ = ("_call", "_state")

    _call: OneCall
    _state: State

    def pending(self) -> Listing[PendingRow]:
        """Return the pods and groups that need nodes, in the order in which they would be tried.

        Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods log pods).

        Raises:
            PluginError: A plugin raised.
        """
        with self._call("pending"):
            return self._rows(lists.pending)

    def binding(self) -> Listing[BindingRow]:
        """Return the pods whose bind is in progress, in the order of arrival.

        Each was released and waits for ``Bound`` or ``BindFailed``. After ``restore``, these are
        the binds that were in progress when the snapshot was taken; the next call returns them
        again. Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods).
        """
        with self._call("binding"):
            return lists.binding(self._state)

    def running(self) -> Listing[RunningRow]:
        """Return the pods and groups that are bound, in the order of arrival.

        Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods).
        """
        with self._call("running"):
            return lists.running(self._state)

    def groups(self) -> Listing[GroupRow]:
        """Return the pod groups with their counts, in the order of arrival.

        Changes nothing. At a prompt the answer is a table. Runtime complexity: O(pods log pods).

        Raises:
            PluginError: A plugin raised.
        """
        with self._call("groups"):
            return self._rows(lists.groups)

    def quotas(self) -> Listing[QuotaRow]:
        """Return the quotas with what is charged to them, each before those below it.

        Changes nothing. At a prompt the answer is a table, and quotas below others are indented.
        Runtime complexity: O(quotas x resources + gangs).
        """
        with self._call("quotas"):
            return self._rows(lists.quotas)

    def tree(self, group: str | PodGroup) -> Tree:
        """Return how a group stands part by part: its copies of roles, and the groups below it.

        Changes nothing. At a prompt the answer is drawn. Runtime complexity: O(copies x levels).

        Args:
            group: A group, or its key.

        Raises:
            UnknownPodError: The group is not known.
        """
        key = group.key if isinstance(group, PodGroup) else GroupKey(group)
        info = self._state.records.registry.get(key)
        if info is None:
            raise UnknownPodError(key)
        return tree_of_group(self._state.records.registry, info)

    def _rows(self, rows: Callable[[State], _Rows]) -> _Rows:
        return asked(self._state, lambda: rows(self._state))

    @property
    def reservation(self) -> Reservation | None:
        """The reservation of capacity for a gang; None if there is none. O(its nodes)."""
        return backfill.shown(self._state)

    def usage(self, account: str) -> Resources:
        """Return what the pods of an account hold: of a namespace, or as the order says.

        Runtime complexity: O(resources).
        """
        return self._state.records.used_by(account)

    @property
    def can_evict(self) -> bool:
        """Whether the host performs evictions, as far as the scheduler was told."""
        return self._state.settings.can_evict

    @property
    def levels(self) -> Levels:
        """The labels of nodes that nest, as the scheduler was told."""
        return self._state.settings.levels

    @property
    def stated_quotas(self) -> tuple[Quota, ...]:
        """The quotas, as the scheduler was told; ``quotas`` lists what they use."""
        return self._state.settings.quotas

    @property
    def queue(self) -> SchedulingQueue:
        """The scheduling queue."""
        state = self._state
        return SchedulingQueue(state.queue, state.records, state.nominations.known)

    @property
    def gated_pods(self) -> int:
        """The number of pods with a gate, which are not in the queue. O(pods)."""
        gated = MemberState.GATED
        return sum(record.state is gated for record in self._state.records.pods.values())

    @property
    def registry(self) -> PodGroupRegistry:
        """The pod groups; do not change them."""
        return self._state.records.registry

    @property
    def waiting(self) -> WaitingMap:
        """The pods that wait on permit; do not change them."""
        return self._state.records.waiting

    @property
    def _now(self) -> float:
        return self._state.records.now

    def __repr__(self) -> str:
        state, queue = self._state, self.queue
        return (
            f"<Scheduler unit={state.settings.unit.value} now={state.records.now!r}"
            f" nodes={state.table.count} pods={len(state.records.pods)}"
            f" waiting={len(state.records.waiting)} active={len(queue.active)}"
            f" backoff={len(queue.backoff)} unschedulable={len(queue.unschedulable)}>"
        )
