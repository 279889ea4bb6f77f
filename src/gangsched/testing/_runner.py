"""Run steps on a scheduler, and check the laws after each.

Theory of operation.

A ``StepRunner`` owns one adapter and one ``Observer``. For each step it calls the adapter, and
tells the observer what the adapter was told. Then it reads ``placements`` and ``waiting_pods``
from the adapter, and passes them to the observer, which raises ``LawBroken`` if they cannot be
right. The runner turns that, and any exception of the adapter, into a ``LawViolation`` with the
steps so far.

Rules:
  R1  the observer checks laws 1, 2, 6 and 8, and the backoff of law 5, after every call;
  R2  ``Settle`` checks law 5: whatever fits in any order must start within ``max_wait``. One call
      of ``tick`` must not make more decisions than the spec allows;
  R3  an exception of the scheduler ends the test case as well;
  R4  time passes in calls of at most ``Observer.time_step`` seconds, so that a hold or a backoff
      that is too long or too short is seen;
  R5  while the scheduler is stopped, nothing that it shows is checked, and a step that it would
      have to take part in does nothing. ``Settle`` starts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, assert_never, final

from attrs import evolve

from gangsched.errors import InvalidValueError
from gangsched.testing._contract import SchedulerSpec, SchedulerUnderTest
from gangsched.testing._observer import Observer
from gangsched.testing._plain_pod import declared_features, drop_undeclared
from gangsched.testing._startable import startable
from gangsched.testing._steps import (
    AddNode,
    BindFails,
    BindSucceeds,
    CancelPods,
    DelayEvents,
    DeliverEvents,
    PutParent,
    RemoveNode,
    RemoveParent,
    Restart,
    ScheduleOne,
    Settle,
    Start,
    Step,
    Stop,
    SubmitPods,
    Tick,
)
from gangsched.testing._violation import LawBroken, LawViolation

__all__ = ["StepRunner", "check_steps"]

_REQUIRED = ("add_node", "remove_node", "submit", "cancel", "tick", "placements")
_FREE_DECISIONS = 8
_WITHOUT_SCHEDULER = (
    *(AddNode, RemoveNode, SubmitPods, PutParent, RemoveParent, CancelPods, BindSucceeds),
    *(Start, Settle),
)
"""The steps that are taken while the scheduler is stopped."""


@final
class StepRunner:
    """A scheduler under test, its observer, and the steps that were run.

    Args:
        make: Returns a fresh adapter.
        spec: What the kit may expect of the scheduler.

    Attributes:
        observer: The events sent to the adapter, and its observed state.
        steps: The steps so far.
        in_flight: The placed pods whose bind is not reported yet, by UID.
        has_failed: Whether a law was broken.
        is_stopped: Whether the scheduler is stopped.
        features: The features that the adapter declares.

    Raises:
        InvalidValueError: The adapter lacks a required method, or declares an unknown feature.
    """

    def __init__(
        self, make: Callable[[], SchedulerUnderTest], spec: SchedulerSpec | None = None
    ) -> None:
        self._scheduler: Any = make()
        self.spec: SchedulerSpec = _completed(spec or SchedulerSpec(), self._scheduler)
        self.observer: Observer = Observer(self.spec)
        self.steps: list[Step] = []
        self.in_flight: dict[str, None] = {}
        self.has_failed: bool = False
        self.is_stopped: bool = False
        self._used: set[str] = set()
        for name in _REQUIRED:
            if not callable(getattr(self._scheduler, name, None)):
                raise InvalidValueError(name, self._scheduler, "a method of the adapter")
        self.features: frozenset[str] = declared_features(self._scheduler)

    def can(self, *methods: str) -> bool:
        """Return whether the adapter has all these methods."""
        return all(callable(getattr(self._scheduler, name, None)) for name in methods)

    def run(self, step: Step) -> None:
        """Run one step. A step about pods or nodes that do not exist does nothing.

        Raises:
            LawViolation: The scheduler breaks a law, or raised an exception.
        """
        self.steps.append(step)
        try:
            self._run(step)
        except LawBroken as broken:
            self._fail(broken.law, broken.message)
        except Exception as error:
            name = type(error).__name__
            self._fail(None, f"the scheduler raised {name}: {error}", cause=error)

    def finish(self) -> None:
        """Report all binds as succeeded, then cancel the placed pods, one gang after the other."""
        self.run(Settle())
        for uid in list(self.in_flight):
            self.run(BindSucceeds(uid))
        while self.observer.placed:
            self.run(Settle())
            first = next(iter(self.observer.placed))
            group = self.observer.pods[first].group
            members = [first] if group is None else self.observer.members(group)
            self.run(CancelPods(tuple(uid for uid in members if uid in self.observer.placed)))
            self.run(Settle())
        if self.observer.pods:
            self.run(CancelPods(tuple(self.observer.pods)))
            self.run(Tick())

    # Inside ---------------------------------------------------------------------------------

    def _run(self, step: Step) -> None:
        scheduler, observer = self._scheduler, self.observer
        failed: tuple[str, ...] = ()
        if self.is_stopped and not isinstance(step, _WITHOUT_SCHEDULER):
            return
        match step:
            case AddNode():
                if not observer.can_add_node(step.name):
                    return
                self._add_node(step)
            case RemoveNode(name):
                if name not in observer.nodes:
                    return
                observer.remove_node(name)
                scheduler.remove_node(name)
                self._cancel([uid for uid, node in observer.placed.items() if node == name])
            case SubmitPods(pods):
                for pod in pods:
                    if pod.uid not in self._used:
                        self._used.add(pod.uid)
                        passed = observer.pods[pod.uid] = drop_undeclared(pod, self.features)
                        scheduler.submit(passed)
            case PutParent(parent):
                if "families" in self.features:
                    observer.put_parent(parent)
                    scheduler.put_parent(parent)
            case RemoveParent(name):
                if name in observer.parents:
                    observer.remove_parent(name)
                    scheduler.remove_parent(name)
            case CancelPods(uids):
                self._cancel(uids)
            case Tick(seconds):
                self._pass(seconds)
                return
            case ScheduleOne():
                if self.can("schedule_one"):
                    scheduler.schedule_one()
            case BindSucceeds(uid):
                if uid in self.in_flight and self.can("bind_succeeded"):
                    del self.in_flight[uid]
                    scheduler.bind_succeeded(uid)
            case BindFails(uid):
                if uid in self.in_flight and self.can("bind_failed"):
                    del self.in_flight[uid]
                    failed = (uid,)
                    scheduler.bind_failed(uid)
            case DelayEvents():
                self._delay_events(True)
            case DeliverEvents():
                self._delay_events(False)
            case Restart():
                if self.can("restart"):
                    self.in_flight.clear()
                    scheduler.restart()
            case Stop():
                if self.can("stop", "start"):
                    self.is_stopped = True
                    scheduler.stop()
            case Start(seconds):
                self._start(seconds)
                return
            case Settle():
                self._start()
                self._settle()
                return
            case _:
                assert_never(step)
        if not self.is_stopped:
            self._look(failed, restarted=isinstance(step, Restart))

    def _start(self, seconds: float = 0.0) -> None:
        if self.is_stopped:
            self.is_stopped = False
            self.observer.now += seconds
            self._scheduler.start(seconds)
            self._look(restarted=True)

    def _add_node(self, step: AddNode) -> None:
        labels = step.labels if "topology" in self.features else dict[str, str]()
        taints = step.taints if "taints" in self.features else ()
        self.observer.add_node(step.name, step.capacity, labels, taints)
        declared: dict[str, Any] = {}
        if "topology" in self.features:
            declared["labels"] = dict(labels)
        if "taints" in self.features:
            declared["taints"] = taints
        self._scheduler.add_node(step.name, dict(step.capacity), **declared)

    def _cancel(self, uids: Sequence[str]) -> None:
        for uid in uids:
            if uid in self.observer.pods:
                self.in_flight.pop(uid, None)
                self.observer.cancel(uid)
                self._scheduler.cancel(uid)

    def _delay_events(self, delayed: bool) -> None:
        if delayed == self.observer.is_delayed or not self.can("delay_events"):
            return
        self._scheduler.delay_events(delayed)
        self._look()
        self.observer.delay_events(delayed=delayed)

    def _pass(self, seconds: float) -> None:
        """Let time pass in short calls (R4)."""
        left = seconds
        while True:
            piece = min(left, self.observer.time_step())
            left -= piece
            self._tick(piece)
            if left <= 0:
                return

    def _tick(self, seconds: float) -> None:
        pods = len(self.observer.pods)
        before = self._scheduler.decision_count() if self.can("decision_count") else 0
        self.observer.now += seconds
        self._scheduler.tick(seconds)
        self._look()
        if self.can("decision_count"):
            made, allowed = self._scheduler.decision_count() - before, self._allowed(pods)
            if made > allowed:
                message = f"one call of tick made {made} decisions about {pods} pods"
                raise LawBroken(5, f"{message}, and may make {allowed}")

    def _allowed(self, pods: int) -> int:
        return _FREE_DECISIONS + self.spec.decisions_per_pod * pods

    def _settle(self) -> None:
        self._delay_events(False)
        self._look()
        self._end_binds()
        self._tick(0.0)
        while names := startable(self.observer):
            self._wait_for(names)

    def _wait_for(self, names: Sequence[str]) -> None:
        before, since = set(self.observer.placed), self.observer.now
        max_wait = self.spec.max_wait(len(self.observer.pending()))
        while not set(self.observer.placed) - before:
            waited = self.observer.now - since
            if waited > max_wait:
                raise LawBroken(5, f"{names[0]} fits, and no pod has started for {waited:g} s")
            self._end_binds()
            self._tick(self.observer.time_step())

    def _end_binds(self) -> None:
        """Let binds succeed that are under way, for a scheduler that may evict.

        It cannot evict a pod whose bind has not ended, and its gang cannot start anew before that.
        """
        if self.spec.may_evict and self.can("bind_succeeded"):
            for uid in list(self.in_flight):
                self._run(BindSucceeds(uid))

    def _look(self, failed: Sequence[str] = (), *, restarted: bool = False) -> None:
        """Read what the adapter shows, and have the observer check it."""
        before = self.observer.placed
        placed = dict(self._scheduler.placements())
        if self.observer.is_delayed:
            placed = self._without_removed_nodes(placed)
        waiting = dict(self._scheduler.waiting_pods()) if self.can("waiting_pods") else {}
        self.observer.look(placed, waiting, failed=failed, restarted=restarted)
        for uid in list(self.in_flight):
            if uid not in placed:
                del self.in_flight[uid]
        if not restarted:
            self.in_flight |= {u: None for u in placed if u not in before or u in failed}
        if restarted:
            self.observer.delay_events(delayed=False)

    def _without_removed_nodes(self, placed: dict[str, str]) -> dict[str, str]:
        """Cancel pods on a node whose removal the scheduler has not been notified of yet."""
        lost = [uid for uid, name in placed.items() if name not in self.observer.nodes]
        self._cancel(lost)
        return {uid: name for uid, name in placed.items() if uid not in lost}

    def _fail(self, law: int | None, message: str, *, cause: Exception | None = None) -> NoReturn:
        self.has_failed = True
        raise LawViolation(law, message, self.steps, list(self.observer.lines())) from cause


def _completed(spec: SchedulerSpec, scheduler: object) -> SchedulerSpec:
    """Return a spec that says whether the scheduler may evict: otherwise the adapter says it."""
    if spec.may_evict is not None:
        return spec
    return evolve(spec, may_evict=bool(getattr(scheduler, "may_evict", False)))


def check_steps(
    make: Callable[[], SchedulerUnderTest], *steps: Step, spec: SchedulerSpec | None = None
) -> None:
    """Check the laws over given steps, such as those of an earlier ``LawViolation``.

    Args:
        make: Returns a fresh adapter.
        steps: The steps, in order.
        spec: What the kit may expect of the scheduler.

    Raises:
        LawViolation: The scheduler breaks a law.
    """
    runner = StepRunner(make, spec)
    for step in steps:
        runner.run(step)
