"""List and watch of one resource, for ever.

Theory of operation. A reflector is in one of three states. *Listing*: the API server streams the
objects that exist and closes them with a bookmark (WatchList), or, if it does not serve that,
lists them in pages. Each object that is listed is marked; what is not marked at the end is gone.
*Watching*: a watch resumes after the last version that was seen. It ends often and by design: each
asks to be ended after five to ten minutes, at random, so that watches do not end all at once.
*Waiting*: after a failure, with a pause that grows, is jittered, and ends with the next success.

A watch that ended resumes where it was. Only if the API server no longer has that version (410,
as a status or as an ERROR event under the status 200) is everything listed again. Three other
refusals in a row list again, too: a version from the future, after etcd was restored, is one.

Rules:
  R1  the sink gets batches in order. A delta says what changed compared with the deltas before
      it: nothing is told twice, and an object that vanished while no watch saw it is deleted;
  R2  ``synced`` closes each listing, when all that vanished has been told;
  R3  an object that cannot be read is told as ``refused``, never left out;
  R4  each watch has a timer of its own: a connection that is silently dead ends with it;
  R5  a watch that had events within twice *pace* seconds is not read after the next ones until the
      next beat, for at most *pace* seconds. So a lone event is told at once, and a stream of events
      comes in batches.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, final
from urllib.parse import urlencode

from attrs import field, frozen

from gangsched.drivers._beat import until_beat
from gangsched.errors import GangschedError, ManifestError
from gangsched.kubernetes._api import Api, ConnectionLost, Response, WatchRefused
from gangsched.kubernetes._counted import close_stream
from gangsched.kubernetes._events import (
    Status,
    UnexpectedAnswer,
    identity_of,
    read_bookmark,
    read_event_line,
    read_page,
    read_status,
)
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._known import Identity, Known, Sight

try:
    from msgspec import Struct
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["Delta", "DeltaKind", "Identified", "Reflector", "ReflectorState", "Resource"]


class Identified(Protocol):
    """A decoded object."""

    @property
    def identity(self) -> Identity: ...


T = TypeVar("T", bound=Identified)
T_co = TypeVar("T_co", covariant=True)

DeltaKind: TypeAlias = Literal["added", "modified", "deleted", "refused", "synced"]

_PAGE: Final = 500
_LEAST_WATCH: Final = 300.0
_MOST_WATCH: Final = 600.0
_SLACK: Final = 30.0
"""Seconds that the API server may be late to end a watch."""
_FIRST_EVENT: Final = 5.0
"""Seconds without a line after which a stream of initial events is given up."""
_HANGS: Final = 5.0
"""Seconds after which a stream of initial events that fails was not just cut."""
_LIST_TIMEOUT: Final = 20.0
"""Seconds for one page. A request that is lost after a restart of the API server is sent again."""
_AT_ONCE: Final = 1.0
_GONE: Final = 410
_NOT_FOUND: Final = 404
_DENIED: Final = frozenset({403, _NOT_FOUND, 405})
_NOT_SERVED: Final = (400, 405, 415, 422)
"""What API servers that do not serve WatchList answer: 422 up to 1.33, others before."""
_LEAST_PAUSE: Final = 0.1
_MOST_PAUSE: Final = 15.0
_MOST_REFUSALS: Final = 3


@final
@frozen
class Resource:
    """What is listed and watched.

    Attributes:
        path: The path of the collection, such as ``/api/v1/pods``.
        kind: The kind of its objects, for messages.
        query: Further parameters, such as a field selector.
    """

    path: str
    kind: str
    query: tuple[tuple[str, str], ...] = ()

    def at(self, **parameters: str) -> str:
        """Return the path with parameters."""
        return f"{self.path}?{urlencode([*self.query, *parameters.items()])}"


@final
class Delta(Struct, Generic[T_co], frozen=True):
    """One change of the objects of a resource.

    Attributes:
        kind: ``added``, ``modified`` and ``deleted``; ``refused`` for an object that exists and
            cannot be read; ``synced`` for the end of a listing.
        identity: The object; None for ``synced`` only.
        value: The object that was read; for ``added`` and ``modified`` only.
        error: Why it cannot be read; for ``refused`` only.
    """

    kind: DeltaKind
    identity: Identity | None = None
    value: T_co | None = None
    error: ManifestError | None = None

    @property
    def problem(self) -> str:
        """The malformed field and what is wrong with it, without a file; empty if none is."""
        error = self.error
        if error is None or not error.field:
            return "" if error is None else error.problem
        return f"{error.field}: {error.problem}"


@final
@frozen
class ReflectorState:
    """What a reflector is doing.

    Attributes:
        name: ``listing``, ``watching`` or ``waiting``.
        problem: Why it waits; None if it does not.
        delay: The seconds that it waits.
    """

    name: Literal["listing", "watching", "waiting"]
    problem: GangschedError | None = field(default=None, eq=False)
    delay: float = 0.0


class _Silent(ConnectionLost):
    """Nothing came for too long."""


class _Failed(GangschedError):
    """The API server reported an error."""

    def __init__(self, path: str, status: Status, retry_after: float | None = None) -> None:
        super().__init__(path, status)
        self.path = path
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        status = self.status
        return f"{self.path}: {status.code} {status.reason}: {status.message}"


@final
class Reflector(Generic[T]):
    """Lists and watches one resource, and tells a sink what changes.

    Args:
        api: The API server.
        resource: What is watched.
        decode: Reads one object, as JSON without ``kind`` and ``apiVersion`` if it comes from a
            list. It raises ``ManifestError`` for an object that cannot be read.
        sink: Called with each batch of deltas, in order. It must not block.
        random: Numbers from 0 to 1, for timeouts and pauses.
        on_state: Called with each new state.
        streaming: Whether WatchList is tried.
        page: The most objects of one page of a list.
        first_event: The seconds without a line after which a stream of initial events is given up.
        pace: The seconds for which a watch is not read at most after events of a stream.
        sleep: Waits, for a number of seconds.

    Attributes:
        synced: Whether a listing has been completed, or the resource is known to be not served.
        listed: Whether the API server has completed the last listing. Refusals after it leave it
            true: what was listed then is known.
        denied: How often in a row the API server has said that the resource must not be read or
            is not served.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        decode: Callable[[bytes | memoryview], T],
        sink: Callable[[list[Delta[T]]], None],
        *,
        random: Callable[[], float] = random.random,
        on_state: Callable[[ReflectorState], None] | None = None,
        streaming: bool = True,
        page: int = _PAGE,
        first_event: float = _FIRST_EVENT,
        pace: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._resource = resource
        self._decode = decode
        self._sink = sink
        self._random = random
        self._on_state = on_state
        self._streaming = streaming
        self._page = page
        self._first_event = first_event
        self._pace = pace
        self._sleep = sleep
        self._seconds = _MOST_WATCH
        self._known = Known()
        self._version: str | None = None
        self._failures = 0
        self._refusals = 0
        self._state = ReflectorState("listing")
        self.synced = False
        self.listed = False
        self.denied = 0

    @property
    def state(self) -> ReflectorState:
        """What the reflector is doing."""
        return self._state

    def __len__(self) -> int:
        """Return the number of objects that are known."""
        return len(self._known)

    async def run(self) -> None:
        """List and watch, until the task is cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except ConnectionLost as error:
                await self._pause(error)
            except WatchRefused as error:
                await self._failed(_failure(error.path, error.response))
            except _Failed as error:
                await self._failed(error)
            except UnexpectedAnswer as error:
                self._version = None
                await self._pause(error)

    # Listing

    async def _list(self) -> None:
        self._enter(ReflectorState("listing"))
        self._known.begin()
        if self._streaming and await self._stream_initial():
            return
        # what a stream has shown before it ended may be gone by now
        self._known.begin()
        await self._list_pages()

    async def _stream_initial(self) -> bool:
        """List by a stream of initial events, and go on watching it.

        Return False if that is not served, or hangs: a list may be answered then. After a restart,
        an API server lets such a stream wait until its cache is filled.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        path = self._path(
            resourceVersionMatch="NotOlderThan", sendInitialEvents="true", resourceVersion=""
        )
        try:
            await self._follow(path)
        except WatchRefused as error:
            if error.response.status not in _NOT_SERVED:
                raise
        except _Silent:
            if not self._known.is_listing:
                raise
        except ConnectionLost:
            if not self._known.is_listing or clock() - began < _HANGS:
                raise
            return False  # the next listing is streamed again
        if self._known.is_listing:
            # not served, or ended by a server that ignores the parameter
            self._streaming = False
            return False
        return True

    async def _list_pages(self) -> None:
        next_page, limit = "", str(self._page)
        while True:
            path = self._resource.at(limit=limit, **({"continue": next_page} if next_page else {}))
            response = await self._api.request("GET", path, timeout=_LIST_TIMEOUT)
            if not response.is_success:
                # A list whose pages expired under way begins anew, in one page.
                if next_page and response.status == _GONE and limit != "0":
                    next_page, limit = "", "0"
                    self._known.begin()
                    continue
                raise _failure(path, response)
            page = read_page(response.body)
            deltas: list[Delta[T]] = []
            for raw in page.items:
                self._see(raw, deltas)
            if deltas:
                self._sink(deltas)
            next_page = page.next_page
            if not next_page:
                break
            await asyncio.sleep(0)
        self._end_listing(page.resource_version)

    def _end_listing(self, version: str, before: Sequence[Delta[T]] = ()) -> None:
        gone = [Delta[T]("deleted", identity) for identity in self._known.end()]
        self._version = version or None
        self.synced = True
        self.listed = bool(version)
        self._failures = self._refusals = 0
        if version:
            self.denied = 0
        self._sink([*before, *gone, Delta[T]("synced")])

    # Watching

    async def _watch(self) -> None:
        if self._version is not None:
            await self._follow(self._path(resourceVersion=self._version))

    def _path(self, **parameters: str) -> str:
        self._seconds = _LEAST_WATCH + self._random() * (_MOST_WATCH - _LEAST_WATCH)
        return self._resource.at(
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=str(round(self._seconds)),
            **parameters,
        )

    async def _follow(self, path: str) -> None:
        """Follow one watch to its end."""
        now = asyncio.get_running_loop().time
        began, limit, told = now(), self._seconds + _SLACK, False
        last = -math.inf
        if not self._known.is_listing:
            self._enter(ReflectorState("watching"))
        batches = self._api.watch(path, timeout=limit)
        try:
            async with asyncio.timeout_at(began + limit) as timer:
                self._set(timer, began + limit)
                async for lines in batches:
                    self._take_in(lines)
                    told = True
                    self._set(timer, began + limit)
                    if self._pace and not self._known.is_listing:
                        if now() - last < 2 * self._pace:
                            await self._sleep(until_beat(self._pace))
                        last = now()
        except TimeoutError as error:
            raise _Silent("GET", path, "nothing came for too long", sent=True) from error
        finally:
            await close_stream(batches)
        if not told and now() - began < _AT_ONCE:
            raise ConnectionLost("GET", path, "the watch ended without an event", sent=True)

    def _set(self, timer: asyncio.Timeout, end: float) -> None:
        if self._known.is_listing:
            timer.reschedule(min(end, asyncio.get_running_loop().time() + self._first_event))
        elif timer.when() != end:
            timer.reschedule(end)

    def _take_in(self, lines: Sequence[bytes]) -> None:
        deltas: list[Delta[T]] = []
        try:
            for line in lines:
                if line:
                    self._event(line, deltas)
        finally:
            # What came before an error in the same batch has been taken in, so it is told.
            if deltas:
                self._sink(deltas)

    def _event(self, line: bytes, deltas: list[Delta[T]]) -> None:
        event = read_event_line(line)
        match event.kind:
            case "ADDED" | "MODIFIED":
                self._progress(self._see(event.object, deltas))
            case "DELETED":
                seen = identity_of(event.object)
                gone = self._known.remove(seen)
                if gone is not None:
                    deltas.append(Delta("deleted", gone))
                self._progress(seen.resource_version)
            case "BOOKMARK":
                version, ends = read_bookmark(event.object)
                if ends and self._known.is_listing:
                    before, deltas[:] = list(deltas), []
                    self._end_listing(version, before)
                    self._enter(ReflectorState("watching"))
                self._progress(version)
            case "ERROR":
                raise _Failed(self._resource.path, read_status(event.object))
            case _:
                raise UnexpectedAnswer("an event of a watch", event.kind, "unknown type")

    def _see(self, raw: bytes | memoryview, deltas: list[Delta[T]]) -> str:
        """Read one object that exists, add what is new about it, and return its version."""
        value: T | None = None
        problem: ManifestError | None = None
        try:
            value = self._decode(raw)
            seen = value.identity
        except ManifestError as error:
            seen, problem = identity_of(raw), error
        before = self._known.get(seen.key)
        sight = self._known.see(seen)
        if sight is Sight.STALE:
            return seen.resource_version
        if sight is Sight.REPLACED:
            deltas.append(Delta("deleted", before))
        if problem is not None:
            deltas.append(Delta("refused", seen, error=problem))
        else:
            changed = sight is Sight.CHANGED
            deltas.append(Delta("modified" if changed else "added", seen, value))
        return seen.resource_version

    def _progress(self, version: str) -> None:
        # Initial events come in no order: only the bookmark that ends them says where to resume.
        if version and not self._known.is_listing:
            self._version = version
            self._failures = self._refusals = self.denied = 0

    # Failing

    async def _failed(self, error: _Failed) -> None:
        status = error.status
        if status.is_expired:
            self._version = None
            # at once, unless listing again ended in the same way
            if self._failures == 0:
                self._failures = 1
                return
        else:
            self._refusals += 1
            self.denied = self.denied + 1 if status.code in _DENIED else 0
            if self._refusals >= _MOST_REFUSALS:
                self._version = None
                if status.code == _NOT_FOUND:
                    self._vanish()
        await self._pause(error, error.retry_after)

    def _vanish(self) -> None:
        """Take in that the resource is not served any more, as when its definition is deleted."""
        if len(self._known) or not self.synced:
            failures = self._failures
            self._known.begin()
            self._end_listing("")
            self._failures = failures

    async def _pause(self, error: GangschedError, at_least: float | None = None) -> None:
        delay = min(_LEAST_PAUSE * 2 ** min(self._failures, 20), _MOST_PAUSE)
        self._failures += 1
        delay *= 0.5 + self._random()
        delay = max(delay, at_least or 0.0)
        self._enter(ReflectorState("waiting", error, delay))
        await self._sleep(delay)

    def _enter(self, state: ReflectorState) -> None:
        self._state = state
        if self._on_state is not None:
            self._on_state(state)


def _failure(path: str, response: Response) -> _Failed:
    status = read_status(response.body)
    if not status.code:
        status = Status(response.status, status.reason, status.message)
    return _Failed(path, status, response.retry_after)
