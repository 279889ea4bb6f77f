"""The envelope of objects: events of a watch, pages of a list, metadata, and ``Status``.

Rules:
  R1  an object itself stays bytes here; the decoder of its kind reads it;
  R2  an answer that is not of the expected form is an error that shows its beginning.
"""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

from gangsched.errors import GangschedError
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._known import Identity

try:
    import msgspec
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = [
    "Page",
    "Status",
    "UnexpectedAnswer",
    "WatchEvent",
    "identity_of",
    "read_bookmark",
    "read_event_line",
    "read_page",
    "read_status",
]

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@final
class UnexpectedAnswer(GangschedError):
    """An answer of the API server is not of the expected form.

    Attributes:
        what: What was expected.
        got: The beginning of the answer.
        problem: What is wrong with it.
    """

    def __init__(self, what: str, got: str, problem: str) -> None:
        super().__init__(what, got, problem)
        self.what = what
        self.got = got
        self.problem = problem

    def __str__(self) -> str:
        return f"expected {self.what}, got {self.got!r}: {self.problem}"


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta


class _MarkMeta(msgspec.Struct, gc=False):
    resourceVersion: str = ""  # noqa: N815
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct, gc=False):
    metadata: _MarkMeta


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    reason: str = ""
    message: str = ""


class _PageMeta(msgspec.Struct, gc=False, rename={"continue_": "continue"}):
    resourceVersion: str = ""  # noqa: N815
    continue_: str = ""


class _Page(msgspec.Struct, gc=False):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


@final
class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a watch.

    Attributes:
        kind: ``ADDED``, ``MODIFIED``, ``DELETED``, ``BOOKMARK`` or ``ERROR``.
        object: The object, as JSON.
    """

    kind: str
    object: bytes | memoryview


@final
@frozen
class Page:
    """One page of a list.

    Attributes:
        items: The objects, as JSON. Objects of a list have no ``kind`` of their own.
        resource_version: The version of the list.
        next_page: What continues the list; empty for nothing.
    """

    items: tuple[bytes | memoryview, ...]
    resource_version: str
    next_page: str


@final
@frozen
class Status:
    """The ``Status`` with which the API server reports an error.

    Attributes:
        code: The HTTP status; 0 if it is absent.
        reason: The reason, such as ``Expired``.
        message: The message.
    """

    code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def is_expired(self) -> bool:
        """Whether a listing is needed, because the version that was asked for is gone."""
        return self.code == 410 or self.reason in ("Expired", "Gone")


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_mark = msgspec.json.Decoder(_Mark).decode
_decode_status = msgspec.json.Decoder(_Status).decode
_decode_page = msgspec.json.Decoder(_Page).decode

_HEADS: Final = tuple(
    (f'{{"type":"{kind}","object":'.encode(), kind) for kind in ("MODIFIED", "ADDED", "DELETED")
)


def read_event_line(line: bytes) -> WatchEvent:
    """Return the event of one line of a watch.

    The API server writes an envelope that always looks the same, so its object is cut out without
    a pass over its bytes; anything else is decoded.

    Raises:
        UnexpectedAnswer: The line is not an event.
    """
    if line.endswith(b"}}"):
        for head, kind in _HEADS:
            if line.startswith(head):
                return WatchEvent(kind, memoryview(line)[len(head) : -1])
    try:
        event = _decode_event(line)
    except msgspec.DecodeError as error:
        raise _unexpected("an event of a watch", line, error) from error
    return WatchEvent(event.type, memoryview(event.object))


def identity_of(raw: bytes | memoryview) -> Identity:
    """Return the identity of an object.

    Raises:
        UnexpectedAnswer: It has no metadata with a name.
    """
    try:
        meta = _decode_object(raw).metadata
    except msgspec.DecodeError as error:
        raise _unexpected("an object", raw, error) from error
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return Identity(key, meta.uid, meta.resourceVersion)


def read_bookmark(raw: bytes | memoryview) -> tuple[str, bool]:
    """Return the version of a bookmark, and whether it ends the initial events.

    Raises:
        UnexpectedAnswer: It is not a bookmark.
    """
    try:
        meta = _decode_mark(raw).metadata
    except msgspec.DecodeError as error:
        raise _unexpected("a bookmark", raw, error) from error
    return meta.resourceVersion, (meta.annotations or {}).get(_INITIAL_EVENTS_END) == "true"


def read_status(raw: bytes | memoryview) -> Status:
    """Return a ``Status``; an empty one if *raw* is something else."""
    try:
        status = _decode_status(raw)
    except msgspec.DecodeError:
        return Status(message=bytes(raw[:200]).decode("utf-8", "replace"))
    return Status(status.code, status.reason, status.message)


def read_page(body: bytes) -> Page:
    """Return one page of a list.

    Raises:
        UnexpectedAnswer: *body* is not a list.
    """
    try:
        page = _decode_page(body)
    except msgspec.DecodeError as error:
        raise _unexpected("a list", body, error) from error
    items = tuple(memoryview(item) for item in page.items or ())
    return Page(items, page.metadata.resourceVersion, page.metadata.continue_)


def _unexpected(what: str, got: bytes | memoryview, error: Exception) -> UnexpectedAnswer:
    return UnexpectedAnswer(what, bytes(got[:200]).decode("utf-8", "replace"), str(error))
