"""``ObjectStore``: objects in memory by kind and key, perhaps on top of another view of objects.

Invariants (checked by ``_check``):
  I1  an object is stored under its own kind and key;
  I2  the services that are stored here, and no others, are filed under a label each.

Rules:
  R1  the view below is only read, and only when an object or a kind is asked for;
  R2  an object that was put or removed here hides the object below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar, cast, final

from gangsched.cluster_objects.service_files import ServiceFiles
from gangsched.cluster_objects.sets_of_pods import Service
from gangsched.errors import InternalError

__all__ = ["ObjectStore", "services_of"]

T = TypeVar("T")


class _View(Protocol):
    def get(self, kind: type[T], key: str, /) -> T | None: ...

    def all(self, kind: type[T], /) -> Iterable[T]: ...


def services_of(objects: _View, namespace: str, labels: Mapping[str, str]) -> tuple[Service, ...]:
    """Return the services of a namespace that select pods with these labels.

    Runtime complexity: O(labels + services that select one of them) for an ``ObjectStore`` and any
    other view with ``services_of``; see ``gangsched.protocols.ObjectsView``. Else O(services).
    """
    asked = getattr(objects, "services_of", None)
    if callable(asked):
        return tuple(cast("Iterable[Service]", asked(namespace, labels)))
    every = objects.all(Service)
    return tuple(one for one in every if one.selects(namespace, labels))


@final
class ObjectStore:
    """Objects of a cluster, by kind and key.

    Args:
        below: A view of objects that is shown where nothing was put or removed; None for none.
    """

    __slots__ = ("_below", "_changed", "_services")

    def __init__(self, below: _View | None = None) -> None:
        self._below = below
        # None stands for an object of the view below that was removed here
        self._changed: dict[type[Any], dict[str, Any]] = {}
        self._services = ServiceFiles()

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

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> tuple[Service, ...]:
        """Return the services of a namespace that select pods with these labels.

        Runtime complexity: O(labels + services that select one of them), plus as for the view
        below.
        """
        own = self._services.selecting(namespace, labels)
        if self._below is None:
            return own
        changed: Mapping[str, Service | None] = self._changed.get(Service, {})
        below = services_of(self._below, namespace, labels)
        return (*(one for one in below if one.key not in changed), *own)

    @staticmethod
    def _kind(value: object) -> type[Any]:
        return type(value)

    def put(self, value: Any) -> None:
        """Add an object, or replace the object of its kind and key. O(1)."""
        kind, key = self._kind(value), _key(value)
        if kind is Service:
            self._refile(key, value)
        self._changed.setdefault(kind, {})[key] = value

    def remove(self, kind: type[Any], key: str) -> None:
        """Remove the object of a kind with a key, if there is one. O(1)."""
        if kind is Service:
            self._refile(key, None)
        if self._below is not None:
            self._changed.setdefault(kind, {})[key] = None
        elif kind in self._changed:
            self._changed[kind].pop(key, None)
            if not self._changed[kind]:
                del self._changed[kind]

    def _refile(self, key: str, service: Service | None) -> None:
        known: Service | None = self._changed.get(Service, {}).get(key)
        if known is not None:
            self._services.discard(known)
        if service is not None:
            self._services.add(service)

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
        stored = self._changed.get(Service, {}).values()
        self._services._check({one for one in stored if one is not None})


def _key(value: Any) -> str:
    key: str = value.key
    return key
