"""Writing a decision log: round any scheduler, under any driver.

Rules:
  R1  a call is written when it is over, as one line, whether it returned or raised;
  R2  what is recorded decides as it would unrecorded: nothing is asked of it that it is not
      asked anyhow;
  R3  what is no fact, or no instant, cannot be written and changes nothing: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from gangsched._checks import check_event
from gangsched.events import Effect, Event
from gangsched.framework import Scheduler
from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState
from gangsched.quantity import is_seconds
from gangsched.replay.log import Call, Header
from gangsched.replay.recipe import Recipe
from gangsched.replay.shown import Shown, take_in

__all__ = ["DecisionLog", "RecordedScheduler"]


@final
class DecisionLog:
    """A decision log that is being written::

        log = DecisionLog(file.write, Recipe("coscheduling"))
        driver = Driver(log.scheduler(cluster), apply=cluster.apply, bind=bind)

    Not thread-safe: a shell serialises the calls of its scheduler.

    Args:
        write: Takes one line after the other, each with its end; the header at once.
        make: Makes the scheduler. A ``Recipe`` is written into the header, so that the log can be
            run again without being told how.
        about: What else to say in the header, as plain data for JSON.

    Raises:
        InvalidValueError: *about* is no plain data; nothing was written.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        make: Callable[[ClusterState], Scheduler],
        *,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._write = write
        self._make = make
        self._known = InMemoryCluster()
        self._begun = False
        recipe = make if isinstance(make, Recipe) else None
        write(Header(recipe=recipe, about=about or {}).to_line())

    def scheduler(self, cluster: ClusterState) -> RecordedScheduler:
        """Return a new scheduler whose calls are written; after the first, that is a restart.

        Its first call writes all that the cluster shows: a listing. So a log can be taken up at
        any time, with a new scheduler.
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

    Has the calls of ``Scheduler``, which see.

    Attributes:
        scheduler: The scheduler itself, for reading.
    """

    __slots__ = ("_known", "_log", "_shown", "scheduler")

    def __init__(
        self,
        log: DecisionLog,
        make: Callable[[ClusterState], Scheduler],
        cluster: ClusterState,
        known: InMemoryCluster,
    ) -> None:
        self._log = log
        self._known = known
        self._shown = Shown(cluster, known)
        self.scheduler: Scheduler = make(self._shown)

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        """Take in a fact; return what follows from it."""
        check_event(event)
        if not is_seconds(now):
            return self.scheduler.handle(event, now=now)  # which refuses it
        self._write_news()
        take_in(self._known, event)
        effects = self._made("handle", event, now, lambda: self.scheduler.handle(event, now=now))
        return effects or ()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Let time pass; return what follows from it."""
        self._write_news()
        return self._made("advance", None, now, lambda: self.scheduler.advance(now=now)) or ()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """Make one decision; None when there is nobody to decide about and nothing to tell."""
        self._write_news()
        return self._made("schedule_one", None, now, lambda: self.scheduler.schedule_one(now=now))

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None when only a fact changes anything."""
        return self.scheduler.next_deadline()

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """Take in all that the cluster state shows."""
        self._write_news()
        return self._made("rebuild", None, now, lambda: self.scheduler.rebuild(now=now)) or ()

    def _made(
        self,
        call: str,
        event: Event | None,
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
                shown = self._shown.take_news()
                self._log.write(
                    Call(
                        call=call, now=now, event=event, shown=shown, effects=effects, raised=raised
                    )
                )
        return effects

    def _write_news(self) -> None:
        """Write what was read between two calls, before the next fact is in what is known."""
        if self._shown.news:
            self._log.write(Call(call="shown", shown=self._shown.take_news()))
