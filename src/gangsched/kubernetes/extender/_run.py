"""``run_extender``: the extender, from the first request to the last.

Rules:
  R1  with several replicas one leads and answers, and the others answer 503. A Service sends
      requests to the leader by the label of its pod. Without this label, the others are not ready;
  R2  the verbs have an address of their own: ``/metrics`` needs neither TLS nor their port;
  R3  the configuration is checked before anything is served or the Lease is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from gangsched.configuration import Settings
from gangsched.configuration.scheduler import check_settings
from gangsched.drivers._clock import epoch_seconds
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._cluster_settings import check_cluster_settings
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._counted import CountedApi
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._replica import Replica
from gangsched.kubernetes._requests import Requests
from gangsched.kubernetes._run import connect_to, credentials_of
from gangsched.kubernetes._serving import Pages, Serving, is_loopback
from gangsched.kubernetes.extender._desk import Desk
from gangsched.kubernetes.extender._http import VerbServer
from gangsched.kubernetes.extender._leader_label import LeaderLabel
from gangsched.kubernetes.extender._term import ExtenderTerm, Holding

__all__ = ["run_extender"]

_log = logging.getLogger("gangsched.kubernetes.extender")


async def run_extender(
    settings: Settings | None = None,
    *,
    listen: tuple[str, int],
    context: ssl.SSLContext | None = None,
    holding: Holding | None = None,
    stop: asyncio.Event | None = None,
    api: Api | None = None,
    plugins: Iterable[object] = (),
    factories: Mapping[str, Callable[..., object]] | None = None,
    serve: Serving | tuple[str, int] | None = None,
    first_settled: Callable[[], object] | None = None,
    term_ended: Callable[[], object] | None = None,
    listening: Callable[[int], object] | None = None,
    pod: str | None = None,
) -> None:
    """Answer the extender's verbs of a stock kube-scheduler, until *stop* is set.

    Args:
        settings: The configuration; None for the defaults.
        listen: The host and the port of the verbs.
        context: The TLS context of the verbs; None for plain HTTP.
        holding: How long requests are held back.
        stop: Set it to end the run; None to run until the task is cancelled.
        api: The API server; None to connect to the one that the configuration names.
        plugins: Further plugins of the scheduler.
        factories: By the name of a plugin, what makes it if the configuration enables it.
        serve: Where ``/healthz``, ``/readyz`` and ``/metrics`` are served, as for ``run``; None for
            nowhere.
        first_settled: Called when nothing is left to decide for the first time.
        term_ended: Called when this replica has ceased to lead.
        listening: Called with the port of the verbs.
        pod: The pod of this replica, as ``NAMESPACE/NAME``: it has the label
            ``gangsched.io/leads=true`` while this replica leads. None for no label.

    Raises:
        GangschedError: The configuration is malformed, or the scheduler raised.
        OSError: An address to serve at is in use.
        ModuleNotFoundError: The extra ``kubernetes`` is not installed.
    """
    settings = Settings() if settings is None else settings
    stop = asyncio.Event() if stop is None else stop
    further = tuple(plugins)
    check_settings(settings, plugins=further, factories=factories)
    check_cluster_settings(settings)
    measures = Measures(settings)
    measures.serves_verbs()
    label = None if pod is None else LeaderLabel(pod)

    async def term(api: Api, may_write: Callable[[], bool]) -> ExtenderTerm:
        return ExtenderTerm(
            api,
            settings,
            holding or Holding(),
            further,
            factories or {},
            measures,
            epoch_seconds,
            may_write,
            first_settled,
        )

    def leads(is_leading: bool) -> None:
        measures.leads(is_leading)
        if label is not None:
            label.put(is_leading)

    def ended() -> None:
        measures.ended()
        if term_ended is not None:
            term_ended()

    replica = Replica(settings.leader_election, stop, term, leads, ended)

    def desk() -> Desk | None:
        return None if replica.term is None else cast("ExtenderTerm", replica.term).desk

    contact = Contact()

    def problems() -> list[str]:
        found = contact.explained(replica.problems())
        if replica.term is None and label is None:
            return found or ["another replica leads"]
        return found

    verbs, pages = (
        VerbServer(desk, measures.verb),
        Pages(measures.pages(problems, of_replica=replica.problems)),
    )
    try:
        port = await verbs.start(*listen, context)
        _say_who_may_ask(listen[0], port, context)
        if listening is not None:
            listening(port)
        if serve is not None:
            where = serve if isinstance(serve, Serving) else Serving(*serve)
            await pages.start(where, measures.served)
        lanes = {"ordinary": settings.client.bind_connections}
        lanes["nominations"] = settings.client.bind_connections
        credentials = credentials_of(settings)
        connected = (
            await connect_to(settings, credentials, measures.request, lanes=lanes, contact=contact)
            if api is None
            else CountedApi(api, measures.request)
        )
        pages.api = connected
        try:
            with measures.loop_delays():
                if label is None:
                    await replica.run(connected)
                else:
                    async with label.written(Requests(connected)):
                        # without an election no other replica leads
                        label.put(not settings.leader_election.leader_elect)
                        await replica.run(connected)
        finally:
            if api is None:
                await connected.aclose()
    finally:
        await pages.stop()
        await verbs.stop()


def _say_who_may_ask(host: str, port: int, context: ssl.SSLContext | None) -> None:
    """Log where the verbs are served; warn if others than kube-scheduler may ask for binds."""
    how = "HTTPS" if context is not None else "plain HTTP"
    if context is None and is_loopback(host):
        how += ", to this machine only: --tls-cert serves others"
    _log.info("serving the verbs at %s:%d, %s", host, port, how)
    if context is None and not is_loopback(host):
        _log.warning(
            "all that reach %s:%d can bind pods, without encryption: --insecure-bind-address",
            *(host, port),
        )
    elif context is not None and context.verify_mode is not ssl.CERT_REQUIRED:
        _log.warning(
            "all that reach %s:%d can bind pods: --client-ca demands a certificate of the client",
            *(host, port),
        )
