"""Backfill: reserve capacity for a gang that keeps failing, and let others run meanwhile.

Rules:
  R1  there is at most one reservation;
  R2  it goes to the gang of the highest priority that can get one; of equal priorities, to the one
      with the fewest drain timeouts, then to the oldest. The gang keeps the reservation until it
      takes nodes, leaves, is not admitted any more, fails for another reason than capacity, or is
      outranked. If the gang changes, its start is estimated again. The reservation also ends if
      draining reaches ``drain_for``, or if no start can be estimated any more;
  R3  only a snapshot stores it; after a restart without one it is made again when the gang has
      failed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey, NodeName
from gangsched.quantity import is_seconds
from gangsched.run_times import RunTimes
from gangsched.values.fields import check_positive, check_seconds
from gangsched.values.seconds import format_instant, format_utc

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
    """Which gangs get a reservation, and how long it is kept.

    Attributes:
        run_times: Estimates when pods end; None if that is unknown.
        after_attempts: The number of attempts in a row that must have failed, the last for lack
            of capacity; at least 1.
        after_seconds: The number of seconds that the gang must have been complete. If only a
            plugin knows the minimum, they count from the gang's creation.
        least_members: The smallest minimum of a gang that gets a reservation. With 1, the default,
            regular pods get one, too; with 2 only gangs do.
        overdue_after: The number of seconds after its expected end at which a pod is overdue. The
            end of an overdue pod is unknown.
        drain_for: The number of seconds that nodes are drained at most for a gang whose start
            cannot be estimated.

    Raises:
        InvalidValueError: A value is malformed.
    """

    run_times: RunTimes | None = field(default=None, validator=_check_run_times)
    after_attempts: int = field(default=1, validator=check_positive)
    after_seconds: float = field(default=0.0, validator=check_seconds)
    least_members: int = field(default=1, validator=check_positive)
    overdue_after: float = field(default=60.0, validator=check_seconds)
    drain_for: float = field(default=86_400.0, validator=_check_drain_for)


@final
@frozen
class Reservation:
    """Capacity that is reserved for a gang, or for a regular pod.

    Attributes:
        group: The gang; None for a regular pod.
        since: When the reservation was made; it may have moved since.
        starts_at: The latest start of the gang if all run times are exact; None if nodes are
            drained for it and the start is unknown.
        nodes: The nodes on which capacity is reserved.
        pod: ``namespace/name`` of the regular pod; None for a gang.
    """

    group: GroupKey | None
    since: float
    starts_at: float | None
    nodes: tuple[NodeName, ...]
    pod: str | None = None

    @property
    def holder(self) -> str:
        """For what capacity is reserved, as in a sentence."""
        return f"pod {self.pod}" if self.group is None else f"pod group {self.group}"

    def __str__(self) -> str:
        return self._said(format_instant)

    def in_utc(self) -> str:
        """Return the sentence with its instant, which is seconds since 1970, as a date in UTC."""
        return self._said(format_utc)

    def _said(self, instant: Callable[[float], str]) -> str:
        is_one = len(self.nodes) == 1
        count, verb = ("1 node", "is") if is_one else (f"{len(self.nodes)} nodes", "are")
        if self.starts_at is None:
            return f"{count} {verb} drained for {self.holder}"
        starts_at = instant(self.starts_at)
        return f"{count} {verb} reserved for {self.holder}, starts by {starts_at}"
