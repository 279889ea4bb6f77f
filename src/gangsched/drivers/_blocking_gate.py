"""The gate for hosts with threads; its rules are those of ``gangsched.drivers._gate``."""

from __future__ import annotations

import threading
from typing import final

from gangsched.drivers._gate import GateShell
from gangsched.model import Pod
from gangsched.primitives.gate import GangMember

__all__ = ["PermitGate"]


@final
class PermitGate(GateShell[threading.Event]):
    """Lets threads wait until their gang is released. Thread-safe; see ``gangsched.Gate``.

    Args:
        timeout: How many seconds an attempt of a gang waits for its quorum, unless its
            specification says.
        match_policy: Which members count for the quorum, once some of a gang were released.
        observe: Called with every effect, in order, under the lock; must not call the gate. What
            it raises is logged.
        clock: Seconds that never go back, and that pass as fast as real ones.
    """

    _make_lock = staticmethod(threading.Lock)

    def wait(self, member: Pod | GangMember, *, timeout: float | None = None) -> None:
        """Return when the gang of a member that has its place is released.

        Args:
            member: The member; a pod without a group returns at once.
            timeout: How many seconds it waits at most; None for as long as its attempt waits.

        Raises:
            GangRejectedError: The attempt of the gang was rejected; the member must not start.
            InvalidPodGroupError: The member contradicts its gang, or itself; no gang is rejected.
            InvalidValueError: It is at the gate already, or an argument is malformed.
        """
        wait = self._arrive(member, timeout, threading.Event)
        if wait is None:
            return
        try:
            while not wait.over.wait(min(wait.deadline - self._clock(), threading.TIMEOUT_MAX)):
                self._expire()
        except BaseException:
            self._break_off(wait)
            raise
        wait.check()
