"""The gate for hosts with threads: wait here until your gang may go.

Rules:
  R1  every method may be called from any thread; one lock makes their calls one after the other,
      and the clock is read under it;
  R2  nobody watches the time but those who wait: whoever's deadline comes first wakes, and calls
      back all whom that concerns;
  R3  a wait that is broken off, by ``cancel``, ``close`` or an exception in its thread, lets its
      whole gang fall at once. One that comes too late, when the gang was let go, does not.

The same gate on asyncio is in ``gangsched.drivers.aio``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final

from gangsched._core._gate import GangMember, Gate
from gangsched._core._quorum import MatchPolicy
from gangsched.errors import GangRejectedError
from gangsched.events import Effect, PodRejected, Release
from gangsched.model import Pod, PodGroup, PodUID

__all__ = ["PermitGate"]


class _Wait:
    """One wait: until when, and how it ended."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.over = threading.Event()
        self.reason: str | None = None


@final
class PermitGate:
    """Lets threads wait until their gang may go. Thread-safe; see ``gangsched.Gate``.

    Args:
        timeout: For how many seconds an attempt of a gang waits for its quorum, where its
            specification does not say.
        match_policy: Which members count for the quorum, once some of a gang were let go.
        observe: Is told every effect, in order; must not call the gate.
        clock: Seconds that never go back, as long as real ones.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
        observe: Callable[[Effect], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = Gate(timeout=timeout, match_policy=match_policy)
        self._observe = observe
        self._clock = clock
        self._lock = threading.Lock()
        self._waits: dict[str, _Wait] = {}
        self._closed: str | None = None

    def wait(self, member: Pod | GangMember, *, timeout: float | None = None) -> None:
        """Return when the gang of a member that has its place may go.

        Args:
            member: The member; a pod in no group returns at once.
            timeout: For how many seconds it waits at most; None for as long as its attempt may.

        Raises:
            GangFellError: The gang fell; the member must not go.
            InvalidPodGroupError: The member contradicts its gang, or itself; nobody fell.
            InvalidValueError: It is at the gate already, or an argument is malformed.
        """
        with self._lock:
            if self._closed is not None:
                raise GangRejectedError(getattr(member, "uid", ""), self._closed)
            try:
                effects = self._gate.arrive(member, now=self._clock(), timeout=timeout)
            except BaseException:
                self._tell(self._gate.advance(now=self._clock()))
                raise
            held = self._gate.waiting.get(PodUID(member.uid))
            wait = None if held is None else _Wait(held.deadline)
            if wait is not None:
                self._waits[member.uid] = wait
            self._tell(effects)
        if wait is not None:
            self._stay(member.uid, wait)

    def leave(self, uid: str) -> None:
        """Forget a member that was let go and is over; one that waits gives up."""
        with self._lock:
            self._tell(self._gate.leave(uid, now=self._clock()))

    def cancel(self, uid: str, reason: str = "") -> None:
        """Let a member give up its wait, from any thread: its whole gang falls."""
        with self._lock:
            self._tell(self._gate.withdraw(uid, now=self._clock(), reason=reason))

    def declare(self, group: PodGroup) -> None:
        """Take note of what a group needs; see ``gangsched.Gate.declare``."""
        with self._lock:
            self._tell(self._gate.declare(group, now=self._clock()))

    def undeclare(self, key: str) -> None:
        """Forget what a group needs; see ``gangsched.Gate.undeclare``."""
        with self._lock:
            self._tell(self._gate.undeclare(key, now=self._clock()))

    def close(self, reason: str = "the gate is closed") -> None:
        """Let everybody fall who waits, and whoever comes from now on."""
        with self._lock:
            self._closed = reason
            self._tell(self._gate.close(reason, now=self._clock()))

    def __len__(self) -> int:
        """Return how many are at the gate: who waits, and who was let go and has not left."""
        with self._lock:
            return len(self._gate)

    def _stay(self, uid: str, wait: _Wait) -> None:
        try:
            while not wait.over.wait(min(wait.deadline - self._clock(), threading.TIMEOUT_MAX)):
                with self._lock:
                    self._tell(self._gate.advance(now=self._clock()))
        except BaseException:
            with self._lock:
                if wait.reason is None:  # also when it was let go: its thread does not know
                    self._tell(self._gate.leave(uid, now=self._clock()))
            raise
        if wait.reason is not None:
            raise GangRejectedError(uid, wait.reason)

    def _tell(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Release):
                for uid in effect.members:
                    self._end(uid, None)
            elif isinstance(effect, PodRejected):
                self._end(effect.uid, effect.reason)
        if self._observe is not None:
            for effect in effects:
                self._observe(effect)

    def _end(self, uid: str, reason: str | None) -> None:
        wait = self._waits.pop(uid, None)
        if wait is not None:
            wait.reason = reason
            wait.over.set()
