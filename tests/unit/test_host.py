"""Hosts without an API server: submit, wait until started, cancel, on threads and on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    GangRejectedError,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    Preemption,
    Role,
    Scheduler,
    gang,
    presets,
)
from gangsched.drivers.host import AsyncHost, Host
from gangsched.protocols import ClusterState
from support.patience import HANG


def node(name: str, cpu: int) -> NodeAdded:
    return NodeAdded(Node(name=name, allocatable={"cpu": cpu}))


class Places:
    """Records which pods were started where."""

    def __init__(self) -> None:
        self.on: dict[str, str] = {}
        self.ended: list[str] = []

    def start(self, pod: Pod, name: NodeName) -> None:
        self.on[pod.name] = name

    def end(self, pod: Pod, _name: NodeName) -> None:
        self.ended.append(pod.name)
        del self.on[pod.name]

    async def start_async(self, pod: Pod, name: NodeName) -> None:
        await asyncio.sleep(0)
        self.start(pod, name)

    async def end_async(self, pod: Pod, name: NodeName) -> None:
        self.end(pod, name)


def test_job_has_started_when_all_its_pods_have() -> None:
    places = Places()
    with Host(start=places.start) as host:
        host.tell(node("a", 1), node("b", 1))
        job = host.submit(gang("train", workers=2, cpu=1))
        assert sorted(job.wait(HANG)) == ["train-0", "train-1"]
        assert sorted(job.wait(HANG).values()) == ["a", "b"]
        assert (job.has_started, job.key) == (True, "default/train")
        assert repr(job) == "<Job default/train started>"
    assert sorted(places.on) == ["train-0", "train-1"]


def test_job_waits_for_what_another_job_holds() -> None:
    places = Places()
    with Host(start=places.start) as host:
        host.tell(node("a", 2))
        first = host.submit(gang("first", workers=2, cpu=1))
        first.wait(HANG)
        second = host.submit(gang("second", workers=2, cpu=1))
        with pytest.raises(TimeoutError, match=r"default/second has not started within 0\.05 s"):
            second.wait(0.05)
        assert "does not fit" in str(host.why(second))
        host.finish(first)
        assert sorted(second.wait(HANG)) == ["second-0", "second-1"]


def test_elastic_job_has_started_at_its_quorum_of_each_role() -> None:
    let_go = threading.Event()

    def start(pod: Pod, _node: NodeName) -> None:
        if pod.name == "fit-ps-0":
            let_go.wait(HANG)

    with Host(start=start) as host:
        host.tell(node("a", 4))
        job = host.submit(gang("fit", roles={"ps": 1, "worker": Role(3, minimum=1)}, cpu=1))
        with pytest.raises(TimeoutError):
            job.wait(0.2)  # workers enough have started, and no ps
        let_go.set()
        assert "fit-ps-0" in job.wait(HANG)


def test_cancelled_job_ends_its_waits_and_frees_its_nodes() -> None:
    places = Places()
    with Host(start=places.start) as host:
        host.tell(node("a", 1))
        running = host.submit(Pod(name="one", requests={"cpu": 1}))
        running.wait(HANG)
        waiting = host.submit(Pod(name="two", requests={"cpu": 1}))
        assert host.cancel(waiting) == {}
        with pytest.raises(GangRejectedError, match="default/two must not start: the job was with"):
            waiting.wait(HANG)
        assert host.cancel(running) == {"one": "a"}
        assert host.cancel(running) == {}
        assert host.submit(Pod(name="three", requests={"cpu": 1})).wait(HANG) == {"three": "a"}


def test_name_can_be_used_again_once_its_job_is_over() -> None:
    with Host(start=Places().start) as host:
        host.tell(node("a", 2))
        first = host.submit(gang("train", workers=2, cpu=1))
        first.wait(HANG)
        with pytest.raises(InvalidValueError, match="key must be unused"):
            host.submit(gang("train", workers=2, cpu=1))
        host.finish(first)
        again = host.submit(gang("train", workers=2, cpu=1))
        assert len(again.wait(HANG)) == 2
        assert host.cancel(first) == {}  # the handle of the first run does not end the second
        assert again.has_started


def test_pod_that_could_not_be_started_is_tried_again() -> None:
    tries: list[str] = []

    def start(pod: Pod, _node: NodeName) -> None:
        tries.append(pod.name)
        if len(tries) == 1:
            raise OSError("no such machine")

    with Host(start=start) as host:
        host.tell(node("a", 1))
        assert host.submit(Pod(name="p", requests={"cpu": 1})).wait(HANG) == {"p": "a"}
    assert tries == ["p", "p"]


def test_closed_host_ends_the_waits_for_jobs_that_have_not_started() -> None:
    with Host(start=Places().start) as host:
        job = host.submit(gang("train", workers=2, cpu=1))
    with pytest.raises(GangRejectedError, match="the host was closed"):
        job.wait(HANG)


def preempting(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, preemption=Preemption())


def test_evicted_pod_is_ended_and_queued_again() -> None:
    places = Places()
    with Host(start=places.start, evict=places.end, make=preempting) as host:
        host.tell(node("a", 1))
        low = host.submit(Pod(name="low", requests={"cpu": 1}))
        low.wait(HANG)
        high = host.submit(Pod(name="high", requests={"cpu": 1}, priority=5))
        assert high.wait(HANG) == {"high": "a"}
        assert places.ended == ["low"]
        host.finish(high)
        for _ in range(200):
            if "low" in places.on:
                break
            threading.Event().wait(0.05)
        assert places.on["low"] == "a"


@pytest.mark.parametrize("job", [None, "train", 3, Node(name="n")])
def test_what_is_no_job_is_refused(job: Any) -> None:
    with Host(start=Places().start) as host:
        with pytest.raises(InvalidValueError, match="a Gang or a Pod"):
            host.submit(job)
        with pytest.raises(InvalidValueError, match="a Job of this host"):
            host.cancel(job)


def test_no_event_of_a_batch_is_handed_in_if_one_is_none() -> None:
    with Host(start=Places().start) as host:
        wrong: Any = "a node"
        with pytest.raises(InvalidValueError):
            host.tell(node("a", 1), wrong)
        job = host.submit(Pod(name="p", requests={"cpu": 1}))
        assert "does not fit" in str(host.why(job))


def test_error_of_the_scheduler_ends_the_waits_and_is_raised_by_close() -> None:
    class Broken:
        name = "Broken"

        def filter(self, state: object, pod: Pod, node: object) -> object:
            raise RuntimeError("broken")

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, plugins=[Broken()])

    host = Host(start=Places().start, make=make)
    host.__enter__()
    host.tell(node("a", 1))
    job = host.submit(Pod(name="p", requests={"cpu": 1}))
    with pytest.raises(GangRejectedError):
        job.wait(HANG)
    with pytest.raises(PluginError, match="broken"):
        host.close()


# On asyncio -----------------------------------------------------------------------------------


def run(story: Callable[[AsyncHost, Places], Any], **options: Any) -> Places:
    places = Places()

    async def main() -> None:
        async with asyncio.timeout(HANG), AsyncHost(start=places.start_async, **options) as host:
            await story(host, places)

    asyncio.run(main())
    return places


def test_started_is_awaited_on_asyncio() -> None:
    async def story(host: AsyncHost, _places: Places) -> None:
        host.tell(node("a", 2))
        first = host.submit(gang("first", workers=2, cpu=1))
        assert sorted(await first.started()) == ["first-0", "first-1"]
        second = host.submit(gang("second", workers=2, cpu=1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await second.started()
        assert not second.has_started
        assert "does not fit" in str(await host.why(second))
        assert await host.finish(first) == {}
        assert len(await second.started()) == 2
        assert repr(second) == "<AsyncJob default/second started>"

    assert sorted(run(story).on) == ["first-0", "first-1", "second-0", "second-1"]


def test_cancelled_job_ends_its_waits_on_asyncio() -> None:
    async def story(host: AsyncHost, _places: Places) -> None:
        job = host.submit(gang("train", workers=2, cpu=1))
        waiting = asyncio.create_task(job.started())
        await asyncio.sleep(0.02)
        assert await host.cancel(job) == {}
        with pytest.raises(GangRejectedError, match="the job was withdrawn"):
            await waiting
        assert repr(job) == "<AsyncJob default/train cancelled>"
        host.submit(gang("train", workers=2, cpu=1))  # its end is that of the host

    run(story)


def test_evicted_pod_is_queued_again_on_asyncio() -> None:
    ended: list[str] = []

    async def end(pod: Pod, _node: NodeName) -> None:
        ended.append(pod.name)

    async def story(host: AsyncHost, places: Places) -> None:
        host.tell(node("a", 1))
        await host.submit(Pod(name="low", requests={"cpu": 1})).started()
        high = host.submit(Pod(name="high", requests={"cpu": 1}, priority=5))
        await high.started()
        assert ended == ["low"]
        places.on.clear()
        await host.finish(high)
        while "low" not in places.on:
            await asyncio.sleep(0.02)

    run(story, evict=end, make=preempting)


def test_driver_takes_a_batch_of_events() -> None:
    with Host(start=Places().start) as host:
        host.driver.tell(node("a", 1), PodAdded(Pod(name="p", requests={"cpu": 1})))
        host.driver.ready(timeout=HANG)
