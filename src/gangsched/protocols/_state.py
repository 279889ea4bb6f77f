"""What a plugin declares about the state that it keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from gangsched.protocols._views import StateKey

__all__ = ["Forkable", "KeepsScratch", "KeepsState"]


class KeepsState(Protocol):
    """Optional for a plugin that keeps state between calls: its part of a snapshot.

    Without these methods a snapshot leaves the state of the plugin out. A restored scheduler then
    uses whatever state its plugin has.
    """

    def snapshot(self) -> object:
        """Return the state of this plugin as plain JSON data."""
        ...

    def restore(self, data: Any) -> None:
        """Replace the state of this plugin with *data*, or raise with nothing changed.

        Args:
            data: What ``snapshot`` returned, perhaps in another process.
        """
        ...


class KeepsScratch(Protocol):
    """Optional for a plugin that writes cycle state: which of it a snapshot contains.

    What is written under these keys must be plain JSON data. If a pod holds a node, and its cycle
    state has any other key that is not ``derived``, ``Scheduler.snapshot`` raises.
    """

    @property
    def state_keys(self) -> Iterable[StateKey[Any]]:
        """The keys; two different keys in a profile have different names."""
        ...


class Forkable(Protocol):
    """Optional for a plugin that keeps state between calls: lets it answer *what if*.

    ``Scheduler.what_if`` runs with ``fork()`` in the place of the plugin. Without this method, a
    plugin takes part itself if it visibly keeps no state: it has no attributes, or it is a frozen
    ``attrs`` class or dataclass of immutable values. Any other plugin is refused. For a mapping,
    use ``types.MappingProxyType`` over a dict that is not changed any more.

    The same holds for the ``RunTimes`` of backfill, and for the values that a plugin writes into
    cycle state; there, lists, dicts and sets of such values are copied. A ``ClusterState`` may have
    this method too: the fork is read in its place, and must show the same.
    """

    def fork(self) -> object:
        """Return an object with the same state that shares nothing mutable with this one."""
        ...
