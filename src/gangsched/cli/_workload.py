"""What arrives in a run: manifests, a trace and nodes.

Rules:
  R1  every file is read and checked before the run;
  R2  what arrives can be had again, so that several policies get the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, final

from attrs import frozen

from gangsched.cli._configuration import read_configuration
from gangsched.cli._files import STANDARD_INPUT, BadInputError
from gangsched.cli._inputs import Inputs
from gangsched.cli._node_events import add_node_events, node_events
from gangsched.cli._options import seconds
from gangsched.cluster_objects import RuntimeClass
from gangsched.configuration import Settings
from gangsched.constraints import Topology
from gangsched.errors import InvalidValueError
from gangsched.events import NodeAdded, PodAdded
from gangsched.manifests.peer_levels import PeerLevels, read_peer_levels
from gangsched.manifests.peer_quotas import PeerQuotas, read_quotas
from gangsched.model import Node
from gangsched.options.quota import Quota
from gangsched.simulation import (
    Arrival,
    Input,
    OwnerDeleted,
    Trace,
    Workload,
    fair_quotas,
    load_nodes,
    open_trace,
    parse_nodes_shape,
)
from gangsched.simulation.documents import read_one_document
from gangsched.simulation.manifests import NO_PEER, NO_QUOTAS, ParsedManifests, PriorityClasses

__all__ = ["Source", "add_source", "applied", "read_source", "refuse_two_of_stdin"]


@final
@frozen
class Source:
    """What arrives in a run.

    Attributes:
        start: What the manifests and the nodes are.
        trace: The trace; None for none.
        files: The manifests, each with the instant at which it is applied.
        inputs: Everything that was read.
        levels: The levels that objects in the manifests state, if the configuration says so.
        quotas: The quotas that objects in the manifests state, if the configuration says so.
    """

    start: Workload
    trace: Trace | None = None
    files: Sequence[tuple[float, ParsedManifests]] = ()
    inputs: Sequence[Input] = ()
    levels: PeerLevels = NO_PEER
    quotas: PeerQuotas = NO_QUOTAS

    @property
    def pods(self) -> int:
        """The number of pods."""
        given = sum(isinstance(each.event, PodAdded) for each in self.start.arrivals)
        return given + (0 if self.trace is None else self.trace.pods)

    @property
    def count(self) -> int:
        """The number of arrivals."""
        return len(self.start.arrivals) + (0 if self.trace is None else self.trace.pods)

    @property
    def caption(self) -> str:
        """What is run, in a few words: the trace, and the number of nodes."""
        added = (each.event for each in self.start.arrivals)
        nodes = len({event.node.name for event in added if isinstance(event, NodeAdded)})
        on = "1 node" if nodes == 1 else f"{nodes} nodes"
        return on if self.trace is None else f"{PurePath(self.trace.file).name} on {on}"

    @property
    def skipped(self) -> tuple[str, ...]:
        """One sentence for each part of the input that was not taken over."""
        return self.start.skipped + (() if self.trace is None else self.trace.skipped)

    @property
    def finishes_whole(self) -> bool:
        """Whether the pods of a job end together, so that they can be deleted then."""
        no_pods = not any(isinstance(each.event, PodAdded) for each in self.start.arrivals)
        return self.trace is not None and self.trace.finishes_whole and no_pods

    def arrivals(self) -> Workload | Iterable[Arrival]:
        """Return the arrivals in time order; those of a trace are read as the run advances."""
        if self.trace is None:
            return self.start
        by_time: Any = attrgetter("at")
        return merge(self.start.arrivals, self._unique(self.trace), key=by_time)

    def users(self) -> tuple[Quota, ...]:
        """Return a queue for each user; a trace is read for that. O(arrivals)."""
        found = self.arrivals()
        return fair_quotas(found.arrivals if isinstance(found, Workload) else found)

    def _unique(self, trace: Trace) -> Iterator[Arrival]:
        """Refuse a pod that a manifest gives too: the second would replace a pod that runs."""
        given = {a.event.pod.uid for a in self.start.arrivals if isinstance(a.event, PodAdded)}
        for arrival in trace.arrivals():
            event = arrival.event
            if given and isinstance(event, PodAdded) and event.pod.uid in given:
                raise BadInputError(f"pod {event.pod.key} is given by two files")
            yield arrival


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
    source.add_argument(
        "--delete",
        nargs="+",
        action="append",
        default=[],
        metavar=("DURATION", "JOB"),
        help="delete the owners of these jobs at that instant, as in default/train; their pods and"
        " groups go with them; or single pods of a group; may be repeated",
    )
    add_node_events(source)
    source.add_argument(
        "--trace",
        metavar="FILE",
        help="a trace: a CSV with one job a row, a trace of Alibaba, the job log of Philly, or an"
        " SWF file; - for standard input",
    )
    source.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="NAME=COLUMN[:UNIT]",
        help="what a CSV trace calls a column, and its unit: duration_s=Runtime:min; may be"
        " repeated",
    )
    source.add_argument(
        "--skip-faulty", action="store_true", help="leave out malformed rows of a CSV trace"
    )
    source.add_argument(
        "--topology",
        metavar="LABEL",
        help="the nodes of each gang of the trace that states no topology have one value of this"
        " label",
    )
    source.add_argument(
        "--prefer",
        metavar="LABEL",
        help="they have one value of this label if possible; with --topology, a finer one",
    )
    source.add_argument(
        "--nodes",
        metavar="COUNTxGPUS|CSV",
        help="nodes that exist from the start, such as 40x8, or a CSV file with one node a row",
    )


def read_source(options: argparse.Namespace) -> Source:
    """Read every input."""
    refuse_two_of_stdin(options)
    timed = [(0.0, name) for name in options.manifests]
    timed += _timed("--at", options.at, "a manifest")
    deleted = _timed("--delete", options.delete, "a job")
    if not timed and options.trace is None:
        raise BadInputError("expected manifests or --trace; `gangsched demo` shows an example")
    own_nodes, inputs = options.nodes is None, Inputs()
    trace = _trace(options, inputs, own_nodes=own_nodes)
    if trace is not None and own_nodes and not timed and not trace.nodes:
        got = f"; {trace.missing}" if trace.missing else ""
        raise BadInputError(f"--trace: expected --nodes, or manifests with nodes{got}")
    files = [
        (at, ParsedManifests(inputs.text(name, use="manifest", at=at), file=name))
        for at, name in timed
    ]
    settings = _settings(options)
    levels = _levels_of(settings, [file for _at, file in files])
    quotas = _quotas_of(settings, [file for _at, file in files])
    parts = [Workload((), quotas.notes)]
    nodes = () if options.nodes is None else _nodes(options.nodes, inputs)
    if trace is not None and options.nodes is None:
        nodes = trace.nodes
    if nodes:
        labelled = map(levels.labelled, nodes)
        parts.append(Workload(tuple(Arrival(0.0, NodeAdded(node)) for node in labelled)))
    parts += [applied(file, files, at=at, levels=levels, quotas=quotas) for at, file in files]
    _refuse_twins(parts)
    gone = _timed("--delete-nodes", options.delete_nodes, "nodes")
    back = _timed("--restore-nodes", options.restore_nodes, "nodes")
    parts.append(node_events(gone, back, parts))
    parts.append(Workload(tuple(Arrival(at, OwnerDeleted(job)) for at, job in deleted)))
    return Source(Workload().merge(*parts), trace, files, inputs.noted, levels, quotas)


def _settings(options: argparse.Namespace) -> list[Settings]:
    """Return the configurations that can be read twice."""
    given: str | list[str] | None = getattr(options, "config", None)
    names = [given] if isinstance(given, str) else given or []
    # standard input can be read once; its levels and quotas have to be lists
    return [read_configuration(name) for name in names if name != STANDARD_INPUT]


def _levels_of(settings: Iterable[Settings], files: Sequence[ParsedManifests]) -> PeerLevels:
    """Return the levels of the project that a configuration names."""
    peers = {each.levels_from for each in settings} - {""}
    if len(peers) > 1:
        raise BadInputError(
            f"--config: expected levels from one project, got {_and(sorted(peers))}"
        )
    if not peers:
        return NO_PEER
    (peer,) = peers
    return read_peer_levels(peer, [each for file in files for each in file.peer_objects(peer)])


def _quotas_of(settings: Sequence[Settings], files: Sequence[ParsedManifests]) -> PeerQuotas:
    """Return the quotas of the project that a configuration names."""
    peers = {each.quotas_from for each in settings} - {""}
    if len(peers) > 1:
        raise BadInputError(
            f"--config: expected quotas from one project, got {_and(sorted(peers))}"
        )
    if not peers:
        return NO_QUOTAS
    (peer,) = peers
    if any(each.quotas for each in settings):
        # a pod names its queue once: it would not exist in the other configuration
        raise BadInputError(f"--config: expected quotas from {peer} in each file with quotas")
    objects = [each for file in files for each in file.quota_objects(peer)]
    return read_quotas(peer, objects, read_one_document)


def applied(
    file: ParsedManifests,
    files: Iterable[tuple[float, ParsedManifests]],
    *,
    at: float,
    levels: PeerLevels = NO_PEER,
    quotas: PeerQuotas = NO_QUOTAS,
) -> Workload:
    """Return the objects of a file that is applied at an instant, beside *files*.

    Priority and runtime classes count from the instant of their file on: the API server resolves
    them when a pod is created.
    """
    there = [other for since, other in files if since <= at]
    classes, runtime_classes = PriorityClasses(), dict[str, RuntimeClass]()
    for each in there if file in there else [*there, file]:
        classes = each.priority_classes(classes)
        runtime_classes |= each.runtime_classes()
    return file.workload(
        classes, at=at, runtime_classes=runtime_classes, levels=levels, quotas=quotas
    )


def _timed(option: str, given: Iterable[Sequence[str]], what: str) -> list[tuple[float, str]]:
    """Return each value of an option with its instant, which comes before the values."""
    found: list[tuple[float, str]] = []
    for when, *names in given:
        try:
            at = seconds(when)
        except argparse.ArgumentTypeError as error:
            raise BadInputError(f"{option}: {error}") from None
        if not names:
            raise BadInputError(f"{option} {when}: expected {what} after the instant")
        found += [(at, name) for name in names]
    return found


def _trace(options: argparse.Namespace, inputs: Inputs, *, own_nodes: bool) -> Trace | None:
    columns: dict[str, str] = {}
    for given in options.column:
        name, equals, column = given.partition("=")
        if not equals or name in columns:
            expected = "each column once, as in job=JobID or duration_s=Runtime:min"
            raise BadInputError(f"--column: expected {expected}, got {given!r}")
        columns[name] = column
    if options.trace is None:
        if columns or options.skip_faulty:
            raise BadInputError("--column and --skip-faulty have no meaning without --trace")
        if options.topology or options.prefer:
            raise BadInputError("--topology and --prefer have no meaning without --trace")
        return None
    return open_trace(
        inputs.lines(options.trace, use="trace"),
        file=options.trace,
        own_nodes=own_nodes,
        columns=columns,
        skip_faulty=options.skip_faulty,
        topology=_topology(options.topology, options.prefer),
        restarts=options.restart,
    )


def _topology(within: str | None, prefer: str | None) -> Topology | None:
    """Return the topology of gangs that state none; None for no matter."""
    if within is None and prefer is None:
        return None
    try:
        if within is None:
            return Topology(prefer, required=False)
        return Topology(within, prefer=prefer)
    except InvalidValueError as error:
        is_key = error.field == "key"
        option = "--topology" if is_key and within is not None else "--prefer"
        expected = "the label of a node" if is_key else error.expected
        raise InvalidValueError(option, error.value, expected) from None


def _nodes(text: str, inputs: Inputs) -> tuple[Node, ...]:
    """Return the nodes of a shape such as ``40x8``, or of a CSV file."""
    try:
        nodes = parse_nodes_shape(text)
    except InvalidValueError as error:
        if text != STANDARD_INPUT and not Path(text).suffix and not Path(text).exists():
            raise InvalidValueError(
                "--nodes", text, f"{error.expected}, or the name of a CSV file"
            ) from None
        return load_nodes(inputs.lines(text, use="nodes")(), file=text)
    inputs.noted.append(Input("nodes", text))
    return nodes


def refuse_two_of_stdin(options: argparse.Namespace) -> None:
    """Refuse standard input for two inputs: the second would be empty."""
    given = [("a manifest", name) for name in options.manifests]
    given += [("--at", name) for _when, *names in options.at for name in names]
    given += [(f"--{each}", getattr(options, each)) for each in ("trace", "nodes", "faults")]
    from_stdin = [option for option, name in given if name == STANDARD_INPUT]
    if len(from_stdin) > 1:
        raise BadInputError(f"expected one input from standard input, got {_and(from_stdin)}")


def _and(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _refuse_twins(parts: Sequence[Workload]) -> None:
    """Refuse a pod that two files give: the second would replace a pod that runs."""
    seen: set[str] = set()
    for part in parts:
        new = {a.event.pod.uid: a.event.pod for a in part.arrivals if isinstance(a.event, PodAdded)}
        for uid, pod in new.items():
            if uid in seen:
                raise BadInputError(f"pod {pod.key} is given by two files")
        seen.update(new)
