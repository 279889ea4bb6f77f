"""Both drivers behind one face, so that a test is written once for threads and for asyncio.

Rules:
  R1  *bind* and *evict* are plain functions of the test. They are called in a thread of the pool
      by the blocking driver, and in a task by the asyncio driver;
  R2  a function that has to wait returns an awaitable for ``aio`` only; see ``Together``.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from gangsched import Bind, Effect, Event, Evict, InMemoryCluster, Scheduler, presets
from gangsched.drivers import aio, blocking
from support.patience import HANG

__all__ = ["SHELLS", "Aio", "Blocking", "Shell", "Together"]


class Shell(ABC):
    """A driver with its cluster and its scheduler.

    Attributes:
        cluster: The cluster state.
        scheduler: The scheduler.
        driver: The driver.
        effects: What ``observe`` was called with.
        errors: What ``on_error`` was called with.
    """

    module: Any

    def __init__(
        self,
        make: Callable[..., Scheduler] = presets.gang,
        *,
        bind: Callable[[Bind], Any] | None = lambda _bind: None,
        bind_gang: Callable[[tuple[Bind, ...]], Any] | None = None,
        evict: Callable[[Evict], Any] | None = None,
        cluster: InMemoryCluster | None = None,
        **given: Any,
    ) -> None:
        self.cluster = InMemoryCluster() if cluster is None else cluster
        self.scheduler = make(self.cluster)
        self.effects: list[Effect] = []
        self.errors: list[tuple[Event | Evict, Exception]] = []
        self.driver = self.module.Driver(
            given.pop("scheduler", self.scheduler),
            apply=given.pop("apply", self.cluster.apply),
            bind=None if bind is None else self.adapted(bind),
            bind_gang=None if bind_gang is None else self.adapted(bind_gang),
            evict=None if evict is None else self.adapted(evict),
            observe=given.pop("observe", self.effects.append),
            on_error=lambda what, error: self.errors.append((what, error)),
            **given,
        )

    def adapted(self, function: Callable[[Any], Any]) -> Any:
        """Return a function of the test as the driver takes it."""
        return function

    def tell(self, *events: Event) -> None:
        """Hand events in."""
        for event in events:
            self.driver.tell(event)

    def run(self, *events: Event) -> None:
        """Hand events in and run until all is decided."""
        self.tell(*events)
        self.driver.stop()
        self.run_on()

    @abstractmethod
    def run_on(self) -> None:
        """Run until ``stop``, which was or will be called; not for longer than a test may take."""

    def placed(self) -> dict[str, str]:
        """Return the node of each pod that is bound."""
        return {pod.uid: pod.node_name for pod in self.cluster.pods() if pod.node_name}


class Blocking(Shell):
    """The driver on threads; ``run`` runs in a thread of its own."""

    module = blocking

    def run_on(self) -> None:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                self.driver.run()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(HANG)
        assert not thread.is_alive(), "run does not return"
        if raised:
            raise raised[0]


class Aio(Shell):
    """The driver on asyncio."""

    module = aio

    def adapted(self, function: Callable[[Any], Any]) -> Any:
        async def awaited(effect: Any) -> None:
            result = function(effect)
            if inspect.isawaitable(result):
                await result

        return awaited

    def run_on(self) -> None:
        asyncio.run(asyncio.wait_for(self.driver.run(), HANG))


SHELLS: Final[tuple[type[Shell], ...]] = (Blocking, Aio)


class Together:
    """A place where binds meet: each goes on as soon as *count* have come.

    Args:
        shell: Under which driver the binds run.
        count: How many have to be under way at once.
    """

    def __init__(self, shell: type[Shell], count: int) -> None:
        self._barrier = threading.Barrier(count, timeout=HANG)
        self._left = count
        self._all = asyncio.Event()
        self.meet: Callable[[Bind], Any] = self._block if shell is Blocking else self._await

    def _block(self, _bind: Bind) -> None:
        self._barrier.wait()

    async def _await(self, _bind: Bind) -> None:
        self._left -= 1
        if not self._left:
            self._all.set()
        async with asyncio.timeout(HANG):
            await self._all.wait()
