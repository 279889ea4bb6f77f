"""A run of a workload: what arrives, what ends, what is decided and performed, and what goes wrong.

Rules:
  R1  at one instant: first what ends, then what is answered, then what is told late, then what
      arrives, then decisions until none is left;
  R2  a fact is true before anybody is told; what becomes of its telling is the plan's business;
  R3  what an old scheduler decided and was not performed yet dies with it.
"""

from __future__ import annotations

import enum
import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import TypeAlias, final

from attrs import evolve

from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    NodeAdded,
    NodeDeleted,
    PodAdded,
    PodDeleted,
    PodUpdated,
    PodWaiting,
)
from gangsched.framework import Scheduler
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, NodeName, PodPhase, PodUID
from gangsched.protocols import ClusterState, Observer
from gangsched.replay import RecordedScheduler
from gangsched.simulation._books import Books
from gangsched.simulation._strikes import Strikes
from gangsched.simulation._view import View
from gangsched.simulation._watch import Watch
from gangsched.simulation.faults import (
    BindAnswerLost,
    BindFails,
    BindSlow,
    FaultPlan,
    NodeVanishes,
)
from gangsched.simulation.workload import Workload, run_seconds

__all__ = ["Live"]

_Maker: TypeAlias = Callable[[ClusterState], Scheduler | RecordedScheduler]
_Fate: TypeAlias = BindFails | BindAnswerLost | None


class _Kind(enum.IntEnum):
    """What happens first of what happens at one instant."""

    FINISH = 0
    BIND = 1
    TELL = 2
    LIST = 3


