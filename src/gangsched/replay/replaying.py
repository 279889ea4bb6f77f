"""Running a decision log again.

Rules:
  R1  before each call the cluster shows what it showed when the call was made;
  R2  calls are made up to the first with another result: the calls after it were made to a
      scheduler in another state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event
from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState
from gangsched.replay.log import Call, Log, read_log
from gangsched.replay.recorded_reads import apply_if_possible
from gangsched.scheduler import Scheduler
from gangsched.values.seconds import format_instant
from gangsched.values.text import printable

__all__ = ["Divergence", "Replay", "replay"]

Maker = Callable[[ClusterState], Scheduler]


@final
@frozen
class Divergence:
    """The first call with another result than in the log.

    Attributes:
        call: The call in the log: its line, its instant, its result.
        found: The effects of the call now; None if it returned None, or raised.
        raised: Type and message of the exception that it raised now; None if it returned.
    """

    call: Call
    found: tuple[Effect, ...] | None
    raised: str | None = None

    def __str__(self) -> str:
        call = self.call
        what = "".join(f" {type(event).__name__}" for event in call.events)
        head = f"line {call.line}: {call.call}{what} at t={format_instant(call.now or 0.0)}"
        logged = _described(call.effects, call.raised)
        found = _described(self.found, self.raised)
        pairs = enumerate(zip_longest(logged, found, fillvalue="no more"), start=1)
        differing = ((n, pair) for n, pair in pairs if pair[0] != pair[1])
        number, (before, after) = next(differing, (0, ("", "")))
        return f"{head}: differs from the log at effect {number}\n  log:  {before}\n  now:  {after}"


def _described(effects: tuple[Effect, ...] | None, raised: str | None) -> list[str]:
    if raised is not None:
        return [printable(f"raised {raised}")]
    return (
        ["no pod to schedule"]
        if effects is None
        else [printable(str(effect)) for effect in effects]
    )


@final
class Replay:
    """A log that is being run again, call by call.

    Args:
        log: The log, as ``read_log`` returns it.
        make: Makes the scheduler; None to make it from the log's header.

    Attributes:
        cluster: The cluster as the log showed it at the last call.
        scheduler: The scheduler.
        divergence: The first call with another result; None while there is none.

    Raises:
        InvalidValueError: *make* is None and the header has no recipe, or an argument has a wrong
            type.
    """

    def __init__(self, log: Log, make: Maker | None = None) -> None:
        if not isinstance(log, Log):
            raise InvalidValueError("log", log, "a Log, see read_log")
        found = log.header.recipe if make is None else make
        if found is None:
            raise InvalidValueError(
                "make", None, "a callable that makes a scheduler: the log's header has no recipe"
            )
        if not callable(found):
            raise InvalidValueError("make", make, "a callable that makes a scheduler, or None")
        self._make: Maker = found
        self.cluster: InMemoryCluster = InMemoryCluster()
        self.scheduler: Scheduler = self._make(self.cluster)
        self.divergence: Divergence | None = None

    def show(self, call: Call, *, then: Callable[[Event], object] = lambda _event: None) -> None:
        """Apply what the cluster showed at a call.

        Args:
            call: The call.
            then: Called after each event, before the next one is applied.
        """
        for event in (*call.events, *call.shown):
            apply_if_possible(self.cluster, event)
            then(event)

    def perform(self, call: Call) -> tuple[Effect, ...] | None:
        """Make one call of the log, after ``show``; return the result of the scheduler."""
        if call.call == "restart":
            self.scheduler = self._make(self.cluster)
        elif call.call == "allow_evictions":
            self.scheduler.allow_evictions()
        if call.now is None:
            return None
        found, raised = None, None
        try:
            found = self._call(call, call.now)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
        if (found, raised) != (call.effects, call.raised):
            self.divergence = Divergence(call, found, raised)
        return found

    def _call(self, call: Call, now: float) -> tuple[Effect, ...] | None:
        scheduler = self.scheduler
        match call.call:
            case "advance":
                return scheduler.advance(now=now)
            case "schedule_one":
                return scheduler.schedule_one(now=now)
            case "rebuild":
                return scheduler.rebuild(now=now)
            case "handle":
                return scheduler.handle(*call.events, now=now)
            case _:
                raise InvalidValueError("call", call, "a call of a decision log")


def replay(
    lines: Iterable[str], make: Maker | None = None, *, file: str = "log"
) -> Divergence | None:
    """Run a decision log again; return the first call with another result, None if there is none.

    Runtime complexity: that of the run, without the time that it waited.

    Args:
        lines: The lines, such as an open file.
        make: Makes the scheduler; None to make it from the log's header.
        file: The name of the log for errors.

    Raises:
        DecisionLogError: A line is malformed; the lines before it were run without a divergence.
        InvalidValueError: *make* is None and the header has no recipe, or an argument has a wrong
            type.
    """
    log = read_log(lines, file=file)
    running = Replay(log, make)
    for call in log:
        running.show(call)
        running.perform(call)
        if running.divergence is not None:
            break
    return running.divergence
