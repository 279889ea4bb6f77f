"""Backfill: a big gang that keeps failing is promised room, and others run meanwhile around it.

Rules:
  R1  there is one reservation at a time;
  R2  it is for who has waited longest of the gangs of the highest priority that can have one, and
      once made it stays with its gang until the gang starts, changes, leaves or is outranked;
  R3  nothing of it is persistent but in a snapshot: after a restart without one it is made anew
      from what there is.
"""

from __future__ import annotations

from typing import final

from attrs import field, frozen

from gangsched._fields import check_positive, check_seconds
from gangsched._seconds import format_instant
from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey, NodeName
from gangsched.quantity import is_seconds
from gangsched.run_times import RunTimes

__all__ = ["Backfill", "Reservation"]


def _check_run_times(_owner: object, _attribute: object, value: RunTimes | None) -> None:
    if value is not None and not callable(getattr(value, "expected_end", None)):
        raise InvalidValueError("run_times", value, "a RunTimes or None")


def _check_drain_for(_owner: object, _attribute: object, value: object) -> None:
    if not is_seconds(value) or value <= 0:
        raise InvalidValueError("drain_for", value, "a finite number of seconds > 0")


@final
@frozen
class Backfill:
    """For whom room is reserved, and for how long.

    Attributes:
        run_times: Says when pods end; None where nobody knows.
        after_attempts: How many attempts in a row must have failed, the last for want of room; at
            least 1.
        after_seconds: For how many seconds the gang must have been complete, or, where a plugin
            alone says how many members it needs, have been there.
        least_members: How many members its quorum must have.
        overdue_after: How many seconds later than said a pod may end before nobody is taken to
            know when it does.
        drain_for: For how many seconds at most nodes are drained for a gang where nobody knows
            when it can start.

    Raises:
        InvalidValueError: A value is malformed.
    """

    run_times: RunTimes | None = field(default=None, validator=_check_run_times)
    after_attempts: int = field(default=1, validator=check_positive)
    after_seconds: float = field(default=0.0, validator=check_seconds)
    least_members: int = field(default=2, validator=check_positive)
    overdue_after: float = field(default=60.0, validator=check_seconds)
    drain_for: float = field(default=86_400.0, validator=_check_drain_for)


@final
@frozen
class Reservation:
    """Room that is kept for a gang.

    Attributes:
        group: The gang.
        since: When the reservation was made; it may have moved since.
        starts_at: When the gang can start at the latest if every run time is as said; None where
            nodes are drained for it and nobody knows when that is done.
        nodes: The nodes on which room is kept, or will be.
    """

    group: GroupKey
    since: float
    starts_at: float | None
    nodes: tuple[NodeName, ...]

    def __str__(self) -> str:
        is_one = len(self.nodes) == 1
        count = "1 node" if is_one else f"{len(self.nodes)} nodes"
        if self.starts_at is None:
            return f"{count} {'is' if is_one else 'are'} drained for pod group {self.group}"
        starts_at = format_instant(self.starts_at)
        return f"room on {count} is kept for pod group {self.group}, by {starts_at}"
