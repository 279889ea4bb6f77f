"""``gangsched explain``: why a pod or a group does not run, and what would make it start."""

from __future__ import annotations

import argparse
from typing import Any, Final

from attrs import evolve

from gangsched.cli._ahead import queue_ahead
from gangsched.cli._cheapest import cheapest_first
from gangsched.cli._demo import example
from gangsched.cli._explanation import Explanation, Refusal, WhatIfAnswer
from gangsched.cli._files import BadInputError, print_json, read
from gangsched.cli._options import add_policy, title_of
from gangsched.cli._quota_option import add_quota_option, amounts_of, changed_quotas, said_of
from gangsched.cli._run import (
    LINGER,
    add_run,
    run_settings,
    run_to_the_end,
    simulator_of,
)
from gangsched.cli._simulate import print_skipped
from gangsched.cli._subject import Subject, find
from gangsched.cli._workload import Source, add_source, applied, read_source
from gangsched.errors import InvalidValueError
from gangsched.events import Event, NodeAdded
from gangsched.explain import Binding, Finished, Running, Terminating
from gangsched.model import GroupKey, Node, NodeName, Resources
from gangsched.model._node_kinds import kinds_of_nodes
from gangsched.simulation import EventLog, LogEntry, OwnerDeleted, Simulator, parse_nodes_shape
from gangsched.simulation.manifests import ParsedManifests
from gangsched.what_if import Insufficient, Sufficient

__all__ = ["add_explain"]

_MOST: Final = 64
_KINDS: Final = 4
_SETTLED: Final = Running | Finished | Binding | Terminating


def add_explain(commands: Any) -> None:
    """Add the command."""
    explain = commands.add_parser(
        "explain",
        help="say why a pod or a pod group does not run, and what would make it start",
        description="Run manifests or a trace as simulate does, until --until or one minute after"
        " the last event. Then print why one pod group, pod or job does not run, and how many more"
        " nodes would start a group. Without manifests and trace: the job of gangsched demo, on two"
        " nodes.",
    )
    explain.set_defaults(run=_explain)
    explain.add_argument(
        "name",
        metavar="NAME",
        help="a pod group, a pod or a job of the report: NAMESPACE/NAME, or NAME in default",
    )
    add_source(explain)
    add_policy(explain)
    add_run(explain)
    asked = explain.add_argument_group("question")
    asked.add_argument(
        "--shape",
        metavar="NAME=AMOUNT,...",
        help="the allocatable resources of each added node; default: those of each kind of node"
        f" in the cluster, for at most {_KINDS} kinds",
    )
    asked.add_argument(
        "--most",
        type=int,
        default=_MOST,
        metavar="COUNT",
        help=f"the most nodes that are added; {_MOST} by default",
    )
    asked.add_argument(
        "--add",
        metavar="COUNTxGPUS",
        help="print what would happen if COUNT nodes of GPUS GPUs each were added",
    )
    asked.add_argument(
        "--apply",
        action="append",
        default=[],
        metavar="MANIFEST",
        help="print what would happen if this file were applied; may be repeated",
    )
    add_quota_option(asked)
    out = explain.add_argument_group("output")
    out.add_argument(
        "--history",
        action="store_true",
        help="print every attempt of the group, or of the pod, so far, with its reason",
    )
    out.add_argument("--output", choices=("text", "json"), default="text")


def _explain(options: argparse.Namespace) -> int:
    if options.policy == "pod_by_pod":
        raise BadInputError("--policy: expected coscheduling or gang: pod_by_pod has no groups")
    if options.policy == "fifo":
        why = "fifo keeps its order outside of the scheduler that is asked"
        raise BadInputError(f"--policy: expected coscheduling, fair, gang or sjf: {why}")
    settings = run_settings(options)
    is_example = not (options.manifests or options.at or options.trace or options.nodes)
    source = Source(example()) if is_example else read_source(options)
    print_skipped(source.skipped)
    shape = None if options.shape is None else _shape(options.shape)
    log = EventLog()
    simulator = simulator_of(source, settings, observers=(log,))
    run_to_the_end(simulator, options.until, arrivals=source.count, name=title_of(settings))
    if options.until is None and simulator.now < simulator.last_event_at + LINGER:
        # so that no group is in backoff when it is asked about
        simulator.run(until=simulator.last_event_at + LINGER)
    found = _ask(simulator, find(simulator, options.name, source.arrivals), shape, options.most)
    if not isinstance(found.why, _SETTLED) and not found.subject.is_finished:
        found = evolve(found, reservation=simulator.scheduler.reservation)
    if options.history:
        found = evolve(found, history=_history(log, found.subject))
    events = _events(options, source, simulator)
    if events or options.quota:
        group = None if found.subject.is_finished else found.subject.group
        answer = _what_if(simulator, log, events, options.quota, group)
        found = evolve(found, what_if=answer)
    if options.output == "json":
        print_json(found.to_dict(settings))
    else:
        print(found)
    return 0


