"""Running a fork of a scheduler ahead, to see what the scheduler would do.

``look`` forks the scheduler and lays an ``OverlayCluster`` over its cluster state. ``Ahead`` then
drives the fork as a driver would, and records the effects.

Rules:
  R1  the fork decides by the same four calls as the scheduler; this module decides nothing;
  R2  effects are performed at once, on the overlay. A bind is reported as bound, or as failed if
      the cluster does not allow it; the volumes that it chose are written before. An evicted pod is
      deleted and not recreated;
  R3  cycles are run until the active queue is empty. Time passes only up to the instant asked for,
      and pods end meanwhile as far as their run times are known (``expected_ends``);
  R4  a question has a budget in all: a fork that has spent it decides nothing more, and the answer
      says so;
  R5  other quotas are set before anything else, as ``Scheduler.set_quotas`` does. That reads the
      whole state again, so it is not begun if the budget is less than what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, final

from gangsched.cluster_objects import claims_of_pods
from gangsched.core.questions.expected_ends import ExpectedEnds
from gangsched.core.reading.order import Order
from gangsched.core.reading.why import asked, why_group
from gangsched.core.state import State
from gangsched.errors import InvalidValueError
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    ObjectChanged,
    PodAdded,
    PodDeleted,
    PodScheduled,
    PodUpdated,
)
from gangsched.explain import Why
from gangsched.forking import copying
from gangsched.model import FrozenMap, PodUID
from gangsched.options.quota import Quota
from gangsched.overlay import OverlayCluster
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.protocols import FourCalls
from gangsched.quantity import is_seconds
from gangsched.what_if import WhatIf

__all__ = ["Ahead", "Calls", "Spending", "check_budget", "look", "span"]

_DECISION: Final = 10
"""The steps of a decision, besides those of its search; a step is about 10 microseconds."""
_EVENT: Final = 5
_FORK: Final = 100
_UNBOUNDED: Final = 1 << 60
_COPIED: Final = 100
"""How many pods or nodes a fork copies in one step."""
_READ: Final = 2
"""How many objects are copied in one step, when the fork first reads them."""
_READ_AGAIN: Final = 30
"""The steps for each pod and node of which the state is written and read again."""
_FREE: Final = 5_000
"""How many objects of each fork may be copied that are not counted."""


class Calls(FourCalls, Protocol):
    """The calls of a scheduler that is forked."""

    _state: State

    def set_quotas(self, quotas: Iterable[Quota], *, now: float) -> tuple[Effect, ...]:
        """Replace the quotas."""
        ...


@final
class Spending:
    """The steps that one question may take, in all of its forks.

    Attributes:
        left: The steps that are left; 0 once they are used up.
    """

    __slots__ = ("left",)

    def __init__(self, budget: int) -> None:
        self.left: int = budget

    def spend(self, steps: int) -> None:
        """Take some steps. What was begun is completed, so more may be taken than are left."""
        self.left = max(0, self.left - steps)


@final
class Ahead:
    """A driver for a fork of a scheduler.

    Args:
        calls: The fork.
        state: The state of the fork.
        cluster: The cluster state that the fork reads.
        now: The first instant.
        spending: The budget of the question.
        copies: Which objects the fork has copied.
        before: The state that was forked.

    Attributes:
        state: The state of the fork.
        cluster: The cluster state that the fork reads.
        timed: The effects that the fork returned, each with the instant of the call.
        now: The current instant.
        ended: The pods whose run times were over meanwhile.
        is_cut_short: Whether the budget was used up before the instant that was asked for.
    """

    def __init__(
        self,
        calls: Calls,
        state: State,
        cluster: OverlayCluster,
        now: float,
        spending: Spending,
        copies: copying.Fork,
        before: State,
    ) -> None:
        self._copies = copies
        self._before = before
        self._counted: int = _FREE
        self._ends: ExpectedEnds | None = None
        self._told: list[PodUID] = []
        self.ended: set[PodUID] = set()
        self._calls = calls
        self._spending = spending
        self.is_cut_short: bool = False
        self.state: State = state
        self.cluster: OverlayCluster = cluster
        self.timed: list[tuple[float, Effect]] = []
        self.now: float = now

    def set_quotas(self, quotas: Iterable[Quota]) -> None:
        """Let the fork go on with other quotas; it is cut short if that costs too much."""
        steps = _READ_AGAIN * (len(self.state.records.pods) + self.state.table.count)
        if self._spending.left < steps:
            self._spending.left, self.is_cut_short = 0, True
            return
        self._spending.spend(steps)
        effects = self._calls.set_quotas(quotas, now=self.now)
        self.state = self._before = self._calls._state
        self._perform(effects)

    def tell(self, event: Event) -> None:
        """Apply an event to the overlay and let the fork handle it."""
        self._spending.spend(_EVENT)
        if isinstance(event, PodAdded | PodUpdated):
            self._told.append(event.pod.uid)  # it may run already
        self._perform(self._calls.handle(self.cluster.apply(event), now=self.now))

    def take_in(self) -> None:
        """Let the fork read the listing of the cluster, if it has not yet, without deciding."""
        self._perform(self._calls.advance(now=self.now))

    def settle(self) -> None:
        """Run scheduling cycles until the active queue is empty, or the budget is used up."""
        while self._spending.left:
            effects = self._calls.schedule_one(now=self.now)
            self._count_copies()
            if effects is None:
                return
            self._spending.spend(_DECISION)
            self._perform(effects)
        self.is_cut_short = self.state.queue.head() is not None

    def run(self, until: float) -> None:
        """Run cycles, end pods and apply deadlines until an instant, or the end of the budget."""
        if self.is_cut_short:
            return
        self.settle()
        if until > self.now:
            self._ends = ExpectedEnds(self.state, self._before)
            for uid in self._told:
                self._ends.note(uid)
            for _at, effect in self.timed:
                self._note_end(effect)
        while not self.is_cut_short:
            due = self._next_instant()
            if due is None or due > until:
                self.now = max(self.now, until)
                return
            if not self._spending.left:
                self.is_cut_short = True
                return
            self.now = max(self.now, due)
            for ended in () if self._ends is None else self._ends.due(self.now):
                self.ended.add(ended.pod.uid)
                self.tell(ended)
            deadline = self._calls.next_deadline()
            if deadline is not None and deadline <= self.now:
                effects = self._calls.advance(now=self.now)
                self._spending.spend(_EVENT)
                self._count_copies()
                self._perform(effects)
            self.settle()

    def _next_instant(self) -> float | None:
        """Return the instant of the next deadline, or of the next end of a pod; None without."""
        deadline = self._calls.next_deadline()
        end = None if self._ends is None else self._ends.next()
        return min((each for each in (deadline, end) if each is not None), default=None)

    def _note_end(self, effect: Effect) -> None:
        if self._ends is not None and isinstance(effect, PodScheduled):
            self._ends.note(effect.uid)

    def _count_copies(self) -> None:
        """Count the objects that were copied since the last time. O(1)."""
        more = self._copies.count() - self._counted
        if more >= _READ:
            self._spending.spend(more // _READ)
            self._counted += more

    def answer(self) -> WhatIf:
        """Return the recorded effects, with the reasons at the end.

        Runtime complexity: O((groups + active gangs) x log active gangs).
        """
        state = self.state
        order = Order(state)

        def reasons() -> dict[str, Why]:
            return {str(info.key): why_group(state, info, order) for info in self._groups()}

        why = asked(state, reasons)
        return WhatIf(self.now, tuple(self.timed), FrozenMap(why), self.is_cut_short)

    def _groups(self) -> Iterator[PodGroupInfo]:
        """Yield the groups; those that run and that the fork has not read are not copied."""
        before, now = self._before.records.registry, self.state.records.registry
        keys = now.keys()
        for key in keys:
            info = before.get(key)
            if info is None or info.unscheduled or self._copies.has_copied(info):
                info = now.get(key)
            assert info is not None
            yield info

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        """Perform effects in order.

        The effects that follow from a report are performed before the next effect. The stack holds
        one iterator for each level, because a long chain would exceed the recursion limit.
        """
        todo = [self._recorded(effects)]
        while todo:
            effect = next(todo[-1], None)
            if effect is None:
                todo.pop()
            elif isinstance(effect, Bind | Evict):
                todo.append(self._following(effect))

    def _following(self, effect: Bind | Evict) -> Iterator[Effect]:
        """Report an effect as performed; yield what follows from each report before the next."""
        for report in self._reports(effect):
            self._spending.spend(_EVENT)
            yield from self._recorded(self._calls.handle(report, now=self.now))

    def _reports(self, effect: Bind | Evict) -> Iterator[Event]:
        if isinstance(effect, Evict):
            yield self._gone(effect)
            return
        for choice in effect.volumes if self._refusal(effect) is None else ():
            for written in claims_of_pods.written(self.cluster.objects, choice):
                yield self.cluster.apply(ObjectChanged(written))
        yield self._bound(effect)

    def _recorded(self, effects: tuple[Effect, ...]) -> Iterator[Effect]:
        self.timed += [(self.now, effect) for effect in effects]
        for effect in effects if self._ends is not None else ():
            self._note_end(effect)
        return iter(effects)

    def _bound(self, bind: Bind) -> Bound | BindFailed:
        """Perform a bind as an API server does, which refuses a bind that contradicts its state."""
        refusal = self._refusal(bind)
        if refusal is not None:
            return BindFailed(bind.uid, bind.attempt, refusal)
        return self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))

    def _refusal(self, bind: Bind) -> str | None:
        """Return why the cluster refuses a bind; None if it does not."""
        pod, node = self.cluster.pod(bind.uid), self.cluster.node(bind.node)
        if pod is None or node is None or pod.is_finished or pod.deleted_at is not None:
            return "the pod or the node is gone"
        return None if pod.node_name is None else f"the pod is bound to {pod.node_name}"

    def _gone(self, evict: Evict) -> PodDeleted:
        """Delete an evicted pod; no controller recreates it."""
        return self.cluster.apply(PodDeleted(evict.uid))


def look(calls: Calls, state: State, now: float, spending: Spending | None = None) -> Ahead:
    """Fork a scheduler and its state, to run the fork from an instant on.

    Args:
        calls: The scheduler.
        state: Its state.
        now: The instant.
        spending: The budget of the question, which a fork takes steps of too; None for no bound.

    Raises:
        ProfileError: A plugin, a value that it wrote into a cycle, or the run times have state and
            no ``fork``.
        PluginError: A ``fork`` raised.
        InvalidValueError: The ``fork`` of the run times did not return run times.
    """
    cluster = OverlayCluster(copying.forked_cluster(state.settings.cluster))
    profile = copying.forked_profile(state.settings.profile)
    instead: tuple[tuple[object, object], ...] = (
        (state.settings.cluster, cluster),
        (state.settings.profile, profile),
        (state.settings.backfill, copying.forked_policy(state.settings.backfill)),
        # classes of pods keep the plugins that are asked about them
        *zip(state.settings.profile.plugins, profile.plugins, strict=True),
    )
    (twin, memory), copies = copying.fork_counted((calls, state), instead=instead)
    # a fork begins with an empty log; a reservation has a position in it, so these go on
    memory.table.log_start += len(state.table.log)
    spending = Spending(_UNBOUNDED) if spending is None else spending
    spending.spend(_FORK + (len(state.records.pods) + state.table.count) // _COPIED)
    return Ahead(twin, memory, cluster, now, spending, copies, state)


def check_budget(budget: object, *, least: int = 1) -> None:
    """Require a number of steps.

    Raises:
        InvalidValueError: *budget* is not an int >= *least*.
    """
    if type(budget) is not int or budget < least:
        raise InvalidValueError("budget", budget, f"an int >= {least}")


def span(last: float, now: float | None, until: float | None) -> tuple[float, float]:
    """Return the first and the last instant of a question.

    Args:
        last: The instant of the last call; minus infinity before the first call.
        now: The first instant; None for *last*.
        until: The last instant; None for the first.

    Raises:
        InvalidValueError: An instant is not a finite number, or is before the one preceding it.
    """
    begin = last if now is None else now
    if not is_seconds(begin) or begin < last:
        first = last == -math.inf
        expected = (
            "a finite number of seconds" if first else f"a number >= {last!r}, as in the last call"
        )
        raise InvalidValueError("now", now, expected)
    end = begin if until is None else until
    if not is_seconds(end) or end < begin:
        raise InvalidValueError("until", until, f"a number >= {begin!r}, or None")
    return begin, end
