"""Writes ``nominatedNodeName`` of members, which wakes them in the queue of kube-scheduler.

Rules:
  R1  only a change wakes a pod. If the pod has the node already, it is taken away first;
  R2  of one pod only the latest node waits, so what waits is bounded by the pods that exist;
  R3  a nomination never waits for anything else: a gang is waiting for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import STRATEGIC_MERGE_PATCH
from gangsched.kubernetes._bind import pod_path
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import status_patch
from gangsched.kubernetes._requests import Requests, is_gone, said
from gangsched.kubernetes._workers import run_workers
from gangsched.model import NodeName, Pod, PodUID

__all__ = ["Nominator"]

_LANE: Final = "nominations"
_FIELD: Final = "nominatedNodeName"
_PATIENCE: Final = 10.0
_INVALID: Final = 422
_IS_BOUND: Final = "may not be set on pods that are already bound to a node"

_log = logging.getLogger("gangsched.kubernetes.extender")


@final
class Nominator:
    """Writes nominations, by *workers* tasks at once.

    Args:
        requests: Sends requests.
        cache: The cluster state.
        workers: How many requests are under way at most.
    """

    def __init__(self, requests: Requests, cache: Cache, *, workers: int = 4) -> None:
        self._requests = requests
        self._cache = cache
        self._workers = workers
        self._waiting: dict[PodUID, NodeName | None] = {}
        self._written: dict[PodUID, NodeName] = {}
        self._queued = asyncio.Semaphore(0)
        self._under_way = 0

    def put(self, uid: PodUID, node: NodeName | None) -> None:
        """Queue a nomination; None takes it away, unless the pod is known to have none."""
        if node is None and self._has(uid) is None and uid not in self._waiting:
            return
        if uid not in self._waiting:
            self._queued.release()
        self._waiting[uid] = node

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that is bound or gone."""
        self._written.pop(uid, None)

    def __len__(self) -> int:
        """Return how many nominations wait, or are being written.

        At the end this many are waited for, within a bound; the others are cancelled. A nomination
        of which only the first of its two patches was written would leave its pod without a node.
        """
        return len(self._waiting) + self._under_way

    async def run(self) -> None:
        """Write until cancelled."""
        await run_workers(self._workers, self._work)

    async def _work(self) -> None:
        while True:
            await self._queued.acquire()
            uid = next(iter(self._waiting))
            node = self._waiting.pop(uid)
            pod = self._cache.cluster.pod(uid)
            if pod is None or pod.node_name is not None:
                self._written.pop(uid, None)
                continue
            self._under_way += 1
            try:
                await self._write(pod, node)
            except GangschedError as error:
                _log.warning("nomination not written: %s", error)
            finally:
                self._under_way -= 1

    async def _write(self, pod: Pod, node: NodeName | None) -> None:
        before = self._has(pod.uid)
        if node is None or before == node:
            self._written.pop(pod.uid, None)
            await self._patch(pod, None)
        if node is not None:
            self._written[pod.uid] = node
            await self._patch(pod, node)

    async def _patch(self, pod: Pod, node: NodeName | None) -> None:
        response = await self._requests.patch(
            pod_path(pod, "status"),
            body=status_patch(pod, {_FIELD: node}),
            content_type=STRATEGIC_MERGE_PATCH,
            lane=_LANE,
            patience=_PATIENCE,
        )
        if response.status < 300 or is_gone(response):
            return
        # kube-scheduler was faster: the pod needs no nomination any more
        if response.status != _INVALID or _IS_BOUND not in said(response):
            _log.warning("nomination of %s not written: %s", pod.key, said(response))

    def _has(self, uid: PodUID) -> NodeName | None:
        """Return the node that a pod has, as far as it is known here."""
        known = self._cache.nominated.get(uid)
        return self._written.get(uid) or (None if known is None else NodeName(known))
