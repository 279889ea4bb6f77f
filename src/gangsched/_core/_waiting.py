"""The permit waiting map.

Invariants (checked by ``_check``):
  I1  a pod waits at most once;
  I2  there is exactly one deadline per waiting pod;
  I3  a group is listed exactly while a member of it waits, its members in order of arrival;
  I4  ``expire(now=)`` returns pods in (deadline, arrival) order, and only those whose deadline
      has come.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, final

from attrs import field, frozen
from attrs.validators import optional
from sortedcontainers import SortedDict

from gangsched._fields import check_count, check_instant, check_now, check_string
from gangsched.errors import InternalError, InvalidValueError
from gangsched.model import GroupKey, NodeName, PodUID
from gangsched.quantity import is_seconds

__all__ = ["WaitingMap", "WaitingPod"]


@final
@frozen
class WaitingPod:
    """A pod that holds a node and waits for its siblings.

    Attributes:
        uid: The pod.
        group: Its group; None for a regular pod that a permit plugin holds.
        node: The node that it holds.
        attempt: The attempt of the group that it belongs to.
        since: When it began to wait.
        deadline: When its wait is over; it is over *at* that instant.
    """

    uid: PodUID = field(validator=check_string)
    group: GroupKey | None = field(validator=optional(check_string))
    node: NodeName = field(validator=check_string)
    attempt: int = field(validator=check_count)
    since: float = field(validator=check_instant)
    deadline: float = field(validator=check_instant)


class WaitingMap:
    """Pods that wait on permit, by pod, by group and by deadline.

    Not thread-safe.
    """

    __slots__ = ("_arrivals", "_deadlines", "_groups", "_pods")

    def __init__(self) -> None:
        self._pods: dict[PodUID, tuple[WaitingPod, int]] = {}
        self._groups: dict[GroupKey, dict[PodUID, None]] = {}
        self._deadlines: Any = SortedDict()  # (deadline, arrival) -> uid
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
    ) -> WaitingPod:
        """Let a pod wait.

        Runtime complexity: O(log waiting).

        Args:
            uid: The pod; it must not be waiting already.
            node: The node that it holds.
            timeout: For how many seconds at most; finite, not negative. A wait of 0 is over at
                *now*.
            now: The current instant.
            group: Its group.
            attempt: The attempt of the group that it belongs to; not negative.

        Raises:
            InvalidValueError: A value is malformed, the deadline would be beyond all numbers, or
                the pod waits already.
        """
        check_now(now)
        if not is_seconds(timeout) or timeout < 0:
            raise InvalidValueError("timeout", timeout, "a finite number of seconds >= 0")
        if not is_seconds(now + timeout):
            raise InvalidValueError(
                "timeout", timeout, f"a number of seconds whose sum with now={now!r} is finite"
            )
        pod = WaitingPod(uid, group, node, attempt, now, now + timeout)
        self.put(pod)
        return pod

    def put(self, pod: WaitingPod) -> None:
        """Let a pod wait as it did elsewhere, behind all that wait here. O(log waiting).

        Raises:
            InvalidValueError: The pod waits already, or is no ``WaitingPod``.
        """
        if not isinstance(pod, WaitingPod):
            raise InvalidValueError("pod", pod, "a WaitingPod")
        uid = pod.uid
        if uid in self._pods:
            raise InvalidValueError("uid", uid, "the UID of a pod that is not waiting")
        self._arrivals += 1
        self._pods[uid] = (pod, self._arrivals)
        self._deadlines[(pod.deadline, self._arrivals)] = uid
        if pod.group is not None:
            self._groups.setdefault(pod.group, {})[uid] = None

    def allow(self, group: GroupKey) -> tuple[WaitingPod, ...]:
        """Remove and return every member of *group* that waits, in order of arrival.

        Runtime complexity: O(k log waiting) for k members.
        """
        return self._remove_all(list(self._groups.get(group, ())))

    def reject(self, group: GroupKey, *, attempt: int | None = None) -> tuple[WaitingPod, ...]:
        """Remove and return the members of *group* that wait, in order of arrival.

        Args:
            group: The group.
            attempt: Only those of this attempt; None for all.
        """
        members = self._groups.get(group, {})
        if attempt is None:
            return self._remove_all(list(members))
        return self._remove_all([uid for uid in members if self._pods[uid][0].attempt == attempt])

    def remove(self, uid: PodUID) -> WaitingPod | None:
        """Remove and return one pod; None when it does not wait. O(log waiting)."""
        if uid not in self._pods:
            return None
        pod, arrival = self._pods.pop(uid)
        del self._deadlines[(pod.deadline, arrival)]
        if pod.group is not None:
            members = self._groups[pod.group]
            del members[uid]
            if not members:
                del self._groups[pod.group]
        return pod

    def expire(self, *, now: float, begun_before: float = math.inf) -> tuple[WaitingPod, ...]:
        """Remove and return every pod whose deadline has come.

        Runtime complexity: O(k log waiting) for k expired.

        Args:
            now: The current instant.
            begun_before: Only pods that began to wait before this instant.

        Raises:
            InvalidValueError: *now* is no instant.
        """
        check_now(now)
        if not self._deadlines:
            return ()
        due = self._deadlines.values()[: self._deadlines.bisect_right((now, math.inf))]
        return self._remove_all([uid for uid in due if self._pods[uid][0].since < begun_before])

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None when nobody waits. O(1)."""
        return float(self._deadlines.peekitem(0)[0][0]) if self._deadlines else None

    def get(self, uid: PodUID) -> WaitingPod | None:
        """Return one waiting pod; None when it does not wait. O(1)."""
        found = self._pods.get(uid)
        return None if found is None else found[0]

    def of(self, group: GroupKey) -> tuple[WaitingPod, ...]:
        """Return the members of *group* that wait, in order of arrival. O(members)."""
        return tuple(self._pods[uid][0] for uid in self._groups.get(group, ()))

    def groups(self) -> Iterator[GroupKey]:
        """Iterate over the groups of which a member waits."""
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over the waiting pods in order of arrival."""
        return (pod for pod, _arrival in self._pods.values())

    def _remove_all(self, uids: list[PodUID]) -> tuple[WaitingPod, ...]:
        removed = (self.remove(uid) for uid in uids)
        return tuple(pod for pod in removed if pod is not None)

    def _check(self) -> None:
        deadlines = {(pod.deadline, n): uid for uid, (pod, n) in self._pods.items()}
        if dict(self._deadlines) != deadlines:
            raise InternalError("waiting pods and deadlines differ")
        groups: dict[GroupKey, list[PodUID]] = {}
        for uid, (pod, _n) in self._pods.items():
            if pod.uid != uid:
                raise InternalError(f"{uid} waits under another name")
            if pod.group is not None:
                groups.setdefault(pod.group, []).append(uid)
        if groups != {key: list(members) for key, members in self._groups.items()}:
            raise InternalError("waiting pods and their groups differ")
