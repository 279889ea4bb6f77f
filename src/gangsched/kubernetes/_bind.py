"""Binding a pod: one POST, and whatever it takes to know how it ended.

A bind ends as the API server has it. Only these say that it failed: the pod is gone (404), it is
bound to another node, or it cannot be bound (409 and every other 4xx). If an answer is lost, or is
a 5xx, the bind may have been done: a repeated POST then gets 409, and the pod itself tells.

Rules:
  R1  success is reported if the pod is on the node that was decided, by which request ever;
  R2  failure is reported only after a definite answer. An unknown answer is repeated with the same
      node, because the first request may still take effect. If the scheduler had another node in
      mind by then, the capacity of the first would be used twice;
  R3  a pod that was found elsewhere is stored before the failure is reported, so that the
      scheduler counts it there;
  R4  nothing is bound to a node that is gone: the API server does not check that;
  R5  the body has the UID, so a pod that was recreated under its name is not bound in its place.
      The API server copies the annotations of the body to the pod, in the same write;
  R6  a bind that is forbidden, or is refused or not answered for longer than a second, is told
      once, while it is repeated, and counted until it ends. A right that is missing would be told
      after half a minute otherwise, and a webhook that fails or hangs would never be;
  R7  a bind that is cancelled while its request has no definite answer stays ``unanswered``: the
      API server may still carry it out.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final, final
from urllib.parse import quote

from gangsched.errors import GangschedError
from gangsched.events import Bind, Event
from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import PodFacts
from gangsched.kubernetes._requests import Pauses, Requests, said, to_json
from gangsched.model import Pod, PodUID

__all__ = ["BindRefusedError", "Binder", "pod_path"]

_log = logging.getLogger("gangsched.kubernetes.binds")

_LANE: Final = "binds"
_PLAIN: Final = re.compile(r"[a-z0-9.-]+").fullmatch
_FORBIDDEN: Final = frozenset({401, 403})
_TOO_MANY: Final = 429
_TOLD_AFTER: Final = 1.0
"""Seconds of pauses after which a bind that is repeated is told."""
_LOOK: Final = 0.1
"""Seconds between two looks at whether this replica leads again; as a rule it is cancelled."""


class BindRefusedError(GangschedError):
    """A bind failed for good: the pod is not on the node that was decided."""


def pod_path(pod: Pod, subresource: str = "") -> str:
    """Return the path of a pod, or of one of its subresources."""
    end = f"/{subresource}" if subresource else ""
    return f"/api/v1/namespaces/{_quoted(pod.namespace)}/pods/{_quoted(pod.name)}{end}"


def _quoted(name: str) -> str:
    # names of pods are those of DNS; quote() costs 4 us even so
    return name if _PLAIN(name) else quote(name, safe="")


@final
class Binder:
    """Performs binds.

    Args:
        requests: Sends requests.
        cache: The cluster state.
        decode: Reads a pod from an answer.
        found: Called with the event of a pod that was looked at and had changed.
        may_write: Whether this replica leads. If it does not, nothing is sent: another replica
            may decide about the pod.
        marks: Returns the annotations that a pod gets with its bind.
        repeated: Called once for a bind that is refused and repeated, with why.
        refused: Called with the number of these binds that are under way, when it differs.
        timeout: How many seconds one request may take.

    Attributes:
        unanswered: The pods whose binds were sent, and whose end is not known.
    """

    def __init__(
        self,
        requests: Requests,
        cache: Cache,
        decode: Callable[[bytes], PodFacts | None],
        found: Callable[[Event], object],
        may_write: Callable[[], bool] = lambda: True,
        *,
        marks: Callable[[Pod], Mapping[str, str]] = lambda _pod: {},
        repeated: Callable[[Bind, str], object] = lambda _bind, _problem: None,
        refused: Callable[[int], object] = lambda _count: None,
        timeout: float = 10.0,
    ) -> None:
        self._requests = requests
        self._cache = cache
        self._decode = decode
        self._found = found
        self._may_write = may_write
        self._marks = marks
        self._repeated = repeated
        self._refused = refused
        self._told: set[PodUID] = set()
        self._timeout = timeout
        self._under_way = 0
        self.unanswered: Final[set[PodUID]] = set()

    async def __call__(self, bind: Bind) -> None:
        """Bind a pod; return when it is on the node.

        Raises:
            BindRefusedError: It is not, and will not be.
        """
        self._under_way += 1
        try:
            await self._bind(bind)
        except BindRefusedError:
            self.unanswered.discard(bind.uid)
            raise
        else:
            self.unanswered.discard(bind.uid)
        finally:
            self._under_way -= 1
            self._cache.bind_problems.pop(bind.uid, None)
            if bind.uid in self._told:
                self._told.remove(bind.uid)
                self._refused(len(self._told))

    def __len__(self) -> int:
        """Return how many binds are under way."""
        return self._under_way

    async def _bind(self, bind: Bind) -> None:
        pod = self._cache.cluster.pod(bind.uid)
        if pod is None:
            raise BindRefusedError(f"pod {bind.uid} was deleted before it was bound")
        if pod.node_name == bind.node:
            return
        path, body = pod_path(pod, "binding"), _body(pod, bind, self._marks(pod))
        pauses: Pauses | None = None
        unsure = False
        while True:
            while not self._may_write():
                await asyncio.sleep(_LOOK)
            if self._cache.cluster.node(bind.node) is None:
                if unsure and await self._is_done(pod, bind):
                    return
                raise BindRefusedError(f"node {bind.node} is gone")
            self.unanswered.add(bind.uid)
            try:
                response = await self._requests.once(
                    "POST", path, body=body, timeout=self._timeout, lane=_LANE
                )
            except ConnectionLost as lost:
                pauses = pauses or self._requests.pauses()
                self._cache.bind_problems[bind.uid] = lost.problem
                unsure = unsure or lost.sent
                if not unsure:
                    self.unanswered.discard(bind.uid)
                if _is_to_be_told(0, pauses.spent):
                    self._tell(bind, f"binding not answered: {lost.problem}")
                await pauses.after_loss(lost)
                if unsure and await self._is_done(pod, bind):
                    return
                continue
            if response.status < 300:
                return
            pauses = pauses or self._requests.pauses()
            problem = self._cache.bind_problems[bind.uid] = said(response)
            if response.status >= 500:
                unsure = True
            if not unsure:
                self.unanswered.discard(bind.uid)
            if _is_to_be_told(response.status, pauses.spent):
                self._tell(bind, f"binding rejected: {problem}")
            if await pauses.after(response):
                continue
            if response.status == 409 and await self._is_done(pod, bind):
                return
            raise BindRefusedError(problem)

    def _tell(self, bind: Bind, problem: str) -> None:
        """Tell once that a bind is repeated, and why."""
        if bind.uid not in self._told:
            self._told.add(bind.uid)
            self._refused(len(self._told))
            self._repeated(bind, problem)

    async def _is_done(self, pod: Pod, bind: Bind) -> bool:
        """Look at a pod whose bind has an unknown end; return whether it is on the node.

        Raises:
            BindRefusedError: It is gone, is on another node, or is being deleted.
        """
        response = await self._requests.send("GET", pod_path(pod), timeout=self._timeout)
        if response.status == 404:
            raise BindRefusedError(f"pod {pod.key} was deleted before it was bound")
        if response.status >= 300:
            raise BindRefusedError(f"pod {pod.key} cannot be read: {said(response)}")
        facts = self._decode(response.body)
        if facts is None or facts.pod.uid != pod.uid:
            raise BindRefusedError(f"pod {pod.key} was deleted, and another has its name")
        event = self._cache.look(facts)
        if event is not None:
            self._found(event)
        on = facts.pod.node_name
        if on == bind.node:
            _log.info("bind of %s to %s was done although its answer was lost", pod.key, on)
            return True
        if on is not None:
            raise BindRefusedError(f"pod {pod.key} was bound to {on} by another scheduler")
        if facts.pod.deleted_at is not None:
            raise BindRefusedError(f"pod {pod.key} is being deleted")
        return False


def _is_to_be_told(status: int, spent: float) -> bool:
    """Return whether an answer after some seconds of pauses is told; a definite one ends a bind.

    The status is 0 if there was no answer.
    """
    is_definite = 0 < status < 500 and status != _TOO_MANY
    return status in _FORBIDDEN or (spent >= _TOLD_AFTER and not is_definite)


def _body(pod: Pod, bind: Bind, marks: Mapping[str, str]) -> bytes:
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    return to_json(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {**metadata, "annotations": {**marks}} if marks else metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )
