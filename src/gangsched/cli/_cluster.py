"""``gangsched run``: a scheduler on a Kubernetes cluster."""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from gangsched.cli._configuration import (
    name_all_faults,
    plugin_factories,
    read_checked,
    read_configuration,
)
from gangsched.cli._files import BadInputError
from gangsched.cli._process_memory import freeze, give_back, keep_little_memory
from gangsched.cli._signals import stopped_by_signals
from gangsched.configuration import Settings
from gangsched.configuration.settings import read_ignored
from gangsched.errors import InvalidValueError, ProfileError

if TYPE_CHECKING:
    from gangsched.kubernetes._serving import Serving

__all__ = [
    "add_cluster",
    "add_shell_options",
    "address_of",
    "check",
    "named_in_errors",
    "run_until_stopped",
    "serving_of",
    "settings_of",
]

_SERVE: Final = "0.0.0.0:10259"
_AFTER_THE_DRAIN: Final = 1.0
"""Seconds after ``drainSeconds`` in which the command ends, whatever it waits for."""
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
    add_shell_options(parser, serve=_SERVE)
    parser.add_argument(
        "--answers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether /gangs, /queue, /quotas and /why are served there too, for kubectl gang;"
        " default: yes",
    )
    parser.set_defaults(run=_run)


def add_shell_options(parser: argparse.ArgumentParser, *, serve: str) -> None:
    """Add the options of a command that works on a cluster until SIGTERM.

    Args:
        parser: The parser of the command.
        serve: Where its pages are served by default.
    """
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
        default=serve,
        help="where /healthz, /readyz and /metrics are served, with HTTPS and a token that the API"
        " server reviews; on a loopback address with plain HTTP and without a token; '' for"
        f" nowhere; default: {serve}",
    )
    parser.add_argument(
        "--serve-cert",
        metavar="FILE",
        help="the certificate of --serve; default: one that is made at the start",
    )
    parser.add_argument("--serve-key", metavar="FILE", help="the key of --serve-cert")
    parser.add_argument(
        "--insecure-serve",
        action="store_true",
        help="serve with plain HTTP and without a token, to all that reach the address of --serve",
    )
    parser.add_argument(
        "--health",
        metavar="HOST:PORT",
        default="",
        help="where /healthz, /livez and /readyz are served too, and nothing else, with plain HTTP,"
        " for kubelets; default: nowhere",
    )
    parser.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether replicas elect a leader; default: that of the configuration",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FIELD",
        help="a constraint that is not modelled and shall be ignored, instead of holding the pods"
        " that have it, as a path: spec.resourceClaims; may be repeated, and adds to"
        " ignoredConstraints of the configuration",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check the configuration, without a cluster, and name all its faults; the exit"
        " code is 2 if it has any",
    )
    parser.add_argument("--log-json", action="store_true", help="log JSON objects")
    parser.add_argument(
        "-v",
        dest="verbosity",
        type=int,
        choices=range(4),
        default=1,
        metavar="LEVEL",
        help="0: warnings; 1: what happens; 2: each decision too; 3: all; default: 1",
    )


def _run(options: argparse.Namespace) -> int:
    settings, made = settings_of(options)
    serve = serving_of(options)
    if options.check:
        return check(options, settings, made)
    from gangsched.kubernetes import run

    async def until(stop: asyncio.Event) -> None:
        await run(
            settings,
            stop=stop,
            serve=serve,
            answers=options.answers,
            factories=made,
            first_settled=freeze,
            term_ended=give_back,
        )

    with named_in_errors(options.config, settings, made):
        run_until_stopped("run", options, settings, until)
    return 0


def settings_of(
    options: argparse.Namespace,
) -> tuple[Settings, dict[str, Callable[..., object]]]:
    """Return the configuration, and by name what makes the plugins that it enables.

    Raises:
        BadInputError: A file cannot be read, or is malformed.
    """
    settings, made = Settings(), dict[str, Callable[..., object]]()
    if options.config is not None:
        reader = read_checked if options.check else read_configuration
        settings = reader(options.config)
        made = dict(plugin_factories(settings, options.config))
    if options.kubeconfig is not None:
        client = evolve(settings.client, kubeconfig=options.kubeconfig)
        settings = evolve(settings, client=client)
    if options.ignore:
        settings = _with_ignored(settings, options.ignore)
    if options.leader_elect is not None:
        election = evolve(settings.leader_election, leader_elect=options.leader_elect)
        settings = evolve(settings, leader_election=election)
    return settings, made


