"""The drivers decide as the simulator does; they answer questions, and wake up by themselves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    GroupBound,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodScheduled,
    PodUID,
    PodUpdated,
    PodWaiting,
    Release,
    Scheduler,
    UnknownPodError,
    presets,
)
from gangsched.metrics import Metrics
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.simulation import Arrival, Simulator, Workload
from gangsched.testing import make_pod
from support.examples import one_in
from support.patience import HANG, until
from support.shells import SHELLS, Aio, Blocking, Shell

GPUS: list[Event] = [
    NodeAdded(Node(name=NodeName("n0"), allocatable={"nvidia.com/gpu": 4})),
    *(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, gpu=1)) for n in range(3)),
    PodAdded(make_pod("single", gpu=1)),
    *(PodAdded(make_pod(f"b-{n}", group="b", min_available=2, gpu=2)) for n in range(2)),
    NodeAdded(Node(name=NodeName("n1"), allocatable={"nvidia.com/gpu": 4})),
]
TOO_LARGE: list[Event] = [
    NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": 2})),
    *(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, cpu=1)) for n in range(3)),
]
Maker = Callable[[Any], Any]
both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


def still() -> float:
    return 0.0


class Watcher:
    """Sees events before their effects, and the effects of a call together."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.when_settled: Callable[[], object] = list

    def event(self, event: Event, now: float) -> None:
        self.seen.append(event)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        self.seen += [effects] if effects else []

    def settled(self, now: float) -> None:
        self.seen.append("settled")
        self.when_settled()


# One scheduler under three shells -----------------------------------------------------------------


def simulated(events: Sequence[Event] = GPUS, make: Maker = presets.coscheduling) -> list[Any]:
    watcher = Watcher()
    workload = Workload(tuple(Arrival(0.0, event) for event in events))
    Simulator(workload, make, observers=(watcher,)).run(until=0.0)
    return watcher.seen


def effects_in(seen: list[Any]) -> list[Effect]:
    return [effect for each in seen if isinstance(each, tuple) for effect in each]


def events_in(seen: list[Any]) -> list[Any]:
    return [each for each in seen if not isinstance(each, tuple)]


def one_by_one(_bind: Bind) -> Any:
    return asyncio.sleep(0)


RUNS: list[Callable[..., Shell]] = [
    lambda make: Blocking(make, max_binds=1, clock=still),
    lambda make: Aio(make, max_binds=1, bind=one_by_one, clock=still),
    lambda make: Aio(make, max_binds=64, clock=still),
]

_members = st.tuples(
    st.integers(0, 3), st.integers(1, 4), st.sampled_from([1, 2, 3, None]), st.sampled_from([1, 2])
)
_facts = st.lists(
    st.one_of(
        st.builds(lambda n, gpu: ("node", n, gpu), st.integers(0, 3), st.integers(1, 5)),
        _members.map(lambda drawn: ("members", *drawn)),
        st.builds(lambda n: ("delete", n), st.integers(0, 12)),
        st.builds(lambda n: ("group", n), st.integers(0, 3)),
    ),
    max_size=15,
)


def story(drawn: list[Any]) -> list[Event]:
    """Return events in an order in which each is true when it is reported."""
    events: list[Event] = []
    names: list[str] = []
    for kind, *rest in drawn:
        if kind == "node":
            name = NodeName(f"n{rest[0]}")
            events.append(NodeAdded(Node(name=name, allocatable={"nvidia.com/gpu": rest[1]})))
        elif kind == "members":
            group, count, least, gpu = rest
            for _ in range(count):
                names.append(f"p{len(names)}")
                pod = make_pod(names[-1], group=f"g{group}", min_available=least, gpu=gpu)
                events.append(PodAdded(pod))
        elif kind == "delete" and names:
            events.append(PodDeleted(PodUID(f"default/{names[rest[0] % len(names)]}")))
        elif kind == "group":
            events.append(PodGroupAdded(PodGroup(name=f"g{rest[0]}", min_available=2)))
    return events


