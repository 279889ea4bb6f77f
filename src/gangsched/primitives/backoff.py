"""Exponential backoff.

Rules:
  R1  the delay after the n-th failure in a row is ``min(initial * 2 ** (n - 1), maximum)``;
  R2  there is no jitter: the same events at the same instants give the same delays.
"""

from __future__ import annotations

import math
from typing import final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.quantity import is_seconds
from gangsched.values.seconds import format_duration

__all__ = ["Backoff"]


@final
@frozen
class Backoff:
    """The backoff policy: how long an entity waits after a failed attempt.

    Attributes:
        initial: The delay in seconds after the first failure; > 0, because with 0 an attempt that
            always fails would be repeated without end at one instant.
        maximum: The longest delay in seconds; >= *initial*.
    """

    initial: float = field(default=1.0)
    maximum: float = field(default=10.0)

    def __attrs_post_init__(self) -> None:
        if not is_seconds(self.initial) or self.initial <= 0:
            raise InvalidValueError("initial", self.initial, "a finite number of seconds > 0")
        if not is_seconds(self.maximum) or self.maximum < self.initial:
            raise InvalidValueError(
                "maximum",
                self.maximum,
                f"a finite number of seconds >= {format_duration(self.initial)}",
            )

    def delay(self, failures: int) -> float:
        """Return the delay in seconds after *failures* failures in a row.

        Raises:
            InvalidValueError: *failures* is not an int.
        """
        if type(failures) is not int:
            raise InvalidValueError("failures", failures, "an int")
        if failures < 1:
            return 0.0
        try:
            return min(math.ldexp(self.initial, failures - 1), self.maximum)
        except OverflowError:
            return self.maximum
