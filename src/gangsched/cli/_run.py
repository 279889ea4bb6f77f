"""How a workload is run on virtual time."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any, Final

from gangsched._seconds import format_duration
from gangsched.cli._files import BadInputError, read
from gangsched.cli._options import UNUSED, recipe, seconds
from gangsched.errors import InvalidValueError
from gangsched.simulation import FaultPlan, Simulator, Workload
from gangsched.simulation.render import progress

__all__ = ["LINGER", "add_run", "run_settings", "run_to_the_end", "simulator_of"]

LINGER: Final = 60.0
"""For how many seconds a run goes on over what holds nodes to the end."""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how it runs."""
    run = parser.add_argument_group("how it runs")
    run.add_argument(
        "--until",
        type=seconds,
        metavar="SECONDS",
        help="when to stop; by default when nothing happens any more, or, if nodes are still"
        f" held then, {format_duration(LINGER)} s later",
    )
    run.add_argument("--bind-seconds", type=seconds, default=0.0, metavar="SECONDS")
    run.add_argument("--seed", type=int, default=0, help="what bind times are drawn from")
    wrong = run.add_mutually_exclusive_group()
    wrong.add_argument("--faults", metavar="JSON", help="what goes wrong: a file with a plan")
    wrong.add_argument(
        "--fault-seed", type=int, metavar="SEED", help="what goes wrong: a plan drawn from a seed"
    )


def run_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return how it is scheduled and how it runs, as plain data."""
    settings = {
        "policy": options.policy,
        "order": options.order,
        "when_blocked": options.when_blocked,
        "permit_timeout": options.permit_timeout,
        "placement": options.placement,
        "preempt": options.preempt,
        "backfill": options.backfill,
        "bind_seconds": options.bind_seconds,
        "seed": options.seed,
        "faults": _plan(options),
        "until": options.until,
    }
    for name in UNUSED[options.policy]:
        settings[name] = None
    return settings


def simulator_of(workload: Workload, settings: dict[str, Any], **also: Any) -> Simulator:
    """Return a simulator of a workload that has not run yet."""
    faults = settings.get("faults")
    return Simulator(
        workload,
        recipe(settings),
        bind_seconds=settings.get("bind_seconds", 0.0),
        seed=settings["seed"],
        faults=None if faults is None else FaultPlan.from_json(faults),
        **also,
    )


def run_to_the_end(simulator: Simulator, until: float | None) -> None:
    """Run until an instant, or until nothing happens any more and a while over what is held."""
    arrivals = simulator.arrivals_left
    with progress(arrivals) as advanced:
        while simulator.step(until=math.inf if until is None else until) is not None:
            advanced(arrivals - simulator.arrivals_left)
        if until is None and any(job.holding for job in simulator.jobs):
            until = simulator.last_event_at + LINGER
        if until is not None:
            simulator.run(until=until)


def _plan(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return what goes wrong, as plain data."""
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
