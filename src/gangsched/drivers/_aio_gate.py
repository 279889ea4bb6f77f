"""The gate for hosts on asyncio: a member waits here until its gang is released.

Rules:
  R1  every method is called from the thread of one event loop; none but ``wait`` waits;
  R2  there is no timer task. The task with the earliest deadline wakes up and expires the waits
      that are due, of its own gang and of others;
  R3  a wait that is broken off, by ``cancel``, ``close`` or the cancellation of its task, rejects
      its whole gang at once. If the gang was released already, only this member leaves;
  R4  an exception of *observe* is logged and changes nothing: the waits that an effect ends have
      ended before *observe* is called.

The same gate on threads is in ``gangsched.drivers.blocking``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import final

from gangsched._core._gate import GangMember, Gate
from gangsched._core._quorum import MatchPolicy
from gangsched.drivers._clock import epoch_seconds
from gangsched.errors import GangRejectedError
from gangsched.events import Effect, PodRejected, Release
from gangsched.model import Pod, PodGroup, PodUID

__all__ = ["PermitGate"]

_log = logging.getLogger("gangsched.drivers.gate")


class _Wait:
    """One wait: its deadline, and how it ended. *reason* is None if the member was released."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.over = asyncio.Event()
        self.reason: str | None = None


@final
class PermitGate:
    """Lets tasks wait until their gang is released. Not thread-safe; see ``gangsched.Gate``.

    Args:
        timeout: How many seconds an attempt of a gang waits for its quorum, unless its
            specification says.
        match_policy: Which members count for the quorum, once some of a gang were released.
        observe: Called with every effect, in order; must not call the gate. What it raises is
            logged.
        clock: Seconds that never go back, and that pass as fast as real ones.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
        observe: Callable[[Effect], object] | None = None,
        clock: Callable[[], float] = epoch_seconds,
    ) -> None:
        self._gate = Gate(timeout=timeout, match_policy=match_policy)
        self._observe = observe
        self._clock = clock
        self._waits: dict[str, _Wait] = {}
        self._closed: str | None = None

    async def wait(self, member: Pod | GangMember, *, timeout: float | None = None) -> None:
        """Return when the gang of a member that has its place is released.

        Args:
            member: The member; a pod without a group returns at once.
            timeout: How many seconds it waits at most; None for as long as its attempt waits.

        Raises:
            GangRejectedError: The attempt of the gang was rejected; the member must not start.
            InvalidPodGroupError: The member contradicts its gang, or itself; no gang is rejected.
            InvalidValueError: It is at the gate already, or an argument is malformed.
        """
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
        try:
            self._tell(effects)
        except BaseException:
            self._tell(self._gate.leave(member.uid, now=self._clock()))
            raise
        if wait is not None:
            await self._stay(member.uid, wait)

    def leave(self, uid: str) -> None:
        """Forget a member that was released and has ended; one that waits gives up."""
        self._tell(self._gate.leave(uid, now=self._clock()))

    def cancel(self, uid: str, reason: str = "") -> None:
        """End the wait of a member: its whole gang is rejected."""
        self._tell(self._gate.withdraw(uid, now=self._clock(), reason=reason))

    def set_spec(self, group: PodGroup) -> None:
        """Remember the specification of a group; see ``gangsched.Gate.set_spec``."""
        self._tell(self._gate.set_spec(group, now=self._clock()))

    def delete_spec(self, key: str) -> None:
        """Forget the specification of a group; see ``gangsched.Gate.delete_spec``."""
        self._tell(self._gate.delete_spec(key, now=self._clock()))

    def close(self, reason: str = "the gate is closed") -> None:
        """Reject every gang that waits, and every member that comes from now on."""
        self._closed = reason
        self._tell(self._gate.close(reason, now=self._clock()))

    def __len__(self) -> int:
        """Return the number of members that wait, or were released and have not left."""
        return len(self._gate)

    async def _stay(self, uid: str, wait: _Wait) -> None:
        try:
            while not wait.over.is_set():
                try:
                    async with asyncio.timeout(max(0.0, wait.deadline - self._clock())):
                        await wait.over.wait()
                except TimeoutError:
                    self._tell(self._gate.advance(now=self._clock()))
        except BaseException:
            if wait.reason is None:  # also when it was released: its task does not know
                self._tell(self._gate.leave(uid, now=self._clock()))
            raise
        if wait.reason is not None:
            raise GangRejectedError(uid, wait.reason)

    def _tell(self, effects: tuple[Effect, ...]) -> None:
        # waits end first: an exception of observe must not part a gang
        for effect in effects:
            if isinstance(effect, Release):
                for uid in effect.members:
                    self._end(uid, None)
            elif isinstance(effect, PodRejected):
                self._end(effect.uid, effect.reason)
        if self._observe is None:
            return
        for effect in effects:
            try:
                self._observe(effect)
            except Exception:
                _log.exception("observe raised for %s", effect)

    def _end(self, uid: str, reason: str | None) -> None:
        wait = self._waits.pop(uid, None)
        if wait is not None:
            wait.reason = reason
            wait.over.set()
