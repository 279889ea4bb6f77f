"""When a group that fell below its minimum is reported: not if its job is being deleted.

The notice ``GroupBelowMinimum`` comes with the first member that is lost. The pods of a job that is
deleted are lost one after another, so the first of them looks like a fall. What tells them apart is
known a moment later.

Rules:
  R1  a group is reported once for each notice, a second after it;
  R2  it is not reported if by then no member is left that stays: its pods are deleted or are
      terminating. Members that failed stay;
  R3  a group that is restarted is reported at once: its other members are evicted, and that is not
      the deletion of its job;
  R4  what still waits when the scheduler stops is reported, because the next leader may not know
      that the group ran;
  R5  a group that lost members while no scheduler ran has no notice. It is found when all that was
      listed is taken in, and reported by R1 and R2;
  R6  a group whose minimum becomes larger than what runs has no notice either, since it lost no
      member. It is reported by R1 and R2, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, final

from gangsched.events import GroupBelowMinimum
from gangsched.model import GroupKey, Pod
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo

__all__ = ["BelowMinimumReports", "is_below_minimum"]

_REPORTED_AFTER: Final = 1.0
"""Seconds within which the pods of a deleted job get their deletion timestamps."""


@final
class BelowMinimumReports:
    """Groups that fell below their minimum and are to be reported.

    Args:
        members: Returns the members that a group has now.
        report: Called with a group and the sentence about it.
    """

    def __init__(
        self,
        members: Callable[[GroupKey], Iterable[Pod]],
        report: Callable[[GroupKey, str], object],
    ) -> None:
        self._members = members
        self._report = report
        self._waiting: dict[GroupKey, tuple[asyncio.TimerHandle, str]] = {}

    def fell(self, notice: GroupBelowMinimum) -> None:
        """Report a group in a second, unless its job is being deleted."""
        self._report_later(notice.group, _counts(notice.scheduled, notice.min_available))

    def found(self, info: PodGroupInfo) -> None:
        """Report a group in a second that ran before this scheduler and has lost members since."""
        if is_below_minimum(info):
            note = f"{_counts_of(info)}; it was whole before this scheduler began"
            self._report_later(info.key, note)

    def raised(self, info: PodGroupInfo) -> None:
        """Report a group in a second if its new minimum is larger than what runs of it."""
        if is_below_minimum(info):
            note = f"{_counts_of(info)}; no member was lost, its PodGroup has changed"
            self._report_later(info.key, note)

    def _report_later(self, key: GroupKey, note: str) -> None:
        if key not in self._waiting:
            loop = asyncio.get_running_loop()
            self._waiting[key] = (loop.call_later(_REPORTED_AFTER, self._look, key), note)

    def restarted(self, key: GroupKey) -> None:
        """Report a group at once, if it waits to be reported."""
        note = self._take(key)
        if note is not None:
            self._report(key, note)

    def close(self) -> None:
        """Report what still waits, by the same rules."""
        for key in list(self._waiting):
            self._look(key)

    def _look(self, key: GroupKey) -> None:
        note = self._take(key)
        if note is not None and any(pod.deleted_at is None for pod in self._members(key)):
            self._report(key, note)

    def _take(self, key: GroupKey) -> str | None:
        timer, note = self._waiting.pop(key, (None, None))
        if timer is not None:
            timer.cancel()
        return note


def is_below_minimum(info: PodGroupInfo) -> bool:
    """Return whether members of a group hold a node, and fewer than its minimum. O(1)."""
    return bool(info.assigned) and _scheduled(info) < (info.min_available or 0)


def _scheduled(info: PodGroupInfo) -> int:
    return info.assigned + info.members.count(MemberState.SUCCEEDED)


def _counts_of(info: PodGroupInfo) -> str:
    return _counts(_scheduled(info), info.min_available or 0)


def _counts(scheduled: int, minimum: int) -> str:
    return f"{scheduled} of {minimum} members hold a node or have succeeded"
