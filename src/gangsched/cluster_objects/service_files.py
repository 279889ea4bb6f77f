"""``ServiceFiles``: services, filed so that those of a pod are found without reading all of them.

A pod belongs to a service only if it has each label of the service's selector. So a service is
filed under one of them, the first by name: the files of the labels of a pod hold each service that
selects it, and few others.

Invariants (checked by ``_check``):
  I1  each service with a selector is in one file, that of its namespace and its first label;
  I2  no file is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, final

from gangsched.cluster_objects.sets_of_pods import Service
from gangsched.errors import InternalError

__all__ = ["ServiceFiles"]

_Place: TypeAlias = tuple[str, str, str]


@final
class ServiceFiles:
    """Services by namespace and label."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[_Place, dict[str, Service]] = {}

    def add(self, service: Service) -> None:
        """File a service, which is not filed yet. O(conditions)."""
        place = _place(service)
        if place is not None:
            self._files.setdefault(place, {})[service.key] = service

    def discard(self, service: Service) -> None:
        """Remove a service that was filed. O(conditions)."""
        place = _place(service)
        if place is None:
            return
        file = self._files[place]
        del file[service.key]
        if not file:
            del self._files[place]

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[Service, ...]:
        """Return the services that select pods of a namespace with these labels.

        Runtime complexity: O(labels + services that are filed under one of them).
        """
        if not self._files:
            return ()
        files = (self._files.get((namespace, *pair), {}) for pair in labels.items())
        return tuple(
            one for file in files for one in file.values() if one.selects(namespace, labels)
        )

    def _check(self, services: Iterable[Service]) -> None:
        filed = {place: dict(file) for place, file in self._files.items()}
        expected = ServiceFiles()
        for service in services:
            expected.add(service)
        if filed != expected._files:
            raise InternalError("the services that are filed are not those that are stored")


def _place(service: Service) -> _Place | None:
    """Return where a service is filed; None for one that selects no pod."""
    if not service.selector:
        return None
    name = min(service.selector)
    return service.namespace, name, service.selector[name]
