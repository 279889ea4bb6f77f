"""Looking ahead: what a fork of a scheduler does, as the scheduler itself would.

Rules:
  R1  the calls are those of every driver, on a fork; nothing is decided here;
  R2  what an effect asks for is taken as performed at once, where the cluster allows it: a bind is
      reported, and who is evicted is gone;
  R3  it is looked until nobody can be tried, and with time passing no further than asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

from gangsched._seconds import format_instant
from gangsched.errors import InvalidValueError
from gangsched.events import Bind, BindFailed, Bound, Effect, Event, Evict, PodDeleted
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.what_if import copying
from gangsched.framework.what_if import why as answers
from gangsched.model import FrozenMap
from gangsched.overlay import OverlayCluster
from gangsched.protocols import FourCalls
from gangsched.quantity import is_seconds
from gangsched.what_if import WhatIf

__all__ = ["Ahead", "look", "span"]


@final
class Ahead:
    """A fork of a scheduler that goes on by itself.

    Args:
        calls: The fork.
        state: What it remembers.
        cluster: What it reads.
        now: The first instant.

    Attributes:
        state: What it remembers.
        cluster: What it reads.
        timed: What its calls returned, each effect with the instant of the call.
        now: The current instant.
    """

    def __init__(self, calls: FourCalls, state: State, cluster: OverlayCluster, now: float) -> None:
        self._calls = calls
        self.state = state
        self.cluster = cluster
        self.timed: list[tuple[float, Effect]] = []
        self.now = now

    def tell(self, event: Event) -> None:
        """Make a fact true, and tell it."""
        self._perform(self._calls.handle(self.cluster.apply(event), now=self.now))

    def take_in(self) -> None:
        """Take in what the cluster lists, where that was not done, and decide nothing."""
        self._perform(self._calls.advance(now=self.now))

    def settle(self) -> None:
        """Decide until nobody can be tried."""
        while (effects := self._calls.schedule_one(now=self.now)) is not None:
            self._perform(effects)

    def run(self, until: float) -> None:
        """Decide, and let time pass until an instant."""
        self.settle()
        while (due := self._calls.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self._perform(self._calls.advance(now=self.now))
            self.settle()
        self.now = max(self.now, until)

    def answer(self) -> WhatIf:
        """Return all that happened. O(groups x active entities)."""
        why = {str(info.key): answers.why(self.state, info.key) for info in self.state.registry}
        return WhatIf(self.now, tuple(self.timed), FrozenMap(why))

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        """Perform effects in their order; what follows from one comes before the next."""
        todo = [self._told(effects)]
        while todo:
            effect = next(todo[-1], None)
            if effect is None:
                todo.pop()
            elif isinstance(effect, Bind | Evict):
                report = self._bound(effect) if isinstance(effect, Bind) else self._gone(effect)
                todo.append(self._told(self._calls.handle(report, now=self.now)))

    def _told(self, effects: tuple[Effect, ...]) -> Iterator[Effect]:
        self.timed += [(self.now, effect) for effect in effects]
        return iter(effects)

    def _bound(self, bind: Bind) -> Bound | BindFailed:
        """Perform a bind, as a cluster does: one that cannot be is refused."""
        pod, node = self.cluster.pod(bind.uid), self.cluster.node(bind.node)
        if pod is None or node is None or pod.is_finished or pod.deleted_at is not None:
            return BindFailed(bind.uid, bind.attempt, "the pod or the node is gone")
        if pod.node_name is not None:
            return BindFailed(bind.uid, bind.attempt, f"the pod is bound to {pod.node_name}")
        return self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))

    def _gone(self, evict: Evict) -> PodDeleted:
        """Delete a pod; nobody makes another in its place."""
        return self.cluster.apply(PodDeleted(evict.uid))


def look(calls: FourCalls, state: State, now: float) -> Ahead:
    """Fork a scheduler and what it remembers, to see what it would do from an instant on.

    Raises:
        ProfileError: A plugin, or what it wrote, or run times keep something, and cannot be forked.
        PluginError: A ``fork`` raised.
        InvalidValueError: The ``fork`` of run times returned none.
    """
    cluster = OverlayCluster(copying.forked_cluster(state.cluster))
    profile = copying.forked_profile(state.profile)
    policy = state.reserving.policy
    instead: tuple[tuple[object, object], ...] = (
        (state.cluster, cluster),
        (state.profile, profile),
        (policy, copying.forked_policy(policy)),
    )
    twin, memory = copying.fork((calls, state), instead=instead)
    return Ahead(twin, memory, cluster, now)


def span(last: float, now: float | None, until: float | None) -> tuple[float, float]:
    """Return from when until when to look.

    Args:
        last: The instant of the last call; minus infinity before any.
        now: From when; None for the instant of the last call.
        until: Until when; None for no longer.

    Raises:
        InvalidValueError: One is no instant, or comes before another.
    """
    begin = last if now is None else now
    if not is_seconds(begin) or begin < last:
        first = last == -math.inf
        expected = (
            "a finite number of seconds"
            if first
            else f"an instant not before {format_instant(last)}"
        )
        raise InvalidValueError("now", now, expected)
    end = begin if until is None else until
    if not is_seconds(end) or end < begin:
        raise InvalidValueError(
            "until", until, f"an instant not before {format_instant(begin)}, or None"
        )
    return begin, end
