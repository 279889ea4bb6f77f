"""The status of pods and groups, as the scheduler writes it.

Of an unschedulable pod that is the condition ``PodScheduled=False``, which autoscalers look for. Of
a preemptor it is ``nominatedNodeName``, and of a native group the condition
``PodGroupInitiallyScheduled``, which was ``PodGroupScheduled`` in Kubernetes 1.36. A composite pod
group has ``CompositePodGroupInitiallyScheduled``; kube-scheduler 1.37 does not write it.

Rules:
  R1  a pod is patched only if the text differs from what it has;
  R2  of one object only the latest status waits. So what waits is bounded by what exists;
  R3  a pod that cannot be read has a condition, too. It is not in the cluster state, so its path
      and what was last said of it are kept here until it can be read or is gone;
  R4  a patch names the UID. It is dropped if the object is gone, or if the API server refuses it;
  R5  the objects of namespaces are patched in turn: a namespace that is flooded with gangs does not
      delay the others;
  R6  a message is cut at 1,024 bytes;
  R7  a patch never delays a bind: it has connections of its own, and gives way, see ``_give_way``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, final
from urllib.parse import quote

from attrs import define

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import STRATEGIC_MERGE_PATCH
from gangsched.kubernetes._bind import pod_path
from gangsched.kubernetes._cache import Cache, reason_of
from gangsched.kubernetes._facts import Dialect, GroupFacts
from gangsched.kubernetes._instants import whole_seconds
from gangsched.kubernetes._requests import Requests, is_gone, said, to_json
from gangsched.kubernetes._turns import Turns
from gangsched.kubernetes._workers import run_workers
from gangsched.model import GroupKey, NodeName, Pod, PodUID
from gangsched.values.text import shortened

__all__ = ["LONGEST_MESSAGE", "NATIVE", "StatusWriter", "is_scheduled", "status_patch"]

LONGEST_MESSAGE: Final = 1024
"""The most bytes of the message of a condition: as many as the API allows the note of an event."""
NATIVE: Final = "scheduling.k8s.io"
"""The API group of Kubernetes' own PodGroups."""

_LANE: Final = "status"
_SCHEDULED: Final = "PodGroupInitiallyScheduled"
_SCHEDULED_IN_1_36: Final = "PodGroupScheduled"
_TREE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
_OF_1_36: Final = "v1alpha2"
_PATIENCE: Final = 60.0

_log = logging.getLogger("gangsched.kubernetes.status")


def status_patch(pod: Pod, status: Mapping[str, object]) -> bytes:
    """Return the strategic merge patch of a pod's status, for the pod of its UID only."""
    return to_json({"metadata": {"uid": pod.uid}, "status": status})


@final
@define(eq=False)
class _Waiting:
    """What waits to be written of a pod, or of a group.

    Attributes:
        pod: The pod; None for a group.
        group: The group; None for a pod.
        status: The status of a pod, or the condition of a group.
        queued_at: When it was queued, on ``time.monotonic``.
    """

    pod: PodUID | None
    group: GroupKey | None
    status: dict[str, Any]
    queued_at: float


