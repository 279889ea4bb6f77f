"""What arrives in a run: manifests, a trace and nodes."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence

from gangsched.cli._files import BadInputError, read
from gangsched.cli._options import seconds
from gangsched.cluster_objects import RuntimeClass
from gangsched.events import NodeAdded, PodAdded
from gangsched.simulation import Arrival, Workload, load_trace, parse_nodes_shape
from gangsched.simulation.manifests import ParsedManifests, PriorityClasses

__all__ = ["add_source", "read_workload"]


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what arrives."""
    source = parser.add_argument_group("input")
    source.add_argument(
        "manifests",
        nargs="*",
        metavar="MANIFEST",
        help="YAML or JSON files, applied at t=0; - for standard input",
    )
    source.add_argument(
        "--at",
        nargs="+",
        action="append",
        default=[],
        metavar=("DURATION", "MANIFEST"),
        help="apply these files at that instant; may be repeated",
    )
    source.add_argument("--trace", metavar="CSV", help="a trace, one job a row")
    source.add_argument(
        "--nodes", metavar="COUNTxGPUS", help="nodes that exist from the start, such as 40x8"
    )


def read_workload(options: argparse.Namespace) -> Workload:
    """Read every input; return one workload."""
    timed = [(0.0, name) for name in options.manifests]
    for when, *names in options.at:
        try:
            at = seconds(when)
        except argparse.ArgumentTypeError as error:
            raise BadInputError(f"--at: {error}") from None
        if not names:
            raise BadInputError(f"--at {when}: expected a manifest after the instant")
        timed += [(at, name) for name in names]
    if not timed and options.trace is None:
        raise BadInputError("expected manifests or --trace; `gangsched demo` shows an example")
    if options.trace is not None and options.nodes is None and not timed:
        raise BadInputError("--trace: expected --nodes, or manifests with nodes")
    parts: list[Workload] = []
    if options.nodes is not None:
        nodes = parse_nodes_shape(options.nodes)
        parts.append(Workload(tuple(Arrival(0.0, NodeAdded(node)) for node in nodes)))
    files = [(at, ParsedManifests(read(name), file=name)) for at, name in timed]
    classes, runtime_classes = PriorityClasses(), dict[str, RuntimeClass]()
    for _at, file in files:
        classes = file.priority_classes(classes)
        runtime_classes |= file.runtime_classes()
    parts += [file.workload(classes, at=at, runtime_classes=runtime_classes) for at, file in files]
    if options.trace is not None:
        # newline="" leaves the line breaks inside quoted cells to the CSV reader
        rows = io.StringIO(read(options.trace), newline="")
        parts.append(load_trace(rows, file=options.trace))
    _refuse_twins(parts)
    return Workload().merge(*parts)


def _refuse_twins(parts: Sequence[Workload]) -> None:
    """Refuse a pod that two files give: the second would replace a pod that runs."""
    seen: set[str] = set()
    for part in parts:
        new = {a.event.pod.uid: a.event.pod for a in part.arrivals if isinstance(a.event, PodAdded)}
        for uid, pod in new.items():
            if uid in seen:
                raise BadInputError(f"pod {pod.key} is given by two files")
        seen.update(new)
