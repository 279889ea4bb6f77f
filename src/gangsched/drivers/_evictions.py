"""Evictions that are under way or have failed: each is tried until its pod goes.

A pod that the scheduler has asked to evict counts as terminating, and the request is not made
again. So a driver repeats a failed eviction by itself, after 1 s, 2 s, 4 s, … at most 60 s.

Rules:
  R1  an eviction ends when it succeeds, when its pod is deleted, or when the pod is seen to be
      terminating or finished;
  R2  an eviction that fails after it has ended is not tried again: a request to delete a pod that
      is gone fails as a rule.
"""

from __future__ import annotations

from typing import Final, final

from attrs import define

from gangsched.events import Evict
from gangsched.model import PodUID

__all__ = ["Evictions"]

_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 60.0


@define
class _Attempt:
    evict: Evict
    failures: int = 0
    retry_at: float | None = None  # None: under way


@final
class Evictions:
    """The evictions of one driver, by pod."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts: dict[PodUID, _Attempt] = {}

    def begin(self, evict: Evict) -> None:
        """Note that an eviction is asked for."""
        self._attempts[evict.uid] = _Attempt(evict)

    def end(self, uid: PodUID) -> None:
        """Forget the eviction of a pod that was evicted, or goes by itself."""
        self._attempts.pop(uid, None)

    def failed(self, evict: Evict, *, now: float) -> bool:
        """Note that an eviction failed; return whether ``due`` returns it again later."""
        attempt = self._attempts.get(evict.uid)
        if attempt is None:
            return False
        delay = min(_FIRST_DELAY * 2.0 ** min(attempt.failures, 30), _LONGEST_DELAY)
        attempt.failures += 1
        attempt.retry_at = now + delay
        return True

    def due(self, *, now: float) -> list[Evict]:
        """Return the evictions to repeat now; they count as under way. O(evictions)."""
        found: list[Evict] = []
        for attempt in self._attempts.values():
            if attempt.retry_at is not None and attempt.retry_at <= now:
                attempt.retry_at = None
                found.append(attempt.evict)
        return found

    def next_deadline(self) -> float | None:
        """Return when ``due`` returns something; None if nothing is to be repeated."""
        waiting = (a.retry_at for a in self._attempts.values() if a.retry_at is not None)
        return min(waiting, default=None)

    def __len__(self) -> int:
        """Return the number of evictions that have not ended."""
        return len(self._attempts)
