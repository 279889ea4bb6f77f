"""The inbox of a driver: events that were submitted and not yet processed.

Rules:
  R1  items leave in the order in which they came;
  R2  from *limit* waiting items on, an update of an object replaces the event that waits for the
      same object, and keeps its place. So a flood of updates does not make the inbox grow. The
      scheduler reads the object from the cluster state, so the latest event is enough;
  R3  deletions and reports of binds are never replaced, and no event is moved across one of the
      same object. If a pod is recreated under its UID, the scheduler sees the deletion first;
  R4  no event is moved across a marker, since ``stop`` covers the events submitted before it;
  R5  which event is about which object is noted only while the limit is reached, and until half of
      the items have left. Below it, an item costs a place in a queue and nothing else.

Not thread-safe. The blocking driver calls it under its lock.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Hashable
from typing import Final, final

from attrs import define

from gangsched.events import (
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PodAdded,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)

__all__ = ["DEFAULT_LIMIT", "Inbox", "Marker", "subject_of"]

DEFAULT_LIMIT: Final = 4096
"""How many events may wait before updates replace each other."""


class Marker(enum.Enum):
    """An item of the inbox that is no event."""

    STOP = "stop"
    REBUILD = "rebuild"


@define(eq=False)
class _Slot:
    item: Event | Marker


@final
class Inbox:
    """Events and markers, first in, first out.

    Args:
        limit: From how many waiting items on updates replace each other.

    Attributes:
        taken: How many items have left.
    """

    __slots__ = ("_replaceable", "_slots", "limit", "taken")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.taken = 0
        self._slots: deque[_Slot] = deque()
        self._replaceable: dict[Hashable, _Slot] | None = None

    def put(self, event: Event) -> None:
        """Add an event, or let it replace one that waits. Amortised O(1)."""
        replaceable = self._replaceable
        if replaceable is None:
            if len(self._slots) < self.limit:
                self._slots.append(_Slot(event))
                return
            replaceable = self._replaceable = self._indexed()
        subject, replaces = subject_of(event)
        waiting = replaceable.get(subject)
        if replaces and waiting is not None and len(self._slots) >= self.limit:
            waiting.item = _merged(waiting.item, event)
            return
        slot = _Slot(event)
        self._slots.append(slot)
        if replaces:
            replaceable[subject] = slot
        else:
            replaceable.pop(subject, None)

    def _indexed(self) -> dict[Hashable, _Slot]:
        """Return the slots whose events may be replaced, by their subjects. O(waiting)."""
        found: dict[Hashable, _Slot] = {}
        for slot in self._slots:
            if isinstance(slot.item, Marker):
                found.clear()
                continue
            subject, replaces = subject_of(slot.item)
            if replaces:
                found[subject] = slot
            else:
                found.pop(subject, None)
        return found

    def mark(self, marker: Marker) -> None:
        """Add a marker. Events that wait are not replaced any more."""
        self._slots.append(_Slot(marker))
        if self._replaceable is not None:
            self._replaceable.clear()

    def take(self) -> Event | Marker | None:
        """Remove and return the first item; None if there is none, or if it is ``STOP``. O(1)."""
        slots = self._slots
        if not slots or slots[0].item is Marker.STOP:
            return None
        slot = slots.popleft()
        self.taken += 1
        replaceable = self._replaceable
        if replaceable is not None:
            if len(slots) < self.limit // 2:
                self._replaceable = None
            elif not isinstance(slot.item, Marker):
                subject, _replaces = subject_of(slot.item)
                if replaceable.get(subject) is slot:
                    del replaceable[subject]
        return slot.item

    def events(self) -> tuple[Event, ...]:
        """Return the events that wait, in order. O(waiting)."""
        return tuple(each.item for each in self._slots if not isinstance(each.item, Marker))

    def take_stop(self) -> bool:
        """Remove ``STOP`` if it is the first item; return whether it was."""
        if not self.stop_is_next:
            return False
        self._slots.popleft()
        self.taken += 1
        return True

    @property
    def handed_in(self) -> int:
        """How many items have left once those that wait now have."""
        return self.taken + len(self._slots)

    @property
    def is_ready(self) -> bool:
        """Whether ``take`` returns an item."""
        return bool(self._slots) and self._slots[0].item is not Marker.STOP

    @property
    def stop_is_next(self) -> bool:
        """Whether every event submitted before ``stop`` has been taken."""
        return bool(self._slots) and self._slots[0].item is Marker.STOP

    @property
    def is_full(self) -> bool:
        """Whether as many items wait as the limit says."""
        return len(self._slots) >= self.limit

    def __len__(self) -> int:
        """Return the number of items that wait."""
        return len(self._slots)


def subject_of(event: Event) -> tuple[Hashable, bool]:
    """Return the object that an event is about, and whether a later event may replace it."""
    match event:
        case PodAdded(pod) | PodUpdated(pod):
            return ("pod", pod.uid), True
        case NodeAdded(node) | NodeUpdated(node):
            return ("node", node.name), True
        case NodeDeleted(name):
            return ("node", name), False
        case PodGroupAdded(group) | PodGroupUpdated(group):
            return ("group", group.key), True
        case PodGroupDeleted(key):
            return ("group", key), False
        case ObjectChanged(value):
            return ("object", type(value).__name__, value.key), True
        case ObjectDeleted(kind, key):
            return ("object", kind, key), False
        case _:  # the deletion of a pod, a report of its bind, an answer to its permit
            return ("pod", event.uid), False


def _merged(waiting: Event | Marker, event: Event) -> Event:
    """Return the later of two events, as an addition if the earlier is one."""
    match waiting, event:
        case PodAdded(), PodUpdated(pod):
            return PodAdded(pod)
        case NodeAdded(), NodeUpdated(node):
            return NodeAdded(node)
        case PodGroupAdded(), PodGroupUpdated(group):
            return PodGroupAdded(group)
        case _:
            return event
