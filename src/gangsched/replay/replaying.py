"""Running a decision log again.

Rules:
  R1  before each call the cluster shows what it showed when the call was made;
  R2  calls are made up to the first that returns something else: what comes after it was said to
      another scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import final

from attrs import frozen

from gangsched._seconds import format_instant
from gangsched.errors import InvalidValueError
from gangsched.events import Effect
from gangsched.framework import Scheduler
from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState
from gangsched.replay.log import Call, Log, read_log
from gangsched.replay.shown import take_in

__all__ = ["Divergence", "Replay", "replay"]

Maker = Callable[[ClusterState], Scheduler]


@final
@frozen
class Divergence:
    """The first call that did not do again what the log says.

    Attributes:
        call: The call, as the log has it: its line, its instant, what it returned.
        found: What it returned now; None where it returned None, or raised.
        raised: What it raised now, its type and its sentence; None when it returned.
    """

    call: Call
    found: tuple[Effect, ...] | None
    raised: str | None = None

    def __str__(self) -> str:
        call = self.call
        what = "" if call.event is None else f" {type(call.event).__name__}"
        when = "" if call.now is None else f" at t={format_instant(call.now)}"
        head = f"line {call.line}: {call.call}{what}{when}"
        logged = _told(call.effects, call.raised)
        found = _told(self.found, self.raised)
        pairs = enumerate(zip_longest(logged, found, fillvalue="no more"), start=1)
        differing = ((n, pair) for n, pair in pairs if pair[0] != pair[1])
        number, (before, after) = next(differing, (0, ("", "")))
        return f"{head}: differs from the log at effect {number}\n  log:  {before}\n  now:  {after}"


def _told(effects: tuple[Effect, ...] | None, raised: str | None) -> list[str]:
    if raised is not None:
        return [f"raised {raised}"]
    return ["nobody to decide about"] if effects is None else [str(one) for one in effects]


@final
class Replay:
    """A log that is being run again, call by call.

    Args:
        log: The log, as ``read_log`` returns it.
        make: Makes the scheduler; None for as the log's header says.

    Attributes:
        cluster: What the cluster showed at the last call.
        scheduler: The scheduler.
        divergence: The first call that did something else; None while there is none.

    Raises:
        InvalidValueError: *make* is None, and the header does not say.
    """

    def __init__(self, log: Log, make: Maker | None = None) -> None:
        found = log.header.recipe if make is None else make
        if found is None:
            raise InvalidValueError(
                "make",
                None,
                "a function that makes the scheduler, because the log's header has no recipe",
            )
        self._make: Maker = found
        self.cluster: InMemoryCluster = InMemoryCluster()
        self.scheduler: Scheduler = self._make(self.cluster)
        self.divergence: Divergence | None = None

    def show(self, call: Call) -> None:
        """Let the cluster show what it showed at a call."""
        if call.event is not None:
            take_in(self.cluster, call.event)
        for event in call.shown:
            take_in(self.cluster, event)

    def perform(self, call: Call) -> tuple[Effect, ...] | None:
        """Make one call as the log has it, after ``show``; return what the scheduler does."""
        if call.call == "restart":
            self.scheduler = self._make(self.cluster)
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
        match call.call, call.event:
            case "advance", None:
                return scheduler.advance(now=now)
            case "schedule_one", None:
                return scheduler.schedule_one(now=now)
            case "rebuild", None:
                return scheduler.rebuild(now=now)
            case "handle", event if event is not None:
                return scheduler.handle(event, now=now)
            case _:
                raise InvalidValueError("call", call, "a call of a decision log")


def replay(
    lines: Iterable[str], make: Maker | None = None, *, file: str = "log"
) -> Divergence | None:
    """Run a decision log again; return where it first went another way, None if nowhere.

    Runtime complexity: that of the run, without what it waited for.

    Args:
        lines: The lines, such as an open file.
        make: Makes the scheduler; None for as the log's header says.
        file: What to call the log in errors.

    Raises:
        DecisionLogError: A line is malformed; those before it were run without a divergence.
        InvalidValueError: *make* is None, and the header does not say.
    """
    log = read_log(lines, file=file)
    running = Replay(log, make)
    for call in log:
        running.show(call)
        running.perform(call)
        if running.divergence is not None:
            break
    return running.divergence
