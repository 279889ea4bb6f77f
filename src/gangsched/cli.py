"""The ``gangsched`` command.

Rules:
  R1  exit code 0; 1 where a replay diverges; 2 for bad input, with one sentence that names file,
      place, field and value;
  R2  data goes to standard output, progress to standard error, and only on a terminal;
  R3  one input and one seed give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final

from gangsched._core._ordering import Order
from gangsched._version import __version__
from gangsched.coscheduling import WhenBlocked
from gangsched.errors import GangschedError, InvalidValueError
from gangsched.events import NodeAdded, PodAdded
from gangsched.framework import Layout
from gangsched.replay import Recipe, replay
from gangsched.simulation import (
    Arrival,
    EventLog,
    FaultPlan,
    Report,
    Simulator,
    Snapshots,
    Workload,
    load_trace,
    parse_nodes_shape,
    report,
)
from gangsched.simulation.manifests import load_manifests, load_priority_classes
from gangsched.simulation.render import print_report, progress

__all__ = ["main"]

DIVERGED: Final = 1
BAD_INPUT: Final = 2
_DETAILED_PODS: Final = 100
"""Up to so many pods a run keeps tables and events, unless it is told otherwise."""


_UNUSED: Final = {
    "coscheduling": ("layout",),
    "gang": ("when_blocked", "permit_timeout"),
    "none": ("order", "when_blocked", "permit_timeout", "layout"),
}
"""Which settings mean nothing for which policy."""

_POLICY: Final = {
    "policy": "coscheduling",
    "order": Order.LAST_FAILURE.value,
    "when_blocked": WhenBlocked.UNTIL_OTHERS_TURN.value,
    "layout": Layout.AUTO.value,
    "permit_timeout": 10.0,
}
"""How it is scheduled, if nobody says."""

_LINGER: Final = 60.0
"""For how many seconds a run goes on over what holds nodes to the end."""


class _BadInput(Exception):
    """A sentence for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        result: int = options.run(options)
    except (GangschedError, _BadInput) as error:
        print(f"gangsched: {error}", file=sys.stderr)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if error.name not in ("yaml", "rich"):
            raise
        print("gangsched: the command line needs: pip install 'gangsched[cli]'", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # who reads us has read enough
        sys.stderr.close()
        return 0
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gangsched", description="Start every worker of a job together, or none."
    )
    parser.add_argument("--version", action="version", version=f"gangsched {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser("demo", help="show one job with and without gang scheduling")
    demo.set_defaults(run=_demo)
    simulate = commands.add_parser(
        "simulate",
        help="run manifests or a trace on a simulated cluster",
        description="Run manifests or a trace on a simulated cluster, on virtual time.",
    )
    simulate.set_defaults(run=_simulate)
    source = simulate.add_argument_group("what arrives")
    source.add_argument(
        "manifests", nargs="*", metavar="MANIFEST", help="YAML files, applied at t=0; - for stdin"
    )
    source.add_argument(
        "--at",
        nargs="+",
        action="append",
        default=[],
        metavar=("SECONDS", "MANIFEST"),
        help="apply these files at that instant; may be given again",
    )
    source.add_argument("--trace", metavar="CSV", help="jobs, one a line")
    source.add_argument(
        "--nodes", metavar="COUNTxGPUS", help="nodes that are there from the start, such as 40x8"
    )
    _policy_options(simulate)
    simulate.set_defaults(**_POLICY)
    run = simulate.add_argument_group("how it runs")
    run.add_argument(
        "--until",
        type=_seconds,
        metavar="SECONDS",
        help="when to stop; by default when nothing happens any more, or, if nodes are still"
        f" held then, {_LINGER:g} s later",
    )
    run.add_argument("--bind-seconds", type=_seconds, default=0.0, metavar="SECONDS")
    run.add_argument("--seed", type=int, default=0, help="what bind times are drawn from")
    wrong = run.add_mutually_exclusive_group()
    wrong.add_argument("--faults", metavar="JSON", help="what goes wrong: a file with a plan")
    wrong.add_argument(
        "--fault-seed", type=int, metavar="SEED", help="what goes wrong: a plan drawn from a seed"
    )
    out = simulate.add_argument_group("what is said")
    out.add_argument("--output", choices=("text", "json"), default="text")
    out.add_argument(
        "--detail",
        choices=("auto", "all", "summary"),
        default="auto",
        help=f"tables and events too; auto: up to {_DETAILED_PODS} pods",
    )
    out.add_argument("--log", metavar="FILE", help="write a decision log, for gangsched replay")
    again = commands.add_parser(
        "replay",
        help="run a decision log again",
        description="Run a decision log again, and say where it first goes another way.",
    )
    again.set_defaults(run=_replay)
    again.add_argument("log", metavar="LOG", help="a decision log; - for stdin")
    _policy_options(again)
    return parser


def _policy_options(parser: argparse.ArgumentParser) -> None:
    policy = parser.add_argument_group("how it is scheduled")
    policy.add_argument(
        "--policy",
        choices=("coscheduling", "gang", "none"),
        help="gangs pod by pod, members that hold a node waiting for the others; a gang in one"
        " decision; or no gangs",
    )
    policy.add_argument("--order", choices=[order.value for order in Order])
    policy.add_argument(
        "--when-blocked",
        choices=[when.value for when in WhenBlocked],
        help="what members that hold a node do when their group cannot be completed",
    )
    policy.add_argument(
        "--layout",
        choices=[layout.value for layout in Layout],
        help="where the members of a gang go, with --policy gang",
    )
    policy.add_argument("--permit-timeout", type=_seconds, metavar="SECONDS")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds, not negative, got {text!r}")
    return seconds


def _simulate(options: argparse.Namespace) -> int:
    workload = _workload(options)
    settings = {
        "policy": options.policy,
        "order": options.order,
        "when_blocked": options.when_blocked,
        "permit_timeout": options.permit_timeout,
        "layout": options.layout,
        "bind_seconds": options.bind_seconds,
        "seed": options.seed,
        "faults": _plan(options),
        "until": options.until,
    }
    for name in _UNUSED[options.policy]:
        settings[name] = None
    _print(_run(workload, settings, detail=options.detail, log=options.log), options.output)
    return 0


def _plan(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return what goes wrong, as plain data."""
    if options.fault_seed is not None:
        return FaultPlan.drawn(options.fault_seed).to_json()
    if options.faults is None:
        return None
    try:
        return FaultPlan.from_json(json.loads(_read(options.faults))).to_json()
    except InvalidValueError as error:
        raise _BadInput(f"{options.faults}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise _BadInput(f"{options.faults}: expected JSON: {error}") from error


def _replay(options: argparse.Namespace) -> int:
    given = {name: getattr(options, name) for name in _POLICY}
    said = {name: value for name, value in given.items() if value is not None}
    if said and options.policy is None:
        raise _BadInput(f"--{next(iter(said)).replace('_', '-')}: expected --policy with it")
    divergence = replay(
        _lines(options.log), _recipe({**_POLICY, **said}) if said else None, file=options.log
    )
    if divergence is None:
        print(f"{options.log}: no divergence")
        return 0
    print(f"{options.log}: {divergence}")
    return DIVERGED


def _demo(_options: argparse.Namespace) -> int:
    examples = resources.files("gangsched.simulation") / "examples"
    texts = {
        name: (examples / name).read_text(encoding="utf-8")
        for name in ("cluster.yaml", "tf-smoke-gpu.yaml", "scale-up.yaml")
    }
    start = load_manifests(texts["cluster.yaml"], file="cluster.yaml")
    start += load_manifests(texts["tf-smoke-gpu.yaml"], file="tf-smoke-gpu.yaml")
    grown = start + load_manifests(texts["scale-up.yaml"], file="scale-up.yaml", at=60.0)
    settings = {"policy": "none", "seed": 0, "until": 60.0}
    print("A job of 1 server and 4 workers with 2 GPUs each, on 2 nodes with 2 GPUs each.\n")
    print("WITHOUT GANG SCHEDULING  gangsched simulate cluster.yaml tf-smoke-gpu.yaml", end="")
    print(" --policy none --until 60\n")
    _print(_run(start, settings, detail="all"), "text")
    print("\nWITH IT  gangsched simulate cluster.yaml tf-smoke-gpu.yaml", end="")
    print(" --at 60 scale-up.yaml --until 120\n")
    settings = {
        "policy": "coscheduling",
        "order": Order.LAST_FAILURE.value,
        "when_blocked": WhenBlocked.UNTIL_OTHERS_TURN.value,
        "permit_timeout": 10.0,
        "seed": 0,
        "until": 120.0,
    }
    _print(_run(grown, settings, detail="all"), "text")
    return 0


def _workload(options: argparse.Namespace) -> Workload:
    timed = [(0.0, name) for name in options.manifests]
    for when, *names in options.at:
        try:
            at = _seconds(when)
        except argparse.ArgumentTypeError as error:
            raise _BadInput(f"--at: {error}") from None
        if not names:
            raise _BadInput(f"--at {when}: expected a manifest after the instant")
        timed += [(at, name) for name in names]
    if not timed and options.trace is None:
        raise _BadInput("expected manifests or --trace; `gangsched demo` shows an example")
    if options.trace is not None and options.nodes is None and not timed:
        raise _BadInput("--trace: expected --nodes, or manifests with nodes")
    parts: list[Workload] = []
    if options.nodes is not None:
        nodes = parse_nodes_shape(options.nodes)
        parts.append(Workload(tuple(Arrival(0.0, NodeAdded(node)) for node in nodes)))
    texts = [(at, name, _read(name)) for at, name in timed]
    classes = None
    for _at, name, text in texts:
        classes = load_priority_classes(text, file=name, known=classes)
    parts += [load_manifests(text, file=name, at=at, classes=classes) for at, name, text in texts]
    if options.trace is not None:
        parts.append(load_trace(_read(options.trace).splitlines(), file=options.trace))
    _refuse_twins(parts)
    return Workload().merge(*parts)


def _refuse_twins(parts: Sequence[Workload]) -> None:
    """Refuse a pod that two files give: it would be another version of a pod that runs."""
    seen: set[str] = set()
    for part in parts:
        new = {a.event.pod.uid: a.event.pod for a in part.arrivals if isinstance(a.event, PodAdded)}
        for uid, pod in new.items():
            if uid in seen:
                raise _BadInput(f"pod {pod.key} is given by two files")
        seen.update(new)


def _lines(name: str) -> Iterator[str]:
    """Read a file line by line, as it is asked for."""
    if name == "-":
        yield from sys.stdin
        return
    try:
        with Path(name).open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _decoded(line, name, number)
    except OSError as error:
        raise _BadInput(f"{name}: {error.strerror}") from error


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        where = f"{name}: line {number}"
        raise _BadInput(f"{where}: expected UTF-8 text, byte {error.start} is not") from error


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _BadInput(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _BadInput(f"{name}: expected UTF-8 text, byte {error.start} is not") from error


def _recipe(settings: dict[str, Any]) -> Recipe:
    if settings["policy"] == "none":
        return Recipe("pod_by_pod")
    if settings["policy"] == "gang":
        return Recipe("gang", layout=settings["layout"], order=settings["order"])
    return Recipe(
        "coscheduling",
        permit_timeout=settings["permit_timeout"],
        order=settings["order"],
        when_blocked=settings["when_blocked"],
    )


def _run(
    workload: Workload, settings: dict[str, Any], *, detail: str, log: str | None = None
) -> Report:
    events, tables = EventLog(), Snapshots()
    pods = sum(isinstance(arrival.event, PodAdded) for arrival in workload.arrivals)
    detailed = detail == "all" or (detail == "auto" and pods <= _DETAILED_PODS)
    faults = settings.get("faults")
    with _written(log) as write, progress(len(workload.arrivals)) as advanced:
        simulator = Simulator(
            workload,
            _recipe(settings),
            bind_seconds=settings.get("bind_seconds", 0.0),
            seed=settings["seed"],
            faults=None if faults is None else FaultPlan.from_json(faults),
            log=write,
            observers=(events, tables) if detailed else (),
        )
        tables.watch(simulator)
        until = settings["until"]
        while simulator.step(until=math.inf if until is None else until) is not None:
            advanced(len(workload.arrivals) - simulator.arrivals_left)
        if until is None and any(job.holding for job in simulator.jobs):
            until = simulator.last_event_at + _LINGER
        if until is not None:
            simulator.run(until=until)
    return report(
        simulator,
        settings=settings,
        skipped=workload.skipped,
        snapshots=tables.taken,
        events=events.entries,
    )


@contextmanager
def _written(name: str | None) -> Generator[Callable[[str], object] | None, None, None]:
    """Open a file for a decision log, if one is asked for."""
    if name is None:
        yield None
        return
    try:
        with Path(name).open("w", encoding="ascii", newline="\n") as file:
            yield file.write
    except OSError as error:
        raise _BadInput(f"{name}: {error.strerror}") from error


def _print(result: Report, output: str) -> None:
    if output == "json":
        json.dump(result.to_dict(), sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        print_report(result, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
