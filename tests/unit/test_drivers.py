"""Two drivers and the simulator are one scheduler: the same workload, the same effects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

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
    PodUnschedulable,
    PodWaiting,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.protocols import FourCalls
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.simulation import Arrival, Simulator, Workload
from gangsched.testing import make_pod

EVENTS: list[Event] = [
    NodeAdded(Node(name=NodeName("n0"), allocatable={"nvidia.com/gpu": 4})),
    *(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, gpu=1)) for n in range(3)),
    PodAdded(make_pod("single", gpu=1)),
    *(PodAdded(make_pod(f"b-{n}", group="b", min_available=2, gpu=2)) for n in range(2)),
    NodeAdded(Node(name=NodeName("n1"), allocatable={"nvidia.com/gpu": 4})),
]


def still() -> float:
    return 0.0


def simulated() -> list[Effect]:
    seen: list[Effect] = []

    class Watcher:
        def event(self, event: Event, now: float) -> None:
            return

        def effects(self, effects: tuple[Effect, ...], now: float) -> None:
            seen.extend(effects)

        def settled(self, now: float) -> None:
            return

    workload = Workload(tuple(Arrival(0.0, event) for event in EVENTS))
    Simulator(workload, presets.coscheduling, observers=(Watcher(),)).run()
    return seen


Maker = Callable[[InMemoryCluster], FourCalls]


def blocked(
    bind: Callable[[Bind], object] = lambda _bind: None, make: Maker = presets.coscheduling
) -> list[Effect]:
    cluster, seen = InMemoryCluster(), list[Effect]()
    driver = blocking.Driver(
        make(cluster),
        apply=cluster.apply,
        bind=bind,
        observe=seen.append,
        clock=still,
    )
    for event in EVENTS:
        driver.tell(event)
    driver.stop()
    thread = threading.Thread(target=driver.run)
    thread.start()
    thread.join(timeout=30)
    assert not thread.is_alive()
    return seen


def awaited(make: Maker = presets.coscheduling) -> list[Effect]:
    cluster, seen = InMemoryCluster(), list[Effect]()

    async def bind(_bind: Bind) -> None:
        await asyncio.sleep(0)

    async def run() -> None:
        driver = aio.Driver(
            make(cluster),
            apply=cluster.apply,
            bind=bind,
            observe=seen.append,
            clock=still,
        )
        for event in EVENTS:
            driver.tell(event)
        driver.stop()
        await asyncio.wait_for(driver.run(), 30)

    asyncio.run(run())
    return seen


def test_simulator_threads_and_asyncio_give_the_same_effects() -> None:
    expected = simulated()
    assert sum(isinstance(effect, Bind) for effect in expected) == 6
    assert blocked() == expected
    assert awaited() == expected


def test_a_bind_that_raises_is_a_bind_that_failed() -> None:
    def bind(effect: Bind) -> None:
        if effect.uid == "default/single":
            raise OSError("no route")

    failed = [e for e in blocked(bind) if isinstance(e, PodUnschedulable) and "bind" in e.reason]
    assert failed == [PodUnschedulable(failed[0].uid, "binding rejected: no route")]


@pytest.mark.parametrize("run", [blocked, awaited])
def test_a_log_that_a_driver_writes_runs_again_in_the_simulator(run: Callable[..., object]) -> None:
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


def test_a_log_with_binds_that_failed_runs_again() -> None:
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


def test_a_driver_wakes_at_the_next_deadline_by_itself() -> None:
    cluster, seen = InMemoryCluster(), list[Effect]()
    driver = blocking.Driver(
        presets.coscheduling(cluster, permit_timeout=0.05),
        apply=cluster.apply,
        bind=lambda _bind: None,
        observe=seen.append,
    )
    fell = threading.Event()

    def observe(effect: Effect) -> None:
        seen.append(effect)
        if type(effect).__name__ == "GroupRejected":
            fell.set()

    driver._observe = observe
    for event in EVENTS[:2] + [
        PodAdded(make_pod(f"a-{n}", group="a", min_available=3, gpu=2)) for n in (7, 8)
    ]:
        driver.tell(event)
    thread = threading.Thread(target=driver.run)
    thread.start()
    assert fell.wait(30)
    driver.stop()
    thread.join(timeout=30)
    assert any(isinstance(effect, PodWaiting) for effect in seen)
    assert list(cluster.pods_on(NodeName("n0"))) == []
