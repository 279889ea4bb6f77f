"""Objects of another project on the API server: listed, read before anything is placed, followed.

Rules:
  R1  an API that is not served has no objects. One that may not be listed, or an object that is
      malformed, is an error: at the start nothing is placed, later what is known stays;
  R2  they are looked at again and again instead of being watched: they change rarely, and the right
      to list them is enough.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar, cast, final

from gangsched.errors import GangschedError, ManifestError
from gangsched.kubernetes._api import Api, ConnectionLost, Response
from gangsched.kubernetes._discovery import DiscoveryFailed
from gangsched.kubernetes._events import UnexpectedAnswer, read_status
from gangsched.kubernetes._looking import keep_looking
from gangsched.kubernetes._read import mapping_in, read_document, text_in
from gangsched.manifests import Field, Source
from gangsched.manifests.peer_levels import PeerApi

__all__ = ["PeerObjects", "cause", "list_at", "list_objects"]

T = TypeVar("T")

_NOT_FOUND: Final = 404
_UNREAD: Final = (ConnectionLost, DiscoveryFailed, UnexpectedAnswer, ManifestError)
"""What reading may raise."""

_log = logging.getLogger("gangsched.kubernetes")


@final
class PeerObjects(Generic[T]):
    """What objects of another project state, such as its quotas.

    Args:
        what: What they state, for sentences.
        peer: The project.
        read: Reads them, and raises one of the errors of ``list_objects`` or ``ManifestError``.
        again: The seconds between two tries at the start.
        interval: The seconds between two looks later.

    Attributes:
        problem: Why they are not read yet; empty if they are, or if nobody has tried.
    """

    def __init__(
        self,
        what: str,
        peer: str,
        read: Callable[[], Awaitable[T]],
        *,
        again: float,
        interval: float,
    ) -> None:
        self._unread: Final = f"the {what} of {peer} are not read"
        self._read: Final = read
        self._again: Final = again
        self._interval: Final = interval
        self.problem: str = ""

    async def first(self) -> T:
        """Return what they state, once they can be read."""
        while True:
            try:
                found = await self._read()
            except _UNREAD as error:
                problem = f"{self._unread}{cause(error)}"
                if problem != self.problem:
                    _log.warning("%s: %s", self._unread, error)
                self.problem = problem
                await asyncio.sleep(self._again)
            else:
                self.problem = ""
                return found

    async def follow(self, known: T, changed: Callable[[T], object]) -> None:
        """Call *changed* with what they state whenever that is other than before, for ever."""

        async def tell(now: T) -> None:
            changed(now)

        def not_read(error: GangschedError) -> None:
            _log.warning("%s: %s", self._unread, error)

        await keep_looking(
            *(self._read, known, tell),
            errors=_UNREAD,
            interval=self._interval,
            on_problem=not_read,
        )


def cause(trouble: GangschedError | None) -> str:
    """Return why something is not read, after a colon; without the path of a lost connection."""
    if trouble is None:
        return ""
    if isinstance(trouble, ConnectionLost):
        return f": no answer: {trouble.problem}"
    return f": {trouble}"


async def list_objects(api: Api, at: PeerApi) -> list[Field]:
    """Return the objects of an API, in the first version that serves them.

    Raises:
        ConnectionLost: There is no answer.
        DiscoveryFailed: An answer is neither a success nor 404.
        UnexpectedAnswer: An answer is not of the expected form.
    """
    served = await _get_or_none(api, f"/apis/{at.group}")
    for version in () if served is None else _list_in(served, "an APIGroup", "versions"):
        path = f"/apis/{at.group}/{text_in(mapping_in(version), 'version')}/{at.plural}"
        found = await list_at(api, path, at)
        if found is not None:
            return found
    return []


async def list_at(api: Api, path: str, at: PeerApi) -> list[Field] | None:
    """Return the objects at a path; None if it is not served. It raises as ``list_objects``."""
    listed = await _get_or_none(api, path)
    if listed is None:
        return None
    found: list[Field] = []
    for each in _list_in(listed, f"a {at.kind}List", "items"):
        # an item of a list has no kind of its own, and another place when others come or go
        root = {**mapping_in(each), "kind": at.kind}
        name = text_in(mapping_in(root, "metadata"), "name")
        source = Source(f"{path.partition('?')[0]}/{name}", 1)
        found.append(Field(source, "", cast("Any", root)))
    return found


def _list_in(response: Response, what: str, name: str) -> list[object]:
    found: object = read_document(response.body, what).get(name) or []
    if not isinstance(found, list):
        raise UnexpectedAnswer(what, "", f"its {name} are no list")
    return cast("list[object]", found)


async def _get_or_none(api: Api, path: str) -> Response | None:
    response = await api.request("GET", path)
    if response.status == _NOT_FOUND:
        return None
    if not response.is_success:
        raise DiscoveryFailed(path, response.status, read_status(response.body).message)
    return response
