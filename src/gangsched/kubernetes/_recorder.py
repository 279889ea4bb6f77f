"""Events about pods and groups, as ``events.k8s.io/v1`` has them.

Rules:
  R1  the same event about the same object within 6 minutes is one Event with a series. Its count is
      patched after the first repeat. Then a pause comes before each patch: 5 s, doubled up to a
      minute, so a count is written although no further repeat comes, and often repeated events
      cost little. At the end, ``flush`` queues the counts that still pause;
  R2  at most *limit* events wait. Then the oldest of the namespace with the most is dropped, and
      counted. Events of namespaces are written in turn: a namespace that is flooded with gangs
      neither delays the events of others nor drops them;
  R3  an event never delays a bind: it has connections of its own, and gives way, see ``_give_way``;
  R4  an event that the API server refuses is dropped. Events inform; nothing depends on them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias, final
from urllib.parse import quote

from attrs import define, frozen

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import MERGE_PATCH
from gangsched.kubernetes._instants import micro_time
from gangsched.kubernetes._requests import Requests, said, to_json
from gangsched.kubernetes._turns import Turns
from gangsched.kubernetes._workers import run_workers
from gangsched.values.text import shortened

__all__ = ["EventRecorder", "Regarding"]

_LANE: Final = "events"
_LONGEST_NOTE: Final = 1024
_SERIES_ENDS: Final = 360.0
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 60.0
_MOST_SERIES: Final = 4096
_PATIENCE: Final = 30.0

_log = logging.getLogger("gangsched.kubernetes.events")


@final
@frozen
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def to_json(self) -> dict[str, str]:
        """Return it as an ``ObjectReference``."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


_Key: TypeAlias = tuple[str, str, str, str]


@define(eq=False)
class _Series:
    namespace: str
    key: _Key
    path: str
    body: dict[str, Any]
    last_at: float
    queued_at: float = 0.0
    count: int = 1
    written_at: float | None = None  # None: the Event itself is still to be created
    waits: bool = True
    is_written: bool = False  # a request is under way
    pause: float = 0.0


