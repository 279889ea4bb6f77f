"""A replica: the phases of one process, with or without an election.

::

    connect -> wait for the lease -> work -> give the lease up
                     ^                |
                     +-- lease lost --+

Rules:
  R1  nothing is listed and nothing is written before this replica leads. The new leader reads all
      of the cluster, after the old one could write for the last time;
  R2  a leader that loses the lease cancels what is under way, and waits for the lease again.
"""

from __future__ import annotations

import asyncio
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


class Term(Protocol):
    """What works while this replica leads."""

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
        term: What works now; None while another replica leads.
    """

    named: LeaderElection
    stop: asyncio.Event
    make: Callable[[Api, Callable[[], bool]], Awaitable[Term]]
    leads: Callable[[bool], object]
    election: Election | None = None
    term: Term | None = None

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
            await self._work(api, None)
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
                if not lost.cancelled():
                    lost.result()
        finally:
            await election.release()

    async def _work(self, api: Api, lost: asyncio.Task[None] | None) -> None:
        """Work until *stop* is set, or until the lease is lost."""
        election = self.election
        term = await self.make(api, lambda: election is None or election.is_leading)
        self.term = term
        work = asyncio.create_task(term.run(self.stop))
        others = () if lost is None else (lost,)
        try:
            await asyncio.wait((work, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.term = None
            await end(work)
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
