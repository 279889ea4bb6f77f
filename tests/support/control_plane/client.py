"""A plain client of an API server, for tests: JSON in, JSON out, and an error for what fails.

It uses the standard library only, so that what tests see does not depend on the client under test.
Each thread has a connection of its own; a client may be shared by threads.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final
from urllib.parse import quote, urlencode, urlsplit

from support.patience import HANG, saw

__all__ = ["ApiError", "Client"]

Object = dict[str, Any]

# how a connection that the server ended while it was idle fails
_ENDED: Final = (http.client.RemoteDisconnected, BrokenPipeError, ssl.SSLEOFError)
# etcd on a busy machine: nobody knows whether the request was carried out
_UNDECIDED: Final = b"etcdserver: request timed out"
_TRIES: Final = 10
_PATCH_TYPES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        status: The HTTP status.
        reason: The reason of the ``Status`` object, such as ``AlreadyExists``; may be empty.
    """

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        self.status: Final = status
        answer: Object = {}
        with suppress(ValueError):
            answer = json.loads(body)
        self.reason: Final[str] = answer.get("reason", "")
        message = answer.get("message") or body[:300].decode(errors="replace")
        super().__init__(f"{method} {path}: {status} {self.reason}: {message}")


class Client:
    """A client of the API server at *url*.

    Args:
        url: ``https://127.0.0.1:6443`` or, for a proxy, ``http://127.0.0.1:8080``.
        token: The bearer token; empty for none.
        ca: The file with the certificates that are trusted; None for none that is checked.
        timeout: How long one request may take, in seconds.
    """

    def __init__(
        self, url: str, token: str = "", ca: Path | None = None, *, timeout: float = HANG
    ) -> None:
        parts = urlsplit(url)
        self.url: Final = url
        self.token: Final = token
        self.ca: Final = ca
        self._address: Final = (parts.hostname or "127.0.0.1", parts.port)
        self._timeout: Final = timeout
        self._local: Final = threading.local()
        self._all: Final[list[http.client.HTTPConnection]] = []
        self._context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._context = ssl.create_default_context(cafile=str(ca) if ca else None)
            # the certificate that kube-apiserver makes for itself lacks what Python 3.13 demands
            self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if ca is None:
                self._context.check_hostname = False
                self._context.verify_mode = ssl.CERT_NONE

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of all threads; a later request opens a new one."""
        for connection in self._all:
            connection.close()

    def get(self, path: str, **query: object) -> Object:
        """Return an object, or a list of objects."""
        return self.call("GET", with_query(path, query))

    def items(self, path: str, **query: object) -> list[Object]:
        """Return the objects of a list."""
        items: list[Object] = self.get(path, **query)["items"]
        return items

    def create(self, path: str, body: Mapping[str, Any], **query: object) -> Object:
        """Post an object, and return it as it was stored."""
        return self.call("POST", with_query(path, query), body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Object:
        """Put an object, and return it as it was stored."""
        return self.call("PUT", path, body)

    def patch(self, path: str, body: object, kind: str = "merge", **query: object) -> Object:
        """Patch an object; *kind* is ``merge``, ``strategic``, ``json`` or ``apply``."""
        return self.call("PATCH", with_query(path, query), body, _PATCH_TYPES[kind])

    def delete(self, path: str, body: Mapping[str, Any] | None = None, **query: object) -> Object:
        """Delete an object, or with the path of a list, all of its objects."""
        return self.call("DELETE", with_query(path, query), body)

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Object:
        """Return the decoded answer to one request.

        A request that cannot be sent on a connection which the server closed meanwhile is sent
        again on a new one. It is not, if an answer was lost. It is also repeated while etcd takes
        too long.

        Raises:
            ApiError: The status is 400 or more.
            OSError: There is no connection, or it was lost.
        """
        status, answer = self.raw(method, path, body, content_type)
        for _try in range(_TRIES):
            if status != 500 or _UNDECIDED not in answer:
                break
            status, answer = self.raw(method, path, body, content_type)
            if (method, status) == ("DELETE", 404):
                return {}  # an earlier one was carried out
            if (method, status) == ("POST", 409):
                return self._posted(path, body)
        if status >= 400:
            raise ApiError(method, path, status, answer)
        decoded: Object = json.loads(answer) if answer[:1] in (b"{", b"[") else {}
        return decoded

    def _posted(self, path: str, body: object) -> Object:
        """Return what a request has made whose answer said that nobody knows."""
        path = path.partition("?")[0]
        if path.endswith(("/binding", "/eviction")) or not isinstance(body, Mapping):
            return {}
        return self.get(f"{path}/{body['metadata']['name']}")

    def raw(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return the status and the body of the answer to one request, whatever the status."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers() | {"Content-Type": content_type}
        for is_last in (False, True):
            connection, is_new = self._connection()
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                content = answer.read()
                saw(partial(_described, f"{method} {path}: {answer.status}", content))
                return answer.status, content
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                was_idle = isinstance(error, _ENDED)
                if is_new or is_last or not was_idle:
                    if isinstance(error, OSError):
                        raise
                    raise ConnectionError(f"{method} {path}: {error!r}") from error
        raise AssertionError("unreachable")

    def watch(self, path: str, *, timeout: float = 300.0, **query: object) -> Iterator[Object]:
        """Yield the events of a watch, until the server ends it or *timeout* seconds are silent.

        The watch has a connection of its own, which is closed with the generator.
        """
        return map(json.loads, self.lines(path, timeout=timeout, **query))

    def lines(self, path: str, *, timeout: float = 300.0, **query: object) -> Iterator[bytes]:
        """Yield the events of a watch as they came; see ``watch``."""
        connection = self._open(timeout)
        with closing(connection):
            path = with_query(path, {"watch": "true", **query})
            connection.request("GET", path, headers=self._headers())
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError("WATCH", path, answer.status, answer.read())
            try:
                while line := answer.readline():
                    yield line
            except http.client.HTTPException as error:  # the server ended within an event
                raise ConnectionError(f"WATCH {path}: {error!r}") from error

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            self._local.connection = connection = self._open(self._timeout)
            self._all.append(connection)
        return connection, connection.sock is None

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._address
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return _TlsConnection(host, port, self._context, timeout)


@final
class _TlsConnection(http.client.HTTPSConnection):
    """Has its socket from before it connects, so that it can close one of which that fails.

    ``ssl`` leaves a connected socket open that the server resets before the handshake, and nothing
    refers to it.
    """

    def __init__(
        self, host: str, port: int | None, context: ssl.SSLContext, timeout: float
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls: Final = context

    def connect(self) -> None:
        plain = socket.socket()
        plain.settimeout(self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        self.sock.connect((self.host, self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _described(head: str, content: bytes) -> str:
    """Return an answer as text, without what says who has written which field."""

    def without(decoded: Object) -> Object:
        decoded.pop("managedFields", None)
        return decoded

    try:
        return f"{head} {json.dumps(json.loads(content, object_hook=without))}"
    except ValueError:
        return f"{head} {content.decode(errors='replace')}"


def with_query(path: str, query: Mapping[str, object]) -> str:
    """Return *path* with a query; values that are None are left out."""
    given = {key: value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path
