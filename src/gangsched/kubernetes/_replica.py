"""A replica: the phases of one process, with or without an election.

::

    connect -> wait for the lease -> work -> give the lease up
                     ^                |
                     +-- lease lost --+

Rules:
  R1  nothing is listed and nothing is written before this replica leads. The new leader reads all
      of the cluster, after the old one could write for the last time;
  R2  a leader that loses the lease cancels what is under way, and waits for the lease again;
  R3  a term may end before *stop* is set, if what it was made from has changed: a new one begins;
  R4  the lease is given up once its term has ``drained``, before the term has ended: what is left
      then is only to be told. If a term ends without that, a bind may still be carried out whose
      answer is not awaited. So its lease is left to expire, as that of a leader that was killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, final

from attrs import define

from gangsched.configuration import LeaderElection
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._leases import Election
from gangsched.kubernetes._tasks import end

__all__ = ["Replica", "Term"]

_log = logging.getLogger("gangsched.kubernetes.leases")


class Term(Protocol):
    """What works while this replica leads."""

    @property
    def drained(self) -> asyncio.Event:
        """Set at the end, once nothing that was decided can still be carried out."""
        ...

    async def run(self, stop: asyncio.Event, /) -> None:
        """Work until *stop* is set."""
        ...

    def problems(self) -> list[str]:
        """Return why it is not ready."""
        ...


@final
@define(eq=False)
class Replica:
    """One process: it waits for the lease and works, again and again.

    Attributes:
        named: The election.
        stop: Set to end it.
        make: Returns what works in one term of a leader, from the API server and a function that
            returns whether this replica leads at this moment.
        leads: Called when this replica begins and ceases to lead.
        ended: Called when a term has ended. What keeps parts of it lets go of them: a cluster is
            large, and a replica that waits for the lease needs none of it.
        term: What works now; None while another replica leads.
        has_drained: Whether nothing that the last term has decided can still be carried out.
    """

    named: LeaderElection
    stop: asyncio.Event
    make: Callable[[Api, Callable[[], bool]], Awaitable[Term]]
    leads: Callable[[bool], object]
    ended: Callable[[], object] = lambda: None
    election: Election | None = None
    term: Term | None = None
    has_drained: bool = True

    def problems(self) -> list[str]:
        """Return why the replica is not ready; one that waits for a lease it can read is ready."""
        if self.term is not None:
            return self.term.problems()
        if self.election is None or self.election.is_leading:
            return ["not scheduling yet"]
        return self.election.problems()

    async def run(self, api: Api) -> None:
        """Lead, whenever the lease is ours, until *stop* is set."""
        named = self.named
        if not named.leader_elect:
            while not self.stop.is_set():
                await self._work(api, None)
                self.ended()
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
                self.leads(True)
                lost = asyncio.create_task(election.hold())
                try:
                    await self._work(api, lost)
                finally:
                    self.leads(False)
                    await end(lost)
                    self.ended()
                if not lost.cancelled():
                    lost.result()
        finally:
            if self.has_drained:
                await election.release()
            elif election.is_leading:
                _log.warning("the lease is left to expire: binds were sent and not answered")

    async def _work(self, api: Api, lost: asyncio.Task[None] | None) -> None:
        """Work until *stop* is set, or until the lease is lost."""
        election = self.election
        term = await self.make(api, lambda: election is None or election.is_leading)
        self.term, self.has_drained = term, False
        work = asyncio.create_task(term.run(self.stop))
        drained = asyncio.create_task(term.drained.wait())
        others = () if lost is None else (lost,)
        try:
            await asyncio.wait((work, drained, *others), return_when=asyncio.FIRST_COMPLETED)
            if election is not None and lost is not None and drained.done() and not lost.done():
                await end(lost)  # first: a renewal would take the lease again
                self.leads(False)
                await election.release()
            if drained.done():
                await asyncio.wait((work,))
        finally:
            self.term, self.has_drained = None, term.drained.is_set()
            await end(work, drained)
        if not work.cancelled():
            work.result()


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
        await end(*tasks)
