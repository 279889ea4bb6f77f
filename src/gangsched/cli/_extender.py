"""``gangsched extender``: gangs for a stock kube-scheduler, which is asked by HTTP."""

from __future__ import annotations

import argparse
import asyncio
import re
import ssl
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from gangsched.cli._cluster import (
    add_shell_options,
    check,
    named_in_errors,
    run_until_stopped,
    serving_of,
    settings_of,
)
from gangsched.cli._files import BadInputError
from gangsched.cli._options import seconds
from gangsched.cli._process_memory import freeze, give_back
from gangsched.errors import InvalidValueError

__all__ = ["add_extender"]

_SERVE: Final = "0.0.0.0:8889"
_HOST: Final = "0.0.0.0"
_LOOPBACK: Final = "127.0.0.1"
_PORT: Final = 8888
_MOST_PORTS: Final = 65_535
_TIMEOUT: Final = 20.0
_POD: Final = re.compile(r"[^/]+/[^/]+")


def add_extender(commands: Any) -> None:
    """Add the command ``extender``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "extender",
        help="schedule gangs through a stock kube-scheduler, as its extender",
        description="Answer the extender's verbs of a stock kube-scheduler, until SIGTERM.",
    )
    add_shell_options(parser, serve=_SERVE)
    parser.add_argument(
        "--bind-address",
        metavar="HOST",
        help=f"where the verbs are served; default: {_HOST} with --tls-cert, else {_LOOPBACK}",
    )
    parser.add_argument(
        "--insecure-bind-address",
        action="store_true",
        help="serve the verbs with plain HTTP at an address that others reach: they can bind pods",
    )
    parser.add_argument(
        "--port", type=int, default=_PORT, help=f"the port of the verbs; default: {_PORT}"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="the key of the certificate")
    parser.add_argument(
        "--client-ca", metavar="FILE", help="demand a client certificate of these authorities"
    )
    parser.add_argument(
        "--scheduler-name",
        action="append",
        metavar="NAME",
        help="a schedulerName whose gangs are decided here, may be repeated; default: that of the"
        " configuration",
    )
    parser.add_argument(
        "--hold-timeout",
        type=seconds,
        default=_TIMEOUT,
        metavar="DURATION",
        help="how long a gang waits for the next of its members to be bound; must exceed"
        f" podMaxBackoffSeconds of kube-scheduler; default: {_TIMEOUT:.0f}s",
    )
    parser.add_argument(
        "--label-pod",
        metavar="NAMESPACE/NAME",
        help="the pod of this replica, which has the label gangsched.io/leads=true while it leads,"
        " for the selector of a Service; with it, replicas that do not lead are ready",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from gangsched.kubernetes.extender import Holding, run_extender

    settings, made = settings_of(options)
    if options.scheduler_name:
        names = tuple(dict.fromkeys(options.scheduler_name))
        settings = evolve(settings, profile=evolve(settings.profile, scheduler_names=names))
    serve = serving_of(options)
    if not 0 <= options.port <= _MOST_PORTS:
        raise BadInputError(f"--port: expected 0 to {_MOST_PORTS}, got {options.port}")
    if not options.hold_timeout:
        raise BadInputError("--hold-timeout: expected more than 0 s")
    context = _context(options)
    listen = (_bind_address(options), options.port)
    if options.label_pod is not None and not _POD.fullmatch(options.label_pod):
        raise BadInputError(f"--label-pod: expected NAMESPACE/NAME, got {options.label_pod!r}")
    if options.check:
        return check(options, settings, made)

    async def until(stop: asyncio.Event) -> None:
        await run_extender(
            settings,
            listen=listen,
            context=context,
            holding=Holding(timeout=options.hold_timeout),
            stop=stop,
            serve=serve,
            factories=made,
            first_settled=freeze,
            term_ended=give_back,
            pod=options.label_pod,
        )

    with named_in_errors(options.config, settings, made):
        run_until_stopped("extender", options, settings, until)
    return 0


def _bind_address(options: argparse.Namespace) -> str:
    """Return where the verbs are served.

    Raises:
        BadInputError: Others would reach it, and ask for binds in plain HTTP.
    """
    from gangsched.kubernetes._serving import is_loopback

    is_secure = options.tls_cert is not None
    if options.bind_address is None:
        return _HOST if is_secure or options.insecure_bind_address else _LOOPBACK
    host: str = options.bind_address.strip("[]")
    if not is_secure and not options.insecure_bind_address and not is_loopback(host):
        raise BadInputError(
            f"--bind-address: expected a loopback address without --tls-cert, got {host!r}:"
            " whatever reaches it could bind pods; --insecure-bind-address allows it"
        )
    return host


def _context(options: argparse.Namespace) -> ssl.SSLContext | None:
    from gangsched.kubernetes.extender import server_context

    if (options.tls_cert is None) != (options.tls_key is None):
        raise BadInputError("--tls-cert and --tls-key: expected both of them, or neither")
    if options.tls_cert is None:
        if options.client_ca is not None:
            raise BadInputError("--client-ca: expected with --tls-cert and --tls-key only")
        return None
    authority = None if options.client_ca is None else Path(options.client_ca)
    try:
        return server_context(Path(options.tls_cert), Path(options.tls_key), authority)
    except InvalidValueError as error:
        raise BadInputError(f"--tls-cert, --tls-key, --client-ca: {error}") from error
