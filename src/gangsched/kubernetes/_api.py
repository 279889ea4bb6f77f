"""The port to one API server: a request, a watch, and what can go wrong with them.

Rules:
  R1  an answer is returned, whatever its status. An exception says that there is no answer;
  R2  ``ConnectionLost.sent`` is False only if the request certainly was not sent. Otherwise the
      API server may have carried it out, so a write must not simply be repeated: look first;
  R3  a lane is a pool of connections of its own, so that what waits in one lane (events) never
      delays another (binds). A watch has a connection of its own.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol, final

from gangsched.errors import GangschedError
from gangsched.kubernetes._extra import missing

try:
    from msgspec import Struct, field
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = [
    "DEFAULT_LANE",
    "JSON",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Api",
    "ConnectionLost",
    "Response",
    "WatchRefused",
]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
DEFAULT_LANE: Final = "default"


@final
class Response(Struct, frozen=True, gc=False):
    """The answer of the API server to one request.

    Attributes:
        status: The HTTP status.
        headers: The headers, with keys in lower case.
        body: The body, as bytes.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def is_success(self) -> bool:
        """Whether the API server carried the request out."""
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """``Retry-After`` in seconds; None if the header is absent or malformed.

        The header is a number of seconds or a date. A date is compared with the header ``Date`` of
        the same answer, because the clock of this machine may differ from the API server's.
        """
        text = self.headers.get("retry-after", "").strip()
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            until, at = _date(text), _date(self.headers.get("date", ""))
            return None if until is None or at is None else max(0.0, (until - at).total_seconds())
        return max(0.0, seconds) if math.isfinite(seconds) else None


def _date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    return when if when.tzinfo is not None else None


class ConnectionLost(GangschedError):
    """There is no answer to a request: no connection, a lost one, or a timeout.

    Attributes:
        method: The method of the request.
        path: The path of the request.
        problem: What happened.
        sent: Whether the request may have been sent. If it may, the API server may have carried it
            out, and the caller must look before it repeats a write.
    """

    def __init__(self, method: str, path: str, problem: str, *, sent: bool) -> None:
        super().__init__(method, path, problem)
        self.method = method
        self.path = path
        self.problem = problem
        self.sent = sent

    def __str__(self) -> str:
        said = f"{self.method} {self.path}: no answer: {self.problem}"
        if not self.sent:
            return f"{said}; it was not sent"
        # a GET changes nothing, so it does not matter whether it was carried out
        return said if self.method == "GET" else f"{said}; it may have been carried out"


@final
class WatchRefused(GangschedError):
    """A watch was answered with a status other than 200.

    Attributes:
        path: The path of the watch.
        response: The answer.
    """

    def __init__(self, path: str, response: Response) -> None:
        super().__init__(path, response)
        self.path = path
        self.response = response

    def __str__(self) -> str:
        body = self.response.body[:200].decode("utf-8", "replace")
        return f"watch {self.path}: refused with status {self.response.status}: {body}"


class Api(Protocol):
    """One API server.

    Implementations repeat what is safe to repeat. A request that was not sent and a GET are
    repeated when there is no answer. A request that was answered 401 is repeated once, with new
    credentials. A request answered 429, or 503 with ``Retry-After``, is repeated after that time if
    *timeout* allows.
    """

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
        """Return the answer to one request.

        Args:
            method: ``GET``, ``POST``, ``PUT``, ``PATCH`` or ``DELETE``.
            path: The path with its query.
            body: The body; None for none.
            content_type: The type of the body.
            timeout: The seconds after which the answer is given up, all repetitions included.
            lane: The pool of connections.

        Raises:
            ConnectionLost: There is no answer.
        """
        ...

    def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        """Yield the lines of a watch, without their line ends, until the API server ends it.

        Lines that arrived together come together, so that a burst is handled as one batch.

        Args:
            path: The path with its query, which asks for a watch.
            timeout: The seconds without a line after which the watch is given up.

        Raises:
            WatchRefused: The status is not 200.
            ConnectionLost: The connection was lost, or no line came for *timeout* seconds.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
