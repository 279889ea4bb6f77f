"""A job that is withdrawn while its pods are being started: no started pod is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gangsched import GangRejectedError, Node, NodeAdded, NodeName, Pod, Preemption, gang, presets
from gangsched.drivers.host import AsyncHost, Host, Job
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler
from support.patience import HANG


def node(cpu: int) -> NodeAdded:
    return NodeAdded(Node(name="a", allocatable={"cpu": cpu}))


def preempting(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, preemption=Preemption())


class Slow:
    """Starts of which those that are named wait until they are let go."""

    def __init__(self, *slow: str) -> None:
        self.slow = slow
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.started: list[str] = []

    def __call__(self, pod: Pod, _node: NodeName) -> None:
        if pod.name in self.slow:
            self.begun.set()
            assert self.let_go.wait(HANG)
        self.started.append(pod.name)


def removed_during_a_start(
    remove: Callable[[Host, Job], Any], start: Slow, job: Any
) -> tuple[Any, list[str]]:
    """Return what removing a job returns while a start is under way, and what was started."""
    with Host(start=start, max_starts=2) as host, ThreadPoolExecutor() as pool:
        host.tell(node(4))
        submitted = host.submit(job)
        assert start.begun.wait(HANG)
        answer = pool.submit(remove, host, submitted)
        with pytest.raises(GangRejectedError):
            submitted.wait(HANG)
        assert not answer.done()
        start.let_go.set()
        return answer.result(HANG), start.started


def test_cancel_returns_the_pod_whose_start_is_under_way() -> None:
    places, started = removed_during_a_start(
        Host.cancel, Slow("train-0", "train-1"), gang("train", workers=2, cpu=1)
    )
    assert places == dict.fromkeys(started, "a")
    assert started


def test_finish_returns_only_the_pods_that_were_started_since() -> None:
    start = Slow("fit-3")
    with Host(start=start, max_starts=4) as host, ThreadPoolExecutor() as pool:
        host.tell(node(4))
        job = host.submit(gang("fit", workers=4, min_available=3, cpu=1))
        assert sorted(job.wait(HANG)) == ["fit-0", "fit-1", "fit-2"]
        assert start.begun.wait(HANG)
        answer = pool.submit(host.finish, job)
        start.let_go.set()
        assert answer.result(HANG) == {"fit-3": "a"}
        assert host.finish(job) == {}


def test_places_of_a_job_include_pods_that_start_after_the_quorum() -> None:
    start = Slow("fit-2")
    with Host(start=start) as host:
        host.tell(node(4))
        job = host.submit(gang("fit", workers=3, min_available=2, cpu=1))
        assert sorted(job.wait(HANG)) == ["fit-0", "fit-1"] == sorted(job.places)
        start.let_go.set()
        for _ in range(400):
            if len(job.places) == 3:
                break
            threading.Event().wait(0.02)
        assert sorted(job.places) == ["fit-0", "fit-1", "fit-2"]
        assert len(job.wait(HANG)) == 2


def test_start_that_fails_during_a_withdrawal_leaves_no_pod() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def start(_pod: Pod, _node: NodeName) -> None:
        begun.set()
        assert let_go.wait(HANG)
        raise OSError("no such machine")

    with Host(start=start) as host, ThreadPoolExecutor() as pool:
        host.tell(node(1))
        job = host.submit(Pod(name="p", requests={"cpu": 1}))
        assert begun.wait(HANG)
        answer = pool.submit(host.cancel, job)
        let_go.set()
        assert answer.result(HANG) == {}


def test_late_start_of_a_withdrawn_job_is_none_of_the_next_job_of_its_name() -> None:
    """The UIDs are the same: the start of the first run counted as one of the second."""
    start = Slow("train-0")
    with Host(start=start, max_starts=2) as host, ThreadPoolExecutor() as pool:
        host.tell(node(1))
        first = host.submit(gang("train", workers=1, cpu=1))
        assert start.begun.wait(HANG)
        answer = pool.submit(host.cancel, first)
        with pytest.raises(GangRejectedError):
            first.wait(HANG)
        second = host.submit(gang("train", workers=1, cpu=2))  # fits nowhere
        start.let_go.set()
        assert answer.result(HANG) == {"train-0": "a"}
        assert (second.has_started, dict(second.places)) == (False, {})


def test_start_may_cancel_its_own_job() -> None:
    jobs: list[Job] = []
    ready, answers = threading.Event(), list[Any]()

    def start(_pod: Pod, _node: NodeName) -> None:
        assert ready.wait(HANG)
        answers.append(host.cancel(jobs[0]))

    with Host(start=start) as host:
        host.tell(node(1))
        jobs.append(host.submit(Pod(name="p", requests={"cpu": 1})))
        ready.set()
        with pytest.raises(GangRejectedError):
            jobs[0].wait(HANG)
    assert answers == [{}]


def test_eviction_that_ends_after_a_withdrawal_leaves_the_next_job_alone() -> None:
    """The pod of the next job has the same UID; it was deleted with the evicted one."""
    evicting, let_go = threading.Event(), threading.Event()
    begun: list[tuple[str, int]] = []

    def start(pod: Pod, _node: NodeName) -> None:
        begun.append((pod.name, pod.priority))

    def end(_pod: Pod, _node: NodeName) -> None:
        evicting.set()
        assert let_go.wait(HANG)

    with Host(start=start, evict=end, make=preempting) as host:
        host.tell(node(1))
        low = host.submit(Pod(name="low", requests={"cpu": 1}))
        low.wait(HANG)
        high = host.submit(Pod(name="high", requests={"cpu": 1}, priority=5))
        assert evicting.wait(HANG)
        host.cancel(low)
        again = host.submit(Pod(name="low", requests={"cpu": 1}, priority=1))
        let_go.set()
        assert high.wait(HANG) == {"high": "a"}
        host.finish(high)
        assert again.wait(HANG) == {"low": "a"}
    assert begun == [("low", 0), ("high", 5), ("low", 1)]


# On asyncio -----------------------------------------------------------------------------------


def run(story: Callable[[AsyncHost, asyncio.Event, asyncio.Event], Any]) -> None:
    """Run a story with a host whose starts all wait for an event."""

    async def main() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def start(_pod: Pod, _node: NodeName) -> None:
            begun.set()
            await let_go.wait()

        async with asyncio.timeout(HANG), AsyncHost(start=start) as host:
            host.tell(node(2))
            await story(host, begun, let_go)

    asyncio.run(main())


@pytest.mark.parametrize("remove", [AsyncHost.cancel, AsyncHost.finish])
def test_pods_that_are_being_started_are_returned_on_asyncio(remove: Any) -> None:
    async def story(host: AsyncHost, begun: asyncio.Event, let_go: asyncio.Event) -> None:
        job = host.submit(gang("train", workers=2, cpu=1))
        await begun.wait()
        answer = asyncio.create_task(remove(host, job))
        await asyncio.sleep(0.02)
        assert not answer.done()
        let_go.set()
        assert await answer == {"train-0": "a", "train-1": "a"}

    run(story)


def test_late_start_is_none_of_the_next_job_of_its_name_on_asyncio() -> None:
    async def story(host: AsyncHost, begun: asyncio.Event, let_go: asyncio.Event) -> None:
        first = host.submit(gang("train", workers=1, cpu=1))
        await begun.wait()
        answer = asyncio.create_task(host.cancel(first))
        await asyncio.sleep(0)
        second = host.submit(gang("train", workers=1, cpu=3))  # fits nowhere
        let_go.set()
        assert await answer == {"train-0": "a"}
        assert (second.has_started, dict(second.places)) == (False, {})
        await host.cancel(second)

    run(story)
