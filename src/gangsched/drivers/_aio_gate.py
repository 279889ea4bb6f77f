"""The gate for hosts on asyncio; its rules are those of ``gangsched.drivers._gate``."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import final

from gangsched.drivers._gate import GateShell
from gangsched.model import Pod
from gangsched.primitives.gate import GangMember

__all__ = ["PermitGate"]


@final
class PermitGate(GateShell[asyncio.Event]):
    """Lets tasks wait until their gang is released. Not thread-safe; see ``gangsched.Gate``.

    Its arguments are those of ``gangsched.drivers.blocking.PermitGate``; there is no lock.
    """

    _make_lock = staticmethod(nullcontext)

    async def wait(self, member: Pod | GangMember, *, timeout: float | None = None) -> None:
        """Return when the gang of a member that has its place is released.

        Its arguments and exceptions are those of ``gangsched.drivers.blocking.PermitGate.wait``.
        """
        wait = self._arrive(member, timeout, asyncio.Event)
        if wait is None:
            return
        try:
            while not wait.over.is_set():
                try:
                    async with asyncio.timeout(max(0.0, wait.deadline - self._clock())):
                        await wait.over.wait()
                except TimeoutError:
                    self._expire()
        except BaseException:
            self._break_off(wait)
            raise
        wait.check()
