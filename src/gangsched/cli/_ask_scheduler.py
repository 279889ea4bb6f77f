"""How ``kubectl gang`` asks the running scheduler, and what it does if there is no answer.

Rules:
  R1  by default the scheduler is asked if it is found, within a few seconds. If not, the cluster is
      listed, which needs nothing of the scheduler;
  R2  lines on standard error say where an answer came from, or why the scheduler was not asked and
      what to type so that it is. Standard output is the answer alone, for programs that read it;
  R3  what a scheduler answers is read as untrusted input;
  R4  if the replica at ``--scheduler-url`` does not lead, the leader is asked in its pod. Its
      address is not known from outside, but the Lease names the pod.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

from attrs import field, frozen

from gangsched.cli._files import BadInputError
from gangsched.configuration import Settings
from gangsched.errors import InvalidValueError
from gangsched.values.text import printable

if TYPE_CHECKING:
    from gangsched.kubernetes._api import Api
    from gangsched.kubernetes._ask import Document, NotAnsweredError, RunningScheduler
    from gangsched.kubernetes._gang_rows import GangRow

__all__ = [
    "CONFIGURED_OTHERWISE",
    "Said",
    "Show",
    "add_ask_options",
    "is_configured_otherwise",
    "scheduler_says",
]

CONFIGURED_OTHERWISE: Final = (
    "by the default configuration, and the scheduler has another one: name its file with --config"
)

_PORT: Final = 10259
_PATIENCE: Final = 5.0
"""Seconds that the scheduler gets before the cluster is listed instead."""
_MOST_PORTS: Final = 65_535
_LONGEST_QUERY: Final = 4_096
"""With more names than that, all gangs are asked for: an address must not be too long."""
_KINDS: Final = {
    "gangs": "GangList",
    "why": "GangList",
    "queue": "QueueList",
    "quotas": "QuotaList",
}
_QUEUE: Final[dict[str, tuple[type, ...]]] = {
    "name": (str,),
    "gang": (bool,),
    "place": (int, type(None)),
    "priority": (int,),
    "pods": (int,),
    "needed": (int, type(None)),
    "age": (int,),
    "state": (str,),
}


@final
@frozen
class Said:
    """What the running scheduler has answered.

    Attributes:
        page: The page that was asked.
        items: The rows.
        rows: The rows as gangs; empty for a queue and for quotas.
        names: The names of the scheduler.
    """

    page: str
    items: list[dict[str, Any]]
    rows: list[GangRow]
    _show: Show = field(alias="show")
    names: tuple[str, ...] = ()

    @property
    def is_lacking(self) -> bool:
        """Whether the cluster has to be listed for what would help."""
        return self.page == "why" and any(row.reason and not row.is_quorate for row in self.rows)

    @property
    def is_configured(self) -> bool:
        """Whether the scheduler says that its configuration is not the default one."""
        return self.items[0].get("isConfigured") is True

    def note(self, name: str) -> str:
        """Return a further sentence of the answer about one gang; empty if there is none."""
        found = self.items[0].get(name)
        return found if isinstance(found, str) else ""

    def show(self, options: argparse.Namespace) -> None:
        """Print the answer."""
        self._show(self, options)


Show: TypeAlias = Callable[[Said, argparse.Namespace], None]


def add_ask_options(parser: argparse.ArgumentParser, *, page: str, show: Show) -> None:
    """Add the options of a command that the running scheduler can answer.

    Args:
        parser: The parser of the command.
        page: The page that is asked.
        show: Prints what was answered.
    """
    ask = parser.add_argument_group("the running scheduler")
    ask.add_argument(
        "--ask-scheduler",
        choices=("auto", "never", "always"),
        default="auto",
        help="whether it is asked; auto: if it is found, otherwise the cluster is listed;"
        " default: auto",
    )
    where = ask.add_mutually_exclusive_group()
    where.add_argument(
        "--lease",
        metavar="NAMESPACE/NAME",
        help="the Lease that it holds; default: that of --config, or the one named gangsched in"
        " any namespace",
    )
    where.add_argument(
        "--scheduler-url",
        metavar="URL",
        help="where it serves its pages, such as http://127.0.0.1:10259; default: the pod that"
        " holds the Lease, through the API server",
    )
    ask.add_argument(
        "--scheduler-port",
        type=int,
        default=_PORT,
        metavar="PORT",
        help=f"the port of its pages in its pod; default: {_PORT}",
    )
    ask.add_argument(
        "--scheduler-account",
        metavar="NAMESPACE/NAME",
        help="the ServiceAccount whose rights the answer has; default: the one with the name of the"
        " Lease and -ask, of the namespace that is asked about, else of that of the scheduler",
    )
    ask.add_argument(
        "--scheduler-token", metavar="FILE", help="the token for a --scheduler-url with https"
    )
    ask.add_argument(
        "--scheduler-ca",
        metavar="FILE",
        help="the authorities of its certificate; default: those of the system",
    )
    parser.set_defaults(page=page, show=show)


async def scheduler_says(api: Api, settings: Settings, options: argparse.Namespace) -> Said | None:
    """Return the answer of the running scheduler; None if the cluster is to be listed.

    Args:
        api: The API server.
        settings: The configuration, which names the Lease.
        options: What the command line says.

    Raises:
        BadInputError: An option is malformed.
        NotAnsweredError: It must answer, and does not.
    """
    if options.page is None:
        return None
    if options.ask_scheduler == "never":
        _say_listed(None, options)
        return None
    from gangsched.kubernetes._ask import NotAnsweredError

    scheduler = _scheduler(api, settings, options)
    must = options.ask_scheduler == "always"
    if options.watch:
        if must:
            raise InvalidValueError("--ask-scheduler", "always", "auto or never, with --watch")
        _say_listed(None, options)
        return None
    patience = options.request_timeout if must else min(options.request_timeout, _PATIENCE)
    try:
        async with asyncio.timeout(patience):
            try:
                document = await scheduler.ask(options.page, _query(options))
            except NotAnsweredError as error:
                if not error.leader or options.scheduler_url is None:
                    raise
                scheduler = _in_pod(api, settings, options)
                document = await _ask_leader(scheduler, options, error)
        said = _read(document, scheduler.where, options)
        while await _ask_further(scheduler, said, document, options, patience):
            pass
    except (NotAnsweredError, TimeoutError) as error:
        problem = error if isinstance(error, NotAnsweredError) else _too_slow(patience)
        if must:
            raise problem from error
        _say_listed(problem, options)
        return None
    at = printable(str(document.get("at")))
    print(f"by the scheduler at {printable(scheduler.where)}, {at}", file=sys.stderr)
    total = document.get("total")
    if isinstance(total, int) and total > len(said.items):
        print(f"the first {len(said.items)} of {total}; name a namespace", file=sys.stderr)
    return said


async def _ask_further(
    scheduler: RunningScheduler,
    said: Said,
    document: Document,
    options: argparse.Namespace,
    patience: float,
) -> bool:
    """Ask for the rows after those of an answer, and add them; return whether there were any.

    Rows come and go between two questions. One that is there already is not added.
    """
    total = document.get("total")
    if options.page == "why" or not isinstance(total, int) or total <= len(said.items):
        return False
    async with asyncio.timeout(patience):
        query = {**_query(options), "skip": str(len(said.items))}
        further = _read(await scheduler.ask(options.page, query), scheduler.where, options)
    known = {_name(item) for item in said.items}
    new = [n for n, item in enumerate(further.items) if _name(item) not in known]
    said.items.extend(further.items[n] for n in new)
    said.rows.extend(further.rows[n] for n in new if further.rows)
    return bool(new)


def _name(item: Mapping[str, Any]) -> tuple[object, object]:
    return item.get("namespace"), item.get("name")


def _too_slow(patience: float) -> NotAnsweredError:
    from gangsched.kubernetes._ask import NotAnsweredError

    remedy = "give it more time with --ask-scheduler always and --request-timeout"
    return NotAnsweredError(f"no answer within {patience:.0f} s", remedy=remedy)


def _say_listed(problem: NotAnsweredError | None, options: argparse.Namespace) -> None:
    """Print that the cluster is listed, by which configuration, and why nothing was asked.

    Without a configuration of one's own, and without a reason, nothing is printed.
    """
    how = "by listing"
    if options.config is not None:
        how += f" and the configuration {options.config}"
    elif problem is not None:
        how += " and the default configuration"
        how += ", which may not be the scheduler's" if problem.leader else ""
    if problem is not None:
        print(printable(f"{how}; {problem.sentence}"), file=sys.stderr)
        if problem.remedy:
            print(printable(f"to ask it: {problem.remedy}"), file=sys.stderr)
    elif options.config is not None:
        print(printable(how), file=sys.stderr)


async def is_configured_otherwise(api: Api, namespace: str | None) -> bool:
    """Return whether the scheduler that leads says that its configuration is not the default one.

    False if there is no answer in time: the question is put beside a listing, which goes on.

    Args:
        api: The API server.
        namespace: The namespace that is listed; None for all.
    """
    from gangsched.kubernetes._ask import InPod, NotAnsweredError, check_answer

    scheduler = InPod(api, None, _PORT, _PATIENCE)
    try:
        async with asyncio.timeout(_PATIENCE):
            query = {} if namespace is None else {"namespace": namespace}
            document = await scheduler.ask("configuration", query)
            items: list[Any] = check_answer(document, "Configuration", scheduler.where)["items"]
    except (NotAnsweredError, TimeoutError):
        return False
    return {"isConfigured": True} in items


async def _ask_leader(
    leader: RunningScheduler, options: argparse.Namespace, follower: NotAnsweredError
) -> Document:
    """Return the answer of the leader, after that of another replica.

    Raises:
        NotAnsweredError: It does not answer either; the error has both reasons.
    """
    from gangsched.kubernetes._ask import NotAnsweredError

    try:
        return await leader.ask(options.page, _query(options))
    except NotAnsweredError as error:
        problem = f"{follower.problem}; and of the leader: {error.problem}"
        raise NotAnsweredError(problem, follower.leader, error.remedy) from error


def _scheduler(api: Api, settings: Settings, options: argparse.Namespace) -> RunningScheduler:
    from gangsched.kubernetes._ask import AtUrl, is_url

    url: str | None = options.scheduler_url
    if url is not None:
        if not is_url(url):
            raise BadInputError(f"--scheduler-url: expected http://HOST:PORT, got {url!r}")
        token, authority = (
            None if each is None else Path(each)
            for each in (options.scheduler_token, options.scheduler_ca)
        )
        if (token or authority) and not url.startswith("https:"):
            raise BadInputError(
                f"--scheduler-token and --scheduler-ca: expected with https, got {url!r}"
            )
        return AtUrl(url, options.request_timeout, token, authority)
    return _in_pod(api, settings, options)


def _in_pod(api: Api, settings: Settings, options: argparse.Namespace) -> RunningScheduler:
    from gangsched.kubernetes._ask import InPod

    if not 0 < options.scheduler_port <= _MOST_PORTS:
        raise BadInputError(
            f"--scheduler-port: expected 1 to {_MOST_PORTS}, got {options.scheduler_port}"
        )
    lease: tuple[str, str] | None = None
    if options.lease is not None:
        lease = _key("--lease", options.lease)
    elif options.config is not None:
        election = settings.leader_election
        lease = (election.resource_namespace, election.resource_name)
    account = options.scheduler_account
    if account is not None:
        account = _key("--scheduler-account", account)
    return InPod(api, lease, options.scheduler_port, options.request_timeout, account)


def _key(option: str, text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not (namespace and name) or "/" in name:
        raise BadInputError(f"{option}: expected NAMESPACE/NAME, got {text!r}")
    return namespace, name


def _query(options: argparse.Namespace) -> dict[str, str]:
    if options.page == "why":
        name: str = options.group
        return {"group": name if "/" in name else f"{options.namespace or 'default'}/{name}"}
    if options.page == "quotas":
        return {}  # what a quota uses is about all namespaces
    query = {} if options.namespace is None else {"namespace": options.namespace}
    named = ",".join(options.keys)
    if named and len(named) < _LONGEST_QUERY:
        query["groups"] = named
    return query


def _read(document: Document, where: str, options: argparse.Namespace) -> Said:
    """Return an answer as rows.

    Raises:
        NotAnsweredError: It is malformed, or is that of a scheduler for other pods.
    """
    from gangsched.kubernetes._ask import NotAnsweredError, check_answer
    from gangsched.kubernetes._gang_rows import read_gang_row
    from gangsched.kubernetes._quota_rows import read_quota_rows

    items: list[dict[str, Any]] = check_answer(document, _KINDS[options.page], where)["items"]
    names = document.get("schedulerNames")
    for name in options.scheduler or ():
        if not isinstance(names, list) or name not in names:
            raise NotAnsweredError(f"{where}: it does not place the pods of {name}")
    try:
        if options.page == "queue":
            for item in items:
                for field_name, types in _QUEUE.items():
                    if not isinstance(item.get(field_name), types):
                        raise InvalidValueError(field_name, item.get(field_name), str(types))
            return Said(options.page, items, [], options.show)
        if options.page == "quotas":
            read_quota_rows(items)  # to refuse malformed rows; the tree is that of all answers
            return Said(options.page, items, [], options.show)
        rows = [read_gang_row(item) for item in items]
    except (InvalidValueError, AttributeError) as error:
        raise NotAnsweredError(f"{where}: {error}") from error
    if options.page == "why" and len(rows) != 1:
        raise NotAnsweredError(f"{where}: expected one gang, got {len(rows)}")
    ours = tuple(map(str, cast("list[object]", names))) if isinstance(names, list) else ()
    return Said(options.page, items, rows, options.show, ours)
