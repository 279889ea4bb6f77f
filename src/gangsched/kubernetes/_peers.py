"""What another project states on the cluster, in one term of a leader: its levels and its quotas.

Rules:
  R1  both are read only if the configuration says so: the other project may run beside this one;
  R2  they are read before anything is watched. Without its levels, racks of one name would be one
      rack, and without its quotas nothing would be limited;
  R3  a scheduler takes levels when it is made. If they are others later, the term ends in order,
      and the replica begins a new one. Which nodes a HyperNode has may change at any time;
  R4  if the quotas are others later, the scheduler goes on with them, see ``ReplacedQuotas``.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, final

from attrs import evolve

from gangsched.configuration import Settings
from gangsched.drivers._contract import DrivenScheduler
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._peer_levels import list_levels
from gangsched.kubernetes._peer_objects import PeerObjects
from gangsched.kubernetes._peer_quotas import QuotaScheduler, ReplacedQuotas, list_quotas
from gangsched.kubernetes._tasks import Tasks, end
from gangsched.manifests.peer_levels import PeerLevels
from gangsched.manifests.peer_quotas import PeerQuotas

__all__ = ["Peers"]

_AGAIN: Final = 1.0
"""Seconds between two tries to read them at the start."""
_LOOK_AT_LEVELS: Final = 30.0
"""Seconds between two looks at the levels."""
_LOOK_AT_QUOTAS: Final = 10.0
"""Seconds between two looks at the quotas, since queues come and go."""

_log = logging.getLogger("gangsched.kubernetes")


@final
class Peers:
    """The levels and the quotas of another project, if the configuration names one.

    Args:
        api: The API server.
        settings: The configuration.

    Attributes:
        settings: The configuration, with what the project states once that is read.
    """

    def __init__(self, api: Api, settings: Settings) -> None:
        self.settings = settings
        self._of_levels: Final = settings.levels_from
        self._of_quotas: Final = settings.quotas_from
        self._levels: Final = PeerObjects(
            *("levels", self._of_levels, partial(list_levels, api, self._of_levels)),
            again=_AGAIN,
            interval=_LOOK_AT_LEVELS,
        )
        self._quotas: Final = PeerObjects(
            *("quotas", self._of_quotas, partial(list_quotas, api, self._of_quotas)),
            again=_AGAIN,
            interval=_LOOK_AT_QUOTAS,
        )
        self._has_other_levels: Final = asyncio.Event()
        self._replaced: ReplacedQuotas | None = None

    @property
    def problem(self) -> str:
        """Why something is not read yet; empty if there is no reason."""
        return self._levels.problem or self._quotas.problem

    async def read(self, tasks: Tasks, owner: Owner) -> None:
        """Read what the project states, as soon as that is possible, and follow it from then on."""
        if self._of_levels:
            levels = await self._levels.first()
            self._take_levels(owner, levels)
            changed = partial(self._follow_levels, owner, levels)
            tasks.start(self._levels.follow(levels, changed))
        if self._of_quotas:
            quotas = await self._quotas.first()
            self._take_quotas(owner, quotas)
            tasks.start(self._quotas.follow(quotas, partial(self._take_quotas, owner)))

    def ending(self, tasks: Tasks, stop: asyncio.Event) -> asyncio.Event:
        """Return what is set with *stop*, or when the project has stated other levels."""
        if not self._of_levels:
            return stop
        ends = asyncio.Event()

        async def follow() -> None:
            either = [asyncio.create_task(e.wait()) for e in (stop, self._has_other_levels)]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                ends.set()
                await asyncio.Event().wait()  # the end of a task would end what runs
            finally:
                await end(*either)

        tasks.start(follow())
        return ends

    def with_quotas(self, scheduler: QuotaScheduler) -> DrivenScheduler:
        """Return a scheduler that takes the quotas of the project when they change."""
        if not self._of_quotas:
            return scheduler
        self._replaced = ReplacedQuotas(scheduler)
        return self._replaced

    def _take_levels(self, owner: Owner, found: PeerLevels) -> None:
        owner.cache.levels = found
        self.settings = evolve(self.settings, levels=found.levels, levels_from="")
        topologies = found.levels.topologies
        log = _log.info if topologies else _log.warning
        log("levels of %s: %s", found.peer, " and ".join(map(", ".join, topologies)) or "none")

    def _follow_levels(self, owner: Owner, known: PeerLevels, now: PeerLevels) -> None:
        if (now.levels, now.names) == (known.levels, known.names):
            for event in owner.cache.relabel(now):
                owner.tell(event)
        elif not self._has_other_levels.is_set():
            _log.warning("the levels of %s are others now: the scheduler begins again", now.peer)
            self._has_other_levels.set()

    def _take_quotas(self, owner: Owner, found: PeerQuotas) -> None:
        """Give the scheduler the quotas, and pods their queues."""
        known = owner.cache.quotas
        for note in found.notes:
            if note not in known.notes:
                _log.warning("%s", note)
        if (found.quotas, found.leads) == (known.quotas, known.leads):
            owner.cache.quotas = found
            return
        _log.info("quotas of %s: %s", found.peer, ", ".join(each.name for each in found.quotas))
        self.settings = evolve(self.settings, quotas=found.quotas, quotas_from="")
        owner.cache.requeue(found)
        if self._replaced is not None:
            self._replaced.next = found.quotas
        if owner.driver is not None:
            owner.driver.rebuild()
