"""The simulator and both drivers return the same effects from the same workload."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Effect,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUnschedulable,
    PodWaiting,
    Release,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.simulation import Arrival, Simulator, Workload
from gangsched.testing import make_pod
from support.patience import HANG, until

EVENTS: list[Event] = [
    NodeAdded(Node(name=NodeName("n0"), allocatable={"nvidia.com/gpu": 4})),
    *(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, gpu=1)) for n in range(3)),
    PodAdded(make_pod("single", gpu=1)),
    *(PodAdded(make_pod(f"b-{n}", group="b", min_available=2, gpu=2)) for n in range(2)),
    NodeAdded(Node(name=NodeName("n1"), allocatable={"nvidia.com/gpu": 4})),
]


Maker = Callable[[Any], Any]


def still() -> float:
    return 0.0


def simulated(events: Sequence[Event] = EVENTS, make: Maker = presets.coscheduling) -> list[Effect]:
    seen: list[Effect] = []

    class Watcher:
        def event(self, event: Event, now: float) -> None:
            return

        def effects(self, effects: tuple[Effect, ...], now: float) -> None:
            seen.extend(effects)

        def settled(self, now: float) -> None:
            return

    workload = Workload(tuple(Arrival(0.0, event) for event in events))
    Simulator(workload, make, observers=(Watcher(),)).run(until=0.0)
    return seen


def blocked(
    bind: Callable[[Bind], object] = lambda _bind: None,
    make: Maker = presets.coscheduling,
    events: Sequence[Event] = EVENTS,
) -> list[Effect]:
    cluster, seen = InMemoryCluster(), list[Effect]()
    driver = blocking.Driver(
        make(cluster),
        apply=cluster.apply,
        bind=bind,
        observe=seen.append,
        max_binds=1,
        clock=still,
    )
    for event in events:
        driver.tell(event)
    driver.stop()
    thread = threading.Thread(target=driver.run)
    thread.start()
    thread.join(HANG)
    assert not thread.is_alive()
    return seen


def awaited(
    make: Maker = presets.coscheduling, events: Sequence[Event] = EVENTS, *, max_binds: int = 1
) -> list[Effect]:
    """Run the events under asyncio; a bind waits if the driver waits for each bind."""
    cluster, seen = InMemoryCluster(), list[Effect]()

    async def bind(_bind: Bind) -> None:
        if max_binds == 1:
            await asyncio.sleep(0)

    async def run() -> None:
        driver = aio.Driver(
            make(cluster),
            apply=cluster.apply,
            bind=bind,
            observe=seen.append,
            max_binds=max_binds,
            clock=still,
        )
        for event in events:
            driver.tell(event)
        driver.stop()
        await asyncio.wait_for(driver.run(), HANG)

    asyncio.run(run())
    return seen


def test_simulator_and_both_drivers_return_the_same_effects() -> None:
    expected = simulated()
    assert sum(isinstance(effect, Bind) for effect in expected) == 6
    assert blocked() == expected
    assert awaited() == expected
    assert awaited(max_binds=64) == expected


def test_bind_that_raises_is_reported_as_failed() -> None:
    def bind(effect: Bind) -> None:
        if effect.uid == "default/single":
            raise OSError("no route")

    failed = [e for e in blocked(bind) if isinstance(e, PodUnschedulable) and "bind" in e.reason]
    assert failed == [PodUnschedulable(failed[0].uid, "binding rejected: no route")]


@pytest.mark.parametrize("run", [blocked, awaited])
def test_log_of_a_driver_replays_in_the_simulator(run: Callable[..., object]) -> None:
    lines: list[str] = []
    assert run(make=DecisionLog(lines.append, Recipe("coscheduling")).scheduler) == simulated()
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

    blocked(bind, DecisionLog(lines.append, Recipe("coscheduling")).scheduler)
    assert replay(lines) is None
    found = replay([line.replace("rejected: no route", "rejected: no way") for line in lines])
    assert found is not None
    assert "now:  PodUnschedulable(uid='default/a-1', reason='binding rejected: no route')" in str(
        found
    )


# One scheduler under three shells -----------------------------------------------------------

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


def test_observers_see_the_same_under_simulator_and_both_drivers() -> None:
    """Events come before their effects, and the effects of a call stay together."""

    class Watcher:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def event(self, event: Event, now: float) -> None:
            self.seen.append(event)

        def effects(self, effects: tuple[Effect, ...], now: float) -> None:
            self.seen += [effects] if effects else []

        def settled(self, now: float) -> None:
            self.seen.append("settled")

    simulated, threads, tasks = Watcher(), Watcher(), Watcher()
    workload = Workload(tuple(Arrival(0.0, event) for event in EVENTS))
    Simulator(workload, presets.coscheduling, observers=(simulated,)).run(until=0.0)
    cluster = InMemoryCluster()
    driver = blocking.Driver(
        presets.coscheduling(cluster),
        apply=cluster.apply,
        bind=lambda _bind: None,
        observers=(threads, threads),
        max_binds=1,
        clock=still,
    )

    async def awaited() -> None:
        async def bind(_bind: Bind) -> None:
            return

        cluster = InMemoryCluster()
        driver = aio.Driver(
            presets.coscheduling(cluster),
            apply=cluster.apply,
            bind=bind,
            observers=(tasks,),
            clock=still,
        )
        running = asyncio.create_task(driver.run())
        for event in EVENTS:
            driver.tell(event)
        while "settled" not in tasks.seen:
            await asyncio.sleep(0)
        driver.stop()
        await running

    asyncio.run(awaited())
    for event in EVENTS:
        driver.tell(event)
    running = threading.Thread(target=driver.run)
    running.start()
    until(lambda: "settled" in threads.seen)
    driver.stop()
    running.join(HANG)
    assert len(simulated.seen) > len(EVENTS)
    assert simulated.seen[-1] == "settled"
    assert tasks.seen == simulated.seen
    assert threads.seen[::2] == threads.seen[1::2] == simulated.seen


@pytest.mark.parametrize("preset", [presets.coscheduling, presets.gang, presets.pod_by_pod])
@settings(max_examples=25)
@given(_facts)
def test_any_workload_gets_the_same_effects_under_all_drivers(
    preset: Maker, drawn: list[Any]
) -> None:
    events = story(drawn)
    expected = simulated(events, preset)
    assert blocked(make=preset, events=events) == expected
    assert awaited(preset, events) == expected
    assert awaited(preset, events, max_binds=64) == expected


# On threads, and broken off -----------------------------------------------------------------


def test_gangs_start_whole_when_a_hundred_threads_report_at_once() -> None:
    cluster, seen = InMemoryCluster(), list[Effect]()
    driver = blocking.Driver(
        presets.coscheduling(cluster),
        apply=cluster.apply,
        bind=lambda _bind: None,
        observe=seen.append,
        clock=still,
    )
    driver.tell(NodeAdded(Node(name=NodeName("n0"), allocatable={"nvidia.com/gpu": 100})))
    running = threading.Thread(target=driver.run)
    running.start()
    ready = threading.Barrier(100)

    def tell(number: int) -> None:
        ready.wait(HANG)
        gang = f"g{number % 20}"
        driver.tell(PodAdded(make_pod(f"p{number}", group=gang, min_available=5, gpu=1)))

    tellers = [threading.Thread(target=tell, args=(number,)) for number in range(100)]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(HANG)
    driver.stop()
    running.join(HANG)
    assert not running.is_alive()
    releases = [effect for effect in seen if isinstance(effect, Release)]
    assert sorted(len(effect.members) for effect in releases) == [5] * 20
    assert all(pod.node_name for pod in cluster.pods())


def test_new_driver_binds_the_others_once_after_a_cancellation() -> None:
    """F42: the task of the driver is cancelled during the binds of a gang."""
    cluster, bound = InMemoryCluster(), list[str]()

    async def bind(effect: Bind) -> None:
        if len(bound) == 1:
            await asyncio.sleep(3600)
        bound.append(effect.uid)

    async def run() -> None:
        driver = aio.Driver(
            presets.coscheduling(cluster), apply=cluster.apply, bind=bind, clock=still
        )
        for event in EVENTS[:4]:
            driver.tell(event)
        task = asyncio.create_task(driver.run())
        while len(bound) < 1:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(bound) == 1

        async def bind_now(effect: Bind) -> None:
            bound.append(effect.uid)

        other = aio.Driver(
            presets.coscheduling(cluster), apply=cluster.apply, bind=bind_now, clock=still
        )
        other.stop()
        await asyncio.wait_for(other.run(), HANG)

    asyncio.run(run())
    assert sorted(bound) == [f"default/a-{n}" for n in range(3)]
    assert all(pod.node_name for pod in cluster.pods())


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
SETUP
driver.run()
"""
    told = []
    for setup in ("", "import logging; logging.basicConfig()"):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("SETUP", setup)],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        told.append(done.stdout + done.stderr)
    assert told[0] == ""
    assert "bind of default/p to n failed: no route" in told[1]


