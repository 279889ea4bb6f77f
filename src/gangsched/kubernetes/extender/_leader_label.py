"""A label of the pod of the replica that leads, by which a Service selects it and no other.

Only one replica answers kube-scheduler. Readiness cannot say which one: the others would never be
ready, so a Deployment could not be rolled out and a disruption budget would allow no eviction.

Rules:
  R1  the label is ``true`` while this replica leads, and ``false`` otherwise, also at the start: a
      container that restarts keeps the labels of its pod;
  R2  only the latest state is written, again and again until the API server has taken it. Nothing
      waits for it: a replica that does not lead answers 503;
  R3  at the end the label is taken away, if that takes no longer than two seconds.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final, final

from gangsched.errors import InvalidValueError
from gangsched.kubernetes._api import MERGE_PATCH, ConnectionLost
from gangsched.kubernetes._requests import Requests, said, to_json
from gangsched.kubernetes._tasks import end

__all__ = ["LEADS", "LeaderLabel"]

LEADS: Final = "gangsched.io/leads"
"""The label: ``true`` or ``false``."""
_POD: Final = re.compile(r"(?P<namespace>[a-z0-9][-a-z0-9]*)/(?P<name>[a-z0-9][-.a-z0-9]*)")
_LANE: Final = "ordinary"
_PAUSE: Final = 1.0
_END: Final = 2.0

_log = logging.getLogger("gangsched.kubernetes.extender")


@final
class LeaderLabel:
    """Writes the label.

    Args:
        pod: The pod of this replica, as ``NAMESPACE/NAME``.

    Raises:
        InvalidValueError: *pod* has another form.
    """

    def __init__(self, pod: str) -> None:
        found = _POD.fullmatch(pod)
        if found is None:
            raise InvalidValueError("pod", pod, "NAMESPACE/NAME")
        self._path = f"/api/v1/namespaces/{found['namespace']}/pods/{found['name']}"
        self._wanted = False
        self._written: bool | None = None
        self._changed = asyncio.Event()
        self._done = asyncio.Event()

    def put(self, leads: bool) -> None:
        """Note whether this replica leads."""
        self._wanted = leads
        self._done.clear()
        self._changed.set()

    @asynccontextmanager
    async def written(self, requests: Requests) -> AsyncGenerator[None]:
        """Write the label while the block runs; at its end the replica leads no more."""
        work = asyncio.create_task(self._work(requests))
        try:
            yield
            self.put(False)
            with suppress(TimeoutError):
                async with asyncio.timeout(_END):
                    await self._done.wait()
        finally:
            await end(work)

    async def _work(self, requests: Requests) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._written != self._wanted:
                wanted = self._wanted
                if await self._write(requests, wanted):
                    self._written = wanted
                else:
                    self._written = None  # the answer may be lost, and the request not
                    await asyncio.sleep(_PAUSE)
            self._done.set()

    async def _write(self, requests: Requests, leads: bool) -> bool:
        """Write the label once; return whether the API server has taken it."""
        body = to_json({"metadata": {"labels": {LEADS: str(leads).lower()}}})
        try:
            response = await requests.once(
                "PATCH", self._path, body=body, content_type=MERGE_PATCH, lane=_LANE
            )
        except ConnectionLost as lost:
            _log.warning("label %s not written: %s", LEADS, lost)
            return False
        if response.status >= 300:
            _log.warning("label %s not written: %s", LEADS, said(response))
        return response.status < 300
