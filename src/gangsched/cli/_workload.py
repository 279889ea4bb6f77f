"""What arrives: the files, the trace and the nodes that a run is made of."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gangsched.cli._files import BadInputError, read
from gangsched.cli._options import seconds
from gangsched.events import NodeAdded, PodAdded
from gangsched.simulation import Arrival, Workload, load_trace, parse_nodes_shape
from gangsched.simulation.manifests import load_manifests, load_priority_classes

__all__ = ["add_source", "read_workload"]


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what arrives."""
    source = parser.add_argument_group("what arrives")
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


def read_workload(options: argparse.Namespace) -> Workload:
    """Read all that arrives."""
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
    texts = [(at, name, read(name)) for at, name in timed]
    classes = None
    for _at, name, text in texts:
        classes = load_priority_classes(text, file=name, known=classes)
    parts += [load_manifests(text, file=name, at=at, classes=classes) for at, name, text in texts]
    if options.trace is not None:
        parts.append(load_trace(read(options.trace).splitlines(), file=options.trace))
    _refuse_twins(parts)
    return Workload().merge(*parts)


def _refuse_twins(parts: Sequence[Workload]) -> None:
    """Refuse a pod that two files give: it would be another version of a pod that runs."""
    seen: set[str] = set()
    for part in parts:
        new = {a.event.pod.uid: a.event.pod for a in part.arrivals if isinstance(a.event, PodAdded)}
        for uid, pod in new.items():
            if uid in seen:
                raise BadInputError(f"pod {pod.key} is given by two files")
        seen.update(new)
