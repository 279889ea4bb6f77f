"""``gangsched run``: a scheduler on a Kubernetes cluster."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
from typing import Any, Final

from attrs import evolve

from gangsched.cli._configuration import plugin_factories, read_configuration
from gangsched.cli._files import BadInputError
from gangsched.configuration import Settings

__all__ = ["add_cluster"]

_SERVE: Final = "0.0.0.0:10259"
_COLLECTIONS: Final = (20_000, 20, 20)
"""Allocations after which the garbage collector runs. With Python's 700 it takes a tenth of the
processor time, and finds next to nothing."""


def add_cluster(commands: Any) -> None:
    """Add the command ``run``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="schedule the pods of a Kubernetes cluster",
        description="Schedule the pods of a Kubernetes cluster, until SIGTERM.",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="how to reach the API server; default: that of the configuration, then the"
        " ServiceAccount of the pod, then $KUBECONFIG",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a KubeSchedulerConfiguration, as YAML; - reads it"
    )
    parser.add_argument(
        "--serve",
        metavar="HOST:PORT",
        default=_SERVE,
        help=f"where /healthz, /readyz and /metrics are served; '' for nowhere; default: {_SERVE}",
    )
    parser.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether replicas elect a leader; default: that of the configuration",
    )
    parser.add_argument("--log-json", action="store_true", help="log JSON objects")
    parser.add_argument(
        "-v",
        dest="verbosity",
        type=int,
        default=1,
        metavar="LEVEL",
        help="0: warnings; 1: what happens; 2: each decision too; 3: all; default: 1",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from gangsched.kubernetes import run
    from gangsched.kubernetes._logs import configure_logs

    settings, made = Settings(), {}
    if options.config is not None:
        settings = read_configuration(options.config)
        made = plugin_factories(settings, options.config)
    if options.kubeconfig is not None:
        client = evolve(settings.client, kubeconfig=options.kubeconfig)
        settings = evolve(settings, client=client)
    if options.leader_elect is not None:
        election = evolve(settings.leader_election, leader_elect=options.leader_elect)
        settings = evolve(settings, leader_election=election)
    serve = _address(options.serve)
    configure_logs(verbosity=options.verbosity, as_json=options.log_json)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await run(settings, stop=stop, serve=serve, factories=made, first_settled=_freeze)

    gc.set_threshold(*_COLLECTIONS)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(until_stopped())
    except OSError as error:  # nothing is written to standard output, which others are about
        raise BadInputError(f"run: {error}") from error
    return 0


def _freeze() -> None:
    """Leave what lives as long as the cluster out of garbage collections.

    Pods and nodes are freed by their reference counts. A full collection would visit them all, for
    a third of a second at 50,000 pods, while a gang waits.
    """
    gc.collect()
    gc.freeze()


def _loop_factory() -> Any:
    """Return the event loops of uvloop; None for asyncio's own if it is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _address(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise BadInputError(f"--serve: expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)