@final
class Live:
    """A workload that is run; see ``Simulator``."""

    def __init__(
        self,
        workload: Workload,
        make: _Maker,
        *,
        bind_seconds: float,
        seed: int,
        plan: FaultPlan,
        observers: Sequence[Observer],
    ) -> None:
        arrivals = workload.arrivals
        self.now = arrivals[0].at if arrivals else 0.0
        self.last_event_at = self.now
        self.decisions = 0
        self.cluster = InMemoryCluster()
        self.books = Books(self.cluster)
        self.strikes = Strikes(plan)
        self.arrivals = deque(arrivals)
        self._view = View(self.cluster, ahead=plan.ahead or not plan.faults)
        self._make = make
        self._calls = make(self._view.cluster)
        self._generation = 0
        self._bind_seconds = bind_seconds
        self._draws = random.Random(seed)
        self._observers = observers
        self._agenda: list[tuple[float, _Kind, int, Callable[[], None]]] = []
        self._numbers = 0
        self._watch = Watch(self.strikes, self._tell, self._tell_later)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler itself, for reading."""
        calls = self._calls
        return calls.scheduler if isinstance(calls, RecordedScheduler) else calls

    def next(self) -> float | None:
        """Return the next instant at which something happens; None when there is none."""
        if self._watch.keeps_some and self._is_at_rest():
            return self.now
        when = self._due()
        if when is None:
            return None
        jump = self.strikes.next_jump()
        return max(when if jump is None else min(when, jump), self.now)

    def _due(self) -> float | None:
        candidates = [self._calls.next_deadline()]
        if self.arrivals:
            candidates.append(self.arrivals[0].at)
        if self._agenda:
            candidates.append(self._agenda[0][0])
        return min((when for when in candidates if when is not None), default=None)

    def _is_at_rest(self) -> bool:
        """Whether nothing happens by itself any more; a scheduler may go on trying for ever."""
        return not self.arrivals and not self._agenda

    def step(self, when: float) -> None:
        """Run through an instant."""
        nothing_else_comes = self._is_at_rest()
        self.now = self.last_event_at = now = self.strikes.leap(when)
        self._before_a_call()
        self._perform(self._calls.advance(now=now))
        while self._agenda and self._agenda[0][0] <= now:
            heappop(self._agenda)[-1]()
        while self.arrivals and self.arrivals[0].at <= now:
            self._happen(self.arrivals.popleft().event)
        if nothing_else_comes:
            self._watch.release()
        while (effects := self._decide()) is not None:
            self.decisions += 1
            self._perform(effects)

    def _decide(self) -> tuple[Effect, ...] | None:
        self._before_a_call()
        return self._calls.schedule_one(now=self.now)

    # Facts ----------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        """Make a fact true, and let the watch tell it."""
        self.cluster.apply(event)
        self._book(event)
        self._watch.see(event, self.now)
        if isinstance(event, NodeDeleted):
            # as the garbage collection of pods does: who ran there is gone
            for pod in self.cluster.pods_on(event.name):
                self._happen(PodDeleted(pod.uid))

    def _tell(self, event: Event) -> None:
        """Show a fact to the scheduler, and tell it."""
        self._view.show(event)
        for observer in self._observers:
            observer.event(event, self.now)
        self._before_a_call()
        self._perform(self._calls.handle(event, now=self.now))

    def _list(self) -> None:
        """Let the scheduler take in a listing."""
        self._view.show_all()
        self._before_a_call()
        self._perform(self._calls.rebuild(now=self.now))

    def _book(self, event: Event) -> None:
        for uid in self.books.fact(event, self.now):
            pod = self.cluster.pod(uid)
            seconds = None if pod is None else run_seconds(pod)
            if seconds is not None:
                self._finish_after(uid, seconds)

    def _finish_after(self, uid: PodUID, seconds: float) -> None:
        self._schedule(self.now + seconds, _Kind.FINISH, lambda: self._finish(uid))

    def _finish(self, uid: PodUID) -> None:
        pod = self.cluster.pod(uid)
        if pod is not None and not pod.is_finished:
            self._happen(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))

    # Effects --------------------------------------------------------------------------------

    def _perform(self, effects: tuple[Effect, ...]) -> None:
        for observer in self._observers:
            observer.effects(effects, self.now)
        given = self.books.effects(effects, self.now)
        vanishing = {uid: self.strikes.member(self._group(uid), self.now) for uid in given}
        generation = self._generation
        for effect in effects:
            if isinstance(effect, PodWaiting | Bind):
                self._vanish(effect.node, vanishing.pop(effect.uid, ()))
            if generation != self._generation:
                return
            if isinstance(effect, Bind):
                self._bind(effect)
            elif isinstance(effect, Evict):
                self._make_anew(effect.uid)

    def _vanish(self, name: NodeName, faults: Sequence[object]) -> None:
        for fault in faults:
            node = self.cluster.node(name)
            if node is None or not isinstance(fault, NodeVanishes):
                continue
            if fault.seconds is not None:
                come_back = partial(self._come_back, NodeAdded(node))
                self._schedule(self.now + fault.seconds, _Kind.TELL, come_back)
            self._happen(NodeDeleted(name))

    def _come_back(self, node: NodeAdded) -> None:
        if self.cluster.node(node.node.name) is None:
            self._happen(node)

    def _make_anew(self, uid: PodUID) -> None:
        """Delete a pod, and make another in its place, as its controller does."""
        pod = self.cluster.pod(uid)
        if pod is None:
            return
        self._happen(PodDeleted(uid))
        self._numbers += 1
        fresh = PodUID(f"{uid}~{self._numbers}")
        self._happen(PodAdded(evolve(pod, uid=fresh, node_name=None, created_at=self.now)))

    # Binds ----------------------------------------------------------------------------------

    def _bind(self, bind: Bind) -> None:
        seconds = self._draws.uniform(0, self._bind_seconds) if self._bind_seconds else 0.0
        fate: _Fate = None
        for fault in self.strikes.bind(self._group(bind.uid), self.now):
            if isinstance(fault, BindSlow):
                seconds += fault.seconds
            elif isinstance(fault, BindFails | BindAnswerLost):
                fate = fate or fault
        generation = self._generation
        if seconds:
            end = self.now + seconds
            self._schedule(end, _Kind.BIND, lambda: self._end_bind(bind, fate, generation))
        else:
            self._end_bind(bind, fate, generation)

    def _end_bind(self, bind: Bind, fate: _Fate, generation: int) -> None:
        asked = generation == self._generation
        refusal = "refused by a fault" if isinstance(fate, BindFails) else self._refusal(bind)
        if refusal:
            if asked and self._view.cluster.pod(bind.uid) is not None:
                failed = BindFailed(bind.uid, bind.attempt, refusal)
                self._book(failed)
                self._tell(failed)
            return
        bound = Bound(bind.uid, bind.node, bind.attempt)
        self.cluster.apply(bound)
        self._book(bound)
        if asked and fate is None:
            self._tell(bound)
        elif asked and isinstance(fate, BindAnswerLost):
            self._lose_answer(bound, fate.seconds)
        else:
            self._watch_bound(bind.uid)

    def _lose_answer(self, bound: Bound, seconds: float) -> None:
        if not seconds:
            self._view.show(bound)
        self._tell(BindFailed(bound.uid, bound.attempt, "the answer was lost"))
        if seconds:
            end = self.now + seconds
            self._schedule(end, _Kind.TELL, lambda: self._watch_bound(bound.uid))
        else:
            self._watch_bound(bound.uid)

    def _watch_bound(self, uid: PodUID) -> None:
        pod = self.cluster.pod(uid)
        if pod is not None:
            self._watch.see(PodUpdated(pod), self.now)

    def _refusal(self, bind: Bind) -> str:
        """Say why the cluster refuses a bind; empty when it does not."""
        pod = self.cluster.pod(bind.uid)
        if pod is None:
            return "the pod is gone"
        if pod.is_finished or pod.deleted_at is not None:
            return "the pod has finished or is terminating"
        if pod.node_name is not None:
            return f"the pod is bound to {pod.node_name} already"
        return "" if self.cluster.node(bind.node) else f"there is no node {bind.node}"

    def _group(self, uid: PodUID) -> GroupKey | None:
        job = self.books.jobs.of(uid)
        return GroupKey(job.key) if job is not None and job.is_gang else None

    # Inside ---------------------------------------------------------------------------------

    def _before_a_call(self) -> None:
        """Count a call of the scheduler; where the plan says so, another has taken over."""
        if not self.strikes.call(self.now):
            return
        self._generation += 1
        self._watch.forget()
        self.books.restarted(self.now)
        self._calls = self._make(self._view.cluster)
        self._list()

    def _tell_later(self, seconds: float, event: Event | None) -> None:
        """Tell an event later, or list, unless another scheduler has taken over by then."""
        generation = self._generation

        def act() -> None:
            if generation != self._generation:
                return
            if event is None:
                self._list()
            else:
                self._tell(event)

        kind = _Kind.LIST if event is None else _Kind.TELL
        self._schedule(self.now + seconds, kind, act)

    def _schedule(self, when: float, kind: _Kind, action: Callable[[], None]) -> None:
        self._numbers += 1
        heappush(self._agenda, (when, kind, self._numbers, action))
