"""Requests that are repeated until their answer is known.

An API server refuses requests for a moment while it is overloaded (429), starts (401, 403, 5xx) or
is cut off. None of these says anything about the object, so none of them is an outcome.

Rules:
  R1  a lost connection, 429, and 5xx are repeated; 401 and 403 too, but for *forbidden_for* seconds
      at most, since they may be true. The first 403 of each kind of request is logged at once;
  R2  the pause is the ``Retry-After`` of the answer. Without it the pauses are 0.1 s, 0.2 s, 0.4 s,
      … at most 5 s. Each is reduced by up to a half at random, so that clients come apart;
  R3  ``send`` is for requests that may be repeated: their effect is the same if they arrive twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast, final

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import Api, ConnectionLost, Response
from gangsched.kubernetes._extra import missing

try:
    import msgspec
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["Pauses", "RequestError", "Requests", "is_gone", "said", "to_json"]

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LONGEST_RETRY_AFTER: Final = 60.0
_REFUSED_FOR_A_MOMENT: Final = frozenset({401, 403})

_FORBIDDEN: Final = 403
_CONFLICT: Final = 409
_INVALID: Final = 422
_TRIES_OF_A_PATCH: Final = 3
_RIGHT: Final = re.compile(r'cannot \S+ resource "[^"]*" in API group "[^"]*"')
"""What an authorizer says that is missing; the rest of the message names one object."""
_OF_ONE: Final = re.compile(r'"[^"]*"')
"""What names one object in other messages: requests of one kind differ in it."""
_MOST_TOLD: Final = 256

_encode: Final = msgspec.json.Encoder().encode

_log = logging.getLogger("gangsched.kubernetes.requests")


class RequestError(GangschedError, OSError):
    """A request to the API server failed for good.

    Attributes:
        method: The HTTP method.
        path: The path of the request.
        status: The HTTP status; 0 if there was no answer in time.
        problem: What the API server said, or why there is no answer.
    """

    def __init__(self, method: str, path: str, status: int, problem: str) -> None:
        super().__init__(method, path, status, problem)
        self.method = method
        self.path = path
        self.status = status
        self.problem = problem

    def __str__(self) -> str:
        status = f"status {self.status}" if self.status else "no answer"
        return f"{self.method} {self.path}: {status}: {self.problem}"


@final
class Requests:
    """Sends requests through an ``Api``, with the pauses of R1 and R2.

    Args:
        api: The API server.
        forbidden_for: For how many seconds 401 and 403 are repeated.
        sleep: Waits for seconds.
        draw: Returns a random number in [0, 1).
    """

    def __init__(
        self,
        api: Api,
        *,
        forbidden_for: float = 30.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.api: Final = api
        self._forbidden_for = forbidden_for
        self._sleep = sleep
        self._draw = draw
        self._told: set[str] = set()

    async def once(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
        lane: str = "default",
    ) -> Response:
        """Send a request once; every status is returned.

        Raises:
            ConnectionLost: There is no answer.
        """
        return await self.api.request(
            method, path, body=body, content_type=content_type, timeout=timeout, lane=lane
        )

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
        lane: str = "default",
        patience: float | None = None,
    ) -> Response:
        """Send a request until its answer is known; return the answer.

        Args:
            method: The HTTP method.
            path: The path, with its query.
            body: The body; None for none.
            content_type: The type of the body.
            timeout: How many seconds one try may take.
            lane: The pool of connections.
            patience: How many seconds of pauses are spent at most; None for no limit. Then the
                last answer is returned.

        Raises:
            RequestError: There was no answer within *patience*.
        """
        pauses: Pauses | None = None
        while True:
            try:
                response = await self.once(
                    method, path, body=body, content_type=content_type, timeout=timeout, lane=lane
                )
            except ConnectionLost as lost:
                pauses = pauses or self.pauses(patience)
                if not await pauses.after_loss(lost):
                    raise RequestError(method, path, 0, str(lost)) from lost
                continue
            if response.is_success:
                return response
            pauses = pauses or self.pauses(patience)
            if not await pauses.after(response):
                return response

    async def patch(
        self, path: str, *, body: bytes, content_type: str, lane: str, patience: float
    ) -> Response:
        """Send a patch as ``send`` does, a few times more if it is answered with 409.

        The object was changed at the same time. A patch that names a UID gets 422 if another object
        has the name, see ``is_gone``.

        Raises:
            RequestError: There was no answer within *patience*.
        """
        tries = 1
        while True:
            response = await self.send(
                "PATCH", path, body=body, content_type=content_type, lane=lane, patience=patience
            )
            if response.status != _CONFLICT or tries == _TRIES_OF_A_PATCH:
                return response
            tries += 1
            await self._sleep(_FIRST_PAUSE)

    def pauses(self, patience: float | None = None) -> Pauses:
        """Return the pauses between the tries of one request."""
        return Pauses(self._sleep, self._draw, patience, self._forbidden_for, self._refused)

    def _refused(self, why: str) -> None:
        """Log that a kind of request is forbidden, once."""
        right = _RIGHT.search(why)
        kind = _OF_ONE.sub("", why) if right is None else right[0]
        if kind not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(kind)
            _log.warning("a request is forbidden: %s", why)


@final
class Pauses:
    """The pauses between the tries of one request; made by ``Requests.pauses``."""

    __slots__ = ("_draw", "_forbidden_for", "_patience", "_refused", "_sleep", "_tries", "spent")

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[object]],
        draw: Callable[[], float],
        patience: float | None,
        forbidden_for: float,
        refused: Callable[[str], object] = lambda _why: None,
    ) -> None:
        self._refused = refused
        self._sleep = sleep
        self._draw = draw
        self._patience = patience
        self._forbidden_for = forbidden_for
        self._tries = 0
        self.spent = 0.0

    async def after(self, response: Response) -> bool:
        """Pause if an answer says nothing about the object; return whether to try again."""
        status = response.status
        if status in _REFUSED_FOR_A_MOMENT:
            if status == _FORBIDDEN:
                self._refused(said(response))
            if self.spent >= self._forbidden_for:
                return False
        elif status != 429 and status < 500:
            return False
        return await self._pause(_asked(response), f"status {status}: {said(response)}")

    async def after_loss(self, lost: ConnectionLost) -> bool:
        """Pause after a lost connection; return whether to try again."""
        return await self._pause(None, str(lost))

    async def _pause(self, asked: float | None, why: str) -> bool:
        if self._patience is not None and self.spent >= self._patience:
            return False
        self._tries += 1
        if asked is None:
            longest = min(_FIRST_PAUSE * 2.0 ** min(self._tries - 1, 20), _LONGEST_PAUSE)
            asked = longest * (1.0 - self._draw() / 2)
        if self._tries >= 5:
            _log.warning("request repeated for the %dth time: %s", self._tries, why)
        self.spent += asked
        await self._sleep(asked)
        return True


def is_gone(response: Response) -> bool:
    """Return whether the object of the UID that a patch names is gone, as its answer says.

    404; 409 after all tries; 422, because no UID changes, if another object has its name.
    """
    if response.status == _INVALID:
        return "metadata.uid" in said(response)
    return response.status in (404, _CONFLICT)


def to_json(value: object) -> bytes:
    """Return plain data as the body of a request."""
    return _encode(value)


def said(response: Response) -> str:
    """Return the message in the ``Status`` of an answer; the body's beginning if there is none."""
    try:
        status: Any = json.loads(response.body)
    except ValueError:
        status = None
    if isinstance(status, dict):
        message = cast("dict[str, object]", status).get("message")
        if isinstance(message, str) and message:
            return message
    return response.body[:200].decode(errors="replace") or "no message"


def _asked(response: Response) -> float | None:
    """Return the seconds of ``Retry-After``; None if it is absent."""
    seconds = response.retry_after
    return None if seconds is None else min(seconds, _LONGEST_RETRY_AFTER)