@final
class StatusWriter:
    """Writes the status of pods and groups, by *workers* tasks at once.

    Args:
        requests: Sends requests.
        cache: The cluster state.
        give_way: Waits while binds have to go first; called with the instant of queueing.
        workers: How many patches are under way at most.
    """

    def __init__(
        self,
        requests: Requests,
        cache: Cache,
        give_way: Callable[[float], Awaitable[object]],
        *,
        workers: int = 4,
    ) -> None:
        self._requests = requests
        self._cache = cache
        self._give_way = give_way
        self._workers = workers
        self._waiting: Turns[str, _Waiting] = Turns()
        self._said: dict[GroupKey, tuple[str, str]] = {}
        self._unreadable: dict[PodUID, tuple[str, str, str]] = {}  # namespace, path, message
        self._queued = asyncio.Semaphore(0)
        self._under_way = 0

    # For the owner of the scheduler ---------------------------------------------------------

    def unschedulable(self, uid: PodUID, message: str) -> bool:
        """Note that a pod was found unschedulable; return False if its condition says so."""
        message = shortened(message, LONGEST_MESSAGE)
        before, pod = self._cache.conditions.get(uid), self._pending(uid)
        if before == message or pod is None:
            return False
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason_of(pod),
            "message": message,
        }
        if before is None:
            condition["lastTransitionTime"] = whole_seconds()
        self._cache.conditions[uid] = message
        self._put(uid, pod.namespace, {"conditions": [condition]})
        return True

    def unreadable(self, uid: PodUID, namespace: str, name: str, message: str) -> None:
        """Note that a pending pod cannot be read; the reason is ``SchedulerError``.

        More nodes would not help such a pod, so it is not reported as unschedulable.
        """
        message = shortened(message, LONGEST_MESSAGE)
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/status"
        if self._unreadable.get(uid) == (namespace, path, message):
            return
        self._unreadable[uid] = (namespace, path, message)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulerError",
            "message": message,
            "lastTransitionTime": whole_seconds(),
        }
        self._put(uid, namespace, {"conditions": [condition]})

    def readable(self, uid: PodUID) -> None:
        """Note that a pod can be read, or is gone. O(1)."""
        known = self._unreadable.pop(uid, None) if self._unreadable else None
        if known is not None:
            self._waiting.remove(known[0], uid)

    def nominate(self, uid: PodUID, node: NodeName | None) -> None:
        """Note the node that is nominated for a pod; None for no node any more."""
        pod = self._pending(uid)
        if self._cache.nominated.get(uid) == node or pod is None:
            return
        if node is None:
            self._cache.nominated.pop(uid, None)
        else:
            self._cache.nominated[uid] = node
        self._put(uid, pod.namespace, {"nominatedNodeName": node})

    def group(self, key: GroupKey, *, scheduled: bool, message: str) -> None:
        """Note whether a native group was scheduled; other APIs have a controller for it.

        The reason of a group that cannot be read is ``SchedulerError``: more nodes do not help.
        """
        unreadable, facts = self._cache.unreadable_group(key), self._cache.group_facts(key)
        known_group = unreadable or facts
        if known_group is None or known_group.dialect.group != NATIVE:
            return
        if unreadable is None and facts is not None and is_scheduled(facts):
            return
        refusal = "Unschedulable" if unreadable is None else "SchedulerError"
        condition = {
            "type": _scheduled_type(known_group.dialect),
            "status": "True" if scheduled else "False",
            "reason": "Scheduled" if scheduled else refusal,
            "message": shortened(message, LONGEST_MESSAGE),
        }
        known = (condition["status"], condition["message"])
        if self._said.get(key) == known:
            return
        self._said[key] = known
        condition["lastTransitionTime"] = whole_seconds()
        self._queue(_namespace(key), key, _Waiting(None, key, condition, time.monotonic()))

    def forget_group(self, key: GroupKey) -> None:
        """Forget a group that was deleted."""
        self._said.pop(key, None)
        self._waiting.remove(_namespace(key), key)

    def close(self) -> None:
        """Drop the conditions of pods that wait: the next leader decides anew, and writes them.

        Nominations are kept, because victims were evicted for them.
        """
        self._waiting.keep(lambda each: each.pod is None or "nominatedNodeName" in each.status)

    @property
    def under_way(self) -> int:
        """How many objects are being patched."""
        return self._under_way

    def __len__(self) -> int:
        """Return how many objects wait to be patched, or are being patched.

        At the end this many are waited for, within a bound; the others are cancelled.
        """
        return len(self._waiting) + self._under_way

    # The workers ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Write until cancelled."""
        await run_workers(self._workers, self._work)

    async def _work(self) -> None:
        while True:
            await self._queued.acquire()
            first = self._waiting.first()
            if first is None:
                continue  # the group was forgotten
            await self._give_way(first.queued_at)
            if not self._waiting:
                continue
            waiting = self._waiting.take()
            self._under_way += 1
            try:
                if waiting.pod is not None:
                    await self._write_pod(waiting.pod, waiting.status)
                elif waiting.group is not None:
                    await self._write_group(waiting.group, waiting.status)
            except GangschedError as error:
                _log.warning("status not written: %s", error)
            finally:
                self._under_way -= 1

    async def _write_pod(self, uid: PodUID, status: dict[str, Any]) -> None:
        unreadable = self._unreadable.get(uid)
        if unreadable is not None:
            body = to_json({"metadata": {"uid": uid}, "status": status})
            await self._patch(unreadable[1], body)
            return
        pod = self._cache.cluster.pod(uid)
        if pod is None or pod.node_name is not None:
            return
        await self._patch(pod_path(pod, "status"), status_patch(pod, status))

    async def _write_group(self, key: GroupKey, condition: dict[str, Any]) -> None:
        known = self._cache.unreadable_group(key) or self._cache.group_facts(key)
        if known is None:
            return
        body = {"metadata": {"uid": known.identity.uid}, "status": {"conditions": [condition]}}
        await self._patch(f"{known.dialect.path_of(key)}/status", to_json(body))

    async def _patch(self, path: str, body: bytes) -> None:
        response = await self._requests.patch(
            path,
            body=body,
            content_type=STRATEGIC_MERGE_PATCH,
            lane=_LANE,
            patience=_PATIENCE,
        )
        if response.status >= 300 and not is_gone(response):
            _log.warning("status not written: PATCH %s: %s", path, said(response))

    def _put(self, uid: PodUID, namespace: str, status: dict[str, Any]) -> None:
        known = self._waiting.get(namespace, uid)
        if known is not None:
            status = {**known.status, **status}
        self._queue(namespace, uid, _Waiting(uid, None, status, time.monotonic()))

    def _queue(self, namespace: str, key: str, waiting: _Waiting) -> None:
        known = self._waiting.get(namespace, key)
        if known is not None:
            known.status = waiting.status
            return
        self._waiting.put(namespace, key, waiting)
        self._queued.release()  # wakes one worker, not all

    def _pending(self, uid: PodUID) -> Pod | None:
        """Return a pod that has no node and is not being deleted; None otherwise."""
        pod = self._cache.cluster.pod(uid)
        return pod if pod is not None and pod.node_name is None and pod.deleted_at is None else None


def _namespace(key: GroupKey) -> str:
    return key.partition("/")[0]


def is_scheduled(facts: GroupFacts) -> bool:
    """Return whether a group says that it was scheduled, which is never taken back."""
    # an object that was written under 1.36 keeps its condition when the cluster is upgraded
    types = (_SCHEDULED, _SCHEDULED_IN_1_36, _TREE_SCHEDULED)
    return any(c.type in types and c.status == "True" for c in facts.conditions)


def _scheduled_type(dialect: Dialect) -> str:
    """Return the type of the condition that a kind and version of the native API have."""
    if dialect.is_composite:
        return _TREE_SCHEDULED
    return _SCHEDULED_IN_1_36 if dialect.version == _OF_1_36 else _SCHEDULED
