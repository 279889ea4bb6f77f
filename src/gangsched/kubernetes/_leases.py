"""Leader election: of several replicas, the one that holds a Lease schedules.

The holder renews the Lease every *retry_period*. Another replica takes over when the Lease has not
changed for *lease_duration*, or when its holder has given it up.

Rules:
  R1  instants in the Lease are for people. A replica measures by its own steady clock how long it
      has not seen a change, so clocks that differ between machines do no harm (as client-go);
  R2  each write names the resource version that was read, so of two candidates one gets a 409;
  R3  a holder that could not renew for *renew_deadline* leads no more. It stops
      ``lease_duration - renew_deadline`` before any other replica may begin;
  R4  a replica that waits watches the Lease, so a Lease that is given up is taken at once. If it
      may not watch, it looks every *retry_period*;
  R5  a candidate that has not reached the Lease for *lease_duration*, or never, has a problem: it
      could not take over;
  R6  a problem is logged once, and then once a minute while it lasts: a right that is missing would
      fill the log otherwise.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, final
from urllib.parse import quote

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import Api, Response
from gangsched.kubernetes._instants import micro_time
from gangsched.kubernetes._requests import said, to_json
from gangsched.kubernetes._tasks import end

__all__ = ["Election"]

_LANE: Final = "leases"
_WARN_AGAIN: Final = 60.0

_log = logging.getLogger("gangsched.kubernetes.leases")


@final
class Election:
    """One candidate for a Lease.

    Args:
        api: The API server.
        identity: The name of this replica, unique among the candidates.
        namespace: The namespace of the Lease.
        name: The name of the Lease.
        lease_duration: Seconds without a change after which the Lease may be taken.
        renew_deadline: Seconds for which the holder tries to renew it.
        retry_period: Seconds between two tries.
        clock: A steady clock, in seconds.
        wall: Seconds since 1970.
        draw: Returns a random number in [0, 1).

    Attributes:
        holder: The holder that was last seen; empty if there is none.
    """

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        namespace: str,
        name: str,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        base = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._api = api
        self._identity = identity
        self._namespace = namespace
        self._name = name
        self._duration = lease_duration
        self._deadline = renew_deadline
        self._period = retry_period
        self._clock = clock
        self._wall = wall
        self._draw = draw
        self._base = base
        self._path = f"{base}/{quote(name, safe='')}"
        self._seen: dict[str, Any] | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._reached_at: float | None = None
        self._trouble = "the API server has not answered yet"
        self._wake = asyncio.Event()
        self._said = ""
        self._warned: dict[str, float] = {}
        self.holder = ""

    @property
    def is_leading(self) -> bool:
        """Whether this replica may write: it renewed the Lease within the renew deadline."""
        at = self._renewed_at
        return at is not None and self._clock() - at < self._deadline

    def problems(self) -> list[str]:
        """Return why this replica could not take over: the Lease is out of reach.

        A shorter failure than the lease duration is none, because the Lease would not expire
        meanwhile.
        """
        at = self._reached_at
        if at is not None and self._clock() - at < self._duration:
            return []
        return [f"the lease {self._namespace}/{self._name} is out of reach: {self._trouble}"]

    async def acquire(self) -> None:
        """Return when this replica holds the Lease."""
        watch = asyncio.create_task(self._watch())
        try:
            while not await self._try():
                await self._wait_for_a_change()
        finally:
            await end(watch)
        self._said = ""
        _log.info("%s leads: it holds the lease %s/%s", self._identity, self._namespace, self._name)

    async def hold(self) -> None:
        """Renew the Lease; return when it is lost."""
        while self.is_leading:
            await asyncio.sleep(self._period)
            await self._renew()
        _log.error("%s leads no more: the lease could not be renewed", self._identity)
        self._renewed_at = None

    async def release(self) -> None:
        """Give the Lease up, so that another replica takes it at once."""
        if self._renewed_at is None or self._seen is None:
            return
        self._renewed_at = None
        spec = {**self._seen.get("spec", {}), "holderIdentity": "", "leaseDurationSeconds": 1}
        spec["renewTime"] = spec["acquireTime"] = micro_time(self._wall())
        try:
            response = await self._put(spec)
            if response.status == 409 and await self._is_still_held():
                response = await self._put(spec)
        except GangschedError as error:
            _log.warning("the lease was not given up: %s", error)
            return
        if response.status >= 300:
            _log.warning("the lease was not given up: %s", said(response))
        else:
            _log.info("%s has given up the lease", self._identity)

    # Inside ---------------------------------------------------------------------------------

    async def _is_still_held(self) -> bool:
        """Read the Lease anew: a renewal that was cancelled may have been carried out.

        Raises:
            GangschedError: There is no answer.
        """
        response = await self._request("GET", self._path)
        if response.status >= 300:
            return False
        self._look(json.loads(response.body))
        return self.holder == self._identity

    async def _renew(self) -> None:
        """Renew once, within what is left of the deadline."""
        try:
            renewed = await self._write() if self._seen is not None else False
            if not renewed:
                await self._try()
        except GangschedError as error:
            self._warn(f"the lease was not renewed: {error}")

    async def _try(self) -> bool:
        """Look at the Lease, and take it if that is allowed; return whether this replica has it."""
        try:
            response = await self._request("GET", self._path)
            if response.status == 404:
                return await self._create()
            if response.status >= 300:
                self._failed(f"the lease cannot be read: {said(response)}")
                return False
            self._look(json.loads(response.body))
            if self.holder not in ("", self._identity) and not self._has_expired():
                self._renewed_at = None
                self._reached_at = self._clock()
                self._say_who_leads()
                return False
            return await self._write()
        except GangschedError as error:
            self._failed(f"the lease cannot be read: {error}")
            return False

    def _say_who_leads(self) -> None:
        """Log the holder, once for each: a second scheduler by mistake would wait in silence."""
        if self.holder != self._said:
            self._said = self.holder
            lease = f"{self._namespace}/{self._name}"
            _log.info("%s stands by: %s holds the lease %s", self._identity, self.holder, lease)

    def _failed(self, trouble: str) -> None:
        """Note why the Lease was not reached."""
        self._trouble = trouble
        self._warn(trouble)

    def _warn(self, problem: str) -> None:
        """Log a problem, unless it was logged within the last minute."""
        now = self._clock()
        self._warned = {each: at for each, at in self._warned.items() if now - at < _WARN_AGAIN}
        if problem not in self._warned:
            self._warned[problem] = now
            _log.warning("%s", problem)

    def _has_expired(self) -> bool:
        return self._clock() - self._seen_at >= self._duration

    def _look(self, lease: dict[str, Any]) -> None:
        if self._seen is None or lease.get("spec") != self._seen.get("spec"):
            self._seen_at = self._clock()
        self._seen = lease
        self.holder = lease.get("spec", {}).get("holderIdentity") or ""

    async def _create(self) -> bool:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec({}),
        }
        began = self._clock()
        response = await self._request("POST", self._base, to_json(lease))
        return self._written(response, began)

    async def _write(self) -> bool:
        """Write the Lease as ours, over what was seen last."""
        assert self._seen is not None
        began = self._clock()
        return self._written(await self._put(self._spec(self._seen.get("spec", {}))), began)

    async def _put(self, spec: dict[str, Any]) -> Response:
        assert self._seen is not None
        lease = {**self._seen, "spec": spec}
        lease["metadata"] = {
            key: value for key, value in lease["metadata"].items() if key != "managedFields"
        }
        return await self._request("PUT", self._path, to_json(lease))

    def _written(self, response: Response, began: float) -> bool:
        if response.status >= 300:
            if response.status == 409:  # another candidate was faster
                self._reached_at = self._clock()
            else:
                self._failed(f"the lease cannot be written: {said(response)}")
            self._seen = None if response.status in (404, 409) else self._seen
            return False
        self._look(json.loads(response.body))
        self._reached_at = self._clock()
        self._warned.clear()
        self._renewed_at = began  # from the sending on, as the others count at the latest
        return True

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now = micro_time(self._wall())
        is_ours = before.get("holderIdentity") == self._identity
        transitions = int(before.get("leaseTransitions") or 0)
        taken = bool(before) and not is_ours
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "acquireTime": before.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": transitions + 1 if taken else transitions,
        }

    async def _request(self, method: str, path: str, body: bytes | None = None) -> Response:
        timeout = max(0.5, self._deadline / 2)
        return await self._api.request(method, path, body=body, timeout=timeout, lane=_LANE)

    async def _wait_for_a_change(self) -> None:
        """Wait for the watch, for the Lease to expire, or for the retry period."""
        wait = self._period * (1.0 + self._draw() / 5)
        left = self._seen_at + self._duration - self._clock()
        if self._seen is not None and self.holder and left > 0:  # else it could not be taken
            wait = min(wait, max(0.01, left))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        self._wake.clear()

    async def _watch(self) -> None:
        """Wake the candidate when the Lease changes; what has changed is read with GET."""
        path = f"{self._base}?watch=1&fieldSelector=metadata.name%3D{quote(self._name, safe='')}"
        while True:
            try:
                async for _lines in self._api.watch(f"{path}&timeoutSeconds=300", timeout=330.0):
                    self._wake.set()
            except GangschedError as error:
                _log.debug("the lease is not watched: %s", error)
            await asyncio.sleep(self._period)
