"""How a workload is run on virtual time."""

from __future__ import annotations

import argparse
import gc
import json
import math
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, final

from gangsched.cli._files import BadInputError, read
from gangsched.cli._options import POLICIES, make_of, policy_settings, seconds
from gangsched.cli._progress import progress
from gangsched.cli._workload import Source
from gangsched.errors import InvalidValueError
from gangsched.events import Effect, Event
from gangsched.simulation import FaultPlan, Simulator
from gangsched.values.seconds import format_duration

__all__ = [
    "LINGER",
    "InterruptedRunError",
    "Interrupts",
    "add_run",
    "fault_plan",
    "run_settings",
    "run_to_the_end",
    "simulator_of",
]

LINGER: Final = 60.0
"""How many seconds a run continues at its end while pods still hold nodes."""

_COLLECT_AFTER: Final = 50_000
"""After how many new objects the collector of cyclic garbage looks at them."""


class InterruptedRunError(Exception):
    """Ctrl-C ended a run between two calls of the scheduler."""


@final
class Interrupts:
    """Observes a run, and ends it after Ctrl-C.

    Python raises ``KeyboardInterrupt`` anywhere, also in the middle of a scheduling cycle. The
    scheduler would then be inconsistent and could not be asked for the report. So the first
    Ctrl-C is only noted; the run ends when the current call has returned. A second Ctrl-C
    raises at once.
    """

    def __init__(self) -> None:
        self._noted = False
        self._restore: Callable[[], object] = lambda: None

    def __enter__(self) -> Interrupts:
        # Python allows signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, self._note)
            self._restore = lambda: signal.signal(signal.SIGINT, before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def event(self, event: Event, now: float) -> None:
        """End the run if Ctrl-C was pressed."""
        if self._noted:
            raise InterruptedRunError

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """End the run if Ctrl-C was pressed."""
        if self._noted:
            raise InterruptedRunError

    def settled(self, now: float) -> None:
        """End the run if Ctrl-C was pressed."""
        if self._noted:
            raise InterruptedRunError

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a workload is run."""
    run = parser.add_argument_group("run")
    run.add_argument(
        "--until",
        type=seconds,
        metavar="DURATION",
        help="when to stop; default: when nothing happens any more, and"
        f" {format_duration(LINGER)} s later if pods still hold nodes then",
    )
    run.add_argument(
        "--bind-seconds",
        type=seconds,
        default=0.0,
        metavar="DURATION",
        help="the longest time that a bind takes; each draws its own time below it",
    )
    run.add_argument("--seed", type=int, default=0, help="the seed that bind times are drawn from")
    wrong = run.add_mutually_exclusive_group()
    wrong.add_argument("--faults", metavar="JSON", help="a file with a plan of faults to inject")
    wrong.add_argument(
        "--fault-seed", type=int, metavar="SEED", help="inject a plan of faults drawn from a seed"
    )


def run_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the scheduler and of the run as plain data."""
    chosen = policy_settings(options)
    scheduler = ("order", "when_blocked", "permit_timeout", "placement", "levels", "half_life")
    names = ("policy", "config", *scheduler)
    return {
        **{name: chosen[name] for name in names},
        # a function and a configuration say it themselves
        "preempt": options.preempt if chosen["policy"] in POLICIES else None,
        "backfill": chosen["backfill"],
        "estimates": chosen["estimates"],
        "bind_seconds": options.bind_seconds,
        "seed": options.seed,
        "faults": fault_plan(options),
        "restart": options.restart or None,  # only told if it is given
        "until": options.until,
    }


def simulator_of(source: Source, settings: dict[str, Any], **also: Any) -> Simulator:
    """Return a simulator that has not run yet."""
    faults = settings.get("faults")
    return Simulator(
        source.arrivals(),
        make_of(settings, source.levels.levels, source.quotas.quotas, source.users),
        bind_seconds=settings.get("bind_seconds", 0.0),
        seed=settings["seed"],
        strict_order=settings["policy"] == "fifo",
        replace_lost=bool(settings.get("restart")),
        faults=None if faults is None else FaultPlan.from_json(faults),
        **also,
    )


def run_to_the_end(simulator: Simulator, until: float | None, *, arrivals: int, name: str) -> None:
    """Run until an instant; without one until nothing happens, and ``LINGER`` if nodes are held.

    Args:
        simulator: The simulator.
        until: The instant, or None.
        arrivals: How many arrivals there are.
        name: What is run, for the progress that is shown.
    """
    with _rare_collections(), progress(name, arrivals) as advanced:
        while simulator.step(until=math.inf if until is None else until) is not None:
            advanced(simulator.arrived, simulator.now)
        if until is None and any(job.holding for job in simulator.jobs):
            until = simulator.last_event_at + LINGER
        if until is not None:
            simulator.run(until=until)


@contextmanager
def _rare_collections() -> Generator[None]:
    """Let Python look for cyclic garbage after more new objects than by default.

    A run makes many small objects and hardly any cycles. With the default of 700 objects, the
    collector takes a tenth of the time of a large trace, and finds next to nothing.
    """
    before = gc.get_threshold()
    if before[0]:  # zero turns the collector off
        gc.set_threshold(max(before[0], _COLLECT_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def fault_plan(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the plan of faults as plain data."""
    if options.fault_seed is not None:
        return FaultPlan.drawn(options.fault_seed).to_json()
    if options.faults is None:
        return None
    try:
        return FaultPlan.from_json(json.loads(read(options.faults))).to_json()
    except InvalidValueError as error:
        raise BadInputError(f"{options.faults}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{options.faults}: expected JSON: {error}") from error