@one_in(2)
@given(st.sampled_from([presets.coscheduling, presets.gang, presets.pod_by_pod]), _facts)
def test_any_workload_gets_the_same_effects_under_all_drivers(
    preset: Maker, drawn: list[Any]
) -> None:
    events = story(drawn)
    expected = effects_in(simulated(events, preset))
    for make in RUNS:
        run = make(preset)
        run.run(*events)
        assert run.effects == expected


@both
def test_observers_see_the_same_as_in_the_simulator(shell: type[Shell]) -> None:
    watcher = Watcher()
    run = shell(presets.coscheduling, observers=(watcher, watcher), max_binds=1, clock=still)
    watcher.when_settled = run.driver.stop
    run.tell(*GPUS)
    run.run_on()
    expected = simulated()
    assert expected[-1] == watcher.seen[-1] == "settled"
    assert len([each for each in effects_in(expected) if isinstance(each, Bind)]) == 6
    assert watcher.seen[::2] == watcher.seen[1::2]
    # the simulator reports the binds of an instant together
    assert effects_in(watcher.seen[::2]) == effects_in(expected)
    assert events_in(watcher.seen[::2]) == events_in(expected)


@pytest.mark.parametrize("how", ["deleted", "finished"])
def test_report_and_end_of_a_pod_that_are_handed_in_together_are_two_calls(how: str) -> None:
    """A watch may show both before the bind returns, and the end hides that the pod was bound."""
    binds, may_return = list[Bind](), threading.Event()

    def bind(effect: Bind) -> None:
        binds.append(effect)
        assert may_return.wait(HANG)

    run = Blocking(presets.gang, bind=bind, clock=still)
    run.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})))
    run.tell(PodAdded(make_pod("p", group="g", min_available=1, cpu=1)))
    running = threading.Thread(target=run.run_on)
    running.start()
    until(lambda: binds)
    bound = Bound(binds[0].uid, binds[0].node, binds[0].attempt)
    pod = run.cluster.pod(bound.uid)
    assert pod is not None
    ran = evolve(pod, node_name=bound.node, phase=PodPhase.SUCCEEDED)
    run.driver.tell(bound, PodDeleted(bound.uid) if how == "deleted" else PodUpdated(ran))
    run.driver.stop()
    may_return.set()
    running.join(HANG)
    assert {PodScheduled, GroupBound} <= {type(each) for each in run.effects}


@pytest.mark.parametrize("make", RUNS, ids=["threads", "one by one", "asyncio"])
def test_log_of_a_driver_replays_in_the_simulator(make: Callable[..., Shell]) -> None:
    lines: list[str] = []
    run = make(DecisionLog(lines.append, Recipe("coscheduling")).scheduler)
    run.run(*GPUS)
    assert replay(lines) is None
    simulator = Simulator.from_log(lines)
    simulator.run()
    assert simulator.divergence is None
    assert all(pod.node_name for pod in simulator.cluster.pods())
    assert {job.key: job.started_at for job in simulator.jobs} == {
        "default/a": 0.0,
        "default/b": 0.0,
        "default/single": 0.0,
    }


def test_log_with_failed_binds_replays() -> None:
    lines: list[str] = []

    def bind(effect: Bind) -> None:
        if effect.uid == "default/a-1":
            raise OSError("no route")

    make: Any = DecisionLog(lines.append, Recipe("coscheduling")).scheduler
    Blocking(make, bind=bind, max_binds=1, clock=still).run(*GPUS)
    assert replay(lines) is None
    found = replay([line.replace("rejected: no route", "rejected: no way") for line in lines])
    expected = "now:  PodUnschedulable(uid='default/a-1', reason='binding rejected: no route')"
    assert expected in str(found)


# By itself --------------------------------------------------------------------------------------


