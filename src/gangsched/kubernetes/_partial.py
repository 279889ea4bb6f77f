"""Gangs that are partly on nodes and cannot be completed: their members are evicted.

The scheduler releases a gang as a whole, but the API server binds pod by pod. A gang can remain
partial: its scheduler was killed between two binds, and what is left of it no longer fits; or a
member was deleted before its bind. Members that run without their gang hold nodes for nothing.

Rules:
  R1  a gang is partial if fewer members than its minimum are bound or have finished, and it was not
      whole before. A gang that was whole and lost a member belongs to its job controller;
  R2  a gang that is partial for *bound* seconds is evicted: its bound members are evicted, and an
      event says so. A gang with a bind under way is not touched;
  R3  whether a gang was whole is known from this process or from the group. The evidence is the
      condition ``PodGroupScheduled=True``, which is written when the last member is bound, or a
      phase. A gang of an API that gives no evidence is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, final

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched._seconds import format_duration
from gangsched.events import Evict
from gangsched.framework import Scheduler
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import NATIVE, is_scheduled
from gangsched.kubernetes._group_status import WHOLE_PHASES
from gangsched.model import GroupKey, PodUID

__all__ = ["PartialGangs"]

_WHOLE_PHASES: Final = WHOLE_PHASES | {"Finished", "Failed", "Completed"}
_LOOKS: Final = 4
"""How often partial gangs are looked for, within the bound."""


@final
class PartialGangs:
    """Looks for gangs that stay partial, and evicts them.

    Args:
        cache: The cluster state.
        scheduler: The scheduler.
        release: Evicts a member of a partial gang.
        clock: Seconds since 1970 that never go back.
        bound: For how many seconds a gang may be partial.
    """

    def __init__(
        self,
        cache: Cache,
        scheduler: Scheduler,
        release: Callable[[Evict], Awaitable[object]],
        clock: Callable[[], float],
        *,
        bound: float,
    ) -> None:
        self._cache = cache
        self._scheduler = scheduler
        self._release = release
        self._clock = clock
        self._bound = bound
        self._since: dict[GroupKey, float] = {}
        self._begun: set[GroupKey] = set()
        self._whole: set[GroupKey] = set()

    def begun(self, key: GroupKey) -> None:
        """Note that this process has released a gang for the first time."""
        if key not in self._whole:
            self._begun.add(key)

    def whole(self, key: GroupKey) -> None:
        """Note that a gang is bound as a whole."""
        self._begun.discard(key)
        self._whole.add(key)

    def restarted(self, key: GroupKey) -> None:
        """Note that a gang is restarted: it is not whole before it is bound again."""
        self._whole.discard(key)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._bound / _LOOKS)
            await self.look()

    async def look(self) -> None:
        """Look at every gang once, and evict those that were partial for too long."""
        now = self._clock()
        registry = self._scheduler.registry
        partial = {info.key for info in registry if self._is_partial(info)}
        self._since = {key: self._since.get(key, now) for key in partial}
        known = {info.key for info in registry}
        self._whole &= known
        self._begun &= known
        for key, since in list(self._since.items()):
            info = registry.get(key)
            if now - since >= self._bound and info is not None:
                await self._release_members(info)

    def _is_partial(self, info: PodGroupInfo) -> bool:
        minimum = info.min_available
        if minimum is None or not 0 < info.assigned < minimum or info.assumed:
            return False
        return not (_is_whole(info) or info.key in self._whole) and self._has_evidence(info.key)

    def _has_evidence(self, key: GroupKey) -> bool:
        """Return whether it is known that a gang was not whole before."""
        if key in self._begun:
            return True
        facts = self._cache.group_facts(key)
        if facts is None:
            return False
        if facts.dialect.group == NATIVE:
            return not is_scheduled(facts)
        return bool(facts.phase) and facts.phase not in _WHOLE_PHASES

    async def _release_members(self, info: PodGroupInfo) -> None:
        minimum, assigned = info.min_available, info.assigned
        reason = (
            f"{assigned} of {minimum} members of pod group {info.key} are on nodes, and the others"
            f" were not placed within {format_duration(self._bound)} s"
        )
        members: list[PodUID] = list(info.members)
        for uid in members:
            pod = self._cache.cluster.pod(uid)
            if pod is None or pod.node_name is None or pod.deleted_at is not None:
                continue
            if not pod.is_finished:
                await self._release(Evict(uid, pod.node_name, reason))
        del self._since[info.key]  # the next look waits for the evictions to be seen


def _is_whole(info: PodGroupInfo) -> bool:
    minimum = info.min_available
    ended = info.members.count(MemberState.SUCCEEDED) + info.members.count(MemberState.FAILED)
    return minimum is not None and info.assigned + ended >= minimum