def _history(log: EventLog, subject: Subject) -> tuple[LogEntry, ...]:
    """Return the entries of a log about a group, or about a pod without one."""
    about = f"podgroup/{subject.group}"
    if subject.group is None:
        about = "" if subject.pod is None else f"pod/{subject.pod.key}"
    return tuple(entry for entry in log.entries if entry.object == about)


def _shape(text: str) -> Node:
    """Read the allocatable resources of a node."""
    amounts = amounts_of("--shape", text)
    try:
        return Node(name=NodeName("added"), allocatable=Resources(amounts))
    except InvalidValueError as error:
        raise BadInputError(f"--shape: {error}") from error


def _ask(simulator: Simulator, subject: Subject, shape: Node | None, most: int) -> Explanation:
    """Ask the scheduler why something does not run, and how many nodes would start its group."""
    scheduler, now = simulator.scheduler, simulator.now
    if most < 0:
        raise InvalidValueError("--most", most, "an int >= 0")
    asked = subject.group if subject.pod is None else subject.pod
    why = None if asked is None else scheduler.why(asked, now=now)
    group = subject.group
    if group is None or scheduler.registry.get(group) is None or subject.is_finished:
        return Explanation(now, subject, why, ())
    kinds = [shape] if shape is not None else kinds_of_nodes(simulator.cluster.nodes())
    changes = cheapest_first(
        scheduler.smallest_change(group, kind, most=most, now=now) for kind in kinds[:_KINDS]
    )
    starts = any(isinstance(change, Sufficient) for change in changes)
    ahead = None if starts else queue_ahead(simulator, group)
    tree, domains, untried = scheduler.tree(group), scheduler.domains(group), len(kinds[_KINDS:])
    return Explanation(now, subject, why, changes, untried, ahead, tree=tree, domains=domains)


def _events(options: argparse.Namespace, source: Source, simulator: Simulator) -> list[Event]:
    """Return the events of ``--add`` and ``--apply``."""
    events: list[Event] = []
    if options.add is not None:
        try:
            nodes = parse_nodes_shape(options.add)
        except InvalidValueError as error:
            raise InvalidValueError("--add", error.value, error.expected) from error
        taken = {node.name for node in simulator.cluster.nodes()}
        for node in nodes:
            name = NodeName(f"added-{node.name}")
            while name in taken:
                name = NodeName(f"added-{name}")
            events.append(NodeAdded(evolve(node, name=name)))
    for name in options.apply:
        file = ParsedManifests(read(name), file=name)
        more = applied(
            file, source.files, at=simulator.now, levels=source.levels, quotas=source.quotas
        )
        print_skipped(more.skipped)
        events += [a.event for a in more.arrivals if not isinstance(a.event, OwnerDeleted)]
    return events


def _what_if(
    simulator: Simulator,
    log: EventLog,
    events: list[Event],
    changes: list[list[str]],
    group: GroupKey | None,
) -> WhatIfAnswer:
    """Ask the scheduler what it would do if quotas were changed and the events arrived now."""
    scheduler, now = simulator.scheduler, simulator.now
    quotas = changed_quotas(scheduler.stated_quotas, changes)
    before = scheduler.what_if(now=now)
    try:
        answer = scheduler.what_if(*events, quotas=quotas, now=now)
    except InvalidValueError as error:  # the quotas are no tree any more
        raise BadInputError(f"--quota: {error}") from error
    known = len(log.entries)
    for change in changes:
        log.entries.append(LogEntry(now, "Normal", "Quota", *said_of(change)))
    for event in events:
        log.event(event, simulator.now)
    for at, effect in answer.timed:
        log.effects((effect,), at)
    refusals = _refusals(simulator, events, group)
    return WhatIfAnswer(answer, tuple(log.entries[known:]), before, group, refusals)


def _refusals(
    simulator: Simulator, events: list[Event], group: GroupKey | None
) -> tuple[Refusal, ...]:
    """Return why nodes that would be added take no member of a group, one for each kind."""
    scheduler = simulator.scheduler
    if group is None or scheduler.registry.get(group) is None:
        return ()
    added = (event.node for event in events if isinstance(event, NodeAdded))
    found: list[Refusal] = []
    for kind in kinds_of_nodes(added)[:_KINDS]:
        change = scheduler.smallest_change(group, kind, most=0, now=simulator.now)
        if isinstance(change, Insufficient) and change.refusal:
            found.append(Refusal(kind, change.refusal))
    return tuple(found)
