"""``ObjectStore``: objects in memory by kind and key, perhaps on top of another view of objects.

Invariant (checked by ``_check``):
  I1  an object is stored under its own kind and key.

Rules:
  R1  the view below is only read, and only when an object or a kind is asked for;
  R2  an object that was put or removed here hides the object below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar, final

from gangsched.errors import InternalError

__all__ = ["ObjectStore"]

T = TypeVar("T")


class _View(Protocol):
    def get(self, kind: type[T], key: str, /) -> T | None: ...

    def all(self, kind: type[T], /) -> Iterable[T]: ...


@final
class ObjectStore:
    """Objects of a cluster, by kind and key.

    Args:
        below: A view of objects that is shown where nothing was put or removed; None for none.
    """

    __slots__ = ("_below", "_changed")

    def __init__(self, below: _View | None = None) -> None:
        self._below = below
        # None stands for an object of the view below that was removed here
        self._changed: dict[type[Any], dict[str, Any]] = {}

    def get(self, kind: type[T], key: str) -> T | None:
        """Return the object of a kind with a key; None if there is none. O(1)."""
        changed = self._changed.get(kind)
        if changed is not None and key in changed:
            found: T | None = changed[key]
            return found
        return None if self._below is None else self._below.get(kind, key)

    def all(self, kind: type[T]) -> Iterable[T]:
        """Return every object of a kind, in the order in which they were added. O(objects)."""
        changed: dict[str, T | None] = self._changed.get(kind, {})
        if self._below is None:
            return tuple(one for one in changed.values() if one is not None)
        below: dict[str, T | None] = {_key(one): one for one in self._below.all(kind)}
        return tuple(one for one in (below | changed).values() if one is not None)

    @staticmethod
    def _kind(value: object) -> type[Any]:
        return type(value)

    def put(self, value: Any) -> None:
        """Add an object, or replace the object of its kind and key. O(1)."""
        kind = self._kind(value)
        self._changed.setdefault(kind, {})[_key(value)] = value

    def remove(self, kind: type[Any], key: str) -> None:
        """Remove the object of a kind with a key, if there is one. O(1)."""
        if self._below is not None:
            self._changed.setdefault(kind, {})[key] = None
        elif kind in self._changed:
            self._changed[kind].pop(key, None)
            if not self._changed[kind]:
                del self._changed[kind]

    def __repr__(self) -> str:
        counts = {kind.__name__: len(found) for kind, found in self._changed.items()}
        return f"<{type(self).__name__} {counts}>"

    def _check(self) -> None:
        for kind, found in self._changed.items():
            for key, value in found.items():
                if value is not None and (type(value) is not kind or _key(value) != key):
                    raise InternalError(f"{value!r} is stored as the {kind.__name__} {key}")
            if not found:
                raise InternalError(f"no {kind.__name__} is stored, and the kind is kept")


def _key(value: Any) -> str:
    key: str = value.key
    return key
