"""A driver that is stopped at once decides nothing more, and ends the binds that it has begun."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    presets,
)
from gangsched.testing import make_pod
from support.patience import HANG
from support.shells import SHELLS, Aio, Blocking, Shell

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())

NODE = NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1000}))


def pods(count: int) -> list[Event]:
    return [PodAdded(make_pod(f"p{n}", cpu=1)) for n in range(count)]


class Stopping:
    """A scheduler whose driver is stopped during one of its calls; all calls are noted."""

    def __init__(self, scheduler: Scheduler, call: str, number: int) -> None:
        self._scheduler = scheduler
        self._stops_in = (call, number)
        self.calls: list[str] = []
        self.shell: Shell | None = None

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if (call, self.calls.count(call)) == self._stops_in:
            assert self.shell is not None
            self.shell.driver.stop(at_once=True)

    def handle(self, event: Event, *, now: float) -> tuple[Effect, ...]:
        is_report = isinstance(event, Bound)
        self._note("report" if is_report else "handle")
        return self._scheduler.handle(event, now=now)

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        self._note("schedule_one")
        return self._scheduler.schedule_one(now=now)

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        return self._scheduler.advance(now=now)

    def next_deadline(self) -> float | None:
        return self._scheduler.next_deadline()

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        return self._scheduler.rebuild(now=now)


def stopped_in(shell: type[Shell], call: str, number: int, **given: Any) -> tuple[Shell, Stopping]:
    """Return a driver that is stopped during a call of its scheduler, with 200 pods to place."""
    cluster = InMemoryCluster()
    scheduler = Stopping(presets.gang(cluster), call, number)
    run = shell(cluster=cluster, scheduler=scheduler, **given)
    scheduler.shell = run
    run.tell(NODE, *pods(200))
    run.run_on()
    return run, scheduler


@both
@pytest.mark.parametrize("most", [1, 64])
def test_no_event_and_no_decision_follows_the_decision_under_way(
    shell: type[Shell], most: int
) -> None:
    run, scheduler = stopped_in(shell, "schedule_one", 5, max_binds=most)
    before = scheduler.calls.index("schedule_one")
    assert scheduler.calls.count("schedule_one") == 5
    assert scheduler.calls[before:].count("handle") == 0
    assert len(run.placed()) == 5
    assert scheduler.calls.count("report") == 5


@both
def test_no_event_and_no_decision_follows_the_event_under_way(shell: type[Shell]) -> None:
    _run, scheduler = stopped_in(shell, "handle", 3)
    assert scheduler.calls == ["handle"] * 3


@both
def test_next_run_goes_on_with_the_events_that_were_kept(shell: type[Shell]) -> None:
    run, _scheduler = stopped_in(shell, "handle", 3)
    run.run()
    assert len(run.placed()) == 200


@both
def test_binds_that_wait_for_their_turn_are_performed_and_reported(shell: type[Shell]) -> None:
    """A gang of 20 was decided, of which two binds at once are under way."""

    def bind(_bind: Bind) -> None:
        run.driver.stop(at_once=True)

    run = shell(bind=bind, max_binds=2)
    group = PodGroup(namespace="default", name="g", min_available=20)
    gang = [PodAdded(make_pod(f"g-{n}", cpu=1, group="g")) for n in range(20)]
    run.tell(NODE, PodGroupAdded(group), *gang)
    run.run_on()
    assert len(run.placed()) == 20


def test_thread_that_sleeps_ends_when_it_is_stopped_at_once() -> None:
    run = Blocking()
    run.tell(NODE)
    thread = threading.Thread(target=run.run_on)
    thread.start()
    run.driver.stop(at_once=True)
    thread.join(HANG)
    assert not thread.is_alive()


def test_task_that_sleeps_ends_when_it_is_stopped_at_once() -> None:
    async def stopped() -> None:
        run = Aio()
        run.tell(NODE)
        task = asyncio.create_task(run.driver.run())
        await asyncio.sleep(0.01)
        run.driver.stop(at_once=True)
        await asyncio.wait_for(task, HANG)

    asyncio.run(stopped())
