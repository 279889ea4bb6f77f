"""The gate for hosts: a member waits here until its gang is released.

Rules:
  R1  on threads every method may be called from any thread. One lock makes their calls one after
      the other, and the clock is read under it. On asyncio every method is called from the thread
      of one event loop, and none but ``wait`` waits;
  R2  there is no timer thread or task. What waits until the earliest deadline wakes up and expires
      the waits that are due, of its own gang and of others;
  R3  a wait that is broken off, by ``cancel``, ``close``, an exception in its thread or the
      cancellation of its task, rejects its whole gang at once. If the gang was released already,
      only this member leaves;
  R4  an exception of *observe* is logged and changes nothing: the waits that an effect ends have
      ended before *observe* is called.

This module never waits. The two shells around it add ``wait``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic

from attrs import define

from gangsched.drivers._clock import epoch_seconds
from gangsched.drivers._contract import E
from gangsched.errors import GangRejectedError
from gangsched.events import Effect, PodRejected, Release
from gangsched.model import Pod, PodGroup, PodUID
from gangsched.primitives.gate import GangMember, Gate
from gangsched.primitives.quorum import MatchPolicy

__all__ = ["GateShell", "Wait"]

_log = logging.getLogger("gangsched.drivers.gate")


@define(eq=False)
class Wait(Generic[E]):
    """One wait: its deadline, and how it ended. *reason* is None if the member was released."""

    uid: str
    deadline: float
    over: E
    reason: str | None = None

    def check(self) -> None:
        """Raise ``GangRejectedError`` if the gang was rejected."""
        if self.reason is not None:
            raise GangRejectedError(self.uid, self.reason)


class GateShell(Generic[E]):
    """A gate without ``wait``."""

    _make_lock: Callable[[], AbstractContextManager[object]]

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
        self._lock = self._make_lock()
        self._waits: dict[str, Wait[E]] = {}
        self._closed: str | None = None

    def leave(self, uid: str) -> None:
        """Forget a member that was released and has ended; one that waits gives up."""
        with self._lock:
            self._tell(self._gate.leave(uid, now=self._clock()))

    def cancel(self, uid: str, reason: str = "") -> None:
        """End the wait of a member: its whole gang is rejected."""
        with self._lock:
            self._tell(self._gate.withdraw(uid, now=self._clock(), reason=reason))

    def set_spec(self, group: PodGroup) -> None:
        """Remember the specification of a group; see ``gangsched.Gate.set_spec``."""
        with self._lock:
            self._tell(self._gate.set_spec(group, now=self._clock()))

    def delete_spec(self, key: str) -> None:
        """Forget the specification of a group; see ``gangsched.Gate.delete_spec``."""
        with self._lock:
            self._tell(self._gate.delete_spec(key, now=self._clock()))

    def close(self, reason: str = "the gate is closed") -> None:
        """Reject every gang that waits, and every member that comes from now on."""
        with self._lock:
            self._closed = reason
            self._tell(self._gate.close(reason, now=self._clock()))

    def __len__(self) -> int:
        """Return the number of members that wait, or were released and have not left."""
        with self._lock:
            return len(self._gate)

    def _arrive(
        self, member: Pod | GangMember, timeout: float | None, event: Callable[[], E]
    ) -> Wait[E] | None:
        """Let a member arrive; return its wait, or None if it may start at once."""
        with self._lock:
            if self._closed is not None:
                raise GangRejectedError(getattr(member, "uid", ""), self._closed)
            try:
                effects = self._gate.arrive(member, now=self._clock(), timeout=timeout)
            except BaseException:
                self._tell(self._gate.advance(now=self._clock()))
                raise
            held = self._gate.waiting.get(PodUID(member.uid))
            wait = None if held is None else Wait(member.uid, held.deadline, event())
            if wait is not None:
                self._waits[member.uid] = wait
            try:
                self._tell(effects)
            except BaseException:
                self._tell(self._gate.leave(member.uid, now=self._clock()))
                raise
            return wait

    def _expire(self) -> None:
        with self._lock:
            self._tell(self._gate.advance(now=self._clock()))

    def _break_off(self, wait: Wait[E]) -> None:
        with self._lock:
            if wait.reason is None:  # also when it was released: what waits does not know
                self._tell(self._gate.leave(wait.uid, now=self._clock()))

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
