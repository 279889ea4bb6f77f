"""``Api`` over a transport: credentials, and the repetition of what is safe to repeat.

Rules:
  R1  a request that may have been carried out is repeated only if it is a GET. For all others the
      caller gets ``ConnectionLost`` with ``sent=True``, and looks before it decides;
  R2  401, 429, and 503 with ``Retry-After`` say that the request was not carried out. After 401
      the credentials are read again, and the request is repeated once. After 429 and 503 it is
      repeated when ``Retry-After`` is over, as long as the timeout of the call allows it;
  R3  the timeout of a call is that of all its repetitions together;
  R4  new certificates need new connections. Requests that are under way end on the old ones.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Final, Literal, TypeAlias, final

from gangsched.errors import InvalidValueError
from gangsched.kubernetes._api import (
    DEFAULT_LANE,
    JSON,
    Api,
    ConnectionLost,
    Response,
    WatchRefused,
)
from gangsched.kubernetes._configuration import (
    Access,
    ConfigurationError,
    Credentials,
    read_access,
)
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._counted import CountedTransport, Seen, close_stream
from gangsched.kubernetes._transport import DEFAULT_LANES, NO_GATHER, Transport, proxy_of

__all__ = ["Client", "TransportName", "connect", "connect_client"]

TransportName: TypeAlias = Literal["auto", "aiohttp", "httptools"]

_Maker: TypeAlias = Callable[[Access, Mapping[str, int], Mapping[str, float]], Transport]
"""Makes a transport to an access: its lanes, and what they gather."""

_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_LEAST_PAUSE: Final = 0.05
_MOST_PAUSE: Final = 5.0
_DEFAULT_RETRY_AFTER: Final = 1.0
_LINGER: Final = 60.0
"""Seconds after which connections with old certificates are closed."""


@final
class Client:
    """An ``Api`` over a transport.

    Args:
        credentials: The credentials, loaded.
        transport: Makes a transport for an access. It is called again when certificates change.
        random: Numbers from 0 to 1, for the jitter of repetitions.
        linger: The seconds for which requests under way may use connections with old certificates.
        on_problem: Called with the error of certificates that cannot be used.
        contact: Told of requests without an answer, before they are repeated.
    """

    def __init__(
        self,
        credentials: Credentials,
        transport: Callable[[Access], Transport],
        *,
        random: Callable[[], float] = random.random,
        linger: float = _LINGER,
        on_problem: Callable[[Exception], None] = lambda _error: None,
        contact: Contact | None = None,
    ) -> None:
        self._contact = contact
        self._credentials = credentials
        self._make = transport
        self._random = random
        self._linger = linger
        self._on_problem = on_problem
        self._access = credentials.access
        self._unusable: Access | None = None
        self._transport = transport(self._access)
        self._headers: dict[str, dict[str, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def keep_current(self, *, interval: float = 10.0) -> None:
        """Start the task that reads credentials again when they change or expire. Call it once.

        Args:
            interval: Seconds between two looks. The task ends with ``aclose``.
        """
        self._start(self._credentials.keep_current(interval=interval))

    @property
    def namespace(self) -> str:
        """The namespace of the context, or of the ServiceAccount; ``default`` if it names none."""
        return self._access.namespace

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = 30.0,
        lane: str = DEFAULT_LANE,
    ) -> Response:
        until = time.monotonic() + timeout
        pause, authorized = _LEAST_PAUSE, False
        first: ConnectionLost | None = None
        while True:
            access = self._current()
            try:
                response = await self._transport.exchange(
                    method,
                    path,
                    self._headers_of(content_type if body is not None else ""),
                    body,
                    timeout=max(until - time.monotonic(), 0.001),
                    lane=lane,
                )
            except ConnectionLost as error:
                if self._contact is not None:
                    self._contact.lost(error)
                left = until - time.monotonic()
                delay = pause * (0.5 + self._random())
                # The first problem says more than the last, for which no time was left. But that
                # a request may have been carried out must not be forgotten.
                if first is None or (error.sent and not first.sent):
                    first = error
                if (error.sent and method != "GET") or left <= delay:
                    if first is error:
                        raise
                    raise first from error
                pause = min(2 * pause, _MOST_PAUSE)
                await asyncio.sleep(delay)
                continue
            if self._contact is not None and self._contact.problem:
                self._contact.answered()
            status = response.status
            if status == _UNAUTHORIZED and not authorized:
                authorized = True
                if await self._credentials.refresh(access):
                    continue
            elif status == _TOO_MANY or (status == _UNAVAILABLE and _says_when(response)):
                after = response.retry_after
                # a little later than asked, and not all at once
                delay = _DEFAULT_RETRY_AFTER if after is None else after
                delay += self._random() * max(delay, 0.1) * 0.1
                if time.monotonic() + delay < until:
                    await asyncio.sleep(delay)
                    continue
            return response

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        access = self._current()
        stream = self._transport.stream(path, self._headers_of(""), timeout=timeout)
        try:
            async for lines in stream:
                if lines:
                    yield lines
            return
        except WatchRefused as error:
            refused = error.response.status == _UNAUTHORIZED
            if not refused or not await self._credentials.refresh(access):
                raise
        finally:
            await close_stream(stream)
        self._current()
        stream = self._transport.stream(path, self._headers_of(""), timeout=timeout)
        try:
            async for lines in stream:
                if lines:
                    yield lines
        finally:
            await close_stream(stream)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._transport.aclose()

    def _current(self) -> Access:
        """Return the current access; make connections for it if it needs new ones."""
        access = self._credentials.access
        if access is not self._access and access is not self._unusable:
            if access.connection != self._access.connection:
                try:
                    transport = self._make(access)
                except ConfigurationError as error:
                    # A certificate whose key has not been written yet: both are read again when
                    # the key is. Until then the old ones may do.
                    self._unusable = access
                    self._on_problem(error)
                    return access
                old, self._transport = self._transport, transport
                self._start(self._close_later(old))
            self._access = access
            self._headers.clear()
        return access

    async def _close_later(self, old: Transport) -> None:
        try:
            await asyncio.sleep(self._linger)
        finally:
            await old.aclose()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _headers_of(self, content_type: str) -> Mapping[str, str]:
        headers = self._headers.get(content_type)
        if headers is None:
            headers = {
                "Accept": JSON,
                # The API server would compress lists, and it is what everything waits for.
                "Accept-Encoding": "identity",
                "User-Agent": "gangsched",
            }
            if self._access.authorization:
                headers["Authorization"] = self._access.authorization
            if content_type:
                headers["Content-Type"] = content_type
            self._headers[content_type] = headers
        return headers


def _says_when(response: Response) -> bool:
    return response.retry_after is not None


async def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    transport: TransportName = "auto",
    lanes: Mapping[str, int] = DEFAULT_LANES,
    on_problem: Callable[[Exception], None] = lambda _error: None,
    credentials: Credentials | None = None,
    seen: Seen | None = None,
    gather: Mapping[str, float] = NO_GATHER,
    contact: Contact | None = None,
) -> Api:
    """Return one API server; see ``connect_client``."""
    return await connect_client(
        kubeconfig=kubeconfig,
        context=context,
        transport=transport,
        lanes=lanes,
        on_problem=on_problem,
        credentials=credentials,
        seen=seen,
        gather=gather,
        contact=contact,
    )


async def connect_client(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    transport: TransportName = "auto",
    lanes: Mapping[str, int] = DEFAULT_LANES,
    on_problem: Callable[[Exception], None] = lambda _error: None,
    credentials: Credentials | None = None,
    seen: Seen | None = None,
    gather: Mapping[str, float] = NO_GATHER,
    contact: Contact | None = None,
) -> Client:
    """Return one API server, with credentials that are kept current until it is closed.

    Args:
        kubeconfig: The kubeconfig file. None for the ServiceAccount if this process runs in a pod,
            else ``$KUBECONFIG`` or the default file.
        context: The context of the kubeconfig; None for the current one.
        transport: ``"aiohttp"``; ``"httptools"``, which costs a quarter of the CPU time and knows
            no proxies; ``"auto"`` for httptools if the extra ``kubernetes-fast`` is installed and
            no proxy is needed, else aiohttp.
        lanes: The most connections of each lane.
        on_problem: Called with the error of a later reading of the credentials that failed.
        credentials: Those to use, instead of *kubeconfig* and *context*; they may be loading.
        seen: Counts every request, repetitions included.
        gather: By lane, the seconds for which an answer may wait for others, so that they are read
            together; it is for httptools only.
        contact: Told of requests without an answer, before they are repeated.

    Raises:
        ConfigurationError: The configuration is absent or malformed.
        InvalidValueError: *transport* is unknown.
        ModuleNotFoundError: The extra ``kubernetes`` is not installed.
    """
    if credentials is None:
        credentials = Credentials(
            lambda: read_access(kubeconfig=kubeconfig, context=context), on_problem=on_problem
        )
    credentials.begin()
    await asyncio.sleep(0)
    try:
        # imported while the other process reads
        made = _transport(transport)
    except BaseException:
        credentials.cancel()
        raise
    await credentials.load()

    def transport_to(access: Access) -> Transport:
        found = made(access, lanes, gather)
        return found if seen is None else CountedTransport(found, seen)

    client = Client(credentials, transport_to, on_problem=on_problem, contact=contact)
    client.keep_current()
    return client


def _transport(name: str) -> _Maker:
    if name not in ("auto", "aiohttp", "httptools"):
        raise InvalidValueError("transport", name, "'auto', 'aiohttp' or 'httptools'")
    if name == "auto":
        try:
            fast = _transport("httptools")
        except ModuleNotFoundError:
            return _transport("aiohttp")
        # imported only if there is a proxy: it costs a quarter of a second and 25 MB
        return lambda access, lanes, gather: (_transport("aiohttp") if proxy_of(access) else fast)(
            access, lanes, gather
        )
    if name == "aiohttp":
        from gangsched.kubernetes._transport_aiohttp import AiohttpTransport

        return lambda access, lanes, _gather: AiohttpTransport(access, lanes=lanes)
    from gangsched.kubernetes._transport_httptools import HttptoolsTransport

    return lambda access, lanes, gather: HttptoolsTransport(access, lanes=lanes, gather=gather)
