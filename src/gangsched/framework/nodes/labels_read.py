"""LabelsRead: which labels of nodes tell classes of nodes apart, because plugins read them.

Invariants:
  I1  ``keys`` has each key with a reader, and a few that are idle, sorted;
  I2  ``idle`` counts the keys without a reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

__all__ = ["LabelsRead"]

_IDLE_LABELS = 8


@final
class LabelsRead:
    """The keys of the node labels that plugins read, each with the number of its readers.

    A reader is a pod group with a topology, or a pod class with a pod that is not bound yet: a
    pod that runs needs no node.

    A key without readers is *idle*. Dropping it means that every node must be classified again,
    and keeping it may mean that each node is a class of its own. So it is kept until the nodes
    have changed as often as there are nodes; then both cost the same.

    Attributes:
        keys: The keys, sorted, with a few that are idle.
        idle: The number of keys without readers.
    """

    __slots__ = ("_idle_changes", "_readers", "_seen", "idle", "keys")

    def __init__(self) -> None:
        self._readers: dict[str, int] = {}
        self.idle: int = 0
        self._idle_changes = 0
        self._seen = -1
        self.keys: tuple[str, ...] = ()

    def restore(self, readers: Mapping[str, int], idle_changes: int) -> None:
        """Replace all keys by these, each with its number of readers; see ``idle_changes``."""
        self._readers = dict(readers)
        self.idle, self._seen = sum(not count for count in readers.values()), -1
        self._idle_changes = idle_changes
        self.keys = tuple(sorted(readers))

    def __len__(self) -> int:
        """Return the number of keys with a reader."""
        return sum(count > 0 for count in self._readers.values())

    def add(self, keys: Iterable[str]) -> bool:
        """Count one more reader of *keys*; return whether nodes must be classified again."""
        before = len(self._readers)
        for key in keys:
            count = self._readers.get(key)
            self.idle -= count == 0
            self._readers[key] = (count or 0) + 1
        if not self.idle:
            self._idle_changes, self._seen = 0, -1
        if len(self._readers) == before:
            return False
        self.keys = tuple(sorted(self._readers))
        return True

    def discard(self, keys: Iterable[str]) -> bool:
        """Count one reader of *keys* less; return whether nodes must be classified again."""
        for key in keys:
            self._readers[key] -= 1
            self.idle += not self._readers[key]
        if self.idle <= max(_IDLE_LABELS, len(self._readers) - self.idle):
            return False
        self._drop_idle()
        return True

    def forget_idle(self, changes: int, nodes: int) -> bool:
        """Drop the idle keys if they have cost as much as dropping them costs. O(1) amortised.

        Args:
            changes: How often nodes have changed so far.
            nodes: The number of nodes.

        Returns:
            Whether nodes must be classified again.
        """
        self._idle_changes, self._seen = self.idle_changes(changes), changes
        if not self.idle or self._idle_changes < nodes:
            return False
        self._drop_idle()
        return True

    def idle_changes(self, changes: int) -> int:
        """Return how often nodes have changed since a key is idle; see ``forget_idle``. O(1)."""
        since = changes - self._seen if self.idle and self._seen >= 0 else 0
        return self._idle_changes + since

    def _drop_idle(self) -> None:
        self._readers = {key: count for key, count in self._readers.items() if count}
        self.keys = tuple(sorted(self._readers))
        self.idle, self._idle_changes, self._seen = 0, 0, -1
