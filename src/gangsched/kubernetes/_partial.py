"""Gangs that are partly on nodes and cannot be completed: their members are evicted.

The scheduler releases a gang as a whole, but the API server binds pod by pod. A gang can remain
partial: its scheduler was killed between two binds, and what is left of it no longer fits; or a
member was deleted before its bind. Members that run without their gang hold nodes for nothing.

Rules:
  R1  a gang is partial if fewer members than its minimum are bound or have finished, and it was not
      whole before. A gang that was whole and lost a member belongs to its job controller;
  R2  a gang that is partial for *bound* seconds is evicted: its bound members are evicted, and an
      event says so. A gang with a bind under way is not touched. The seconds are counted from the
      first look that finds the gang partial, so a restart begins anew;
  R3  whether a gang was whole is known from this process, from the group, or from its pods. The
      evidence of a group is the condition ``PodGroupInitiallyScheduled=True``, which is written
      when the last member is bound, or a phase. That of pods is in ``_start_marks``;
  R4  a gang without such evidence may have been whole: another program has bound its members. It is
      not evicted. Once it has been partial for *bound* seconds it is reported, once;
  R5  a gang that an earlier scheduler has left partial is reported at once. What was listed is
      taken in step by step. So these are the gangs that are found before all of it is, and that
      this process has not begun;
  R6  groups below one root start together, so they are partial as one: if some of their members are
      on nodes, and fewer groups are whole than the root wants. Kubernetes' own scheduler writes no
      condition on a root, and a root that is made again has none. So the evidence is on the pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final

from attrs import frozen

from gangsched.events import Evict
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import NATIVE, is_scheduled
from gangsched.kubernetes._facts import GroupFacts
from gangsched.kubernetes._group_status import WHOLE_PHASES, keeps_record
from gangsched.kubernetes._placed import children_of, groups_below, is_parent, is_whole
from gangsched.kubernetes._start_marks import BOUND_IN_START, WAS_WHOLE, say_whole
from gangsched.model import GroupKey, Pod, PodUID
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.scheduler import Scheduler
from gangsched.values.seconds import format_duration

__all__ = ["PartialGangs"]

_WHOLE_PHASES: Final = WHOLE_PHASES | {"Finished", "Failed", "Completed"}
_LOOKS: Final = 10
"""How often partial gangs are looked for, within the bound."""
_NOT_EVICTED: Final = (
    "they are not evicted, because neither a PodGroup nor a pod says whether the gang was whole"
)
_NEVER_EVICTED: Final = "they are not evicted, because the policy for failed binds evicts no gang"
_FOUND: Final = "as an earlier scheduler has left them; the others are placed if they fit"
_LEAST_PAUSE: Final = 0.01
"""Seconds between two looks at the least; evictions are under way meanwhile."""


@final
@frozen
class _Unit:
    """What starts together: one group, or the groups below one root.

    Attributes:
        key: The group, or the root.
        members: Its pods.
        is_binding: Whether members of it are being bound.
        placed: How much of it is on nodes, in words.
    """

    key: GroupKey
    members: tuple[PodUID, ...]
    is_binding: bool
    placed: str


@final
class PartialGangs:
    """Looks for gangs that stay partial, and evicts them.

    Args:
        cache: The cluster state.
        scheduler: The scheduler.
        release: Evicts a member of a partial gang.
        report: Called with a gang that is partial and is not evicted, and the sentence about it.
        clock: Seconds since 1970 that never go back.
        bound: For how many seconds a gang may be partial.
        evicts: Whether gangs are evicted; otherwise they are only reported.
    """

    def __init__(
        self,
        cache: Cache,
        scheduler: Scheduler,
        release: Callable[[Evict], Awaitable[object]],
        report: Callable[[GroupKey, str], object],
        clock: Callable[[], float],
        *,
        bound: float,
        evicts: bool = True,
    ) -> None:
        self._cache = cache
        self._scheduler = scheduler
        self._release = release
        self._report = report
        self._clock = clock
        self._bound = bound
        self._evicts = evicts
        self._since: dict[GroupKey, float] = {}
        self._reported: set[GroupKey] = set()
        self._begun: set[GroupKey] = set()
        self._whole: set[GroupKey] = set()
        self._found: set[GroupKey] = set()
        self._is_settled = self._has_looked = False

    def settled(self) -> None:
        """Note that all that was listed is taken in, and nothing is left to decide about it."""
        self._is_settled = True

    def begun(self, key: GroupKey) -> None:
        """Note that this process has released a gang, which is a start if it was not whole.

        If no member was on a node, it is another gang of the name than the one that was whole.
        """
        root = self._root(key)
        for part in (key,) if root is None else (key, root):
            if not any(info.assigned for info in groups_below(self._scheduler.registry, part)):
                self._whole.discard(part)
            if not self.was_whole(part):
                self._begun.add(part)

    def whole(self, key: GroupKey) -> None:
        """Note that a gang is bound as a whole."""
        self._begun.discard(key)
        self._whole.add(key)
        root = self._root(key)
        if root is not None and children_of(self._scheduler.registry, root).is_met:
            self._begun.discard(root)
            self._whole.add(root)

    def restarted(self, key: GroupKey) -> None:
        """Note that a gang is restarted: it is not whole before it is bound again."""
        self._whole.discard(key)

    def was_whole(self, key: GroupKey) -> bool | None:
        """Return whether a gang is whole or was whole before; None if nothing says so.

        O(1) for a gang that this process has begun or seen whole; else O(members).
        """
        if key in self._whole:
            return True
        if is_parent(self._scheduler.registry.spec(key)):
            return self._tree_was_whole(key)
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        if info is not None and is_whole(info):
            return True
        if key in self._begun:
            return False
        facts = self._cache.group_facts(key)
        said = _said_by(facts)
        if said or keeps_record(facts) or info is None:
            return said
        by_pods = say_whole(pod for pod in map(self._cache.cluster.pod, info.members) if pod)
        if by_pods:
            self._whole.add(key)  # it stays so, whichever pods leave
        return said if by_pods is None else by_pods

    def _tree_was_whole(self, root: GroupKey) -> bool | None:
        facts = self._cache.group_facts(root)
        if facts is not None and is_scheduled(facts):
            return True
        if root in self._begun:
            return False
        if children_of(self._scheduler.registry, root).is_met:
            return True
        uids = (
            uid for info in groups_below(self._scheduler.registry, root) for uid in info.members
        )
        return say_whole(pod for pod in map(self._cache.cluster.pod, uids) if pod)

    def _root(self, key: GroupKey) -> GroupKey | None:
        """Return the root above a group, if it is there; None for a group in no tree. O(levels)."""
        above = self._scheduler.registry.above(key)
        return above[0].key if above and above[0].parent is None else None

    def marks_with_bind(self, pod: Pod) -> Mapping[str, str]:
        """Return the annotations that a member gets with its Binding; see ``_start_marks``."""
        key = self._cache.group_of(pod)
        root = None if key is None else self._root(key)
        if root is not None and not self.was_whole(root):
            return {BOUND_IN_START: "true"}
        if key is None or keeps_record(self._cache.group_facts(key)):
            return {}
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        if info is None or (info.min_available or 0) < 2:
            return {}
        return {WAS_WHOLE if self.was_whole(key) else BOUND_IN_START: "true"}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._until_next_look())
            await self.look()

    def _until_next_look(self) -> float:
        """Return the seconds until the next look: a gang is evicted at its bound, not after it."""
        interval = self._bound / _LOOKS
        looked_for = [since for key, since in self._since.items() if key not in self._reported]
        if not looked_for:
            return interval
        due = min(looked_for) + self._bound - self._clock()
        return min(interval, max(due, _LEAST_PAUSE))

    async def look(self) -> None:
        """Look at every gang once, and evict those that were partial for too long."""
        now = self._clock()
        registry = self._scheduler.registry
        partial = {info.key: self._unit(info) for info in registry if self._is_partial(info)}
        self._since = {key: self._since.get(key, now) for key in partial}
        self._reported &= partial.keys()
        known = {info.key for info in registry}
        self._whole &= known
        self._begun &= known
        if not self._has_looked:
            self._has_looked = self._is_settled
            self._report_found(partial)
        for key, since in list(self._since.items()):
            info = registry.get(key)
            unit = None if info is None else self._unit(info)
            # a bind that is under way may complete it; if it fails, the seconds go on
            if now - since >= self._bound and unit is not None and not unit.is_binding:
                if self._evicts and self.was_whole(key) is False:
                    await self._release_members(unit)
                elif key not in self._reported:
                    self._reported.add(key)
                    why = _NOT_EVICTED if self._evicts else _NEVER_EVICTED
                    self._report(key, f"{self._counts(unit)}; {why}")

    def _report_found(self, partial: Mapping[GroupKey, _Unit]) -> None:
        for key, unit in partial.items():
            if key not in self._found and key not in self._begun:
                self._found.add(key)
                self._report(key, f"{unit.placed} are on nodes, {_FOUND}")

    def _unit(self, info: PodGroupInfo) -> _Unit:
        key, infos = info.key, groups_below(self._scheduler.registry, info.key)
        uids = tuple(uid for each in infos for uid in each.members)
        placed = f"{info.assigned} of {info.min_available} members of pod group {key}"
        if is_parent(info.spec):
            children = children_of(self._scheduler.registry, key)
            placed = f"{children.placed} of {children.wanted} groups below pod group {key}"
        return _Unit(key, uids, any(each.assumed for each in infos), placed)

    def _is_partial(self, info: PodGroupInfo) -> bool:
        spec, minimum = info.spec, info.min_available
        if spec is not None and spec.min_groups is not None:
            return spec.parent is None and self._is_partial_tree(info.key)
        if minimum is None or not 0 < info.assigned < minimum or is_whole(info):
            return False
        return not self.was_whole(info.key)

    def _is_partial_tree(self, root: GroupKey) -> bool:
        if children_of(self._scheduler.registry, root).is_met:
            return False
        return any(
            info.assigned for info in groups_below(self._scheduler.registry, root)
        ) and not self.was_whole(root)

    def _counts(self, unit: _Unit) -> str:
        within = format_duration(self._bound)
        return f"{unit.placed} are on nodes, and the others were not placed within {within} s"

    async def _release_members(self, unit: _Unit) -> None:
        reason = self._counts(unit)
        for uid in unit.members:
            pod = self._cache.cluster.pod(uid)
            if pod is None or pod.node_name is None or pod.deleted_at is not None:
                continue
            if not pod.is_finished:
                await self._release(Evict(uid, pod.node_name, reason))
        del self._since[unit.key]  # the next look waits for the evictions to be seen


def _said_by(facts: GroupFacts | None) -> bool | None:
    """Return whether a gang was whole by what its object says; None if that says nothing."""
    if facts is None:
        return None
    if facts.dialect.group == NATIVE:
        return is_scheduled(facts)
    return facts.phase in _WHOLE_PHASES if facts.phase else None
