"""Exponential backoff.

Rules:
  R1  the delay after the n-th failure in a row is ``min(initial * 2 ** (n - 1), maximum)``;
  R2  there is no jitter: two runs over one history wait equally long.
"""

from __future__ import annotations

import math
from typing import final

from attrs import field, frozen

from gangsched._seconds import format_duration
from gangsched.errors import InvalidValueError
from gangsched.quantity import is_seconds

__all__ = ["Backoff"]


@final
@frozen
class Backoff:
    """How long an entity rests after a failed try.

    Attributes:
        initial: Seconds after the first failure; more than 0, or a try that always fails would be
            made for ever in one instant.
        maximum: Seconds at most, at least *initial*.
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
        """Return for how many seconds to rest after *failures* failures in a row.

        Raises:
            InvalidValueError: *failures* is no whole number.
        """
        if type(failures) is not int:
            raise InvalidValueError("failures", failures, "an int")
        if failures < 1:
            return 0.0
        try:
            return min(math.ldexp(self.initial, failures - 1), self.maximum)
        except OverflowError:
            return self.maximum
