"""Schedulers that are replaced through snapshots, for any driver.

Rules:
  R1  a snapshot is converted to JSON and back, with the fields of its objects in another order;
  R2  both classes are called like a scheduler, and return what the original would. The host goes
      on, too, so what was under way is not repeated;
  R3  none is replaced while an event about a node is on its way: a restored one reads the nodes
      that the cluster shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define

from gangsched import ClusterState, Effect, Event, Scheduler

__all__ = ["Passing", "Twins", "host_goes_on", "posted", "restored", "state_of"]

T = TypeVar("T")
Make = Callable[[ClusterState], Scheduler]


def posted(data: object) -> Any:
    """Return a snapshot as a database returns it that does not keep the order of fields."""
    return json.loads(json.dumps(data, sort_keys=True, allow_nan=False))


def restored(fresh: Scheduler, data: object) -> Scheduler:
    """Restore a scheduler in place of another, whose host goes on."""
    fresh.restore(data)
    host_goes_on(fresh)
    return fresh


def host_goes_on(scheduler: Scheduler) -> None:
    """Say that the host of a restored or copied scheduler still has all that was under way."""
    scheduler._is_restored = False


def knows_the_nodes(scheduler: Scheduler, cluster: ClusterState) -> bool:
    """Return whether a scheduler was told of all nodes as they are."""
    known = [node for node in scheduler._state.table.nodes if node is not None]
    return {node.name: node for node in known} == {node.name: node for node in cluster.nodes()}


def state_of(scheduler: Scheduler) -> object:
    """Return the visible state of a scheduler: snapshot, queue, and all answers of ``why``."""
    data = posted(scheduler.snapshot())
    # the first format has whole pods, the second only their UIDs
    uids = [row["pod"]["uid"] for row in data.get("members", ())]
    uids += [row["uid"] for row in data.get("pods", ())]
    queue = scheduler.queue
    places = [[e.seq for e in each] for each in (queue.active, queue.backoff, queue.unschedulable)]
    reasons = [repr(scheduler.why(uid)) for uid in uids]
    reasons += [repr(scheduler.why(info.key)) for info in scheduler.registry if info.members]
    return data, places, reasons, scheduler.next_deadline()


@define(eq=False)
class Passing:
    """A scheduler that is replaced by a restored one before every call."""

    make: Make
    cluster: ClusterState
    scheduler: Scheduler

    @classmethod
    def maker(cls, make: Make) -> Any:
        """Return what makes one in the place of a scheduler."""
        return lambda cluster: cls(make, cluster, make(cluster))

    def _pass(self) -> Scheduler:
        if not knows_the_nodes(self.scheduler, self.cluster):
            return self.scheduler
        data = posted(self.scheduler.snapshot())
        self.scheduler = restored(self.make(self.cluster), data)
        return self.scheduler

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        return self._pass().handle(*events, now=now)

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        return self._pass().advance(now=now)

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        return self._pass().schedule_one(now=now)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        return self._pass().rebuild(now=now)

    def next_deadline(self) -> float | None:
        return self._pass().next_deadline()

    def _check(self) -> None:
        self.scheduler._check()


@define(eq=False)
class Twins:
    """A scheduler and its restored twin: both get every call, and must return the same."""

    make: Make
    cluster: ClusterState
    scheduler: Scheduler
    twin: Scheduler | None = None

    @classmethod
    def maker(cls, make: Make) -> Any:
        """Return what makes one in the place of a scheduler."""
        return lambda cluster: cls(make, cluster, make(cluster))

    def part(self) -> None:
        """Restore a new twin from a snapshot."""
        if not knows_the_nodes(self.scheduler, self.cluster):
            return
        data = posted(self.scheduler.snapshot())
        self.twin = restored(self.make(self.cluster), data)
        assert posted(self.twin.snapshot()) == data

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        return self._both(lambda one: one.handle(*events, now=now))

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        return self._both(lambda one: one.advance(now=now))

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        return self._both(lambda one: one.schedule_one(now=now))

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        return self._both(lambda one: one.rebuild(now=now))

    def next_deadline(self) -> float | None:
        return self._both(lambda one: one.next_deadline())

    def compare(self) -> None:
        """Compare the visible states of both."""
        if self.twin is not None:
            assert state_of(self.scheduler) == state_of(self.twin)

    def _both(self, call: Callable[[Scheduler], T]) -> T:
        answer = call(self.scheduler)
        if self.twin is not None:
            assert call(self.twin) == answer
        return answer

    def _check(self) -> None:
        self.scheduler._check()
        if self.twin is not None:
            self.twin._check()
