"""``kubectl gang``: the gangs of a cluster, why they wait, and what would start them.

``kubectl`` runs the program ``kubectl-gang`` as its command ``gang``.

Rules:
  R1  ``get``, ``why`` and ``queue`` ask the running scheduler if it can be found. Otherwise, and
      for all else, the cluster is listed with the rights of the user. So it works on any API
      server, and while the scheduler is down. What the scheduler wrote is shown beside;
  R2  nothing is written to the cluster;
  R3  an answer about the future is that of a scheduler with the configuration of ``--config``, or
      with the defaults. All pods are its own, unless ``--scheduler`` names some;
  R4  a line on standard error says so if the defaults are not what the running scheduler has.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from attrs import evolve

from gangsched._node_kinds import kinds_of_nodes, one_more
from gangsched._text import printable
from gangsched._version import __version__
from gangsched.cli._ask_scheduler import (
    Said,
    add_ask_options,
    is_configured_otherwise,
    scheduler_says,
)
from gangsched.cli._cheapest import cheapest_first
from gangsched.cli._command import execute
from gangsched.cli._configuration import plugin_factories, read_configuration
from gangsched.cli._explanation import Explanation
from gangsched.cli._files import BadInputError
from gangsched.cli._options import seconds
from gangsched.cli._parser import Parser
from gangsched.cli._subject import Subject
from gangsched.cli._tables import FORMATS, age_of, print_documents, table
from gangsched.configuration import Settings
from gangsched.errors import InvalidValueError
from gangsched.events import Bind, GroupScheduled, NodeAdded
from gangsched.model import GroupKey, Node
from gangsched.what_if import SmallestChange, Sufficient

if TYPE_CHECKING:
    from gangsched.kubernetes._gang_rows import GangRow
    from gangsched.kubernetes._survey import Survey

__all__ = ["main"]

_KINDS: Final = 4
_LOOK: Final = 1.0
"""Seconds between two looks of ``get --watch``."""

_OTHERWISE: Final = (
    "by the default configuration, and the scheduler has another one: name its file with --config"
)

_Answer: TypeAlias = Callable[["Survey", argparse.Namespace], None]

_GANGS: Final = (
    *("NAMESPACE", "NAME", "PHASE", "NEEDED", "HAVE", "HELD", "RUNNING", "AGE", "REASON"),
)
_WIDE: Final = (
    *_GANGS[:-1],
    *("RESTARTS", "PRIORITY", "API", "NODES", "REASON", "SCHEDULER SAYS"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return execute(_parser, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kubectl gang", description="See the gangs of a cluster.")
    parser.add_argument("--version", action="version", version=f"gangsched {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    get = _command(commands, "get", _get, "list the gangs: what each needs, has and lacks")
    get.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="the gangs, as NAME or NAMESPACE/NAME; default: all",
    )
    get.add_argument("-w", "--watch", action="store_true", help="print gangs again as they change")
    why = _command(commands, "why", _why, "say why a gang does not run, and what would start it")
    why.add_argument("group", metavar="NAME", help="the gang, as NAME or NAMESPACE/NAME")
    add_ask_options(get, page="gangs", show=_show_gangs)
    add_ask_options(why, page="why", show=_show_why)
    what_if = _command(commands, "what-if", _what_if, "say what would start with more nodes")
    what_if.add_argument(
        "--add-nodes", type=int, required=True, metavar="COUNT", help="how many nodes are added"
    )
    what_if.add_argument(
        "--like", required=True, metavar="NODE", help="the node that the added nodes are like"
    )
    queue = _command(
        commands, "queue", _queue, "list what waits, in the order in which it is tried"
    )
    add_ask_options(queue, page="queue", show=_show_queue)
    _command(commands, "pods", _pods, "list the pods of gangs, with node and reason")
    _command(commands, "demand", _demand, "say how many nodes of which kind would start the gangs")
    return parser


def _command(commands: Any, name: str, answer: _Answer, what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=what[0].upper() + what[1:] + "."
    )
    parser.set_defaults(run=_run, answer=answer, watch=False, page=None, names=(), keys=())
    parser.set_defaults(ask_scheduler="auto")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NAMESPACE", help="default: the context's")
    scope.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("-o", "--output", choices=FORMATS, default="table", help="default: a table")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG")
    parser.add_argument("--context", metavar="NAME", help="default: the current context")
    parser.add_argument("--config", metavar="FILE", help="the configuration of the scheduler")
    parser.add_argument(
        "--scheduler",
        action="append",
        metavar="NAME",
        help="only pods of this schedulerName are to be placed; may be repeated; default: all",
    )
    parser.add_argument(
        "--request-timeout", type=seconds, default=30.0, metavar="DURATION", help="default: 30s"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    # what goes wrong while the cluster is listed is told once, at the end
    logging.getLogger("gangsched").setLevel(logging.CRITICAL)
    return asyncio.run(_on_a_loop(options))


async def _on_a_loop(options: argparse.Namespace) -> int:
    from gangsched.kubernetes._client import connect_client
    from gangsched.kubernetes._survey import NotListedError, survey

    settings, made = Settings(), {}
    if options.config is not None:
        settings = read_configuration(options.config)
        made = plugin_factories(settings, options.config)
    kubeconfig = options.kubeconfig or settings.client.kubeconfig
    client = await connect_client(kubeconfig=kubeconfig, context=options.context)
    try:
        if options.all_namespaces:
            options.namespace = None
        elif options.namespace is None:
            options.namespace = client.namespace
        _name_gangs(options)
        said = await scheduler_says(client, settings, options)
        if said is not None and not said.is_lacking:
            said.show(options)
            return 0
        options.said = said
        if said is not None and said.names:
            profile = evolve(settings.profile, scheduler_names=said.names)
            settings = evolve(settings, profile=profile)
        try:
            async with survey(
                client,
                settings,
                scheduler_names=options.scheduler,
                factories=made,
                timeout=options.request_timeout,
            ) as now:
                if not _asks(options) and await is_configured_otherwise(client):
                    print(_OTHERWISE, file=sys.stderr)
                await _answer(now, options)
        except NotListedError as error:
            if said is None:
                raise
            said.show(options)  # without what would help
            print(printable(f"what would help: not known: {error}"), file=sys.stderr)
    finally:
        await client.aclose()
    return 0


def _asks(options: argparse.Namespace) -> bool:
    """Return whether the configuration is named, or the command itself asks the scheduler."""
    is_asked = options.page is not None and not options.watch
    return options.config is not None or is_asked or options.ask_scheduler == "never"


async def _answer(now: Callable[[], Survey], options: argparse.Namespace) -> None:
    if options.watch:
        await _watch(now, options)
    else:
        cast("_Answer", options.answer)(now(), options)


# get --------------------------------------------------------------------------------------------


def _name_gangs(options: argparse.Namespace) -> None:
    """Set the keys of the gangs that are named, and the namespace that has them all.

    Raises:
        BadInputError: A name does not say in which namespace the gang is.
    """
    for name in options.names:
        if "/" not in name and options.all_namespaces:
            raise BadInputError(f"{name}: expected NAMESPACE/NAME with --all-namespaces")
    here = options.namespace or "default"
    options.keys = tuple(each if "/" in each else f"{here}/{each}" for each in options.names)
    if any(key.partition("/")[0] != here for key in options.keys):
        options.namespace = None


def _rows(survey: Survey, options: argparse.Namespace) -> list[GangRow]:
    from gangsched.kubernetes._gang_rows import gang_rows

    rows = gang_rows(survey, options.namespace)
    return [row for row in rows if not options.keys or row.key in options.keys]


def _get(survey: Survey, options: argparse.Namespace) -> None:
    _print_gangs(_rows(survey, options), options)


def _show_gangs(said: Said, options: argparse.Namespace) -> None:
    _print_gangs([row for row in said.rows if not options.keys or row.key in options.keys], options)


def _print_gangs(rows: Sequence[GangRow], options: argparse.Namespace) -> None:
    """Print the gangs, as ``kubectl get`` does.

    Raises:
        BadInputError: One that was named is not there; the others are printed.
    """
    found = {row.key for row in rows}
    missing = [key for key in options.keys if key not in found]
    if rows or not missing:
        _print_rows(rows, options)
    if missing:
        raise BadInputError(f"no pod group {', '.join(missing)}")


def _print_rows(rows: Sequence[GangRow], options: argparse.Namespace) -> None:
    if options.output in ("json", "yaml"):
        print_documents("GangList", [row.to_dict() for row in rows], options.output)
    elif not rows:
        print(_nothing("gangs", options))
    else:
        print(_gang_table(rows, options))


def _gang_table(
    rows: Sequence[GangRow], options: argparse.Namespace, *, header: bool = True
) -> str:
    wide = options.output == "wide"
    columns = _WIDE if wide else _GANGS
    return table(columns, [_cells(row, wide=wide) for row in rows], header=header)


def _cells(row: GangRow, *, wide: bool) -> tuple[str, ...]:
    needed = "" if row.needed is None else str(row.needed)
    counts = (row.have, row.held, row.running)
    first = (row.namespace, row.name, row.phase, needed, *map(str, counts), age_of(row.age))
    if not wide:
        return (*first, row.reason)
    wider = (str(row.restarts), str(row.priority), row.api, ",".join(row.nodes))
    return (*first, *wider, row.reason, row.message)


async def _watch(now: Callable[[], Survey], options: argparse.Namespace) -> None:
    """Print all gangs, then those that have changed, until interrupted.

    As JSON or YAML, each change is a document of its own, with the keys of the gangs that are gone.
    """
    shown: dict[GroupKey, tuple[str, ...]] = {}
    while True:
        rows = _rows(now(), options)
        now_shown = {row.key: _but_age(row) for row in rows}
        changed = [row for row in rows if shown.get(row.key) != now_shown[row.key]]
        gone = sorted(shown.keys() - now_shown.keys())
        if options.output in ("json", "yaml"):
            if changed or gone:
                found = [row.to_dict() for row in changed]
                print_documents("GangList", found, options.output, gone=gone)
        elif changed:
            print(_gang_table(changed, options, header=not shown), flush=True)
        for key in gone if options.output in ("table", "wide") else ():
            print(f"{printable(key)} is gone", flush=True)
        shown = now_shown
        await asyncio.sleep(_LOOK)


def _but_age(row: GangRow) -> tuple[str, ...]:
    cells = _cells(row, wide=True)
    return (*cells[:7], *cells[8:])


# why --------------------------------------------------------------------------------------------


def _why(survey: Survey, options: argparse.Namespace) -> None:
    said: Said | None = options.said
    rows = {row.key: row for row in _rows(survey, _everywhere(options))}
    if said is not None and said.rows[0].key not in rows:
        said.show(options)  # it has no pods, so nothing would help
        return
    key = _key(survey, options)
    row = rows[key]
    if said is not None and (said.rows[0].have or not row.have):
        (row,) = said.rows
    scheduler, now = survey.scheduler, survey.now
    answer = scheduler.what_if(now=now).why.get(key)
    kinds = kinds_of_nodes(survey.cache.cluster.nodes())
    helps = "" if said is None else said.note("helps")
    lacking = bool(row.reason) and not row.is_quorate and answer is not None and not helps
    changes = cheapest_first(
        scheduler.smallest_change(key, kind, now=now, most=16)
        for kind in (kinds[:_KINDS] if lacking else ())
    )
    if options.output in ("json", "yaml"):
        found = row.to_dict()
        if said is not None:
            found |= {name: said.note(name) for name in ("helps", "reserved") if said.note(name)}
        if answer is not None:
            whole = Explanation(now, Subject.of_group(key), answer, changes, len(kinds[_KINDS:]))
            found["smallest_changes"] = whole.to_dict({})["smallest_changes"]
        print_documents("GangList", [found], options.output)
        return
    _print_row(row)
    foreign = survey.foreign(survey.members_of(key))
    if foreign and foreign not in row.reason:
        print(printable(f"scheduler: {foreign}"))
    for text in _helps(survey, row, said, changes):
        print(printable(f"what would help: {text}"))
    if said is not None and said.note("reserved"):
        print(printable(f"reserved: {said.note('reserved')}"))
    if said is not None and said.is_configured and changes and options.config is None:
        print(f"what would help is {_OTHERWISE}", file=sys.stderr)
    if lacking and kinds[_KINDS:]:
        print(f"{len(kinds[_KINDS:])} further kinds of nodes were not tried")
    if row.message:
        print(printable(f"the scheduler says: {row.message}"))


def _helps(
    survey: Survey, row: GangRow, said: Said | None, changes: Sequence[SmallestChange]
) -> list[str]:
    """Return what would help a gang, each once.

    The cluster is listed without the memory of the running scheduler, and perhaps without its
    configuration. So a gang that fits by the listing may be held by the scheduler.
    """
    if said is not None and said.note("helps"):
        return [said.note("helps")]
    foreign = survey.foreign(survey.members_of(row.key))
    if foreign and foreign in row.reason:
        ours = " or ".join(survey.settings.profile.scheduler_names)
        return [f"pods with the schedulerName {ours}, or a scheduler that has their schedulerName"]
    texts: list[str] = []
    for change in changes:
        fits = isinstance(change, Sufficient) and not change.nodes and change.at is not None
        if fits and said is not None and said.note("reservedFor"):
            theirs = said.note("reservedFor")
            texts.append(
                f"no more nodes: pod group {row.key} fits as things stand, on nodes that are"
                f" reserved for pod group {theirs}; it starts when {theirs} has started, or with a"
                " higher priority"
            )
        elif fits and (said is not None or row.message):
            cause = "the reason above" if said is not None else "what the scheduler says"
            texts.append(f"no more nodes: pod group {row.key} fits as things stand; see {cause}")
        else:
            texts.append(change.in_utc())
    return list(dict.fromkeys(texts))


def _show_why(said: Said, options: argparse.Namespace) -> None:
    (row,) = said.rows
    if options.output in ("json", "yaml"):
        print_documents("GangList", [row.to_dict()], options.output)
        return
    _print_row(row)
    for name, label in (("helps", "what would help"), ("reserved", "reserved")):
        if said.note(name):
            print(printable(f"{label}: {said.note(name)}"))
    if row.message:
        print(printable(f"the scheduler says: {row.message}"))


def _print_row(row: GangRow) -> None:
    there = f"{row.have} of {_number(row.needed)} members are there"
    if row.needed is not None and row.have > row.needed:
        there = f"{row.have} members are there, it needs {row.needed}"
    counts = f"{there}, {row.held} hold a node, {row.running} run"
    print(printable(f"pod group {row.key}: {row.phase or '-'}: {counts}"))
    if row.reason:
        print(printable(f"why: {row.reason}"))


def _key(survey: Survey, options: argparse.Namespace) -> GroupKey:
    """Return the key of the group that is named.

    Raises:
        BadInputError: There is no such group.
    """
    name: str = options.group
    key = GroupKey(name if "/" in name else f"{options.namespace or 'default'}/{name}")
    known = [row.key for row in _rows(survey, _everywhere(options))]
    if key not in known:
        named = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
        raise BadInputError(f"no pod group {key}; known: {named or 'none'}")
    return key


def _everywhere(options: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "namespace": None, "keys": ()})


# what-if ----------------------------------------------------------------------------------------


def _what_if(survey: Survey, options: argparse.Namespace) -> None:
    from gangsched.explain import Running, in_utc

    if options.add_nodes < 0:
        raise InvalidValueError("--add-nodes", options.add_nodes, "an int >= 0")
    model = survey.cache.cluster.node(options.like)
    if model is None:
        known = [node.name for node in survey.cache.cluster.nodes()]
        named = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
        raise BadInputError(f"--like: no node {options.like!r}; known: {named or 'none'}")
    events = [NodeAdded(node) for node in _more(survey, model, options.add_nodes)]
    before = survey.scheduler.what_if(now=survey.now)
    after = survey.scheduler.what_if(*events, now=survey.now)
    started = _started(after.effects)
    without = _started(before.effects)
    places: dict[str, str] = {}
    for effect in after.effects:
        if isinstance(effect, Bind):
            pod = survey.cache.cluster.pod(effect.uid)
            places[effect.uid if pod is None else pod.key] = effect.node
    waiting = {key: in_utc(why) for key, why in after.why.items() if not isinstance(why, Running)}
    if options.output in ("json", "yaml"):
        item = {
            "added": [event.node.name for event in events],
            "starts": sorted(started - without),
            "starts_anyway": sorted(started & without),
            "waits": waiting,
            "places": places,
        }
        print_documents("WhatIfList", [item], options.output)
        return
    for key in sorted(started):
        how = " in any case" if key in without else ""
        print(printable(f"pod group {key} would start{how}"))
    if not started:
        print("no pod group would start")
    if options.output == "wide":
        print(table(("POD", "NODE"), sorted(places.items())))
    for key, why in waiting.items():
        print(printable(f"pod group {key} would wait: {why}"))


def _started(effects: Sequence[object]) -> set[str]:
    return {effect.group for effect in effects if isinstance(effect, GroupScheduled)}


def _more(survey: Survey, model: Node, count: int) -> list[Node]:
    """Return new nodes like another one, with names that no node has."""
    taken = {node.name for node in survey.cache.cluster.nodes()}
    found: list[Node] = []
    number = 0
    while len(found) < count:
        number += 1
        name = f"{model.name}-more-{number}"
        if name not in taken:
            found.append(one_more(model, name))
    return found


# queue, pods, demand ----------------------------------------------------------------------------


def _queue(survey: Survey, options: argparse.Namespace) -> None:
    from gangsched.kubernetes._queue_rows import queue_item

    rows = [
        row for row in survey.pending() if options.namespace in (None, row.name.partition("/")[0])
    ]
    _print_queue([queue_item(row) for row in rows], options)


def _show_queue(said: Said, options: argparse.Namespace) -> None:
    _print_queue(said.items, options)


def _print_queue(items: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    if options.output in ("json", "yaml"):
        print_documents("QueueList", items, options.output)
    elif not items:
        print(_nothing("waiting pods", options))
    else:
        columns = ("PLACE", "NAME", "KIND", "PRIORITY", "PODS", "NEEDED", "AGE", "STATE")
        cells = [
            (
                _number(item["place"]),
                item["name"],
                "gang" if item["gang"] else "pod",
                str(item["priority"]),
                str(item["pods"]),
                _number(item["needed"]),
                age_of(item["age"]),
                item["state"],
            )
            for item in items
        ]
        print(table(columns, cells))


def _pods(survey: Survey, options: argparse.Namespace) -> None:
    from gangsched.kubernetes._gang_rows import member_rows

    rows = member_rows(survey, options.namespace)
    if options.output in ("json", "yaml"):
        print_documents("MemberList", [row.to_dict() for row in rows], options.output)
    elif not rows:
        print(_nothing("pods of gangs", options))
    else:
        columns = ("NAMESPACE", "GANG", "NAME", "ROLE", "PHASE", "NODE", "AGE", "SCHEDULER SAYS")
        cells = [
            (r.namespace, r.group, r.name, r.role, r.phase, r.node, age_of(r.age), r.message)
            for r in rows
        ]
        print(table(columns, cells))


def _demand(survey: Survey, options: argparse.Namespace) -> None:
    from gangsched.kubernetes._demand import pending_demand

    found = pending_demand(survey.scheduler, survey.cache.cluster.nodes(), now=survey.now)
    if options.output in ("json", "yaml"):
        print_documents("DemandList", [each.to_dict() for each in found], options.output)
    elif not found:
        print("no number of nodes of a kind that the cluster has would start more gangs")
    else:
        columns = ("NODES", "LIKE", "ALLOCATABLE", "GANGS")
        cells = [
            (str(d.nodes), d.like.name.removesuffix("-more"), d.shape, ",".join(d.groups))
            for d in found
        ]
        print(table(columns, cells))


def _nothing(what: str, options: argparse.Namespace) -> str:
    where = "any namespace" if options.namespace is None else f"namespace {options.namespace}"
    return f"there are no {what} in {printable(where)}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
