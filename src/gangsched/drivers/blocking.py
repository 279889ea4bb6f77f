"""The loop for hosts with threads.

Rules:
  R1  one thread owns the scheduler and the cluster state: the one that runs ``run``;
  R2  ``tell`` and ``stop`` may be called from any thread, and never wait;
  R3  it sleeps until a fact comes or the scheduler's next deadline, and never polls;
  R4  a bind that raises is a bind that failed: its member is tried again later.

The same loop on asyncio is ``gangsched.drivers.aio``.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from gangsched._checks import check_event
from gangsched.drivers._blocking_gate import PermitGate
from gangsched.events import Bind, BindFailed, Bound, Effect, Event, Evict
from gangsched.protocols import FourCalls, Observer

__all__ = ["Driver", "PermitGate"]

_log = logging.getLogger(__name__)


@final
class Driver:
    """Runs a scheduler: facts in through ``tell``, binds out through *bind*.

    Args:
        scheduler: The scheduler, or what records its calls; nobody else may call it.
        apply: Makes a fact true in the cluster state, such as ``InMemoryCluster.apply``.
        bind: Performs a bind and returns when it is done, or raises when it is not.
        evict: Asks for the end of a pod, and sees to it that it comes: ``PodDeleted`` is told when
            the pod is gone. None where no policy evicts.
        observe: Is told every effect, in order; binds before they are performed.
        observers: Who watches: facts, what each call returns, and when there is nothing to do.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        scheduler: FourCalls,
        *,
        apply: Callable[[Event], object],
        bind: Callable[[Bind], object],
        evict: Callable[[Evict], object] | None = None,
        observe: Callable[[Effect], object] | None = None,
        observers: Sequence[Observer] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._apply = apply
        self._bind = bind
        self._evict = evict
        self._observe = observe
        self._observers = tuple(observers)
        self._clock = clock
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def tell(self, event: Event) -> None:
        """Hand a fact in. Thread-safe.

        Raises:
            InvalidValueError: It is no fact; nothing was handed in.
        """
        check_event(event)
        self._inbox.put(event)

    def stop(self) -> None:
        """Let ``run`` return when what was told before is taken in and decided. Thread-safe."""
        self._inbox.put(None)

    def run(self) -> None:
        """Run until ``stop``.

        Raises:
            GangschedError: The scheduler raised; see ``Scheduler``.
        """
        while True:
            while self._inbox.empty() and self._decide():
                pass
            if self._inbox.empty():
                now = self._clock()
                for observer in self._observers:
                    observer.settled(now)
            try:
                event = self._inbox.get(timeout=self._timeout())
            except queue.Empty:
                now = self._clock()
                self._perform(self._seen(self._scheduler.advance(now=now), now))
            else:
                if event is None:
                    while self._decide():
                        pass
                    return
                self._perform(self._handle(event))

    def _decide(self) -> bool:
        now = self._clock()
        effects = self._scheduler.schedule_one(now=now)
        if effects is None:
            return False
        self._perform(self._seen(effects, now))
        return True

    def _timeout(self) -> float | None:
        when = self._scheduler.next_deadline()
        if when is None:
            return None
        # a lock waits for no longer than that at once; who wakes then, sleeps again
        return min(max(0.0, when - self._clock()), threading.TIMEOUT_MAX)

    def _handle(self, event: Event) -> tuple[Effect, ...]:
        self._apply(event)
        now = self._clock()
        for observer in self._observers:
            observer.event(event, now)
        return self._seen(self._scheduler.handle(event, now=now), now)

    def _seen(self, effects: tuple[Effect, ...], now: float) -> tuple[Effect, ...]:
        for observer in self._observers:
            observer.effects(effects, now)
        return effects

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            _log.debug("%s", effect)
            if self._observe is not None:
                self._observe(effect)
            if isinstance(effect, Evict) and self._evict is not None:
                self._evict(effect)
            if isinstance(effect, Bind):
                waiting.extend(self._handle(self._performed(effect)))

    def _performed(self, effect: Bind) -> Bound | BindFailed:
        try:
            self._bind(effect)
        except Exception as error:
            _log.warning("bind of %s to %s failed: %s", effect.uid, effect.node, error)
            return BindFailed(effect.uid, effect.attempt, str(error) or repr(error))
        return Bound(effect.uid, effect.node, effect.attempt)
