"""Hosts without an API server whose jobs have a restart policy, and lose pods or machines."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

import pytest
from attrs import evolve

from gangsched import (
    Gang,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodDeleted,
    PodUID,
    RestartPolicy,
    gang,
)
from gangsched.drivers.host import AsyncHost, Host, JobState

LONG: Final = 120.0
"""Seconds that only a hang takes."""
POLICY: Final = RestartPolicy(max_restarts=2, backoff=0.01)


class Machines:
    """Records what was started and ended where."""

    def __init__(self) -> None:
        self.on: dict[str, str] = {}
        self.started: list[str] = []
        self.ended: list[str] = []

    def start(self, pod: Pod, node: NodeName) -> None:
        self.on[pod.name] = node
        self.started.append(pod.name)

    def end(self, pod: Pod, _node: NodeName) -> None:
        del self.on[pod.name]
        self.ended.append(pod.name)

    async def start_async(self, pod: Pod, node: NodeName) -> None:
        self.start(pod, node)

    async def end_async(self, pod: Pod, node: NodeName) -> None:
        self.end(pod, node)


def machine(name: str, cpu: int = 2) -> NodeAdded:
    return NodeAdded(Node(name=name, allocatable={"cpu": cpu}))


def job_of(size: int, policy: RestartPolicy | None = POLICY) -> Gang:
    job = gang("train", workers=size, cpu=1)
    return evolve(job, group=evolve(job.group, restart=policy))


def wait_for(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.01)


@pytest.mark.parametrize("size", [2, 3], ids=["the-whole-job", "a-part-of-the-job"])
def test_job_whose_machine_is_lost_is_restarted_whole_on_the_others(size: int) -> None:
    machines = Machines()
    with Host(start=machines.start, evict=machines.end) as host:
        host.tell(machine("a", 2))
        if size > 2:
            host.tell(machine("b", 2))
        job = host.submit(job_of(size))
        job.wait(LONG)
        lost = [name for name, node in machines.on.items() if node == "a"]
        assert lost
        for name in lost:
            del machines.on[name]
        host.tell(NodeDeleted(NodeName("a")), machine("c", 2), machine("d", 2))
        wait_for(lambda: len(machines.started) == 2 * size, lambda: host.why(job))
        wait_for(lambda: len(job.places) == size, lambda: job.places)
        assert "a" not in job.places.values()
        assert sorted(machines.ended + lost) == sorted(pod.name for pod in job_of(size).pods)
        assert job.state is JobState.STARTED


def test_job_of_which_a_pod_is_deleted_is_restarted_whole() -> None:
    machines = Machines()
    with Host(start=machines.start, evict=machines.end) as host:
        host.tell(machine("a", 4))
        job = host.submit(job_of(3))
        job.wait(LONG)
        del machines.on["train-1"]
        host.tell(PodDeleted(PodUID("default/train-1")))
        wait_for(lambda: len(machines.started) == 6, lambda: host.why(job))
        assert sorted(machines.ended) == ["train-0", "train-2"]


def test_job_without_a_policy_keeps_the_pods_that_are_left() -> None:
    machines = Machines()
    with Host(start=machines.start, evict=machines.end) as host:
        host.tell(machine("a", 4))
        host.submit(job_of(3, policy=None)).wait(LONG)
        host.tell(PodDeleted(PodUID("default/train-1")))
        host.submit(Pod(name="next", requests={"cpu": 2})).wait(LONG)
        assert machines.ended == []
        assert sorted(machines.started) == ["next", "train-0", "train-1", "train-2"]


def test_job_that_is_cancelled_while_it_is_restarted_does_not_start_again() -> None:
    machines, evicting, may_end = Machines(), threading.Event(), threading.Event()

    def end(pod: Pod, node: NodeName) -> None:
        evicting.set()
        assert may_end.wait(LONG)
        machines.end(pod, node)

    with Host(start=machines.start, evict=end) as host:
        host.tell(machine("a", 4))
        job = host.submit(job_of(2))
        job.wait(LONG)
        host.tell(PodDeleted(PodUID("default/train-1")))
        assert evicting.wait(LONG)
        host.cancel(job)
        may_end.set()
        host.submit(Pod(name="next", requests={"cpu": 4})).wait(LONG)
    assert sorted(machines.started) == ["next", "train-0", "train-1"]


def test_policy_is_refused_by_a_host_that_does_not_evict() -> None:
    with Host(start=Machines().start) as host:
        with pytest.raises(InvalidValueError, match=r"restart.*a host with evict"):
            host.submit(job_of(2))
        host.tell(machine("a"))
        host.submit(job_of(2, policy=None)).wait(LONG)


def test_job_whose_machine_is_lost_is_restarted_whole_on_asyncio() -> None:
    machines = Machines()

    async def main() -> None:
        async with AsyncHost(start=machines.start_async, evict=machines.end_async) as host:
            host.tell(machine("a"), machine("b"))
            job = host.submit(job_of(3))
            async with asyncio.timeout(LONG):
                await job.started()
                lost = [name for name, node in machines.on.items() if node == "a"]
                for name in lost:
                    del machines.on[name]
                host.tell(NodeDeleted(NodeName("a")), machine("c"))
                while len(machines.started) < 6 or len(job.places) < 3:
                    await asyncio.sleep(0.01)
            assert sorted(set(job.places.values())) == ["b", "c"]
            assert len(machines.ended) == 3 - len(lost)

    asyncio.run(main())


def test_policy_is_refused_by_an_asyncio_host_that_does_not_evict() -> None:
    async def main() -> None:
        async with AsyncHost(start=Machines().start_async) as host:
            with pytest.raises(InvalidValueError, match=r"restart.*a host with evict"):
                host.submit(job_of(2))

    asyncio.run(main())
