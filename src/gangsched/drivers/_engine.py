"""The part of a driver that never waits: the calls of the scheduler and their effects.

Both drivers are a loop around one ``Engine``. Everything flows one way::

    tell -> inbox -> apply -> handle --+
                         schedule_one -+-> effects -> observers -> operations -> bind, evict
                         advance ------+                                             |
        handle <- apply <- reports, in the order of their binds <- outcome ----------+

The driver calls ``take`` and ``decide``. What these calls return is put in ``operations`` before
any observer sees it, so an exception of an observer loses no bind. The driver then performs
operations as ``start`` hands them out, at most *max_binds* at once, on tasks or threads of its own.
Each ends with ``finish``, which reports binds to the scheduler.

Rules:
  R1  every ``Bind`` ends in one report, ``Bound`` or ``BindFailed``. A bind that raises is a
      ``BindFailed``. So is a bind that was done and that ``apply`` refuses, since the pod has been
      deleted meanwhile: its node must not stay assumed;
  R2  the binds of one call are reported in their order, regardless of duration. The
      binds of different calls do not wait for each other;
  R3  with *binds_gangs*, the binds of one ``Release`` of several members are one operation: they
      have one outcome, and each is reported with it. So are the binds of one group that a restored
      scheduler repeats in one call;
  R4  an event that ``apply`` refuses, or the scheduler with ``ClusterStateError``, is dropped. A
      failed eviction is repeated. Both go to *on_error* and the log, and the loop goes on;
  R5  any other exception is kept as ``failure``. The driver then stops deciding, performs and
      reports what is under way, and raises it. Operations, reports and events outlive that, for
      the next ``run``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, ParamSpec, final

from attrs import define, field

from gangsched.drivers._contract import (
    DrivenScheduler,
    ErrorHandler,
    allow_evictions,
    ask_scheduler,
)
from gangsched.drivers._evictions import Evictions
from gangsched.drivers._inbox import Marker, subject_of
from gangsched.errors import ClusterStateError, InvalidValueError
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    NodeDeleted,
    ObjectDeleted,
    PodAdded,
    PodDeleted,
    PodGroupDeleted,
    PodUpdated,
    Release,
)
from gangsched.listings import BindingRow
from gangsched.model import GroupKey, PodUID
from gangsched.protocols import Observer
from gangsched.scheduler import Scheduler

__all__ = ["BATCH", "Engine", "Operation"]

P = ParamSpec("P")

BATCH: Final = 64
"""How many events are taken in before decisions are made, while more events wait."""

_log = logging.getLogger("gangsched.drivers")


@define(eq=False)
class Operation:
    """One ``Bind`` or ``Evict``, or the binds of one release, from the effect to its outcome.

    Attributes:
        effect: What to perform.
        release: The operations of all binds that are performed in one call, this one first; empty
            if it is performed alone.
        siblings: The operations of the binds of the same call that are not reported yet, in order.
        report: How the bind went; None while it is under way.
    """

    effect: Bind | Evict
    release: list[Operation] = field(factory=lambda: list[Operation]())
    siblings: deque[Operation] = field(factory=lambda: deque[Operation]())
    report: Bound | BindFailed | None = None

    @property
    def binds(self) -> tuple[Bind, ...]:
        """The binds that are performed together; empty for one that is performed alone."""
        return tuple(each.effect for each in self.release if isinstance(each.effect, Bind))


@final
@define(eq=False, kw_only=True, repr=False)
class Engine:
    """The state of a driver without its threads or tasks. Not thread-safe.

    Args:
        scheduler: The scheduler.
        apply: Makes an event true in the cluster state.
        bind: Performs a bind; None if *bind_gang* does.
        bind_gang: Performs the binds of a release; or None.
        evict: Evicts a pod; or None.
        observe: Called with every effect; or None.
        observers: Called with every event and every result.
        on_error: Called with what was refused or failed, and the exception; or None.
        clock: The current instant.
        max_binds: How many operations may be under way at once.

    Attributes:
        failure: The first exception that has to end ``run``; None if there is none.
        operations: What is to be started, in order.
        under_way: What was started and has not ended.
    """

    scheduler: DrivenScheduler
    apply: Callable[[Event], object]
    bind: Callable[[Bind], Any] | None
    bind_gang: Callable[[tuple[Bind, ...]], Any] | None
    evict: Callable[[Evict], Any] | None
    observe: Callable[[Effect], object] | None
    observers: Sequence[Observer] = field(converter=tuple[Observer, ...])
    on_error: ErrorHandler | None
    clock: Callable[[], float]
    max_binds: int
    failure: Exception | None = field(default=None, init=False)
    operations: deque[Operation] = field(factory=deque[Operation], init=False)
    under_way: set[Operation] = field(factory=set[Operation], init=False)
    _evictions: Evictions = field(factory=Evictions, init=False)
    _told: list[Event] = field(factory=list[Event], init=False)
    _marked: dict[Hashable, Event] = field(factory=dict[Hashable, Event], init=False)
    _unreported: list[Bound | BindFailed] = field(factory=list[Bound | BindFailed], init=False)

    def __attrs_post_init__(self) -> None:
        if type(self.max_binds) is not int or self.max_binds < 1:
            raise InvalidValueError("max_binds", self.max_binds, "an int >= 1")
        if self.bind is None and self.bind_gang is None:
            raise InvalidValueError("bind", None, "a function, unless bind_gang is one")
        if self.evict is not None:
            allow_evictions(self.scheduler)

    # Calls of the scheduler -----------------------------------------------------------------

    def take(self, item: Event | Marker) -> None:
        """Take in one item of the inbox; ``tell`` lets the scheduler handle it with the others."""
        if isinstance(item, Marker):
            self.rebuild()
        else:
            self._take(item)

    def tell(self) -> bool:
        """Let the scheduler handle what was taken in; return whether there was anything."""
        told, self._told = self._told, []
        if told:
            self._marked.clear()
            self._handle(told, self.clock())
        return bool(told)

    def decide(self) -> bool:
        """Make one decision; return whether there was one to make."""
        self.tell()
        return self._call(self.scheduler.schedule_one)

    def advance(self) -> None:
        """Let time pass: permit timeouts, backoff, evictions to be repeated."""
        due = self._evictions.due(now=self.clock())
        self.operations.extend(Operation(evict) for evict in due)
        self.tell()
        self._call(self.scheduler.advance)

    def rebuild(self) -> None:
        """Have the scheduler read the whole cluster state."""
        self.tell()
        self._call(self.scheduler.rebuild)

    def resume(self) -> None:
        """Continue after a ``run`` that did not end by ``stop``.

        An event whose call raised may be lost, so the cluster state is read again. A report whose
        call raised is delivered again.
        """
        self.rebuild()
        reports, self._unreported = self._unreported, []
        for report in reports:
            self._take(report)

    def settle(self) -> None:
        """Tell the observers that nothing happens until time passes or an event comes."""
        now = self.clock()
        for observer in self.observers:
            self._guard(observer.settled, now)

    def timeout(self) -> float | None:
        """Return in how many seconds ``advance`` is due; None if only an event can do anything."""
        deadlines = (self.scheduler.next_deadline(), self._evictions.next_deadline())
        when = min((each for each in deadlines if each is not None), default=None)
        return None if when is None else max(0.0, when - self.clock())

    # Operations -----------------------------------------------------------------------------

    def start(self) -> Operation | None:
        """Return the next operation to perform; None if there is none, or enough are under way."""
        if not self.can_start:
            return None
        operation = self.operations.popleft()
        self.under_way.add(operation)
        return operation

    def performer(self, operation: Operation) -> tuple[str, Callable[[Any], Any], Any]:
        """Return the function that performs an operation, with its name and its argument."""
        effect = operation.effect
        if isinstance(effect, Evict):
            assert self.evict is not None  # else there is no such operation
            return "evict", self.evict, effect
        if self.bind_gang is not None and (operation.binds or self.bind is None):
            return "bind_gang", self.bind_gang, operation.binds or (effect,)
        assert self.bind is not None
        return "bind", self.bind, effect

    def finish(self, operation: Operation, error: BaseException | None) -> None:
        """Take in the outcome of an operation: *error*, or None if it was performed."""
        if operation not in self.under_way:
            return
        self.under_way.remove(operation)
        effect = operation.effect
        if isinstance(effect, Evict):
            self._evicted(effect, error)
            return
        for each in operation.release or (operation,):
            if isinstance(each.effect, Bind):
                each.report = _report(each.effect, error)
        siblings = operation.siblings
        while siblings and (report := siblings[0].report) is not None:
            siblings.popleft()
            self._take(report)

    @property
    def can_start(self) -> bool:
        """Whether ``start`` returns an operation."""
        return bool(self.operations) and len(self.under_way) < self.max_binds

    @property
    def is_busy(self) -> bool:
        """Whether any operation is to be started or under way."""
        return bool(self.operations or self.under_way)

    def take_failure(self) -> Exception | None:
        """Return the exception that has to end ``run``, and forget it."""
        failure, self.failure = self.failure, None
        return failure

    # Inside ---------------------------------------------------------------------------------

    def _call(self, call: Callable[..., tuple[Effect, ...] | None]) -> bool:
        """Call the scheduler; return whether it did anything."""
        now = self.clock()
        try:
            effects = call(now=now)
        except Exception as error:
            self._fail(error)
            return False
        if effects is None:
            return False
        self._returned(effects, now)
        return True

    def _take(self, event: Event) -> None:
        if self._marked and self._would_hide(event):
            self.tell()
        try:
            self.apply(event)
        except Exception as error:
            self._refused(event, error)
            if isinstance(event, Bound):
                said = f"it was bound to {event.node}, but the cluster state refused that: {error}"
                self._take(BindFailed(event.uid, event.attempt, said))
                return
            if not isinstance(event, BindFailed):
                return
        if isinstance(event, PodDeleted):
            self._evictions.end(event.uid)
        elif isinstance(event, PodUpdated) and (
            event.pod.deleted_at is not None or event.pod.is_finished
        ):
            self._evictions.end(event.pod.uid)
        now = self.clock()
        for observer in self.observers:
            self._guard(observer.event, event, now)
        self._told.append(event)
        if isinstance(event, PodDeleted | NodeDeleted | PodGroupDeleted | ObjectDeleted | Bound):
            self._marked[subject_of(event)[0]] = event

    def _would_hide(self, event: Event) -> bool:
        """Return whether the cluster state would not show any more what an earlier event says.

        What was deleted is made anew, or a pod that was bound has ended.
        """
        earlier = self._marked.get(subject_of(event)[0])
        if not isinstance(earlier, Bound):
            return earlier is not None
        if isinstance(event, PodAdded | PodUpdated):
            return event.pod.is_finished or event.pod.deleted_at is not None
        return True

    def _handle(self, events: Sequence[Event], now: float) -> bool:
        """Let the scheduler handle events; return whether it did.

        If it raises for several, each is handled by itself once more, to know which one it was.
        Those that it took in change nothing then.
        """
        try:
            effects = self.scheduler.handle(*events, now=now)
        except Exception as error:
            if len(events) > 1:
                refused = [event for event in events if not self._handle((event,), now)]
                if not refused:
                    self._fail(error)  # of a plugin, and not of an event
            elif isinstance(error, ClusterStateError):
                self._refused(events[0], error)
            else:
                self._fail(error)
                self._unreported += [e for e in events if isinstance(e, Bound | BindFailed)]
            return False
        self._returned(effects, now)
        return True

    def _returned(self, effects: tuple[Effect, ...], now: float) -> None:
        # operations first: whatever an observer raises, they are performed
        binds: deque[Operation] = deque()
        releases = self._releases(effects) if self.bind_gang is not None else {}
        for effect in effects:
            if isinstance(effect, Bind):
                release = releases.get(effect.uid, [])
                binds.append(Operation(effect, release, binds))
                if not release:  # the first of its release, or a bind that is performed alone
                    self.operations.append(binds[-1])
                if effect.uid in releases:
                    release.append(binds[-1])
            elif isinstance(effect, Evict) and self.evict is not None:
                self._evictions.begin(effect)
                self.operations.append(Operation(effect))
        for observer in self.observers:
            self._guard(observer.effects, effects, now)
        for effect in effects:
            _log.debug("%s", effect)
            if self.observe is not None:
                self._guard(self.observe, effect)
            if isinstance(effect, Evict) and self.evict is None:
                expected = (
                    f"a function that evicts pods, as the scheduler asks to evict {effect.uid}"
                )
                self._fail(InvalidValueError("evict", None, expected))

    def _releases(self, effects: tuple[Effect, ...]) -> dict[PodUID, list[Operation]]:
        """Return an empty list for each pod that is bound in one call with others, which share it.

        Binds that the first call after a restore repeats come without their ``Release``. Those of
        one group are performed together, or the part that fails would leave the rest running.

        Runtime complexity: O(effects), and O(pods) if several binds are of no release.
        """
        parts = [list(effect.members) for effect in effects if isinstance(effect, Release)]
        released = {uid for members in parts for uid in members}
        repeated = {e.uid for e in effects if isinstance(e, Bind) and e.uid not in released}
        if len(repeated) > 1:
            groups: dict[GroupKey, list[PodUID]] = {}
            for row in ask_scheduler(self.scheduler, _binding):
                if row.uid in repeated and row.group is not None:
                    groups.setdefault(row.group, []).append(row.uid)
            parts += groups.values()
        releases: dict[PodUID, list[Operation]] = {}
        for members in parts:
            if len(members) > 1:
                together: list[Operation] = []
                releases.update((uid, together) for uid in members)
        return releases

    def _evicted(self, evict: Evict, error: BaseException | None) -> None:
        if error is None:
            self._evictions.end(evict.uid)
            return
        if not self._evictions.failed(evict, now=self.clock()):
            return  # the pod is gone, which is what was wanted
        failed = error if isinstance(error, Exception) else RuntimeError(_said(error))
        _log.warning("eviction of %s from %s failed: %s", evict.uid, evict.node, _said(error))
        self._tell_error(evict, failed)

    def _refused(self, event: Event, error: Exception) -> None:
        _log.warning("%s was refused: %s", event, error)
        self._tell_error(event, error)

    def _tell_error(self, what: Event | Evict, error: Exception) -> None:
        if self.on_error is not None:
            self._guard(self.on_error, what, error)

    def _guard(self, call: Callable[P, object], *args: P.args, **named: P.kwargs) -> None:
        """Call a function of the host; keep what it raises, to end ``run`` with it."""
        try:
            call(*args, **named)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
        elif self.failure is not error:
            self.failure.add_note(f"and also: {type(error).__name__}: {error}")


def _binding(scheduler: Scheduler) -> tuple[BindingRow, ...]:
    """List the binds in progress; none of a wrapper that passes on no more than what is driven."""
    return scheduler.binding() if isinstance(scheduler, Scheduler) else ()


def _report(bind: Bind, error: BaseException | None) -> Bound | BindFailed:
    if error is None:
        return Bound(bind.uid, bind.node, bind.attempt)
    _log.warning("bind of %s to %s failed: %s", bind.uid, bind.node, _said(error))
    return BindFailed(bind.uid, bind.attempt, _said(error))


def _said(error: BaseException) -> str:
    return str(error) or repr(error)