def test_driver_decides_at_once_about_pods_that_the_cluster_holds() -> None:
    def full() -> InMemoryCluster:
        cluster = InMemoryCluster()
        for event in EVENTS:
            cluster.apply(event)
        return cluster

    bound = [threading.Event() for _number in range(2)]
    threads, loops = full(), full()
    driver = blocking.Driver(
        presets.coscheduling(threads), apply=threads.apply, bind=lambda _bind: bound[0].set()
    )
    thread = threading.Thread(target=driver.run)
    thread.start()
    assert bound[0].wait(HANG)
    driver.stop()
    thread.join(HANG)

    async def bind(_bind: Bind) -> None:
        bound[1].set()
        running.stop()

    running = aio.Driver(presets.coscheduling(loops), apply=loops.apply, bind=bind)
    asyncio.run(asyncio.wait_for(running.run(), HANG))
    assert bound[1].is_set()
    for cluster in (threads, loops):
        assert len([pod for pod in cluster.pods() if pod.node_name is not None]) == 6


def test_driver_wakes_up_at_the_next_deadline() -> None:
    cluster, seen = InMemoryCluster(), list[Effect]()
    fell = threading.Event()

    def observe(effect: Effect) -> None:
        seen.append(effect)
        if type(effect).__name__ == "GroupRejected":
            fell.set()

    driver = blocking.Driver(
        presets.coscheduling(cluster, permit_timeout=0.05),
        apply=cluster.apply,
        bind=lambda _bind: None,
        observe=observe,
    )
    for event in EVENTS[:2] + [
        PodAdded(make_pod(f"a-{n}", group="a", min_available=3, gpu=2)) for n in (7, 8)
    ]:
        driver.tell(event)
    thread = threading.Thread(target=driver.run)
    thread.start()
    assert fell.wait(HANG)
    driver.stop()
    thread.join(HANG)
    assert any(isinstance(effect, PodWaiting) for effect in seen)
    assert list(cluster.pods_on(NodeName("n0"))) == []
