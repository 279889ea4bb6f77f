"""``Scheduler``: events in, effects out.

Each call begins with what is due (``_begin``), does its own work, settles the gangs that this
concerned (``settle``), and returns the effects.

Rules:
  R1  ``now`` never decreases, and one call sees one instant;
  R2  nothing here sleeps, locks, logs, reads a clock or does I/O. The class is not thread-safe;
  R3  a call from inside another one is refused, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from gangsched._checks import check_event
from gangsched._core._backoff import Backoff
from gangsched._core._one_call import OneCall
from gangsched._core._registry import PodGroupRegistry
from gangsched._core._waiting import WaitingMap
from gangsched._fields import check_now
from gangsched._seconds import format_duration
from gangsched.core import attempt, cycle, intake
from gangsched.core.preemption import make_room, nominations
from gangsched.core.reservation import backfill as reserving
from gangsched.core.settle import reject_one, settle_all
from gangsched.core.state import Settings, State
from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event, PermitAllowed, PermitRejected
from gangsched.framework.config.backfill import Backfill, Reservation
from gangsched.framework.config.preemption import Preemption
from gangsched.framework.config.profile import Profile
from gangsched.framework.config.scheduling_unit import PlacementStrategy, SchedulingUnit
from gangsched.membership import Membership, membership
from gangsched.model import Pod
from gangsched.protocols import ClusterState

__all__ = ["Scheduler"]


@final
class Scheduler:
    """A scheduler: decides which pod runs on which node, and when.

    Args:
        cluster: The cluster state. It must show a change before the event about it is handled.
        profile: The plugins.
        membership: Returns the group of a pod.
        unit: Whether one scheduling cycle is about a pod or about a whole gang.
        placement: Which pods fill nodes instead of being spread.
        search_budget: The number of steps of a search for a placement; 0 for no search.
        backoff: How long a gang backs off after a failure that no node can help.
        preemption: Whether pods of lower priority are evicted; None for never.
        backfill: When capacity is reserved for a gang that fails; None for never.
        group_grace: For how many seconds a group is remembered after its last member is gone.
        strict_priorities: Whether a pod with another priority than its group is refused.
        can_evict: Whether the host performs ``Evict``.
    """

    __slots__ = ("_call", "_listed", "_state")

    def __init__(
        self,
        cluster: ClusterState,
        profile: Profile,
        *,
        membership: Callable[[Pod], Membership | None] = membership,
        unit: SchedulingUnit = SchedulingUnit.POD,
        placement: PlacementStrategy = PlacementStrategy.AUTO,
        search_budget: int = 10_000,
        backoff: Backoff | None = None,
        preemption: Preemption | None = None,
        backfill: Backfill | None = None,
        group_grace: float = 60.0,
        strict_priorities: bool = False,
        can_evict: bool | None = None,
        **_later: Any,
    ) -> None:
        self._state = State(
            Settings(
                cluster=cluster,
                profile=profile,
                membership=membership,
                unit=unit,
                placement=placement,
                search_budget=search_budget,
                backoff=backoff or Backoff(),
                preemption=preemption,
                backfill=backfill,
                group_grace=group_grace,
                strict_priorities=strict_priorities,
                can_evict=preemption is not None if can_evict is None else can_evict,
            )
        )
        self._state.queue.preempts = partial(make_room.preempts, self._state)
        self._listed = False
        self._call = OneCall()

    # The four calls -----------------------------------------------------------------------------

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        """Handle an event, and return the effects that follow from it."""
        check_event(event)
        with self._call("handle"):
            if isinstance(event, PermitAllowed | PermitRejected):
                intake.check_answer(self._state, event)
            self._begin(now)
            self._state.events += 1
            intake.take_in(self._state, event)
            return self._end()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Apply all deadlines up to an instant."""
        with self._call("advance"):
            self._begin(now, passing=True)
            return self._end()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Run one scheduling cycle; None if no gang is active and there are no effects."""
        with self._call("schedule_one"):
            self._begin(now)
            reserving.look(self._state)
            decided = cycle.run(self._state)
            effects = self._end()
            return effects if decided or effects else None

    def next_deadline(self) -> float | None:
        """Return the instant of the next deadline; None if only an event can change anything."""
        state = self._state
        deadlines = (
            state.records.waiting.next_deadline(),
            state.queue.next_deadline(),
            nominations.next_deadline(state),
            reserving.next_deadline(state),
        )
        return min((each for each in deadlines if each is not None), default=None)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Read the whole cluster state again."""
        with self._call("rebuild"):
            self._begin(now)
            self._state.events += 1
            intake.listing(self._state)
            return self._end()

    # What is shown ------------------------------------------------------------------------------

    @property
    def waiting(self) -> WaitingMap:
        """The pods that wait on permit; do not change them."""
        return self._state.records.waiting

    @property
    def registry(self) -> PodGroupRegistry:
        """The pod groups; do not change them."""
        return self._state.records.registry

    @property
    def reservation(self) -> Reservation | None:
        """The reservation of capacity for a gang; None if there is none. O(its nodes)."""
        return reserving.shown(self._state)

    def usage(self, account: str) -> dict[str, int]:
        """Return what the pods of a namespace hold of each resource, in thousandths."""
        used = self._state.records.usage.get(account, {})
        names = self._state.table.resources
        return {name: used[n] for name, n in names.items() if used.get(n)}

    def forget_answers(self) -> None:
        """Drop all that is remembered beside the records: the effects stay the same."""
        self._state.evaluator.forget()

    # Inside -------------------------------------------------------------------------------------

    def _begin(self, now: float, *, passing: bool = False) -> None:
        check_now(now)
        state = self._state
        if now < state.now:
            raise InvalidValueError("now", now, f"at least {state.now!r}, the instant before")
        earlier, state.now = state.now, now
        if not self._listed:
            self._listed = True
            intake.listing(state)
        begun_before = float("inf") if passing else now
        due = state.records.waiting.expire(now=now, begun_before=begun_before)
        verdicts: dict[str, Any] = {}
        for entry in due:
            record = state.records.pods[entry.uid]
            state.records.waiting.put(entry)
            reason = f"timed out after waiting {format_duration(now - entry.since)}s on permit"
            record.gang.is_whole = True  # pod by pod it did not get its nodes in time
            reject_one(state, record, reason, "timeout", verdicts)
        for verdict in verdicts.values():
            attempt.apply_verdict(state, verdict)
        if now > earlier:
            state.records.registry.expire(now=now)
        for gang in state.queue.due(now):
            state.touch(gang)
        nominations.review(state, passing=passing)
        reserving.expire(state)

    def _end(self) -> tuple[Effect, ...]:
        state = self._state
        settle_all(state)
        reserving.expire(state)
        settle_all(state)
        effects, state.out = tuple(state.out), []
        deferred, state.points.deferred = state.points.deferred, []
        if deferred:
            state.out = list(effects)  # the next call returns them
            raise deferred[0]
        return effects

    def _check(self) -> None:
        state = self._state
        state.records.check()
        state.nominations.check(state.records.holds)
        state.queue.check(state.records.gangs.values())
