"""The scheduling queue as it is shown to users: read-only, gang by gang.

An entry is one gang: a regular pod, a group, or a bundle of groups. It reads the records, so it is
as they are when it is asked.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, final

from gangsched.core.queue import Queue
from gangsched.core.records import Records
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.explain import UnschedulableMember
from gangsched.model import Pod
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["QueueEntry", "SchedulingQueue"]


@final
class QueueEntry:
    """A gang in the queue; entries of one gang are equal."""

    __slots__ = ("_gang",)

    def __init__(self, gang: GangRecord) -> None:
        self._gang = gang

    @property
    def seq(self) -> int:
        """Its number, ascending in the order of arrival."""
        return self._gang.seq

    @property
    def group(self) -> PodGroupInfo | None:
        """Its group; of a bundle, the first in queue order; None for a regular pod."""
        return self._gang.group

    @property
    def groups(self) -> tuple[PodGroupInfo, ...]:
        """Its groups: several of a bundle or below a group of groups; none for a regular pod."""
        return tuple(self._gang.infos.values())

    @property
    def pod(self) -> Pod:
        """Its first pending pod."""
        return self._gang.pod

    @property
    def pending(self) -> tuple[Pod, ...]:
        """The pods that need a node, in the order of arrival. O(n log n)."""
        return tuple([record.pod for record in self._gang.in_order()])

    @property
    def priority(self) -> int:
        """The priority of the pod or the group."""
        return self._gang.priority

    @property
    def place(self) -> QueuePlace:
        """Where it is in the queue."""
        return self._gang.place

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Its key in the queue order."""
        return self._gang.sort_key

    @property
    def created_at(self) -> float:
        """When the pod or the group was created."""
        return self._gang.created_at

    @property
    def queued_at(self) -> float:
        """When it arrived, or failed last."""
        return self._gang.queued_at

    @property
    def failures(self) -> int:
        """How many attempts in a row have failed."""
        return self._gang.failures

    @property
    def backoff_until(self) -> float:
        """When its backoff ends; in the past without one."""
        return self._gang.backoff_until

    @property
    def reason(self) -> str:
        """Why its last attempt failed; empty if it did not."""
        return self._gang.reason

    @property
    def denial(self) -> str:
        """Why it is not admitted to the queue; empty if it is."""
        return self._gang.denial

    @property
    def unschedulable_member(self) -> UnschedulableMember | None:
        """The member that found no node in its last attempt."""
        return self._gang.refused

    def __len__(self) -> int:
        """Return how many pods need a node."""
        return len(self._gang.pending)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueEntry) and other._gang is self._gang

    def __hash__(self) -> int:
        return hash(self._gang.key)

    def __repr__(self) -> str:
        return repr(self._gang)


@final
class SchedulingQueue:
    """The gangs that need nodes, by place. Each property is O(gangs log gangs)."""

    __slots__ = ("_nominated", "_queue", "_records")

    def __init__(self, queue: Queue, records: Records, nominated: Container[GangRecord]) -> None:
        self._queue = queue
        self._records = records
        self._nominated = nominated

    @property
    def active(self) -> tuple[QueueEntry, ...]:
        """The gangs that are tried next, in queue order."""
        return _entries(self._queue.active)

    @property
    def backoff(self) -> tuple[QueueEntry, ...]:
        """The gangs in backoff, the first to end first."""
        found = self._in(QueuePlace.BACKOFF)
        return _entries(sorted(found, key=lambda gang: (gang.backoff_until, gang.seq)))

    @property
    def unschedulable(self) -> tuple[QueueEntry, ...]:
        """The gangs that wait for an event: parked ones in queue order, then those kept out."""
        parked = self._queue.in_order(self._in(QueuePlace.PARKED))
        kept_out = [*self._in(QueuePlace.NOT_ADMITTED), *self._in(QueuePlace.NOMINATED)]
        return _entries([*parked, *kept_out])

    def head(self) -> QueueEntry | None:
        """Return the gang that is tried next; None if none is active."""
        gang = self._queue.head()
        return None if gang is None else QueueEntry(gang)

    def is_gated(self, entry: QueueEntry) -> bool:
        """Return whether a gang is not admitted to the queue, or awaits victims. O(1)."""
        return entry.place in (QueuePlace.NOT_ADMITTED, QueuePlace.NOMINATED)

    def may_fit(self, entry: QueueEntry) -> bool:
        """Return whether a gang may find nodes or preempt, as far as is known.

        If an active gang may not, it is parked without an attempt. Runtime complexity: O(nodes that
        changed since it was asked).
        """
        gang, queue = entry._gang, self._queue
        if gang.demand is None or gang in self._nominated:
            return True
        if gang.place is QueuePlace.PARKED and gang.demand.blocked_at:
            return False
        return queue.could_fit(gang.demand) or queue.preempts(gang.demand, None)

    def has_current_key(self, entry: QueueEntry) -> bool:
        """Return whether the sort key of a gang is the one that it would get now."""
        return self._queue.key_of(entry._gang) == entry.sort_key

    def __len__(self) -> int:
        """Return how many gangs need nodes, and are not only waiting on permit. O(gangs)."""
        nowhere = QueuePlace.NOWHERE
        return sum(gang.place is not nowhere for gang in self._records.gangs.values())

    def _in(self, place: QueuePlace) -> list[GangRecord]:
        return [gang for gang in self._records.gangs.values() if gang.place is place]


def _entries(gangs: Iterable[GangRecord]) -> tuple[QueueEntry, ...]:
    return tuple([QueueEntry(gang) for gang in gangs])
