"""The waiting map: the pods that wait on permit.

Kubernetes starts one timer for each waiting pod. Here there are no timers: the map orders the
deadlines, ``next_deadline`` tells the caller how long to sleep, and ``expire`` returns the pods
whose deadline has passed. Three indexes hold the same pods: by UID, by group, by deadline.

Invariants (checked by ``_check``):
  I1  a pod waits at most once;
  I2  there is exactly one deadline per waiting pod. Deadlines of pods that wait no more stay in
      the heap until they come first or outnumber the others; without waiting pods there is none;
  I3  a group is listed exactly while a member waits, its members in order of arrival;
  I4  ``expire(now=)`` returns exactly the pods with a deadline <= *now*, in the order of
      (deadline, arrival).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, final

from attrs import field, frozen
from attrs.validators import optional

from gangsched.errors import InternalError, InvalidValueError
from gangsched.model import GroupKey, NodeName, PodUID
from gangsched.quantity import is_seconds
from gangsched.values.fields import check_count, check_instant, check_now, check_string

__all__ = ["WaitingMap", "WaitingPod"]


def _check_plugins(_owner: object, _attribute: object, value: Any) -> None:
    given: object = value
    names: list[Any] = [*value] if isinstance(given, tuple) else [None]
    if not all(isinstance(name, str) for name in names):
        raise InvalidValueError("pending_plugins", value, "a tuple of names of plugins")


@final
@frozen
class WaitingPod:
    """A pod that is assumed on a node and waits on permit.

    Attributes:
        uid: The pod.
        group: The group; None for a regular pod that a permit plugin lets wait.
        node: The node that the pod is assumed on.
        attempt: The attempt of the group that the pod belongs to.
        since: When the wait began.
        deadline: When the wait ends: the pod has expired if ``now == deadline``.
        pending_plugins: The names of the permit plugins that have not allowed the pod yet.
    """

    uid: PodUID = field(validator=check_string)
    group: GroupKey | None = field(validator=optional(check_string))
    node: NodeName = field(validator=check_string)
    attempt: int = field(validator=check_count)
    since: float = field(validator=check_instant)
    deadline: float = field(validator=check_instant)
    pending_plugins: tuple[str, ...] = field(default=(), validator=_check_plugins)


_SPARE: Final = 64
"""Entries of pods that wait no more which are kept whatever the number of pods that wait."""


class WaitingMap:
    """The pods that wait on permit, by UID, by group and by deadline.

    Not thread-safe.

    Attributes:
        earliest: No wait ends before this instant; infinite if no pod waits.
    """

    __slots__ = ("_arrivals", "_deadlines", "_groups", "_pods", "earliest")

    def __init__(self) -> None:
        self._pods: dict[PodUID, tuple[WaitingPod, int]] = {}
        self._groups: dict[GroupKey, dict[PodUID, None]] = {}
        self._deadlines: list[tuple[float, int, PodUID]] = []  # a heap, by arrival if equal
        self.earliest: float = math.inf
        self._arrivals = 0

    def wait(
        self,
        uid: PodUID,
        *,
        node: NodeName,
        timeout: float,
        now: float,
        group: GroupKey | None = None,
        attempt: int = 1,
        plugins: Iterable[str] = (),
    ) -> WaitingPod:
        """Add a waiting pod and return its entry.

        Runtime complexity: O(log waiting).

        Args:
            uid: The pod, which must not be waiting.
            node: The node that the pod is assumed on.
            timeout: The longest wait in seconds; finite, >= 0. A wait of 0 seconds ends at *now*.
            now: The current instant.
            group: The group of the pod.
            attempt: The attempt of the group that the pod belongs to; >= 0.
            plugins: The names of the permit plugins that have to allow the pod.

        Raises:
            InvalidValueError: An argument is invalid, the deadline is not a finite number, or
                the pod is waiting already.
        """
        check_now(now)
        if not is_seconds(timeout) or timeout < 0:
            raise InvalidValueError("timeout", timeout, "a finite number of seconds >= 0")
        if not is_seconds(now + timeout):
            raise InvalidValueError(
                "timeout", timeout, f"a number of seconds whose sum with now={now!r} is finite"
            )
        pod = WaitingPod(uid, group, node, attempt, now, now + timeout, tuple(plugins))
        self.put(pod)
        return pod

    def put(self, pod: WaitingPod) -> None:
        """Add an entry of another map; it arrives after all entries here. O(log waiting).

        Raises:
            InvalidValueError: *pod* is not a ``WaitingPod``, or its UID is waiting already.
        """
        if not isinstance(pod, WaitingPod):
            raise InvalidValueError("pod", pod, "a WaitingPod")
        uid = pod.uid
        if uid in self._pods:
            raise InvalidValueError("uid", uid, "the UID of a pod that is not waiting")
        self._arrivals += 1
        self._pods[uid] = (pod, self._arrivals)
        self._expect(pod, self._arrivals)
        if pod.group is not None:
            self._groups.setdefault(pod.group, {})[uid] = None

    def replace(self, pod: WaitingPod) -> None:
        """Replace the entry of a pod, such as by one with fewer pending plugins.

        The pod keeps its place in the order of arrival. Runtime complexity: O(1); O(waiting) if the
        deadline is another.

        Raises:
            InvalidValueError: *pod* is not a ``WaitingPod``, its UID is not waiting, or it has
                another group.
        """
        if not isinstance(pod, WaitingPod):
            raise InvalidValueError("pod", pod, "a WaitingPod")
        if pod.uid not in self._pods:
            raise InvalidValueError("uid", pod.uid, "the UID of a pod that is waiting")
        before, arrival = self._pods[pod.uid]
        if pod.group != before.group:
            raise InvalidValueError("group", pod.group, f"{before.group!r}, as before")
        self._pods[pod.uid] = (pod, arrival)
        if pod.deadline != before.deadline:
            gone = (before.deadline, arrival, pod.uid)
            self._deadlines = [entry for entry in self._deadlines if entry != gone]
            heapify(self._deadlines)
            self._expect(pod, arrival)

    def allow(self, group: GroupKey) -> tuple[WaitingPod, ...]:
        """Remove and return the waiting members of *group*, in order of arrival.

        Runtime complexity: O(k log waiting) for k members.
        """
        return self._remove_all(list(self._groups.get(group, ())))

    def reject(self, group: GroupKey, *, attempt: int | None = None) -> tuple[WaitingPod, ...]:
        """Remove and return the waiting members of *group*, in order of arrival.

        Args:
            group: The group.
            attempt: Only members of this attempt; None for all attempts.
        """
        members = self._groups.get(group, {})
        if attempt is None:
            return self._remove_all(list(members))
        return self._remove_all([uid for uid in members if self._pods[uid][0].attempt == attempt])

    def remove(self, uid: PodUID) -> WaitingPod | None:
        """Remove and return one pod; None if it is not waiting. O(1)."""
        if uid not in self._pods:
            return None
        pod, _arrival = self._pods.pop(uid)
        if not self._pods or len(self._deadlines) > 2 * len(self._pods) + _SPARE:
            self._drop_deadlines()
        if pod.group is not None:
            members = self._groups[pod.group]
            del members[uid]
            if not members:
                del self._groups[pod.group]
        return pod

    def expire(self, *, now: float, begun_before: float = math.inf) -> tuple[WaitingPod, ...]:
        """Remove and return the pods whose deadline has passed.

        Runtime complexity: O(k log waiting) for k expired.

        Args:
            now: The current instant.
            begun_before: Only pods that began to wait before this instant.

        Raises:
            InvalidValueError: *now* is not an instant.
        """
        check_now(now)
        if now < self.earliest:
            return ()
        due: list[PodUID] = []
        kept: list[tuple[float, int, PodUID]] = []
        while (following := self.next_deadline()) is not None and following <= now:
            entry = heappop(self._deadlines)
            if self._pods[entry[2]][0].since < begun_before:
                due.append(entry[2])
            else:
                kept.append(entry)
        for entry in kept:
            heappush(self._deadlines, entry)
        removed = self._remove_all(due)
        self.earliest = self._deadlines[0][0] if self._deadlines else math.inf
        return removed

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if no pod waits. Amortised O(log waiting)."""
        deadlines = self._deadlines
        while deadlines and not self._holds(deadlines[0]):
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def get(self, uid: PodUID) -> WaitingPod | None:
        """Return one waiting pod; None if it is not waiting. O(1)."""
        found = self._pods.get(uid)
        return None if found is None else found[0]

    def of(self, group: GroupKey) -> tuple[WaitingPod, ...]:
        """Return the waiting members of *group*, in order of arrival. O(members)."""
        return tuple(self._pods[uid][0] for uid in self._groups.get(group, ()))

    def groups(self) -> Iterator[GroupKey]:
        """Iterate over the groups with a waiting member."""
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over the waiting pods in order of arrival."""
        return (pod for pod, _arrival in self._pods.values())

    def _expect(self, pod: WaitingPod, arrival: int) -> None:
        heappush(self._deadlines, (pod.deadline, arrival, pod.uid))
        self.earliest = min(self.earliest, pod.deadline)
        if len(self._deadlines) > 2 * len(self._pods) + _SPARE:
            self._drop_deadlines()

    def _drop_deadlines(self) -> None:
        """Drop the deadlines of pods that wait no more. O(deadlines)."""
        self._deadlines = [entry for entry in self._deadlines if self._holds(entry)]
        heapify(self._deadlines)
        if not self._deadlines:
            self.earliest = math.inf

    def _holds(self, entry: tuple[float, int, PodUID]) -> bool:
        """Return whether an entry of the heap is that of a pod that waits. O(1)."""
        deadline, arrival, uid = entry
        found = self._pods.get(uid)
        return found is not None and found[1] == arrival and found[0].deadline == deadline

    def _remove_all(self, uids: list[PodUID]) -> tuple[WaitingPod, ...]:
        removed = (self.remove(uid) for uid in uids)
        return tuple(pod for pod in removed if pod is not None)

    def _check(self) -> None:
        deadlines = sorted((pod.deadline, n, uid) for uid, (pod, n) in self._pods.items())
        most = 2 * len(self._pods) + _SPARE if self._pods else 0
        kept = self._deadlines
        if sorted(filter(self._holds, kept)) != deadlines or len(kept) > most:
            raise InternalError("waiting pods and deadlines differ")
        if deadlines and deadlines[0][0] < self.earliest:
            raise InternalError(f"a wait ends before {self.earliest}")
        groups: dict[GroupKey, list[PodUID]] = {}
        for uid, (pod, _n) in self._pods.items():
            if pod.uid != uid:
                raise InternalError(f"{uid} is stored under another UID")
            if pod.group is not None:
                groups.setdefault(pod.group, []).append(uid)
        if groups != {key: list(members) for key, members in self._groups.items()}:
            raise InternalError("waiting pods and their groups differ")
