"""``ask``, ``rebuild`` and ``repr`` of the drivers: what a host does beside telling events."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gangsched import (
    Bind,
    Effect,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodUID,
    Scheduler,
    UnknownPodError,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.metrics import Metrics
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.testing import make_pod
from support.patience import HANG
from support.shells import SHELLS, Shell

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())
EVENTS: list[Event] = [
    NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": 2})),
    *(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, cpu=1)) for n in range(3)),
]


def why(scheduler: Scheduler) -> str:
    return str(scheduler.why(PodUID("default/a-0")))


# Ask --------------------------------------------------------------------------------------------


@both
def test_question_is_answered_while_the_driver_does_not_run(shell: type[Shell]) -> None:
    run = shell()
    with pytest.raises(UnknownPodError):
        run.driver.ask(why)
    run.run(*EVENTS)
    assert "does not fit" in run.driver.ask(why)
    assert run.driver.ask(lambda scheduler: scheduler) is run.scheduler


@both
def test_question_from_a_function_of_the_host_is_answered_at_once(shell: type[Shell]) -> None:
    answers: list[int] = []

    def observe(_effect: Effect) -> None:
        answers.append(run.driver.ask(lambda scheduler: len(scheduler.registry)))

    run = shell(observe=observe)
    run.run(*EVENTS)
    assert answers[-1] == 1


@both
def test_question_from_another_thread_is_answered_in_the_thread_of_the_driver(
    shell: type[Shell],
) -> None:
    answers: list[Any] = []
    asked = threading.Event()

    def ask() -> None:
        answers.append(run.driver.ask(why, timeout=HANG))
        answers.append(run.driver.ask(lambda _scheduler: threading.current_thread()))
        try:
            run.driver.ask(lambda scheduler: scheduler.why(PodUID("nowhere")))
        except UnknownPodError as error:
            answers.append(error.subject)
        answers.append(run.driver.ask(lambda scheduler: scheduler.what_if(*EVENTS[:1])))
        answers.append(run.driver.ask(lambda scheduler: scheduler.snapshot()))
        asked.set()
        # asked, since a task may stop the driver on asyncio, and another thread may not
        run.driver.ask(lambda _scheduler: run.driver.stop())

    class Asks:
        def event(self, event: Event, now: float) -> None:
            return

        def effects(self, effects: tuple[Effect, ...], now: float) -> None:
            return

        def settled(self, now: float) -> None:
            if not threads:
                threads.append(threading.Thread(target=ask, daemon=True))
                threads[0].start()

    threads: list[threading.Thread] = []
    run = shell(observers=(Asks(),))
    run.tell(*EVENTS)
    run.run_on()
    assert asked.wait(HANG)
    assert "does not fit" in answers[0]
    assert answers[1] is not threads[0]
    assert answers[2] == "nowhere"
    assert answers[4]["format"] == "gangsched.snapshot/2"


def test_many_threads_ask_questions_while_a_driver_starts_runs_and_ends() -> None:
    cluster, answers = InMemoryCluster(), list[int]()
    driver = blocking.Driver(presets.gang(cluster), apply=cluster.apply, bind=lambda _bind: None)
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            count = driver.ask(lambda scheduler: len(scheduler.registry), timeout=HANG)
            answers.append(count)

    askers = [threading.Thread(target=ask, daemon=True) for _number in range(4)]
    for asker in askers:
        asker.start()
    for n in range(50):
        driver.tell(PodAdded(make_pod(f"p{n}", group=f"g{n}", min_available=2)))
        driver.stop()
        driver.run()
    over.set()
    for asker in askers:
        asker.join(HANG)
        assert not asker.is_alive()
    assert driver.ask(lambda scheduler: len(scheduler.registry)) == 50
    assert answers


def test_question_that_is_not_answered_in_time_is_given_up() -> None:
    cluster, begun, go_on = InMemoryCluster(), threading.Event(), threading.Event()

    def bind(_bind: Bind) -> None:
        begun.set()
        assert go_on.wait(HANG)

    driver = blocking.Driver(presets.gang(cluster), apply=cluster.apply, bind=bind, max_binds=1)
    driver.tell(EVENTS[0])
    driver.tell(PodAdded(make_pod("p", cpu=1)))
    driver.stop()
    running = threading.Thread(target=driver.run, daemon=True)
    running.start()
    assert begun.wait(HANG)
    asked: list[str] = []
    with pytest.raises(TimeoutError):
        driver.ask(lambda _scheduler: asked.append("asked"), timeout=0.01)
    go_on.set()
    running.join(HANG)
    assert asked == []


def test_task_asks_a_question_while_the_driver_sleeps() -> None:
    async def run() -> str:
        cluster = InMemoryCluster()

        async def bind(_bind: Bind) -> None:
            return

        driver = aio.Driver(presets.gang(cluster), apply=cluster.apply, bind=bind)
        task = asyncio.create_task(driver.run())
        for event in EVENTS:
            driver.tell(event)
        while not cluster.pod(PodUID("default/a-2")):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        answer = driver.ask(why)
        driver.stop()
        await task
        return answer

    assert "does not fit" in asyncio.run(run())


@both
def test_question_reaches_the_scheduler_that_is_recorded_or_measured(shell: type[Shell]) -> None:
    prometheus = pytest.importorskip(
        "prometheus_client", reason="prometheus-client is not installed"
    )
    lines: list[str] = []
    cluster = InMemoryCluster()
    recorded = DecisionLog(lines.append, Recipe("gang")).scheduler(cluster)
    measured = Metrics(prometheus.CollectorRegistry()).watch(recorded)
    wrapped: list[Any] = [recorded, measured]
    for scheduler in wrapped:
        run = shell(cluster=cluster, scheduler=scheduler)
        run.run(*EVENTS)
        run.driver.rebuild()
        run.run()
        assert "does not fit" in run.driver.ask(why)
        assert run.driver.ask(lambda inner: inner) is recorded.scheduler
    assert "does not fit" in measured.ask(why)
    assert replay(lines) is None


# Rebuild ----------------------------------------------------------------------------------------


@both
def test_rebuild_finds_changes_without_events(shell: type[Shell]) -> None:
    run = shell()
    run.run(EVENTS[0])
    for event in EVENTS[1:3]:
        run.cluster.apply(event)
    run.cluster.apply(PodAdded(make_pod("b", cpu=1)))
    run.run()
    assert run.placed() == {}
    run.driver.rebuild()
    run.run()
    assert run.placed() == {"default/b": "n0"}


@both
def test_rebuild_runs_after_earlier_events(shell: type[Shell]) -> None:
    calls: list[str] = []

    class Notes:
        def __init__(self, inner: Scheduler) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            found = getattr(self.inner, name)
            if name not in ("handle", "rebuild"):
                return found

            def noted(*given: Any, **named: Any) -> Any:
                calls.append(name)
                return found(*given, **named)

            return noted

    cluster = InMemoryCluster()
    run = shell(cluster=cluster, scheduler=Notes(presets.gang(cluster)))
    run.tell(EVENTS[0])
    run.driver.rebuild()
    run.run(EVENTS[1])
    assert calls == ["handle", "rebuild", "handle"]


# Repr -------------------------------------------------------------------------------------------


@both
def test_repr_says_what_the_driver_does(shell: type[Shell]) -> None:
    name = shell.__name__.lower()
    seen: list[str] = []

    def bind(_bind: Bind) -> None:
        seen.append(repr(run.driver))

    run = shell(bind=bind, max_binds=1)
    assert repr(run.driver) == f"<{name}.Driver not running: 0 events waiting, 0 binds under way>"
    run.run(EVENTS[0], PodAdded(make_pod("p", cpu=1)))
    assert seen == [f"<{name}.Driver running: 1 events waiting, 1 binds under way>"]
