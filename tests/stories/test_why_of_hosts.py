"""What a host has handed in is in the next answer, and no question is waited for in vain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Final

import pytest

from gangsched import (
    Bind,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    Success,
    gang,
    presets,
)
from gangsched.drivers import aio, blocking
from gangsched.drivers.host import AsyncHost, Host
from gangsched.outcomes import SUCCESS
from gangsched.testing import make_node, make_pod
from support.patience import HANG, until

pytestmark = pytest.mark.once("a host makes its scheduler itself")

MANY: Final = 300
"""More events than a driver takes in at once, so that a question could overtake some."""


def batches() -> Iterator[tuple[list[Event], int]]:
    """Yield events about nodes, and the number of nodes after them."""
    for batch in range(3):
        yield (
            [NodeAdded(make_node(f"n{batch}-{n}", cpu=1)) for n in range(MANY)],
            (batch + 1) * MANY,
        )
    yield [NodeDeleted(NodeName(f"n1-{n}")) for n in range(MANY)], 2 * MANY


def too_large() -> Pod:
    return make_pod("large", cpu=4)


def test_why_of_a_host_counts_all_nodes_that_it_was_told_of() -> None:
    with Host(start=lambda _pod, _node: None) as host:
        job = host.submit(too_large())
        for events, count in batches():
            host.tell(*events)
            assert f"0/{count} nodes" in str(host.why(job))


def test_why_of_an_async_host_counts_all_nodes_that_it_was_told_of() -> None:
    async def start(_pod: Pod, _node: NodeName) -> None:
        raise AssertionError("nothing fits")

    async def run() -> None:
        async with AsyncHost(start=start) as host:
            job = host.submit(too_large())
            for events, count in batches():
                host.tell(*events)
                assert f"0/{count} nodes" in str(await host.why(job))

    asyncio.run(run())


def test_why_of_a_host_knows_that_another_job_has_ended() -> None:
    with Host(start=lambda _pod, _node: None) as host:
        host.tell(NodeAdded(make_node("n", cpu=2)))
        first = host.submit(gang("first", workers=2, cpu=1))
        first.wait(HANG)
        second = host.submit(gang("second", workers=3, cpu=1))
        until(lambda: "does not fit: 0/1 nodes" in str(host.why(second)))
        host.finish(first)
        assert "at most 2 of 3 members fit" in str(host.why(second))


# Where no events are taken in -------------------------------------------------------------------


@pytest.mark.parametrize("max_starts", [1, 8])
def test_start_of_a_host_may_ask_about_a_job(max_starts: int) -> None:
    answers: list[str] = []

    def start(_pod: Pod, _node: NodeName) -> None:
        host.tell(NodeAdded(make_node("late", cpu=1)))
        answers.append(str(host.why(large)))

    with Host(start=start, max_starts=max_starts) as host:
        large = host.submit(too_large())
        host.tell(NodeAdded(make_node("n", cpu=1)))
        host.submit(make_pod("small", cpu=1)).wait(HANG)
    assert f"0/{1 if max_starts == 1 else 2} nodes" in answers[0]


@pytest.mark.parametrize("max_starts", [1, 8])
def test_start_of_an_async_host_may_ask_about_a_job(max_starts: int) -> None:
    answers: list[str] = []

    async def run() -> None:
        async def start(_pod: Pod, _node: NodeName) -> None:
            host.tell(NodeAdded(make_node("late", cpu=1)))
            answers.append(str(await host.why(large)))

        async with AsyncHost(start=start, max_starts=max_starts) as host:
            large = host.submit(too_large())
            host.tell(NodeAdded(make_node("n", cpu=1)))
            await host.submit(make_pod("small", cpu=1)).started()

    asyncio.run(asyncio.wait_for(run(), HANG))
    assert f"0/{1 if max_starts == 1 else 2} nodes" in answers[0]


class Breaks:
    """Raises for one pod, which ends the run of a driver."""

    name = "Breaks"

    def filter(self, _state: object, pod: Pod, _node: object) -> Success:
        if pod.name == "broken":
            raise KeyError("oops")
        return SUCCESS


@pytest.mark.parametrize("ends_by", ["stop", "error"])
def test_question_is_answered_while_a_run_waits_for_its_last_bind(ends_by: str) -> None:
    bound, answers = threading.Event(), list[int]()
    cluster = InMemoryCluster()

    def bind(_bind: Bind) -> None:
        assert bound.wait(HANG)
        driver.tell(NodeAdded(make_node("late", cpu=1)))
        answers.append(driver.ask(lambda _scheduler: 1, timeout=HANG))

    driver = blocking.Driver(
        presets.gang(cluster, plugins=[Breaks()]), apply=cluster.apply, bind=bind
    )
    driver.tell(NodeAdded(make_node("n", cpu=4)), PodAdded(make_pod("p", cpu=1)))
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            driver.run()
        except Exception as error:
            ended.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    until(lambda: ended or "1 binds under way" in repr(driver))
    if ends_by == "error":
        driver.tell(PodAdded(make_pod("broken", cpu=1)))
    else:
        driver.stop()
    bound.set()
    running.join(HANG)
    assert not running.is_alive()
    assert answers == [1]
    assert len(ended) == (ends_by == "error")


@pytest.mark.parametrize("ends_by", ["stop", "error", "cancel"])
def test_task_waits_for_no_events_that_a_run_which_ends_leaves(ends_by: str) -> None:
    async def run() -> None:
        cluster, bound = InMemoryCluster(), asyncio.Event()
        answers: list[int] = []

        async def bind(_bind: Bind) -> None:
            await bound.wait()
            driver.tell(NodeAdded(make_node("late", cpu=1)))
            await driver.taken_in()
            answers.append(driver.ask(lambda _scheduler: 1))

        driver = aio.Driver(
            presets.gang(cluster, plugins=[Breaks()]), apply=cluster.apply, bind=bind
        )
        driver.tell(NodeAdded(make_node("n", cpu=4)), PodAdded(make_pod("p", cpu=1)))
        running = asyncio.create_task(driver.run())
        while not running.done() and "1 binds under way" not in repr(driver):
            await asyncio.sleep(0)
        waiting = None
        if ends_by == "error":
            driver.tell(PodAdded(make_pod("broken", cpu=1)))
        elif ends_by == "stop":
            driver.stop()
        else:
            driver.tell(NodeAdded(make_node("other", cpu=1)))
            waiting = asyncio.create_task(driver.taken_in())
            await asyncio.sleep(0)
            running.cancel()
        bound.set()
        await asyncio.gather(running, return_exceptions=True)
        if waiting is not None:
            await waiting
        else:
            assert answers == [1]
        await driver.taken_in()

    asyncio.run(asyncio.wait_for(run(), HANG))
