"""Who asks, and what they may read: the API server's TokenReview and SubjectAccessReview.

As kube-scheduler delegates both to the API server, so that RBAC alone says who may read what. It
needs the rights of the ClusterRole ``system:auth-delegator``.

Rules:
  R1  an answer of the API server is kept for 10 s, as kube-scheduler keeps it: a right that was
      taken away ends then. At most 1,024 answers of each kind are kept;
  R2  strangers must not make this process flood the API server. At most two reviews are under way
      and 16 wait; each further one is refused at once;
  R3  a token is neither logged nor kept: its digest is;
  R4  a token for the audience ``gangsched`` is good for this process and nothing else. ``kubectl
      gang`` sends such tokens, since whatever answers in the place of a scheduler could use others.
      Tokens for the API server are accepted too, as those that Prometheus has. What a token says
      about itself only chooses the question that the API server is asked;
  R5  if there is no answer, nothing is allowed, but for metrics: what was allowed within the last
      ten minutes still is. They name almost nothing, and an operator needs them when the API server
      fails, or "no replica runs" would be told then.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, cast, final

from attrs import field, frozen

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import Api, ConnectionLost

__all__ = [
    "AUDIENCE",
    "EVERYTHING",
    "Asker",
    "NotReviewedError",
    "Reviews",
    "UnknownAskerError",
]

AUDIENCE: Final = "gangsched"
"""The audience of tokens that are good for nothing but questions to this program."""

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_LANE: Final = "reviews"
_SECONDS: Final = 2.0
_KEPT: Final = 10.0
_KEPT_WITHOUT_ANSWER: Final = 600.0
_MOST_KEPT: Final = 1024
_AT_ONCE: Final = 2
_MOST_WAITING: Final = 16

_Value = TypeVar("_Value")

_log = logging.getLogger("gangsched.kubernetes.reviews")


@final
class UnknownAskerError(GangschedError):
    """A request has no token, or one that the API server does not know."""


@final
class NotReviewedError(GangschedError):
    """The API server did not say what a request may do."""


class Asker(Protocol):
    """What has sent a request."""

    @property
    def name(self) -> str:
        """The user name."""
        ...

    async def may_get(self, path: str) -> bool:
        """Return whether it may get a path that is no resource.

        Raises:
            NotReviewedError: It is not known.
        """
        ...

    async def may_list_pods(self, namespace: str) -> bool:
        """Return whether it may list the pods of a namespace; of all, if the name is empty.

        Raises:
            NotReviewedError: It is not known.
        """
        ...


@final
class _Everything:
    """What has reached an address that needs no review."""

    name = ""

    async def may_get(self, path: str) -> bool:
        return True

    async def may_list_pods(self, namespace: str) -> bool:
        return True


EVERYTHING: Final[Asker] = _Everything()
"""May read everything."""


@final
@frozen
class _User:
    """A user whom the API server knows.

    Attributes:
        reviews: Asks the API server.
        name: The user name.
        spec: The user, as a SubjectAccessReview names it.
        key: The user, as a text.
    """

    reviews: Reviews = field(repr=False)
    name: str
    spec: Mapping[str, Any]
    key: str

    async def may_get(self, path: str) -> bool:
        asked = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        return await self.reviews.allows(self, f"get {path}", asked, may_be_old=True)

    async def may_list_pods(self, namespace: str) -> bool:
        asked = {"verb": "list", "group": "", "version": "v1", "resource": "pods"}
        asked["namespace"] = namespace
        return await self.reviews.allows(self, f"pods {namespace}", {"resourceAttributes": asked})


@final
class _Kept(Generic[_Value]):
    """Answers that are kept for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, tuple[float, _Value]] = OrderedDict()

    def get(self, key: str, most: float = _KEPT) -> _Value | None:
        """Return an answer; None if there is none that is younger than *most* seconds."""
        at, found = self._answers.get(key, (-math.inf, None))
        return found if self._clock() - at < most else None

    def put(self, key: str, value: _Value) -> None:
        """Keep an answer, in the place of the one that was kept first if there are too many."""
        self._answers.pop(key, None)
        self._answers[key] = (self._clock(), value)
        if len(self._answers) > _MOST_KEPT:
            self._answers.popitem(last=False)