def test_gangs_start_whole_when_a_hundred_threads_report_at_once() -> None:
    run = Blocking(presets.coscheduling, clock=still)
    run.tell(NodeAdded(Node(name=NodeName("n0"), allocatable={"nvidia.com/gpu": 100})))
    running = threading.Thread(target=run.run_on)
    running.start()
    ready = threading.Barrier(100)

    def tell(number: int) -> None:
        ready.wait(HANG)
        gang = f"g{number % 20}"
        run.tell(PodAdded(make_pod(f"p{number}", group=gang, min_available=5, gpu=1)))

    tellers = [threading.Thread(target=tell, args=(number,)) for number in range(100)]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(HANG)
    run.driver.stop()
    running.join(HANG)
    releases = [effect for effect in run.effects if isinstance(effect, Release)]
    assert sorted(len(effect.members) for effect in releases) == [5] * 20
    assert len(run.placed()) == 100


@both
def test_driver_decides_at_once_about_pods_that_the_cluster_holds(shell: type[Shell]) -> None:
    cluster = InMemoryCluster()
    for event in GPUS:
        cluster.apply(event)
    run = shell(cluster=cluster, bind=lambda _bind: run.driver.stop())
    run.run_on()
    assert len(run.placed()) == 6


@both
def test_driver_wakes_up_at_the_next_deadline(shell: type[Shell]) -> None:
    seen: list[Effect] = []

    def observe(effect: Effect) -> None:
        seen.append(effect)
        if isinstance(effect, GroupRejected):
            run.driver.stop()

    run = shell(lambda cluster: presets.coscheduling(cluster, permit_timeout=0.05), observe=observe)
    run.tell(GPUS[0])
    run.tell(*(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, gpu=2)) for n in range(3)))
    run.run_on()
    assert any(isinstance(effect, PodWaiting) for effect in seen)
    assert run.placed() == {}


