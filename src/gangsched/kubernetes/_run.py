"""``run``: a scheduler on a cluster, from the first request to the last.

The phases of a replica are those of ``_replica``.

Rules:
  R1  when *stop* is set, no more is decided. Binds under way are waited for, then queued events and
      conditions for a moment, then the lease is given up;
  R2  an error of the scheduler ends ``run``: a supervisor starts the process again, and the listing
      is all that it needs;
  R3  credentials are read by another process while the scheduler is imported by another thread.
      Neither waits for the other;
  R4  answers of the scheduler are served where its metrics are, and only if *answers* is true;
  R5  the configuration is checked as soon as the scheduler is imported, before anything is served
      or the Lease is asked for. A replica that could not lead never becomes ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, cast

from gangsched.configuration import Settings
from gangsched.drivers._clock import epoch_seconds
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._client import TransportName, connect
from gangsched.kubernetes._configuration import Credentials, read_access
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._counted import CountedApi, Seen
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._replica import Replica
from gangsched.kubernetes._serving import Pages, Serving
from gangsched.kubernetes._transport import BATCH_SECONDS

if TYPE_CHECKING:
    from gangsched.kubernetes._answers import Answers
    from gangsched.kubernetes._shell import Shell

__all__ = ["connect_to", "credentials_of", "run"]

_log = logging.getLogger("gangsched.kubernetes")


async def run(
    settings: Settings | None = None,
    *,
    stop: asyncio.Event | None = None,
    api: Api | None = None,
    plugins: Iterable[object] = (),
    factories: Mapping[str, Callable[..., object]] | None = None,
    serve: Serving | tuple[str, int] | None = None,
    answers: bool = True,
    first_settled: Callable[[], object] | None = None,
    term_ended: Callable[[], object] | None = None,
) -> None:
    """Schedule the pods of a cluster, until *stop* is set.

    Args:
        settings: The configuration; None for the defaults.
        stop: Set it to end the run; None to run until the task is cancelled.
        api: The API server; None to connect to the one that the configuration names.
        plugins: Further plugins of the scheduler.
        factories: By the name of a plugin, what makes it from its arguments if the configuration
            enables it.
        serve: Where ``/healthz``, ``/readyz`` and ``/metrics`` are served; None to serve nothing.
            A host and a port are HTTPS, whose requests the API server reviews, or plain HTTP if the
            host is a loopback address; see ``Serving``.
        answers: Whether ``/gangs``, ``/queue``, ``/quotas``, ``/why`` and ``/configuration`` are
            served there, too. They answer ``kubectl gang``.
        first_settled: Called when a term of a leader has read the cluster and has nothing left to
            decide. The command line freezes the garbage collector's generations then.
        term_ended: Called when this replica has ceased to lead, and keeps nothing of the cluster.
            The command line gives memory back then.

    Raises:
        GangschedError: The configuration is malformed, which is seen before anything is served
            and before the first request, or the scheduler raised.
        InvalidValueError: A certificate to serve with cannot be used.
        OSError: The address to serve at is in use.
        ModuleNotFoundError: The extra ``kubernetes`` is not installed.
    """
    settings = Settings() if settings is None else settings
    stop = asyncio.Event() if stop is None else stop
    credentials = credentials_of(settings)
    if api is None:
        credentials.begin()
        await asyncio.sleep(0)  # the other process is started before the import takes its time
    further, made = tuple(plugins), factories or {}
    try:
        make_shell, make_answers, check, check_names = await asyncio.to_thread(_import_scheduler)
        check(settings, plugins=further, factories=made)
        check_names(settings)
    except BaseException:
        credentials.cancel()
        raise
    measures = Measures(settings)

    async def shell(api: Api, may_write: Callable[[], bool]) -> Shell:
        return make_shell(
            api,
            settings,
            plugins=further,
            factories=made,
            measures=measures,
            clock=epoch_seconds,
            may_write=may_write,
            first_settled=first_settled,
        )

    replica = Replica(settings.leader_election, stop, shell, measures.leads)

    def term() -> Shell | None:
        return cast("Shell | None", replica.term)  # which the replica takes for any term

    contact = Contact()

    def problems() -> list[str]:
        return contact.explained(replica.problems())

    def leader() -> str:
        election = replica.election
        return "" if election is None or election.is_leading else election.holder

    asked = make_answers(settings, term, leader, epoch_seconds, replica.problems)

    def ended() -> None:
        asked.forget()
        measures.ended()
        if term_ended is not None:
            term_ended()

    replica.ended = ended
    pages = Pages(measures.pages(problems), asked.pages() if answers else None)
    try:
        if serve is not None:
            where = serve if isinstance(serve, Serving) else Serving(*serve)
            await pages.start(where, measures.served)
        connected = (
            await connect_to(
                settings, credentials, measures.request, gathered=("binds",), contact=contact
            )
            if api is None
            else CountedApi(api, measures.request)
        )
        pages.api = connected
        try:
            with measures.loop_delays():
                await replica.run(connected)
        finally:
            if api is None:
                await connected.aclose()
    finally:
        credentials.cancel()
        await pages.stop()


def _import_scheduler() -> tuple[
    type[Shell], type[Answers], Callable[..., None], Callable[[Settings], None]
]:
    from gangsched.configuration.scheduler import check_settings
    from gangsched.kubernetes._answers import Answers
    from gangsched.kubernetes._cluster_settings import check_cluster_settings
    from gangsched.kubernetes._shell import Shell

    return Shell, Answers, check_settings, check_cluster_settings


def credentials_of(settings: Settings) -> Credentials:
    """Return the credentials that a configuration names; ``begin`` reads them."""
    kubeconfig = settings.client.kubeconfig
    return Credentials(lambda: read_access(kubeconfig=kubeconfig), on_problem=_not_read)


async def connect_to(
    settings: Settings,
    credentials: Credentials,
    seen: Seen | None = None,
    *,
    gathered: Iterable[str] = (),
    lanes: Mapping[str, int] | None = None,
    contact: Contact | None = None,
) -> Api:
    """Connect to the API server.

    Args:
        settings: The configuration.
        credentials: How to reach it.
        seen: Counts every request.
        gathered: The lanes whose answers may wait a moment for others.
        lanes: Further lanes, and their numbers of connections.
        contact: Told of requests without an answer.
    """
    client = settings.client
    all_lanes = {
        "default": 4,
        "binds": client.bind_connections,
        "events": client.event_connections,
        "status": client.event_connections,
        "evictions": 4,
        "volumes": 4,
        "leases": 1,
        "reviews": 2,
        **(lanes or {}),
    }
    chosen = cast("TransportName", client.transport)
    return await connect(
        lanes=all_lanes,
        transport=chosen,
        on_problem=_not_read,
        credentials=credentials,
        seen=seen,
        gather=dict.fromkeys(gathered, BATCH_SECONDS),
        contact=contact,
    )


def _not_read(error: Exception) -> None:
    _log.warning("the credentials were not read again: %s", error)
