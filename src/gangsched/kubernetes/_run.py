"""``run``: a scheduler on a cluster, from the first request to the last.

A replica goes through these phases::

    connect -> wait for the lease -> list -> schedule -> drain -> give the lease up
                     ^                          |
                     +------- lease lost -------+

Rules:
  R1  nothing is listed and nothing is written before this replica leads. The new leader reads all
      of the cluster, after the old one could write for the last time;
  R2  a leader that loses the lease cancels what is under way, and waits for the lease again;
  R3  when *stop* is set, no more is decided. Binds under way are waited for, then queued events and
      conditions for a moment, then the lease is given up;
  R4  an error of the scheduler ends ``run``: a supervisor starts the process again, and the listing
      is all that it needs;
  R5  credentials are read by another process, and the scheduler is imported by another thread,
      which takes longer than to become the leader. Neither waits for the other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast, final

from attrs import define

from gangsched.configuration import Settings
from gangsched.drivers._clock import epoch_seconds
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._client import TransportName, connect
from gangsched.kubernetes._configuration import Credentials, read_access
from gangsched.kubernetes._leases import Election
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._server import Server

if TYPE_CHECKING:
    from gangsched.kubernetes._shell import Shell

__all__ = ["run"]

_log = logging.getLogger("gangsched.kubernetes")


async def run(
    settings: Settings | None = None,
    *,
    stop: asyncio.Event | None = None,
    api: Api | None = None,
    plugins: Iterable[object] = (),
    factories: Mapping[str, Callable[..., object]] | None = None,
    serve: tuple[str, int] | None = None,
    first_settled: Callable[[], object] | None = None,
) -> None:
    """Schedule the pods of a cluster, until *stop* is set.

    Args:
        settings: The configuration; None for the defaults.
        stop: Set it to end the run; None to run until the task is cancelled.
        api: The API server; None to connect to the one that the configuration names.
        plugins: Further plugins of the scheduler.
        factories: By the name of a plugin, what makes it from its arguments if the configuration
            enables it.
        serve: The host and the port of ``/healthz``, ``/readyz`` and ``/metrics``; None to serve
            nothing.
        first_settled: Called when a term of a leader has read the cluster and has nothing left to
            decide. The command line freezes the garbage collector's generations then.

    Raises:
        GangschedError: The configuration is malformed, or the scheduler raised.
        OSError: The address to serve at is in use.
        ModuleNotFoundError: The extra ``kubernetes`` is not installed.
    """
    settings = Settings() if settings is None else settings
    stop = asyncio.Event() if stop is None else stop
    credentials = _credentials(settings)
    if api is None:
        credentials.begin()
        await asyncio.sleep(0)  # the other process is started before the import takes its time
    importing = asyncio.create_task(asyncio.to_thread(_import_shell))
    replica = _Replica(
        settings,
        stop,
        tuple(plugins),
        factories or {},
        Measures(settings),
        first_settled,
        importing,
    )
    server = Server(replica.measures.pages(replica.problems))
    try:
        if serve is not None:
            port = await server.start(*serve)
            _log.info("serving /healthz, /readyz and /metrics at %s:%d", serve[0], port)
        connected = await _connect(settings, credentials) if api is None else api
        try:
            await replica.run(connected)
        finally:
            if api is None:
                await connected.aclose()
    finally:
        credentials.cancel()
        importing.cancel()
        await server.stop()


def _import_shell() -> type[Shell]:
    from gangsched.kubernetes._shell import Shell

    return Shell


def _credentials(settings: Settings) -> Credentials:
    kubeconfig = settings.client.kubeconfig
    return Credentials(lambda: read_access(kubeconfig=kubeconfig), on_problem=_not_read)


async def _connect(settings: Settings, credentials: Credentials) -> Api:
    client = settings.client
    lanes = {
        "default": 4,
        "binds": client.bind_connections,
        "events": client.event_connections,
        "status": client.event_connections,
        "evictions": 4,
        "volumes": 4,
        "leases": 1,
    }
    chosen = cast("TransportName", client.transport)
    return await connect(
        lanes=lanes, transport=chosen, on_problem=_not_read, credentials=credentials
    )


def _not_read(error: Exception) -> None:
    _log.warning("the credentials were not read again: %s", error)


@final
@define(eq=False)
class _Replica:
    """One process: it waits for the lease and schedules, again and again."""

    settings: Settings
    stop: asyncio.Event
    plugins: tuple[object, ...]
    factories: Mapping[str, Callable[..., object]]
    measures: Measures
    first_settled: Callable[[], object] | None
    importing: asyncio.Task[type[Shell]]
    election: Election | None = None
    shell: Shell | None = None

    def problems(self) -> list[str]:
        """Return why the replica is not ready; one that waits for the lease is ready."""
        if self.shell is not None:
            return self.shell.problems()
        waits = self.election is not None and not self.election.is_leading
        return [] if waits else ["not scheduling yet"]

    async def run(self, api: Api) -> None:
        """Lead, whenever the lease is ours, until *stop* is set."""
        named = self.settings.leader_election
        if not named.leader_elect:
            await self._schedule(api, None)
            return
        self.election = election = Election(
            api,
            identity=f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}",
            namespace=named.resource_namespace,
            name=named.resource_name,
            lease_duration=named.lease_duration,
            renew_deadline=named.renew_deadline,
            retry_period=named.retry_period,
        )
        try:
            while not self.stop.is_set():
                if not await _first(election.acquire(), self.stop.wait()):
                    break
                self.measures.leads(True)
                lost = asyncio.create_task(election.hold())
                try:
                    await self._schedule(api, lost)
                finally:
                    self.measures.leads(False)
                    lost.cancel()
                    with suppress(asyncio.CancelledError):
                        await lost
        finally:
            await election.release()

    async def _schedule(self, api: Api, lost: asyncio.Task[None] | None) -> None:
        """Schedule until *stop* is set, or until the lease is lost."""
        may_write = None if self.election is None else self.election
        shell = await asyncio.shield(self.importing)
        self.shell = shell(
            api,
            self.settings,
            plugins=self.plugins,
            factories=self.factories,
            measures=self.measures,
            clock=epoch_seconds,
            may_write=lambda: may_write is None or may_write.is_leading,
            first_settled=self.first_settled,
        )
        work = asyncio.create_task(self.shell.run(self.stop))
        others = () if lost is None else (lost,)
        try:
            await asyncio.wait((work, *others), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            self.shell = None
            if not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work


async def _first(wanted: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> bool:
    """Run two coroutines until one has ended; return whether that is the first one."""
    tasks = [asyncio.create_task(wanted), asyncio.create_task(other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
            return True
        return False
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