def test_driver_logs_nothing_until_a_handler_is_given() -> None:
    program = """
from gangsched import *
from gangsched.drivers.blocking import Driver
from gangsched.testing import make_pod
cluster = InMemoryCluster()
def bind(_bind): raise OSError("no route")
driver = Driver(presets.coscheduling(cluster), apply=cluster.apply, bind=bind, clock=lambda: 0.0)
driver.tell(NodeAdded(Node(name="n", allocatable={"cpu": 1})))
driver.tell(PodAdded(make_pod("p", cpu=1)))
driver.stop()
driver.run()
import logging; logging.basicConfig(); print("handler", flush=True)
driver.tell(PodAdded(make_pod("q", cpu=1)))
driver.stop()
driver.run()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    before, after = done.stdout.split("handler\n")
    assert before == ""
    assert "bind of default/q to n failed: no route" in after


# Questions --------------------------------------------------------------------------------------


def why(scheduler: Scheduler) -> str:
    return str(scheduler.why(PodUID("default/a-0")))


def size(scheduler: Scheduler) -> int:
    return len(scheduler.registry)


@both
def test_question_is_answered_while_the_driver_does_not_run(shell: type[Shell]) -> None:
    run = shell()
    with pytest.raises(UnknownPodError):
        run.driver.ask(why)
    run.run(*TOO_LARGE)
    assert "does not fit" in run.driver.ask(why)
    assert run.driver.ask(lambda scheduler: scheduler) is run.scheduler


@both
def test_question_from_a_function_of_the_host_is_answered_at_once(shell: type[Shell]) -> None:
    answers: list[int] = []
    run: Shell = shell(observe=lambda _effect: answers.append(run.driver.ask(size)))
    run.run(*TOO_LARGE)
    assert answers[-1] == 1


@both
def test_question_from_another_thread_is_answered_in_the_thread_of_the_driver(
    shell: type[Shell],
) -> None:
    answers: list[Any] = []

    def ask() -> None:
        answers.append(run.driver.ask(why, timeout=HANG))
        answers.append(run.driver.ask(lambda _scheduler: threading.current_thread()))
        try:
            run.driver.ask(lambda scheduler: scheduler.why(PodUID("nowhere")))
        except UnknownPodError as error:
            answers.append(error.subject)
        answers.append(run.driver.ask(lambda scheduler: scheduler.snapshot())["format"])
        # asked, since a task may stop the driver on asyncio, and another thread may not
        run.driver.ask(lambda _scheduler: run.driver.stop())

    watcher = Watcher()
    asker = threading.Thread(target=ask, daemon=True)
    watcher.when_settled = lambda: asker.start() if asker.ident is None else None
    run = shell(observers=(watcher,))
    run.tell(*TOO_LARGE)
    run.run_on()
    asker.join(HANG)
    assert "does not fit" in answers[0]
    assert answers[1] is not asker
    assert answers[2:] == ["nowhere", "gangsched.snapshot/4"]


def test_many_threads_ask_questions_while_a_driver_starts_runs_and_ends() -> None:
    run, answers, over = Blocking(), list[int](), threading.Event()

    def ask() -> None:
        while not over.is_set():
            answers.append(run.driver.ask(size, timeout=HANG))

    askers = [threading.Thread(target=ask, daemon=True) for _number in range(4)]
    for asker in askers:
        asker.start()
    for n in range(50):
        run.tell(PodAdded(make_pod(f"p{n}", group=f"g{n}", min_available=2)))
        run.driver.stop()
        run.driver.run()
    over.set()
    for asker in askers:
        asker.join(HANG)
        assert not asker.is_alive()
    assert run.driver.ask(size) == 50
    assert answers


def test_question_that_is_not_answered_in_time_is_given_up() -> None:
    begun, go_on, asked = threading.Event(), threading.Event(), list[str]()

    def bind(_bind: Bind) -> None:
        begun.set()
        assert go_on.wait(HANG)

    run = Blocking(bind=bind, max_binds=1)
    running = threading.Thread(
        target=run.run, args=(TOO_LARGE[0], PodAdded(make_pod("p", cpu=1))), daemon=True
    )
    running.start()
    assert begun.wait(HANG)
    with pytest.raises(TimeoutError):
        run.driver.ask(lambda _scheduler: asked.append("asked"), timeout=0.01)
    go_on.set()
    running.join(HANG)
    assert asked == []


def test_task_asks_a_question_while_the_driver_sleeps() -> None:
    async def story() -> str:
        run = Aio()
        task = asyncio.create_task(run.driver.run())
        run.tell(*TOO_LARGE)
        while not run.cluster.pod(PodUID("default/a-2")):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        answer: str = run.driver.ask(why)
        run.driver.stop()
        await task
        return answer

    assert "does not fit" in asyncio.run(story())


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
        run.run(*TOO_LARGE)
        run.driver.rebuild()
        run.run()
        assert "does not fit" in run.driver.ask(why)
        assert run.driver.ask(lambda inner: inner) is recorded.scheduler
    assert "does not fit" in measured.ask(why)
    assert replay(lines) is None


# Rebuild, and repr ------------------------------------------------------------------------------


@both
def test_rebuild_finds_changes_without_events(shell: type[Shell]) -> None:
    run = shell()
    run.run(TOO_LARGE[0])
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
            if name in ("handle", "rebuild"):
                calls.append(name)
            return getattr(self.inner, name)

    cluster = InMemoryCluster()
    run = shell(cluster=cluster, scheduler=Notes(presets.gang(cluster)))
    calls.clear()
    run.tell(TOO_LARGE[0])
    run.driver.rebuild()
    run.run(TOO_LARGE[1])
    assert calls == ["handle", "rebuild", "handle"]


@both
def test_repr_says_what_the_driver_does(shell: type[Shell]) -> None:
    name = shell.__name__.lower()
    seen: list[str] = []
    run = shell(bind=lambda _bind: seen.append(repr(run.driver)), max_binds=1)
    assert repr(run.driver) == f"<{name}.Driver not running: 0 events waiting, 0 binds under way>"
    run.run(TOO_LARGE[0], PodAdded(make_pod("p", cpu=1)))
    assert seen == [f"<{name}.Driver running: 1 events waiting, 1 binds under way>"]
