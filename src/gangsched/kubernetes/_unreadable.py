"""Objects that exist and cannot be read: counted by kind, and said of each pod of ours.

Rules:
  R1  an object is counted as long as its last version cannot be read and it is not deleted;
  R2  the metric shows each kind from its first listing on, with 0 if all its objects can be read;
  R3  a pod of ours has the event ``FailedScheduling``. If it is pending it has the condition
      ``PodScheduled=False`` with the reason ``SchedulerError``, too. Both name field and value;
  R4  a pod is reported again only if another field is malformed: its own condition is a change of
      the pod.

Invariants (checked by ``_check``):
  I1  no kind is kept without an object;
  I2  what was said of a pod is kept only while the pod cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, final

from gangsched.errors import InternalError
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._pods import UnreadablePodError
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._reflector import Delta
from gangsched.model import PodUID

__all__ = ["UnreadableObjects"]


@final
class UnreadableObjects:
    """The objects that cannot be read.

    Args:
        names: The values of ``spec.schedulerName`` that are ours; None for all values.
        count: Called with a kind and the number of its unreadable objects, when that may differ.
    """

    def __init__(self, names: Collection[str] | None, count: Callable[[str, int], object]) -> None:
        self._names = names
        self._count = count
        self._known: dict[str, set[tuple[str, str]]] = {}
        self._said: dict[str, tuple[str, str]] = {}
        self._events: EventRecorder | None = None
        self._status: StatusWriter | None = None

    def report_to(self, events: EventRecorder, status: StatusWriter | None = None) -> None:
        """Report pods that cannot be read from now on; without *status* by events only."""
        self._events = events
        self._status = status

    def close(self) -> None:
        """Count no object any more: another replica leads, or none. O(kinds)."""
        for kind in self._known:
            self._count(kind, 0)
        self._known.clear()
        self._said.clear()

    def note(self, kind: str, delta: Delta[Any], source: str = "") -> None:
        """Note a change of an object. O(1).

        Args:
            kind: Its kind.
            delta: The change.
            source: That of a group, see ``Dialect``: groups of several APIs may have one key.
        """
        if delta.identity is None:
            self._count(kind, len(self._known.get(kind, ())))
            return
        place = (source, delta.identity.key)
        if delta.kind == "refused":
            known = self._known.setdefault(kind, set())
            known.add(place)
            self._count(kind, len(known))
            if isinstance(delta.error, UnreadablePodError):
                self._report(delta, delta.error)
        elif kind in self._known:
            self._forget(kind, place, delta)

    def _forget(self, kind: str, place: tuple[str, str], delta: Delta[Any]) -> None:
        known = self._known[kind]
        if place not in known:
            return
        known.remove(place)
        if not known:
            del self._known[kind]
        self._count(kind, len(known))
        said = self._said.pop(place[1], None) if kind == "Pod" else None
        if said is not None and self._status is not None:
            self._status.readable(PodUID(said[0]))

    def _report(self, delta: Delta[Any], error: UnreadablePodError) -> None:
        if self._events is None or delta.identity is None:
            return
        if self._names is not None and error.scheduler_name not in self._names:
            return
        uid = delta.identity.uid
        namespace, _slash, name = delta.identity.key.rpartition("/")
        namespace = namespace or "default"
        message = f"the pod cannot be read: {delta.problem}"
        if self._said.get(delta.identity.key) == (uid, message):
            return
        self._said[delta.identity.key] = (uid, message)
        regarding = Regarding("v1", "Pod", namespace, name, uid)
        self._events.record(regarding, "Warning", "FailedScheduling", "Scheduling", message)
        if self._status is not None and not error.is_bound:
            self._status.unreadable(PodUID(uid), namespace, name, message)

    def _check(self) -> None:
        for kind, places in self._known.items():
            if not places:
                raise InternalError(f"no {kind} is unreadable, and the kind is kept")
        pods = {key for _source, key in self._known.get("Pod", ())}
        if not self._said.keys() <= pods:
            raise InternalError("a pod that can be read is reported as unreadable")
