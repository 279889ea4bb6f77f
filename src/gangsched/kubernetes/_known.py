"""What is known of the objects of one resource: marks and sweeps, duplicates and late events.

Rules:
  R1  pure; an object is identified by its key and its UID: a recreated object is another one;
  R2  a listing is the truth. What it shows replaces what was known, and what it does not show is
      gone, even if its resourceVersion is smaller: a restored etcd goes back in time;
  R3  between listings, an event of an object that is not newer than what is known of it is
      ignored. Versions are compared within one resource only, and as numbers. If one is not a
      number, a different version counts as newer.

Why deletions are remembered: an event that arrives twice or late must not bring back an object
that was deleted after it. The memory is bounded, and is emptied by a listing.
"""

from __future__ import annotations

import enum
from typing import Final, final

from gangsched.kubernetes._extra import missing

try:
    from msgspec import Struct
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["Identity", "Known", "Sight"]

_MOST_GONE: Final = 4096


@final
class Identity(Struct, frozen=True, gc=False):
    """Which object, and which version of it.

    Attributes:
        key: ``namespace/name``; the name alone if the kind has no namespaces.
        uid: Its UID.
        resource_version: The version, as the API server gave it.
    """

    key: str
    uid: str
    resource_version: str


class Sight(enum.Enum):
    """What an object that is seen is, compared with what is known."""

    NEW = enum.auto()
    CHANGED = enum.auto()
    REPLACED = enum.auto()
    STALE = enum.auto()


@final
class Known:
    """The objects of one resource that are known, by key."""

    __slots__ = ("_gone", "_objects", "_unseen")

    def __init__(self) -> None:
        self._objects: dict[str, Identity] = {}
        self._unseen: set[str] | None = None
        self._gone: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def is_listing(self) -> bool:
        """Whether a listing has begun and not ended."""
        return self._unseen is not None

    def get(self, key: str) -> Identity | None:
        """Return what is known under *key*."""
        return self._objects.get(key)

    def begin(self) -> None:
        """Begin a listing. A listing that did not end is forgotten."""
        self._unseen = set(self._objects)
        self._gone.clear()

    def see(self, seen: Identity) -> Sight:
        """Take in an object that exists, and return what is new about it.

        ``REPLACED`` says that an object of the same key and another UID was known. Get it with
        ``get`` before.
        """
        key = seen.key
        known = self._objects.get(key)
        is_first = self._unseen is not None and key in self._unseen
        if is_first and self._unseen is not None:
            self._unseen.discard(key)
        if known is None:
            gone = self._gone.pop(key, None)
            if gone is not None and not _is_newer(seen.resource_version, gone):
                self._gone[key] = gone
                return Sight.STALE
            self._objects[key] = seen
            return Sight.NEW
        if seen.resource_version == known.resource_version and seen.uid == known.uid:
            return Sight.STALE
        if not is_first and not _is_newer(seen.resource_version, known.resource_version):
            return Sight.STALE
        self._objects[key] = seen
        return Sight.CHANGED if seen.uid == known.uid else Sight.REPLACED

    def remove(self, seen: Identity) -> Identity | None:
        """Take in a deletion; return what was known and is gone, None if nothing is."""
        known = self._objects.get(seen.key)
        if known is not None:
            older = _is_newer(known.resource_version, seen.resource_version)
            if older and not (self._unseen is not None and seen.key in self._unseen):
                return None
            del self._objects[seen.key]
            if self._unseen is not None:
                self._unseen.discard(seen.key)
        self._remember(seen)
        return known

    def end(self) -> list[Identity]:
        """End the listing; return the objects that it did not show, which are gone."""
        unseen, self._unseen = self._unseen or set(), None
        return [self._objects.pop(key) for key in sorted(unseen)]

    def _remember(self, seen: Identity) -> None:
        before = self._gone.pop(seen.key, None)
        newer = before is None or _is_newer(seen.resource_version, before)
        self._gone[seen.key] = seen.resource_version if newer or before is None else before
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]


def _is_newer(one: str, other: str) -> bool:
    # isascii: "²" is a digit to str.isdigit and not to int
    if one.isascii() and other.isascii() and one.isdigit() and other.isdigit():
        return int(one) > int(other)
    return one != other
