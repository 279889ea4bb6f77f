"""Writing a decision log: around any scheduler, under any driver.

Rules:
  R1  a call is written as one line when it is over, whether it returned or raised;
  R2  recording does not change decisions: the recorder asks nothing of the scheduler or of the
      cluster that they would not be asked without it;
  R3  a value that is not an event, or not an instant, cannot be written: it is refused and
      changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event
from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState
from gangsched.quantity import is_seconds
from gangsched.replay.log import Call, Header
from gangsched.replay.recipe import Recipe
from gangsched.replay.recorded_reads import RecordedClusterState, apply_if_possible
from gangsched.scheduler import Scheduler
from gangsched.values.checks import check_event

__all__ = ["DecisionLog", "RecordedScheduler"]


@final
class DecisionLog:
    """A decision log that is being written::

        log = DecisionLog(file.write, Recipe("coscheduling"))
        driver = Driver(log.scheduler(cluster), apply=cluster.apply, bind=bind)

    Not thread-safe: a shell serialises the calls of its scheduler.

    Args:
        write: Takes the lines one by one, each with its line break; the header at once.
        make: Makes the scheduler. A ``Recipe`` is written into the header, so that the log can be
            run again without further arguments.
        about: Other data for the header, as plain data for JSON.

    Raises:
        InvalidValueError: *about* is not plain data, or another argument is not callable; nothing
            was written.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        make: Callable[[ClusterState], Scheduler],
        *,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("write", write), ("make", make)):
            if not callable(value):
                raise InvalidValueError(name, value, "a callable")
        self._write = write
        self._make = make
        self._known = InMemoryCluster()
        self._begun = False
        recipe = make if isinstance(make, Recipe) else None
        write(Header(recipe=recipe, about=about or {}).to_line())

    def scheduler(self, cluster: ClusterState) -> RecordedScheduler:
        """Return a new scheduler whose calls are written; after the first, that is a restart.

        Its first call writes everything that the cluster shows. So a log can be started at any
        time, with a new scheduler.
        """
        if self._begun:
            self.write(Call(call="restart"))
        self._begun = True
        return RecordedScheduler(self, self._make, cluster, self._known)

    def write(self, call: Call) -> None:
        """Write one line."""
        self._write(call.to_line())


@final
class RecordedScheduler:
    """A scheduler whose calls are written to a log; made by ``DecisionLog.scheduler``.

    It has the calls of ``Scheduler``; see there.

    Attributes:
        scheduler: The scheduler itself, for reading.
    """

    __slots__ = ("_known", "_log", "_reads", "scheduler")

    def __init__(
        self,
        log: DecisionLog,
        make: Callable[[ClusterState], Scheduler],
        cluster: ClusterState,
        known: InMemoryCluster,
    ) -> None:
        self._log = log
        self._known = known
        self._reads = RecordedClusterState(cluster, known)
        self.scheduler: Scheduler = make(self._reads)

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """Process events of one instant; return their effects."""
        for event in events:
            check_event(event)
        if not is_seconds(now):
            return self.scheduler.handle(*events, now=now)  # the scheduler refuses the instant
        self._write_reads()
        for event in events:
            apply_if_possible(self._known, event)
        effects = self._made("handle", events, now, lambda: self.scheduler.handle(*events, now=now))
        return effects or ()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass; return the effects."""
        self._write_reads()
        return self._made("advance", (), now, lambda: self.scheduler.advance(now=now)) or ()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Run one scheduling cycle; return its effects, or None if the active queue is empty."""
        self._write_reads()
        return self._made("schedule_one", (), now, lambda: self.scheduler.schedule_one(now=now))

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None until the next event."""
        return self.scheduler.next_deadline()

    def allow_evictions(self) -> None:
        """Note that the host performs evictions; written only if it changes anything."""
        before = self.scheduler.can_evict
        self.scheduler.allow_evictions()
        if self.scheduler.can_evict != before:
            self._log.write(Call(call="allow_evictions"))

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Rebuild the state from all objects that the cluster state shows."""
        self._write_reads()
        return self._made("rebuild", (), now, lambda: self.scheduler.rebuild(now=now)) or ()

    def _made(
        self,
        call: str,
        events: tuple[Event, ...],
        now: float,
        make: Callable[[], tuple[Effect, ...] | None],
    ) -> tuple[Effect, ...] | None:
        raised, effects = None, None
        try:
            effects = make()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            raise
        finally:
            if is_seconds(now):
                shown = self._reads.take()
                self._log.write(
                    Call(
                        call=call,
                        now=now,
                        events=events,
                        shown=shown,
                        effects=effects,
                        raised=raised,
                    )
                )
        return effects

    def _write_reads(self) -> None:
        """Write what was read since the last call, before the next event changes what is known."""
        if self._reads.unlogged:
            self._log.write(Call(call="shown", shown=self._reads.take()))
