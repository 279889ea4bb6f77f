"""Evicting a pod: its condition says why, then it is deleted.

Rules:
  R1  the condition ``DisruptionTarget`` comes first, so that a Job does not count the failure of
      the pod as its own (KEP-3329). If the API server refuses it, the pod is deleted all the same;
  R2  the deletion names the UID, so a pod that was recreated under its name is not deleted. The
      grace period is the pod's own;
  R3  with *respect_budgets*, the request is an eviction. The API server refuses it with 429 while a
      PodDisruptionBudget allows none, and the caller repeats it;
  R4  a pod that is gone counts as evicted. After 409 the pod is looked at: another may have its
      name, or it was only changed at the same time;
  R5  the scheduler evicts only pods that are bound, so no bind of the pod is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from gangsched.events import Evict
from gangsched.kubernetes._api import STRATEGIC_MERGE_PATCH
from gangsched.kubernetes._bind import pod_path
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import LONGEST_MESSAGE, status_patch
from gangsched.kubernetes._events import identity_of
from gangsched.kubernetes._instants import whole_seconds
from gangsched.kubernetes._requests import RequestError, Requests, said, to_json
from gangsched.model import Pod, PodUID
from gangsched.values.text import shortened

__all__ = ["Evictor"]

_LANE: Final = "evictions"


@final
class Evictor:
    """Evicts pods.

    Args:
        requests: Sends requests.
        cache: The cluster state.
        is_preempted: Whether a pod is evicted for a preemptor; otherwise its own gang has failed.
        evicted: Called with the pod and the effect, after the API server has accepted the eviction.
        respect_budgets: Whether disruption budgets may delay the eviction of a gang that failed.
        patience: How many seconds of pauses one request is repeated for.
    """

    def __init__(
        self,
        requests: Requests,
        cache: Cache,
        is_preempted: Callable[[PodUID], bool],
        evicted: Callable[[Pod, Evict], object],
        *,
        respect_budgets: bool = False,
        patience: float = 10.0,
    ) -> None:
        self._requests = requests
        self._cache = cache
        self._is_preempted = is_preempted
        self._evicted = evicted
        self._respect_budgets = respect_budgets
        self._patience = patience

    async def __call__(self, evict: Evict) -> None:
        """Ask for the deletion of a pod.

        Raises:
            RequestError: The request failed; the caller repeats it later.
        """
        pod = self._cache.cluster.pod(evict.uid)
        if pod is None or pod.deleted_at is not None:
            return
        preempted = self._is_preempted(evict.uid)
        await self._say_why(pod, evict.reason, preempted=preempted)
        if self._respect_budgets and not preempted:
            await self._evict(pod)
        else:
            await self._delete(pod)
        self._evicted(pod, evict)

    async def _say_why(self, pod: Pod, reason: str, *, preempted: bool) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler" if preempted else "GangReleased",
            "message": shortened(reason, LONGEST_MESSAGE),
            "lastTransitionTime": whole_seconds(),
        }
        body = status_patch(pod, {"conditions": [condition]})
        await self._send("PATCH", pod_path(pod, "status"), body, STRATEGIC_MERGE_PATCH)

    async def _delete(self, pod: Pod) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
        }
        await self._done(pod, "DELETE", pod_path(pod), options)

    async def _evict(self, pod: Pod) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        await self._done(pod, "POST", pod_path(pod, "eviction"), eviction)

    async def _done(self, pod: Pod, method: str, path: str, body: dict[str, Any]) -> None:
        status, problem = await self._send(method, path, to_json(body))
        if status < 300 or status == 404 or (status == 409 and await self._is_gone(pod)):
            return
        raise RequestError(method, path, status, problem)

    async def _is_gone(self, pod: Pod) -> bool:
        """Look whether a pod is gone, or another has its name."""
        response = await self._requests.send(
            "GET", pod_path(pod), lane=_LANE, patience=self._patience
        )
        if response.is_success:
            return identity_of(response.body).uid != pod.uid
        return response.status == 404

    async def _send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json"
    ) -> tuple[int, str]:
        response = await self._requests.send(
            method,
            path,
            body=body,
            content_type=content_type,
            lane=_LANE,
            patience=self._patience,
        )
        return response.status, "" if response.status < 300 else said(response)
