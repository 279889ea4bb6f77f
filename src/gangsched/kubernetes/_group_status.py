"""Phase and counts of PodGroups, as the scheduler's controller half writes them.

The groups of ``scheduling.x-k8s.io`` have a status with a phase and counts. ``pod_group_status``
computes it from the members. Two words of that API say more than the phases of ``PodGroupPhase``,
and are added here:

- ``Scheduled``: a quorum holds nodes or has succeeded, and does not run yet;
- ``Unknown``: the group was scheduled once, and now too few members hold nodes.

``Scheduled``, ``Running`` and ``Unknown`` are the evidence that a gang was whole. A restarted
scheduler reads it, and leaves such a gang to its job controller instead of evicting it.

Rules:
  R1  a status is written through the subresource, and only if it differs from what the group has;
  R2  each patch names UID and version. After a conflict the status is computed anew, from what the
      watch has brought since;
  R3  the status of a group without a member of ours is not written, unless it was written before;
  R4  a group that was deleted and made again while its members ran was whole, although its object
      does not say so. The next leader would take it for one whose start was broken off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, final

from attrs import evolve, frozen

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import MERGE_PATCH
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import NATIVE
from gangsched.kubernetes._facts import GroupFacts
from gangsched.kubernetes._requests import Requests, is_gone, said, to_json
from gangsched.model import GroupKey, Pod, PodGroup, PodPhase
from gangsched.scheduler import Scheduler
from gangsched.status import PodGroupPhase, PodGroupStatus, pod_group_status

__all__ = [
    "WHOLE_PHASES",
    "WRITTEN",
    "GroupStatus",
    "GroupStatusWriter",
    "keeps_record",
    "status_of",
]

WHOLE_PHASES: Final = frozenset({"Scheduled", "Running", "Unknown"})
"""The phases of a group that has been whole, and has not ended."""

WRITTEN: Final = ("scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
"""The API groups whose PodGroups have this status."""

_LANE: Final = "status"
_PAUSE: Final = 0.25
"""Seconds between two looks. The changes of a group in between are one patch."""
_CONFLICT: Final = 409
_PATIENCE: Final = 60.0
_NOT_STARTED: Final = (PodGroupPhase.PENDING, PodGroupPhase.SCHEDULING)

_log = logging.getLogger("gangsched.kubernetes.status")


@final
@frozen
class GroupStatus:
    """The status of a group, as the API has it.

    Attributes:
        phase: The phase; empty if it was never written.
        counts: How many members run, have succeeded and have failed.
        occupied_by: The owners of the first member.
    """

    phase: str
    counts: tuple[int, int, int]
    occupied_by: str

    def to_json(self) -> dict[str, Any]:
        """Return the status as the API has it; None removes a field."""
        running, succeeded, failed = (count or None for count in self.counts)
        return {
            "phase": self.phase,
            "running": running,
            "succeeded": succeeded,
            "failed": failed,
            "occupiedBy": self.occupied_by or None,
        }


def keeps_record(facts: GroupFacts | None) -> bool:
    """Return whether the status of a group's object says that the gang was whole."""
    return facts is not None and facts.dialect.group in (NATIVE, *WRITTEN)


def status_of(group: PodGroup, members: Iterable[Pod], before: GroupStatus) -> GroupStatus:
    """Return the status of a group.

    Pure. Runtime complexity: O(members).

    Args:
        group: The group.
        members: Its pods.
        before: Its status so far.
    """
    pods = list(members)
    known = _known(before)
    found = pod_group_status(group, pods, before=known)
    phase = found.phase.value
    if found.phase in _NOT_STARTED:
        holding = [pod for pod in pods if _holds(pod)]
        as_running = [evolve(pod, phase=PodPhase.RUNNING) for pod in holding]
        if pod_group_status(group, as_running).phase is PodGroupPhase.RUNNING:
            phase = "Scheduled"
        elif holding and before.phase in WHOLE_PHASES:
            phase = "Unknown"
    counts = (found.running, found.succeeded, found.failed)
    return GroupStatus(phase, counts, found.occupied_by)


def _known(before: GroupStatus) -> PodGroupStatus:
    """Return a status in the words of ``pod_group_status``; ended phases decide what follows."""
    phases = {phase.value: phase for phase in PodGroupPhase}
    running, succeeded, failed = before.counts
    return PodGroupStatus(
        phase=phases.get(before.phase, PodGroupPhase.PENDING),
        occupied_by=before.occupied_by,
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _holds(pod: Pod) -> bool:
    """Return whether a member holds a node, or has succeeded."""
    if pod.is_finished:
        return pod.phase is PodPhase.SUCCEEDED
    return pod.node_name is not None


@final
class GroupStatusWriter:
    """Writes the status of groups that have changed.

    Args:
        requests: Sends requests.
        cache: The cluster state; it says which groups have changed.
        scheduler: Knows the members of each group.
        was_whole: Returns whether a gang is whole or was whole; None if that is not known.
        workers: How many patches are under way at most.
    """

    def __init__(
        self,
        requests: Requests,
        cache: Cache,
        scheduler: Scheduler,
        was_whole: Callable[[GroupKey], bool | None] = lambda _key: None,
        *,
        workers: int = 4,
    ) -> None:
        self._was_whole = was_whole
        self._requests = requests
        self._cache = cache
        self._scheduler = scheduler
        self._workers = workers
        self._ours: set[GroupKey] = set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            await self.look()

    async def look(self) -> None:
        """Write the status of every group that has changed since the last look."""
        keys = sorted(self._cache.touched)
        self._cache.touched.clear()
        for n in range(0, len(keys), self._workers):
            await asyncio.gather(*map(self._look_at, keys[n : n + self._workers]))

    async def _look_at(self, key: GroupKey) -> None:
        facts, group = self._cache.group_facts(key), self._cache.cluster.pod_group(key)
        if facts is None or group is None:
            self._ours.discard(key)
            return
        if facts.dialect.group not in WRITTEN or not facts.dialect.status_subresource:
            return
        members = list(self._members(key))
        if not members and key not in self._ours:
            return
        before = GroupStatus(facts.phase, facts.counts, facts.occupied_by)
        known = before
        if not facts.phase and self._was_whole(key):
            known = evolve(before, phase="Unknown")
        after = status_of(group, members, known)
        if after != before:
            self._ours.add(key)
            try:
                await self._write(key, facts, after)
            except GangschedError as error:
                _log.warning("status not written: %s", error)

    def _members(self, key: GroupKey) -> Iterator[Pod]:
        info = self._scheduler.registry.get(key)
        for uid in () if info is None else info.members:
            pod = self._cache.cluster.pod(uid)
            if pod is not None:
                yield pod

    async def _write(self, key: GroupKey, facts: GroupFacts, status: GroupStatus) -> None:
        identity = facts.identity
        version = {"uid": identity.uid, "resourceVersion": identity.resource_version}
        path = f"{facts.dialect.path_of(key)}/status"
        response = await self._requests.send(
            "PATCH",
            path,
            body=to_json({"metadata": version, "status": status.to_json()}),
            content_type=MERGE_PATCH,
            lane=_LANE,
            patience=_PATIENCE,
        )
        if response.status == _CONFLICT:
            self._cache.touched.add(key)  # the watch is behind; or the group was created anew
        elif response.status >= 300 and not is_gone(response):
            _log.warning("status not written: PATCH %s: %s", path, said(response))