@final
class EventRecorder:
    """Creates Events, by *workers* tasks at once.

    Args:
        requests: Sends requests.
        give_way: Waits while binds have to go first; called with the instant of queueing.
        controller: The ``reportingController``: the scheduler's name.
        clock: Seconds since 1970.
        limit: How many events wait at most.
        workers: How many requests are under way at most.
        on_drop: Called for each event that is dropped.

    Attributes:
        dropped: How many events were dropped.
    """

    def __init__(
        self,
        requests: Requests,
        give_way: Callable[[float], Awaitable[object]],
        *,
        controller: str,
        clock: Callable[[], float],
        limit: int = 4096,
        workers: int = 4,
        on_drop: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_drop = on_drop
        self._requests = requests
        self._give_way = give_way
        self._controller = controller
        self._instance = f"{controller}-{socket.gethostname()}-{os.getpid()}"[:128]
        self._clock = clock
        self._limit = limit
        self._workers = workers
        self._waiting: Turns[_Key, _Series] = Turns()
        self._series: Turns[_Key, _Series] = Turns()
        self._pausing: dict[_Series, asyncio.TimerHandle] = {}
        self._under_way = 0
        self._ends = False
        self._queued = asyncio.Semaphore(0)
        self._turn = asyncio.Lock()
        self._number = 0
        self.dropped = 0

    def record(self, regarding: Regarding, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event.

        Args:
            regarding: The object.
            kind: ``Normal`` or ``Warning``.
            reason: Why, as one word, such as ``Scheduled``.
            action: What the scheduler did, as one word, such as ``Binding``.
            note: The sentence for people; it is cut at 1,024 bytes.
        """
        note, now = shortened(note, _LONGEST_NOTE), self._clock()
        key = (regarding.uid or regarding.name, reason, action, note)
        namespace = regarding.namespace or "default"
        series = self._series.remove(namespace, key)
        if series is not None and now - series.last_at < _SERIES_ENDS:
            series.count += 1
            series.last_at = now
            self._series.put(namespace, key, series)
            if not series.waits:
                self._put_after_pause(series)
            return
        self._number += 1
        name = f"{regarding.name[:200]}.{int(now * 1e6):x}{self._number:x}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": micro_time(now),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": regarding.to_json(),
            "note": note,
            "type": kind,
        }
        series = _Series(namespace, key, _path(namespace), body, now)
        self._series.put(namespace, key, series)
        while len(self._series) > _MOST_SERIES:
            self._series.drop()
        self._put(series)

    def flush(self) -> None:
        """Queue the counts that would be written after a pause; called at the end."""
        self._ends = True
        for series in list(self._pausing):
            self._put_now(series)

    def _put_after_pause(self, series: _Series) -> None:
        """Queue a series as soon as its pause since the last writing is over."""
        if series.is_written:
            return  # queued when that has ended: a patch must not overtake the creation
        left = 0.0
        if series.written_at is not None and not self._ends:
            left = series.written_at + series.pause - self._clock()
        timer = self._pausing.get(series)
        if left <= 0:
            if timer is not None:
                timer.cancel()
                del self._pausing[series]
            self._put(series)
        elif timer is None:
            loop = asyncio.get_running_loop()
            self._pausing[series] = loop.call_later(left, self._put_now, series)

    def _put_now(self, series: _Series) -> None:
        self._pausing.pop(series).cancel()
        self._put(series)

    def _put(self, series: _Series) -> None:
        series.waits = True
        series.queued_at = time.monotonic()
        self._waiting.put(series.namespace, series.key, series)
        while len(self._waiting) > self._limit:
            self._waiting.drop().waits = False
            self._drop()
        self._queued.release()  # wakes one worker, not all

    def _drop(self) -> None:
        self.dropped += 1
        self._on_drop()

    def __len__(self) -> int:
        """Return how many events wait or are being written, without those that pause."""
        return len(self._waiting) + self._under_way

    async def run(self) -> None:
        """Create Events until cancelled."""
        await run_workers(self._workers, self._work)

    async def _work(self) -> None:
        while True:
            await self._queued.acquire()
            async with self._turn:  # one worker looks at the binds, not all
                first = self._waiting.first()
                if first is not None:
                    await self._give_way(first.queued_at)
            if not self._waiting:
                continue  # it was dropped
            series = self._waiting.take()
            series.waits, series.is_written, count = False, True, series.count
            self._under_way += 1
            try:
                await self._write(series)
            except GangschedError as error:
                self._drop()
                _log.warning("event not recorded: %s", error)
            finally:
                series.is_written = False
                self._under_way -= 1
            if series.count > count:
                self._put_after_pause(series)

    async def _write(self, series: _Series) -> None:
        now = self._clock()
        if series.count > 1:
            seen = {"count": series.count, "lastObservedTime": micro_time(series.last_at)}
            if series.written_at is None:
                series.body["series"] = seen
            else:
                series.written_at = now
                pause = 2 * series.pause or _FIRST_PAUSE
                series.pause = min(pause, _LONGEST_PAUSE)
                path = f"{series.path}/{quote(series.body['metadata']['name'], safe='')}"
                if await self._send("PATCH", path, {"series": seen}, MERGE_PATCH) != 404:
                    return
                series.body["series"] = seen  # it has expired: it is created again
        series.written_at = now
        await self._send("POST", series.path, series.body, "application/json")

    async def _send(self, method: str, path: str, body: dict[str, Any], content_type: str) -> int:
        response = await self._requests.send(
            method,
            path,
            body=to_json(body),
            content_type=content_type,
            lane=_LANE,
            patience=_PATIENCE,
        )
        status = response.status
        # 409: the first try was answered, and its answer was lost
        if status >= 300 and not (status == 409 or (method == "PATCH" and status == 404)):
            self._drop()
            _log.warning("event not recorded: %s %s: %s", method, path, said(response))
        return status


@lru_cache(maxsize=256)
def _path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(namespace, safe='')}/events"