@final
class Reviews:
    """Asks the API server who has sent a token, and what that user may do.

    Args:
        api: Returns the API server; None before there is a connection.
        clock: Seconds that never go back.
    """

    def __init__(
        self, api: Callable[[], Api | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._users: _Kept[_User | str] = _Kept(clock)
        self._allowed: _Kept[bool] = _Kept(clock)
        self._told: set[str] = set()

    async def asker(self, token: str) -> Asker:
        """Return who has sent a token.

        Raises:
            UnknownAskerError: The token is empty, or the API server does not know it.
            NotReviewedError: The API server did not say it.
        """
        if not token:
            raise UnknownAskerError("a token is needed, as the header Authorization: Bearer TOKEN")
        key = hashlib.sha256(token.encode()).hexdigest()
        spec: dict[str, Any] = {"token": token}
        if AUDIENCE in _audiences(token):
            spec["audiences"] = [AUDIENCE]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        # an old answer gives no right: what the user may do is reviewed, too
        most = _KEPT_WITHOUT_ANSWER
        found = await self._reviewed(self._users, key, _TOKENS, body, self._user, most)
        if isinstance(found, str):
            raise UnknownAskerError(found)
        return found

    async def allows(
        self, user: _User, what: str, attributes: Mapping[str, Any], *, may_be_old: bool = False
    ) -> bool:
        """Return whether a user may do something; *what* tells it from other things."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**user.spec, **attributes},
        }
        key = f"{user.key} {what}"
        most = _KEPT_WITHOUT_ANSWER if may_be_old else 0.0
        return await self._reviewed(self._allowed, key, _ACCESS, body, _is_allowed, most)

    async def _reviewed(
        self,
        kept: _Kept[_Value],
        key: str,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], _Value],
        most: float,
    ) -> _Value:
        """Return a new answer, or one that is young enough; without an answer, an older one.

        Args:
            kept: The answers.
            key: What is asked, as a text.
            path: The path of the review.
            body: The review.
            read: Reads the status of the answer.
            most: How many seconds old an answer may be if the API server does not answer.
        """
        found = kept.get(key)
        if found is not None:
            return found
        if self._waiting >= _MOST_WAITING + _AT_ONCE:
            old = kept.get(key, most)
            if old is None:
                raise NotReviewedError("too many requests wait for a review")
            return old
        self._waiting += 1
        try:
            async with self._turns:
                found = kept.get(key)  # of another request that asked the same
                if found is None:
                    found = await self._ask_anew(kept, key, path, body, read, most)
                return found
        finally:
            self._waiting -= 1

    async def _ask_anew(
        self,
        kept: _Kept[_Value],
        key: str,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], _Value],
        most: float,
    ) -> _Value:
        try:
            found = read(await self._ask(path, body))
        except NotReviewedError:
            old = kept.get(key, most)
            if old is None:
                raise
            return old
        kept.put(key, found)
        return found

    async def _ask(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the status of a review."""
        api = self._api()
        if api is None:
            raise NotReviewedError("there is no connection to the API server yet")
        try:
            response = await api.request(
                "POST", path, body=json.dumps(body).encode(), timeout=_SECONDS, lane=_LANE
            )
            document: Any = json.loads(response.body)
        except (ConnectionLost, TimeoutError) as lost:
            raise NotReviewedError(f"the API server does not answer: {lost}") from lost
        except ValueError as error:
            raise NotReviewedError(f"the API server did not answer with JSON: {error}") from error
        if response.is_success and isinstance(document, dict):
            status = cast("dict[str, Any]", document).get("status")
            if isinstance(status, dict):
                return cast("dict[str, Any]", status)
        raise NotReviewedError(self._refused(path, response.status))

    def _refused(self, path: str, status: int) -> str:
        """Return that a review was refused; log it once, since no request can be answered."""
        kind = path.rpartition("/")[2]
        problem = f"status {status} of the API server for a request to create {kind}"
        if kind not in self._told:
            self._told.add(kind)
            _log.warning("%s: the scheduler needs this right, see system:auth-delegator", problem)
        return problem

    def _user(self, status: Mapping[str, Any]) -> _User | str:
        given: Any = status.get("user")
        if status.get("authenticated") is not True or not isinstance(given, dict):
            return "the API server does not know this token"
        user = cast("dict[str, Any]", given)
        if not user.get("username"):
            return "the token has no user name"
        spec = {"user": user["username"]}
        for name in ("uid", "groups", "extra"):
            if user.get(name):
                spec[name] = user[name]
        return _User(self, user["username"], spec, json.dumps(spec, sort_keys=True))


def _is_allowed(status: Mapping[str, Any]) -> bool:
    return status.get("allowed") is True and status.get("denied") is not True


def _audiences(token: str) -> tuple[str, ...]:
    """Return the audiences that a token claims, without any check; none if it is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return ()
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
    except (ValueError, RecursionError):
        return ()
    found: object = cast("dict[str, Any]", claims).get("aud") if isinstance(claims, dict) else None
    if isinstance(found, str):
        return (found,)
    if not isinstance(found, list):
        return ()
    return tuple(each for each in cast("list[object]", found) if isinstance(each, str))
