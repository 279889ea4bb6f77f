"""How often groups were restarted, written on the groups, where the next leader reads it.

The status of a PodGroup has no place for it in any API, and the status subresource changes nothing
but the status. So it is annotations of the group; see ``gangsched.manifests.restarts``.

Rules:
  R1  a restart is written before the first of its pods is evicted. A leader that is replaced in
      between has counted a restart that did not happen, never the other way round;
  R2  a patch names the UID, so a group that was created anew is not changed;
  R3  if the API server cannot be written to for *patience* seconds, the evictions go on: a gang
      that is broken must not hold its nodes because of a count;
  R4  of one group only the latest state waits. What is written meanwhile shows in the cache late,
      so the next state is made of the one before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

from attrs import evolve

from gangsched.errors import GangschedError
from gangsched.events import CopyBound, Evict, GroupRestarted
from gangsched.kubernetes._api import MERGE_PATCH
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._requests import Requests, is_gone, said, to_json
from gangsched.manifests.restarts import restart_annotations
from gangsched.model import GroupKey, PodGroup

__all__ = ["RestartNotes"]

_LANE: Final = "status"

_log = logging.getLogger("gangsched.kubernetes.restarts")


@final
class RestartNotes:
    """Writes the restarts of groups.

    Args:
        requests: Sends requests.
        cache: The cluster state.
        patience: For how many seconds a write is tried, and evictions wait for it.
    """

    def __init__(self, requests: Requests, cache: Cache, *, patience: float = 10.0) -> None:
        self._requests = requests
        self._cache = cache
        self._patience = patience
        self._states: dict[GroupKey, PodGroup] = {}
        self._latest: dict[GroupKey, PodGroup] = {}
        self._written: dict[GroupKey, asyncio.Event] = {}
        self._queued = asyncio.Event()

    def note(self, notice: GroupRestarted | CopyBound) -> None:
        """Queue that a group or a copy is restarted, or that a copy runs again."""
        self._put(notice.group, notice.noted_in)

    def bound(self, key: GroupKey) -> None:
        """Queue that a group runs again, if its annotations say that it is being restarted."""
        self._put(key, partial(evolve, restarting_until=None))

    def forget(self, key: GroupKey) -> None:
        """Forget a group that is deleted."""
        self._latest.pop(key, None)

    async def written(self, key: GroupKey | None) -> None:
        """Wait until what is queued for a group is written, but not longer than the patience."""
        event = None if key is None else self._written.get(key)
        if event is None:
            return
        try:
            async with asyncio.timeout(self._patience):
                await event.wait()
        except TimeoutError:
            _log.warning("%s: its restart is not written; its pods are evicted all the same", key)

    def before(
        self, evict: Callable[[Evict], Awaitable[None]]
    ) -> Callable[[Evict], Awaitable[None]]:
        """Return a function that evicts a pod once what is queued for its groups is written."""

        async def evict_after(effect: Evict) -> None:
            cluster = self._cache.cluster
            key, seen = self._cache.group_of(cluster.pod(effect.uid)), set[GroupKey]()
            while key is not None and key not in seen:  # or a parent is restarted
                seen.add(key)
                await self.written(key)
                group = cluster.pod_group(key)
                key = None if group is None else group.parent
            await evict(effect)

        return evict_after

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            for key in list(self._states):
                state = self._states.pop(key)
                try:
                    await self._write(key, state)
                except GangschedError as error:
                    _log.warning("restarts not written: %s", error)
                finally:
                    if key not in self._states:
                        self._written.pop(key).set()

    def _put(self, key: GroupKey, noted_in: Callable[[PodGroup], PodGroup]) -> None:
        group = self._latest.get(key) or self._cache.cluster.pod_group(key)
        changed = None if group is None else noted_in(group)
        if changed is None or changed == group:
            return
        self._states[key] = self._latest[key] = changed
        self._written.setdefault(key, asyncio.Event())
        self._queued.set()

    async def _write(self, key: GroupKey, group: PodGroup) -> None:
        facts = self._cache.group_facts(key)
        if facts is None:
            return
        notes, path = restart_annotations(group), facts.dialect.path_of(key)
        response = await self._requests.patch(
            path,
            body=to_json({"metadata": {"uid": facts.identity.uid, "annotations": notes}}),
            content_type=MERGE_PATCH,
            lane=_LANE,
            patience=self._patience,
        )
        if response.status >= 300 and not is_gone(response):
            _log.warning("restarts not written: PATCH %s: %s", path, said(response))
