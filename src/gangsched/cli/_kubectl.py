"""``kubectl gang``: the gangs of a cluster, why they wait, and what would start them.

``kubectl`` runs the program ``kubectl-gang`` as its command ``gang``.

Rules:
  R1  ``get``, ``why``, ``queue`` and ``quotas`` ask the running scheduler if it can be found.
      Otherwise, and for all else, the cluster is listed with the rights of the user. So it works on
      any API server, and while the scheduler is down. What the scheduler wrote is shown beside;
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
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from attrs import evolve

from gangsched._version import __version__
from gangsched.cli._ask_scheduler import (
    CONFIGURED_OTHERWISE,
    add_ask_options,
    is_configured_otherwise,
    scheduler_says,
)
from gangsched.cli._cluster import named_in_errors
from gangsched.cli._command import execute
from gangsched.cli._configuration import plugin_factories, read_configuration
from gangsched.cli._files import BadInputError
from gangsched.cli._gang_get import get_gangs, name_gangs, show_gangs, watch_gangs
from gangsched.cli._gang_lists import (
    list_demand,
    list_pods,
    list_queue,
    list_quotas,
    show_queue,
    show_quotas,
)
from gangsched.cli._gang_what_if import ask_what_if
from gangsched.cli._gang_why import begin_why, end_why, explain_gang, prepare_why, show_why
from gangsched.cli._options import seconds
from gangsched.cli._parser import Parser
from gangsched.cli._quota_option import add_quota_option
from gangsched.cli._tables import FORMATS
from gangsched.cli._time_limit import within
from gangsched.configuration import Settings
from gangsched.values.seconds import format_duration
from gangsched.values.text import printable

if TYPE_CHECKING:
    from gangsched.kubernetes._survey import Survey

__all__ = ["main"]

_Answer: TypeAlias = Callable[["Survey", argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return execute(_parser, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kubectl gang", description="See the gangs of a cluster.")
    parser.add_argument("--version", action="version", version=f"gangsched {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    get = _command(commands, "get", get_gangs, "list the gangs: what each needs, has and lacks")
    get.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="the gangs, as NAME or NAMESPACE/NAME; default: all",
    )
    get.add_argument("-w", "--watch", action="store_true", help="print gangs again as they change")
    why = _command(
        commands, "why", explain_gang, "say why a gang does not run, and what would start it"
    )
    why.add_argument("group", metavar="NAME", help="the gang, as NAME or NAMESPACE/NAME")
    add_ask_options(get, page="gangs", show=show_gangs)
    add_ask_options(why, page="why", show=show_why)
    what_if = _command(
        commands, "what-if", ask_what_if, "say what would start with more nodes or other quotas"
    )
    what_if.add_argument("--add-nodes", type=int, metavar="COUNT", help="how many nodes are added")
    what_if.add_argument("--like", metavar="NODE", help="the node that the added nodes are like")
    add_quota_option(what_if)
    queue = _command(
        commands, "queue", list_queue, "list what waits, in the order in which it is tried"
    )
    add_ask_options(queue, page="queue", show=show_queue)
    quotas = _command(
        commands, "quotas", list_quotas, "list the quotas, and what each of them uses"
    )
    add_ask_options(quotas, page="quotas", show=show_quotas)
    _command(commands, "pods", list_pods, "list the pods of gangs, with node and reason")
    _command(
        commands, "demand", list_demand, "say how many nodes of which kind would start the gangs"
    )
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

    if not options.request_timeout:
        raise BadInputError("--request-timeout: expected more than 0 s")
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
        name_gangs(options)
        said = await scheduler_says(client, settings, options)
        if said is not None and not said.is_lacking:
            said.show(options)
            return 0
        options.said = said
        if said is not None:
            begin_why(said, options)
        if said is not None and said.names:
            profile = evolve(settings.profile, scheduler_names=said.names)
            settings = evolve(settings, profile=profile)
        ends_at = time.monotonic() + options.request_timeout
        try:
            with named_in_errors(options.config, settings, made):
                async with survey(
                    client,
                    settings,
                    scheduler_names=options.scheduler,
                    factories=made,
                    timeout=options.request_timeout,
                ) as now:
                    if not _asks(options) and await is_configured_otherwise(
                        client, options.namespace
                    ):
                        print(CONFIGURED_OTHERWISE, file=sys.stderr)
                    if options.watch:
                        await watch_gangs(now, options)
                # watched no more, so the objects stay as they are while they are looked at
                if said is None:
                    cast("_Answer", options.answer)(now(), options)
                else:
                    within(ends_at - time.monotonic(), lambda: prepare_why(now(), options))()
        except (NotListedError, TimeoutError) as error:
            if said is None:
                raise
            end_why(said, options)  # without what would help
            problem: object = error
            if isinstance(error, TimeoutError):
                limit = format_duration(options.request_timeout)
                problem = f"no answer within {limit} s; see --request-timeout"
            print(printable(f"what would help: not known: {problem}"), file=sys.stderr)
    finally:
        await client.aclose()
    return 0


def _asks(options: argparse.Namespace) -> bool:
    """Return whether the configuration is named, or the command itself asks the scheduler."""
    is_asked = options.page is not None and not options.watch
    return options.config is not None or is_asked or options.ask_scheduler == "never"
