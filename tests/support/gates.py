"""One interface for both shells of the gang barrier, and a record of its effects.

Rules:
  R1  when ``begin`` returns, the member waits at the barrier, or its wait is over;
  R2  the record checks the laws by its own account of the effects.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from attrs import define, field

from gangsched import (
    Effect,
    GangMember,
    GangRejectedError,
    GroupRejected,
    PodRejected,
    PodWaiting,
    Release,
)
from gangsched.drivers import aio, blocking
from support.patience import HANG, until

__all__ = ["SHELLS", "Book", "Tasks", "Threads"]


@define(eq=False)
class Book:
    """The effects of a barrier, checked against laws 1, 2, 6 and 8.

    Attributes:
        least: The minimum of each gang.
        group_of: The gang of each member.
        effects: All effects, in order.
        waits: The waiting members, by gang.
        runs: The released members.
    """

    least: dict[str, int]
    group_of: dict[str, str] = field(factory=dict)
    effects: list[Effect] = field(factory=list)
    waits: dict[str, set[str]] = field(factory=dict)
    runs: set[str] = field(factory=set)
    started: set[str] = field(factory=set)
    problems: list[str] = field(factory=list)

    def see(self, effect: Effect) -> None:
        """Record an effect, and any violation of a law: an observer must not raise."""
        self.effects.append(effect)
        match effect:
            case PodWaiting(uid):
                self.waits.setdefault(self.group_of[uid], set()).add(uid)
            case Release(group, members):
                left = self.waits.pop(group, set()) - set(members)
                if left:
                    self.problems.append(f"{left} of {group} wait on")
                if len(members) < self.least[group] and group not in self.started:
                    self.problems.append(f"{members} of {group} went alone")
                if self.runs & set(members):
                    self.problems.append(f"{members} went twice")
                self.started.add(group)
                self.runs |= set(members)
            case PodRejected(uid):
                if uid in self.runs:
                    self.problems.append(f"{uid} was called back")
                self.waits.get(self.group_of[uid], set()).discard(uid)
            case GroupRejected(group):
                if self.waits.pop(group, set()):
                    self.problems.append(f"{group} fell, and a member still waits")
            case _:
                pass

    def ends(self) -> dict[str, str]:
        """Return how the last wait of each member ended, by the effects."""
        found: dict[str, str] = {}
        for effect in self.effects:
            if isinstance(effect, Release):
                found.update(dict.fromkeys(effect.members, "went"))
            elif isinstance(effect, PodRejected):
                found[effect.uid] = effect.reason
        return found


class Threads:
    """Each waiting member is a thread."""

    def __init__(self, book: Book, **given: Any) -> None:
        self.book = book
        self.results: dict[str, str] = {}
        self.gate = blocking.PermitGate(observe=book.see, **given)
        self._threads: list[threading.Thread] = []
        self._latest: dict[str, threading.Thread] = {}

    def begin(self, member: GangMember, timeout: float | None = None) -> None:
        """Let a thread wait."""
        self.start(member, timeout)
        until(lambda: member.uid in self.gate._waits or member.uid in self.results)

    def start(self, member: GangMember, timeout: float | None = None) -> None:
        """Let a thread wait some time soon."""
        self.book.group_of[member.uid] = member.group
        self.results.pop(member.uid, None)
        thread = threading.Thread(target=self._wait, args=(member, timeout), daemon=True)
        self._latest[member.uid] = thread
        self._threads.append(thread)
        thread.start()

    def _wait(self, member: GangMember, timeout: float | None) -> None:
        try:
            self.gate.wait(member, timeout=timeout)
        except GangRejectedError as error:
            result = error.reason
        else:
            result = "went"
        # the thread of a released member may end only after the member waits again
        if self._latest[member.uid] is threading.current_thread():
            self.results[member.uid] = result

    def interrupt(self, uid: str) -> None:
        """Cancel a wait."""
        self.gate.cancel(uid)
        until(lambda: uid in self.results)

    def call(self, what: Callable[[], object]) -> None:
        """Call the barrier."""
        what()

    def finish(self) -> None:
        """Return when every thread has ended."""
        for thread in self._threads:
            thread.join(HANG)
            assert not thread.is_alive(), "a wait does not end"


class Tasks:
    """Each waiting member is a task of an event loop that runs during each call."""

    def __init__(self, book: Book, **given: Any) -> None:
        self.book = book
        self.results: dict[str, str] = {}
        self.loop = asyncio.new_event_loop()
        self.gate = aio.PermitGate(observe=book.see, **given)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, member: GangMember, timeout: float | None = None) -> None:
        """Let a task wait."""
        self.start(member, timeout)
        self._turn()

    def start(self, member: GangMember, timeout: float | None = None) -> None:
        """Let a task wait some time soon."""
        self.book.group_of[member.uid] = member.group
        self.results.pop(member.uid, None)
        self._tasks[member.uid] = self.loop.create_task(self._wait(member, timeout))

    async def _wait(self, member: GangMember, timeout: float | None) -> None:
        try:
            await self.gate.wait(member, timeout=timeout)
        except GangRejectedError as error:
            self.results[member.uid] = error.reason
        else:
            self.results[member.uid] = "went"

    def interrupt(self, uid: str) -> None:
        """Cancel a wait."""
        self.gate.cancel(uid)
        self._turn()

    def call(self, what: Callable[[], object]) -> None:
        """Call the barrier, and let other tasks run."""
        what()
        self._turn()

    def finish(self) -> None:
        """Return when every task has ended."""

        async def all_tasks() -> None:
            if self._tasks:
                _done, left = await asyncio.wait(self._tasks.values(), timeout=HANG)
                assert not left, "a wait does not end"

        self.loop.run_until_complete(all_tasks())
        self.loop.close()

    def _turn(self) -> None:
        async def others_first() -> None:
            for _ in range(3):
                await asyncio.sleep(0)

        self.loop.run_until_complete(others_first())


SHELLS: tuple[type[Threads] | type[Tasks], ...] = (Threads, Tasks)