def _with_ignored(settings: Settings, given: Iterable[str]) -> Settings:
    """Return a configuration that ignores the constraints of ``--ignore``, too.

    Raises:
        BadInputError: One of them is malformed or unknown.
    """
    from gangsched.kubernetes._cluster_settings import check_ignored_name

    added = dict[str, bool]()
    try:
        for text in given:
            path, is_unknown = read_ignored("--ignore", text)
            check_ignored_name("--ignore", path, is_unknown=is_unknown)
            added[path] = is_unknown
    except InvalidValueError as error:
        raise BadInputError(str(error)) from error
    unknown = (path for path, is_unknown in added.items() if is_unknown)
    return evolve(
        settings,
        ignored=tuple(dict.fromkeys((*settings.ignored, *added))),
        ignored_unknown=settings.ignored_unknown.union(unknown),
    )


def check(
    options: argparse.Namespace, settings: Settings, made: Mapping[str, Callable[..., object]]
) -> int:
    """Check a configuration; return the exit code.

    Raises:
        BadInputError: The configuration is malformed, or names what is not installed.
    """
    where = options.config or "the defaults"
    _check_settings(where, settings, made)
    print(f"{where}: valid")
    return 0


@contextmanager
def named_in_errors(
    file: str | None, settings: Settings, made: Mapping[str, Callable[..., object]]
) -> Generator[None]:
    """Name the file of the configuration, and all of its faults, in an error that is about it.

    A configuration is checked while credentials are read, in code that does not know the file. So
    it is checked again after an error, to know whether the error is about the file.

    Args:
        file: The file; None for the defaults, which are not malformed.
        settings: What it says.
        made: By name what makes the plugins that it enables.

    Raises:
        BadInputError: The configuration is malformed.
    """
    try:
        yield
    except (InvalidValueError, ProfileError):
        if file is not None:
            name_all_faults(file)
            _check_settings(file, settings, made)
        raise


def _check_settings(
    where: str, settings: Settings, made: Mapping[str, Callable[..., object]]
) -> None:
    from gangsched.configuration.scheduler import check_settings
    from gangsched.kubernetes._cluster_settings import check_cluster_settings

    try:
        check_settings(settings, factories=made)
        check_cluster_settings(settings)
    except (InvalidValueError, ProfileError) as error:
        raise BadInputError(f"{where}: {error}") from error


def run_until_stopped(
    name: str,
    options: argparse.Namespace,
    settings: Settings,
    work: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        name: The name of the command, for errors.
        options: What the command line says about logs.
        settings: The configuration; it says how long binds are waited for at the end.
        work: Called with an event that is set by the signal.

    Raises:
        BadInputError: The work could not begin.
    """
    from gangsched.kubernetes._logs import configure_logs

    configure_logs(verbosity=options.verbosity, as_json=options.log_json)

    async def until_stopped() -> None:
        with stopped_by_signals(settings.drain + _AFTER_THE_DRAIN) as stop:
            await work(stop)

    gc.set_threshold(*_COLLECTIONS)
    keep_little_memory()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(until_stopped())
    except OSError as error:  # nothing is written to standard output, which others are about
        raise BadInputError(f"{name}: {error}") from error


def _loop_factory() -> Any:
    """Return the event loops of uvloop; None for asyncio's own if it is not installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def serving_of(options: argparse.Namespace) -> Serving | None:
    """Return where the pages are served; None for nowhere.

    Raises:
        BadInputError: An option is malformed, or a certificate cannot be used.
    """
    address = address_of("--serve", options.serve)
    health = address_of("--health", options.health)
    cert, key = options.serve_cert, options.serve_key
    if (cert is None) != (key is None):
        raise BadInputError("--serve-cert and --serve-key: expected both of them, or neither")
    if options.insecure_serve and cert is not None:
        raise BadInputError("--insecure-serve: expected without --serve-cert")
    if address is None:
        if health is not None:
            raise BadInputError("--health: expected with --serve only")
        return None
    from gangsched.kubernetes._serving import Serving

    host, port = address
    if cert is None or key is None:
        return Serving(host, port, insecure=options.insecure_serve, health=health)
    found = Serving(host, port, certificate=Path(cert), key=Path(key), health=health)
    try:
        found.context()
    except InvalidValueError as error:
        raise BadInputError(f"--serve-cert, --serve-key: {error}") from error
    return found


def address_of(option: str, text: str) -> tuple[str, int] | None:
    """Return the host and the port of ``HOST:PORT``; None for an empty text.

    Raises:
        BadInputError: It is malformed.
    """
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise BadInputError(f"{option}: expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)
