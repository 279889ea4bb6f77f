"""Drivers and hosts refuse a function of the wrong kind, and name the argument."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gangsched import (
    Bind,
    Evict,
    GangRejectedError,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Preemption,
    gang,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.drivers.host import AsyncHost, Host
from gangsched.testing import make_pod

SECONDS = 60.0
"""Only a hang reaches it."""

NODE = NodeAdded(Node(name=NodeName("n0"), allocatable={"cpu": 1}))


async def coroutine_function(*_args: object) -> None:
    """Do nothing, once it is awaited."""


class AsyncCall:
    """An object whose call is a coroutine function."""

    async def __call__(self, *_args: object) -> None:
        """Do nothing, once it is awaited."""


def plain(*_args: object) -> None:
    """Do nothing, at once."""


def blocking_driver(**functions: Any) -> blocking.Driver:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    return blocking.Driver(scheduler, **{"apply": cluster.apply, "bind": plain, **functions})


def aio_driver(**functions: Any) -> aio.Driver:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    given = {"apply": cluster.apply, "bind": coroutine_function, **functions}
    return aio.Driver(scheduler, **given)


@pytest.mark.parametrize("function", [coroutine_function, AsyncCall()], ids=["def", "object"])
@pytest.mark.parametrize("name", ["apply", "bind", "evict", "observe", "on_error"])
def test_blocking_driver_refuses_a_coroutine_function(name: str, function: object) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name} must be a plain function"):
        blocking_driver(**{name: function})


@pytest.mark.parametrize("name", ["apply", "observe", "on_error"])
def test_aio_driver_refuses_a_coroutine_function_that_it_cannot_await(name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name} must be a plain function"):
        aio_driver(**{name: coroutine_function})


@pytest.mark.parametrize("name", ["start", "evict", "on_start_error"])
def test_host_refuses_a_coroutine_function(name: str) -> None:
    functions: dict[str, Any] = {"start": plain, name: coroutine_function}
    with pytest.raises(InvalidValueError, match=f"^{name} must be a plain function"):
        Host(**functions)


def test_async_host_refuses_a_coroutine_function_that_it_cannot_await() -> None:
    with pytest.raises(InvalidValueError, match=r"^on_start_error must be a plain function"):
        AsyncHost(start=coroutine_function, on_start_error=coroutine_function)


@pytest.mark.parametrize("max_binds", [1, 8])
def test_bind_that_returns_an_awaitable_ends_a_blocking_run(max_binds: int) -> None:
    driver = blocking_driver(bind=lambda bind: coroutine_function(bind), max_binds=max_binds)
    driver.tell(NODE, PodAdded(make_pod("p", cpu=1)))
    driver.stop()
    with pytest.raises(InvalidValueError, match=r"^bind must be a plain function"):
        driver.run()


def test_plain_bind_ends_the_run_of_an_aio_driver_after_one_call() -> None:
    calls: list[Bind] = []
    driver = aio_driver(bind=calls.append)
    driver.tell(NODE, PodAdded(make_pod("p", cpu=1)))
    with pytest.raises(InvalidValueError, match=r"^bind must be a function that returns an awai"):
        asyncio.run(asyncio.wait_for(driver.run(), SECONDS))
    assert len(calls) == 1


def test_plain_evict_ends_the_run_of_an_aio_driver_after_one_call() -> None:
    calls: list[Evict] = []
    driver = aio_driver(evict=calls.append)
    low, high = (make_pod(name, cpu=1, priority=n) for n, name in enumerate(("low", "high")))
    driver.tell(NODE, PodAdded(low))

    async def run() -> None:
        running = asyncio.create_task(driver.run())
        while not driver.ask(lambda scheduler: scheduler.running()):
            await asyncio.sleep(0)
        driver.tell(PodAdded(high))
        await asyncio.wait_for(running, SECONDS)

    with pytest.raises(InvalidValueError, match=r"^evict must be a function that returns an awai"):
        asyncio.run(run())
    assert len(calls) == 1


def test_bind_may_be_a_plain_function_that_returns_an_awaitable() -> None:
    bound: list[Bind] = []

    async def bind(effect: Bind) -> None:
        bound.append(effect)

    driver = aio_driver(bind=lambda effect: bind(effect))
    driver.tell(NODE, PodAdded(make_pod("p", cpu=1)))
    driver.stop()
    asyncio.run(driver.run())
    assert len(bound) == 1


def test_start_that_returns_an_awaitable_ends_a_host() -> None:
    def end() -> None:
        with Host(start=lambda pod, node: coroutine_function(pod, node)) as host:
            host.tell(NODE)
            job = host.submit(gang("train", workers=1, cpu=1))
            with pytest.raises(GangRejectedError):
                job.wait(SECONDS)
            assert isinstance(job.start_error, InvalidValueError)

    with pytest.raises(InvalidValueError, match=r"^start must be a plain function"):
        end()


def test_plain_start_ends_an_async_host_after_one_call() -> None:
    started: list[Pod] = []

    def start(pod: Pod, _node: NodeName) -> Any:
        started.append(pod)

    async def end() -> None:
        async with AsyncHost(start=start) as host:
            host.tell(NODE)
            job = host.submit(gang("train", workers=1, cpu=1))
            with pytest.raises(GangRejectedError):
                await asyncio.wait_for(job.started(), SECONDS)

    with pytest.raises(InvalidValueError, match=r"^start must be a function that returns an awai"):
        asyncio.run(end())
    assert len(started) == 1
