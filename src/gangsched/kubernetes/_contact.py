"""Whether the API server answers: what is logged of it, and what readiness says.

A client repeats a lost request until its time is over, half a minute as a rule. A mistake in an
address or a certificate must not stay hidden for so long.

Rules:
  R1  the first request without an answer is logged at once; so is another problem than the last;
  R2  a problem that stays is logged again after a minute;
  R3  an answer, whatever its status, ends the problem.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, final

from gangsched.kubernetes._api import ConnectionLost

__all__ = ["Contact"]

_AGAIN: Final = 60.0
"""Seconds after which a problem that stays is logged again."""
_PAUSE: Final = 1.0
"""Seconds between two records at least: problems of several requests may alternate."""

_log = logging.getLogger("gangsched.kubernetes")


@final
class Contact:
    """The contact with one API server.

    Args:
        clock: A steady clock, in seconds.

    Attributes:
        problem: Why the last request has no answer; empty if it has one.
    """

    __slots__ = ("_clock", "_logged", "_logged_at", "problem")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged = ""
        self._logged_at = 0.0
        self.problem = ""

    def lost(self, error: ConnectionLost) -> None:
        """Note that a request has no answer."""
        self.problem = error.problem
        now = self._clock()
        pause = _AGAIN if error.problem == self._logged else _PAUSE if self._logged else 0.0
        if now - self._logged_at >= pause:
            self._logged, self._logged_at = error.problem, now
            _log.warning("%s; it is repeated", error)

    def answered(self) -> None:
        """Note that a request has an answer; called only if there is a problem."""
        self.problem = ""
        if self._logged:
            self._logged = ""
            _log.info("the API server answers again")

    def explained(self, problems: list[str]) -> list[str]:
        """Return why a replica is not ready, with the problem of the contact if there is one."""
        if not problems or not self.problem or any(self.problem in each for each in problems):
            return problems
        return [*problems, f"no answer from the API server: {self.problem}"]
