"""A job that ends while its pods are being started has started; finished differs from cancelled."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gangsched import (
    GangRejectedError,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    UnknownPodError,
    gang,
)
from gangsched.drivers.host import AsyncHost, AsyncJob, Host, Job, JobState
from support.patience import HANG

POD = Pod(name="p", requests={"cpu": 1})


def node(cpu: int) -> NodeAdded:
    return NodeAdded(Node(name="a", allocatable={"cpu": cpu}))


@pytest.mark.parametrize("max_starts", [1, 2])
def test_job_that_its_own_start_finishes_has_started(max_starts: int) -> None:
    jobs: list[Job] = []
    ready, answers = threading.Event(), list[Any]()

    def start(_pod: Pod, _node: NodeName) -> None:
        assert ready.wait(HANG)
        answers.append((host.finish(jobs[0]), jobs[0].state, jobs[0].has_started))

    with Host(start=start, max_starts=max_starts) as host:
        host.tell(node(1))
        jobs.append(host.submit(POD))
        ready.set()
        assert jobs[0].wait(HANG) == {"p": "a"}
        assert (jobs[0].has_started, jobs[0].places) == (True, {"p": "a"})
        assert (jobs[0].state, repr(jobs[0])) == (JobState.FINISHED, "<Job default/p finished>")
    assert answers == [({}, JobState.FINISHED, False)]


def test_gang_that_is_finished_while_all_its_pods_are_being_started_has_started() -> None:
    begun, let_go = threading.Barrier(3), threading.Event()

    def start(_pod: Pod, _node: NodeName) -> None:
        begun.wait(HANG)
        assert let_go.wait(HANG)

    with Host(start=start) as host, ThreadPoolExecutor() as pool:
        host.tell(node(2))
        job = host.submit(gang("train", workers=2, cpu=1))
        begun.wait(HANG)
        ended = pool.submit(host.finish, job)
        while job.state is not JobState.FINISHED:
            threading.Event().wait(0.001)
        assert not job.has_started
        with pytest.raises(TimeoutError):
            job.wait(0.02)
        let_go.set()
        assert job.wait(HANG) == {"train-0": "a", "train-1": "a"}
        assert ended.result(HANG) == {"train-0": "a", "train-1": "a"}


def test_every_job_of_a_farm_whose_workers_end_at_once_has_started() -> None:
    with ThreadPoolExecutor(4) as workers:
        made: dict[str, Future[Job]] = {}

        def work(name: str) -> None:
            host.finish(made[name].result(HANG))

        def start(pod: Pod, _node: NodeName) -> None:
            workers.submit(work, pod.name)

        with Host(start=start) as host:
            host.tell(node(2))
            jobs: list[Job] = []
            for index in range(100):
                name = f"p-{index}"
                made[name] = Future()
                jobs.append(host.submit(Pod(name=name, requests={"cpu": 1})))
                made[name].set_result(jobs[-1])
            assert [job.wait(HANG) for job in jobs] == [{f"p-{i}": "a"} for i in range(100)]
            assert all(job.has_started for job in jobs)


def test_job_that_is_finished_before_a_quorum_was_started_is_rejected() -> None:
    def start(_pod: Pod, _node: NodeName) -> None:
        begun.set()
        assert let_go.wait(HANG)

    begun, let_go = threading.Event(), threading.Event()
    with Host(start=start, max_starts=1) as host, ThreadPoolExecutor() as pool:
        host.tell(node(2))
        job = host.submit(gang("train", workers=2, cpu=1))
        assert begun.wait(HANG)
        ended = pool.submit(host.finish, job)
        while job.state is not JobState.FINISHED:
            threading.Event().wait(0.001)
        let_go.set()
        with pytest.raises(GangRejectedError, match="finished before it started"):
            job.wait(HANG)
        assert ended.result(HANG) == {"train-0": "a"}
        assert not job.has_started


def test_start_that_fails_after_its_job_was_finished_ends_the_wait() -> None:
    jobs: list[Job] = []
    ready = threading.Event()

    def start(_pod: Pod, _node: NodeName) -> None:
        assert ready.wait(HANG)
        host.finish(jobs[0])
        raise OSError("no such machine")

    with Host(start=start) as host:
        host.tell(node(1))
        jobs.append(host.submit(POD))
        ready.set()
        with pytest.raises(GangRejectedError, match="finished before it started"):
            jobs[0].wait(HANG)


def test_state_tells_finished_from_cancelled() -> None:
    with Host(start=lambda _pod, _node: None) as host:
        host.tell(node(2))
        first, second = (host.submit(Pod(name=n, requests={"cpu": 1})) for n in ("x", "y"))
        waiting = host.submit(POD)
        first.wait(HANG)
        second.wait(HANG)
        assert [job.state.value for job in (first, waiting)] == ["started", "pending"]
        host.finish(first)
        host.cancel(second)
        assert [job.state.value for job in (first, second)] == ["finished", "cancelled"]
        assert (first.has_started, second.has_started) == (True, True)
        assert (first.wait(0), second.wait(0)) == ({"x": "a"}, {"y": "a"})
        host.cancel(first)  # without effect
        assert first.state is JobState.FINISHED


def test_job_that_is_cancelled_during_its_start_has_not_started() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def start(_pod: Pod, _node: NodeName) -> None:
        begun.set()
        assert let_go.wait(HANG)

    with Host(start=start) as host, ThreadPoolExecutor() as pool:
        host.tell(node(1))
        job = host.submit(POD)
        assert begun.wait(HANG)
        cancelled = pool.submit(host.cancel, job)
        with pytest.raises(GangRejectedError, match="withdrawn before it started"):
            job.wait(HANG)
        let_go.set()
        assert cancelled.result(HANG) == {"p": "a"}
        assert (job.state, job.has_started) == (JobState.CANCELLED, False)
        assert job.places == {"p": "a"}


# Questions about a job that is over -----------------------------------------------------------


@pytest.mark.parametrize("remove", [Host.finish, Host.cancel])
def test_question_about_a_job_that_is_over_is_refused(remove: Any) -> None:
    with Host(start=lambda _pod, _node: None) as host:
        host.tell(node(2))
        job = host.submit(gang("train", workers=2, cpu=1))
        job.wait(HANG)
        remove(host, job)
        with pytest.raises(UnknownPodError, match="default/train"):
            host.why(job)
        again = host.submit(gang("train", workers=2, cpu=1))
        again.wait(HANG)
        with pytest.raises(UnknownPodError):
            host.why(job)  # not the answer about the job that has its name now
        wrong: Any = "default/train"
        with pytest.raises(InvalidValueError, match="a Job of this host"):
            host.why(wrong)


def test_question_that_a_withdrawal_overtakes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Host(start=lambda _pod, _node: None) as host:
        job = host.submit(POD)
        asked = host.driver.ask

        def ask(question: Any) -> Any:
            answer = asked(question)
            host.cancel(job)
            return answer

        monkeypatch.setattr(host.driver, "ask", ask)
        with pytest.raises(UnknownPodError):
            host.why(job)


# Starts that fail -----------------------------------------------------------------------------


def test_start_that_raises_is_told_with_its_pod_and_node() -> None:
    told: list[tuple[str, str, str]] = []

    def start(_pod: Pod, _node: NodeName) -> None:
        if not told:
            raise OSError("no such machine")

    def note(pod: Pod, name: NodeName, error: Exception) -> None:
        told.append((pod.name, name, str(error)))

    with Host(start=start, on_start_error=note) as host:
        host.tell(node(1))
        job = host.submit(POD)
        assert job.start_error is None
        assert job.wait(HANG) == {"p": "a"}
        assert isinstance(job.start_error, OSError)
    assert told == [("p", "a", "no such machine")]


def test_wait_in_vain_has_the_last_error_of_start_as_its_cause() -> None:
    def start(_pod: Pod, _node: NodeName) -> None:
        raise OSError("no such machine")

    with Host(start=start) as host:
        host.tell(node(1))
        job = host.submit(POD)
        while job.start_error is None:
            threading.Event().wait(0.001)
        with pytest.raises(TimeoutError, match="last start failed: no such machine") as said:
            job.wait(0)
        assert said.value.__cause__ is job.start_error


# On asyncio -----------------------------------------------------------------------------------


def run(story: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG):
            await story()

    asyncio.run(main())


def test_job_that_its_own_start_finishes_has_started_on_asyncio() -> None:
    jobs: list[AsyncJob] = []

    async def story() -> None:
        async def start(_pod: Pod, _node: NodeName) -> None:
            assert await host.finish(jobs[0]) == {}
            assert not jobs[0].has_started

        async with AsyncHost(start=start) as host:
            host.tell(node(1))
            jobs.append(host.submit(POD))
            assert await jobs[0].started() == {"p": "a"}
            assert jobs[0].has_started
            assert (jobs[0].state, jobs[0].places) == (JobState.FINISHED, {"p": "a"})

    run(story)


def test_job_that_ends_during_its_start_has_started_on_asyncio() -> None:
    async def story() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def start(_pod: Pod, _node: NodeName) -> None:
            begun.set()
            await let_go.wait()

        async with AsyncHost(start=start) as host:
            host.tell(node(2))
            job = host.submit(gang("train", workers=2, cpu=1))
            await begun.wait()
            await asyncio.sleep(0)
            ended = asyncio.create_task(host.finish(job))
            await asyncio.sleep(0.01)
            assert (job.state, job.has_started) == (JobState.FINISHED, False)
            let_go.set()
            assert await job.started() == {"train-0": "a", "train-1": "a"}
            assert await ended == {"train-0": "a", "train-1": "a"}

    run(story)


def test_job_that_is_finished_before_a_quorum_was_started_is_rejected_on_asyncio() -> None:
    async def story() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def start(_pod: Pod, _node: NodeName) -> None:
            begun.set()
            await let_go.wait()

        async with AsyncHost(start=start, max_starts=1) as host:
            host.tell(node(2))
            job = host.submit(gang("train", workers=2, cpu=1))
            await begun.wait()
            ended = asyncio.create_task(host.finish(job))
            await asyncio.sleep(0.01)
            let_go.set()
            with pytest.raises(GangRejectedError, match="finished before it started"):
                await job.started()
            assert await ended == {"train-0": "a"}

    run(story)


@pytest.mark.parametrize("remove", [AsyncHost.finish, AsyncHost.cancel])
def test_question_about_a_job_that_is_over_is_refused_on_asyncio(remove: Any) -> None:
    async def story() -> None:
        async def start(_pod: Pod, _node: NodeName) -> None:
            await asyncio.sleep(0)

        async with AsyncHost(start=start) as host:
            host.tell(node(2))
            job = host.submit(gang("train", workers=2, cpu=1))
            await job.started()
            assert str(await host.why(job)) == "2 members hold nodes"
            await remove(host, job)
            expected = JobState.FINISHED if remove is AsyncHost.finish else JobState.CANCELLED
            assert job.state is expected
            with pytest.raises(UnknownPodError, match="default/train"):
                await host.why(job)
            wrong: Any = "default/train"
            with pytest.raises(InvalidValueError):
                await host.why(wrong)

    run(story)


def test_start_that_raises_is_told_on_asyncio() -> None:
    async def story() -> None:
        told: list[tuple[str, str, str]] = []

        async def start(_pod: Pod, _node: NodeName) -> None:
            if not told:
                raise OSError("no such machine")

        def note(pod: Pod, name: NodeName, error: Exception) -> None:
            told.append((pod.name, name, str(error)))

        async with AsyncHost(start=start, on_start_error=note) as host:
            host.tell(node(1))
            job = host.submit(POD)
            assert await job.started() == {"p": "a"}
            assert isinstance(job.start_error, OSError)
        assert told == [("p", "a", "no such machine")]

    run(story)


def test_question_about_a_job_that_is_cancelled_meanwhile_is_refused_on_asyncio() -> None:
    async def story() -> None:
        async def start(_pod: Pod, _node: NodeName) -> None:
            await asyncio.sleep(0)

        host = AsyncHost(start=start)  # not entered: the job is not taken in
        job = host.submit(gang("train", workers=2, cpu=1))
        asked = asyncio.create_task(host.why(job))
        await asyncio.sleep(0)
        assert not asked.done()
        assert await host.cancel(job) == {}
        with pytest.raises(UnknownPodError):
            await asked
        await host.aclose()

    run(story)
