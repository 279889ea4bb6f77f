"""Hosts without an API server: submit, wait until started, finish, cancel; ends and errors."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from gangsched import (
    GangRejectedError,
    HostClosedError,
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
    Success,
    UnknownPodError,
    gang,
    presets,
)
from gangsched.drivers.host import AsyncHost, AsyncJob, Host, Job, JobState
from gangsched.protocols import ClusterState
from support.hosts import Starts, both, run
from support.patience import HANG, until_on_loop

POD, LARGE, BAD = (
    Pod(name=name, requests={"cpu": cpu}) for name, cpu in (("p", 1), ("large", 9), ("bad", 1))
)
TRAIN = gang("train", workers=2, cpu=1)
BOTH_ON_A = {"train-0": "a", "train-1": "a"}


def node(cpu: int, name: str = "a") -> NodeAdded:
    return NodeAdded(Node(name=name, allocatable={"cpu": cpu}))


removed = pytest.mark.parametrize("how", ["finish", "cancel"])


def preempting(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, preemption=Preemption())


class Broken:
    """A plugin that raises for one pod."""

    name = "Broken"

    def filter(self, _state: object, pod: Pod, _node: object) -> Success:
        if pod.name == "bad":
            raise KeyError("oops")
        return Success()


def broken(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, plugins=[Broken()])


async def over(host: Any, job: Any, how: str) -> Any:
    return await getattr(host, how)(job)


async def until_it_fits_nowhere(host: Any, job: Any) -> None:
    while "does not fit" not in str(await host.why(job)):
        await asyncio.sleep(0.001)


# Jobs that start --------------------------------------------------------------------------------


@both
def test_job_has_started_when_all_its_pods_have(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(1, "a"), node(1, "b"))
            job = host.submit(TRAIN)
            places = await job.started()
            assert (sorted(places), sorted(places.values())) == (["train-0", "train-1"], ["a", "b"])
            assert (job.has_started, job.key) == (True, "default/train")
            assert (job.state, repr(job)) == (
                JobState.STARTED,
                "<AsyncJob default/train started>",
            )

    assert sorted(run(kind, story).tried) == ["train-0", "train-1"]


@both
def test_job_waits_for_what_another_job_holds(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            first = host.submit(gang("first", workers=2, cpu=1))
            await first.started()
            second = host.submit(gang("second", workers=2, cpu=1))
            await until_it_fits_nowhere(host, second)
            assert not second.has_started
            assert await host.finish(first) == {}
            assert sorted(await second.started()) == ["second-0", "second-1"]

    run(kind, story)


@both
def test_elastic_job_has_started_at_its_quorum_of_each_role(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(4))
            job = host.submit(gang("fit", roles={"ps": 1, "worker": Role(3, minimum=1)}, cpu=1))
            await until_on_loop(lambda: len(job.places) == 3)
            assert not job.has_started  # workers enough have started, and no ps
            starts.let_go.set()
            assert "fit-ps-0" in await job.started()

    run(kind, story, Starts("fit-ps-0"))


@both
def test_places_of_a_job_include_pods_that_start_after_the_quorum(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(4))
            job = host.submit(gang("fit", workers=3, min_available=2, cpu=1))
            assert sorted(await job.started()) == ["fit-0", "fit-1"] == sorted(job.places)
            starts.let_go.set()
            await until_on_loop(lambda: len(job.places) == 3)
            assert len(await job.started()) == 2

    run(kind, story, Starts("fit-2"))


@both
def test_name_can_be_used_again_once_its_job_is_over(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            first = host.submit(TRAIN)
            await first.started()
            with pytest.raises(InvalidValueError, match="key must be unused"):
                host.submit(TRAIN)
            await host.finish(first)
            again = host.submit(TRAIN)
            assert len(await again.started()) == 2
            assert await host.cancel(first) == {}  # the first handle does not end the second run
            assert again.has_started

    run(kind, story)


@both
def test_start_that_raises_is_told_and_tried_again(kind: Any) -> None:
    told: list[tuple[str, str, str]] = []

    def note(pod: Pod, name: NodeName, error: Exception) -> None:
        told.append((pod.name, name, str(error)))

    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            job = host.submit(POD)
            assert await job.started() == {"p": "a"}
            assert isinstance(job.start_error, OSError)

    assert run(kind, story, Starts(fails=1), on_start_error=note).tried == ["p", "p"]
    assert told == [("p", "a", "no such machine")]


@both
def test_evicted_pod_is_ended_and_queued_again(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            await host.submit(Pod(name="low", requests={"cpu": 1})).started()
            high = host.submit(Pod(name="high", requests={"cpu": 1}, priority=5))
            assert await high.started() == {"high": "a"}
            assert starts.ended == ["low"]
            await host.finish(high)
            await until_on_loop(lambda: starts.tried == ["low", "high", "low"])

    starts = Starts()
    run(kind, story, starts, evict=starts.evict, make=preempting)


# Jobs that end ----------------------------------------------------------------------------------


@both
def test_cancelled_job_ends_its_waits_and_frees_its_nodes(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            running, waiting = host.submit(POD), host.submit(TRAIN)
            await running.started()
            waits = asyncio.create_task(waiting.started())
            await asyncio.sleep(0)
            assert await host.cancel(waiting) == {}
            with pytest.raises(
                GangRejectedError, match="default/train must not start: the job was"
            ):
                await waits
            assert repr(waiting) == "<AsyncJob default/train cancelled>"
            assert await host.cancel(running) == {"p": "a"}
            assert await host.cancel(running) == {}
            assert await host.submit(Pod(name="q", requests={"cpu": 1})).started() == {"q": "a"}

    run(kind, story)


@both
def test_state_tells_finished_from_cancelled(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            first, second = (host.submit(Pod(name=n, requests={"cpu": 1})) for n in ("x", "y"))
            waiting = host.submit(POD)
            await first.started()
            await second.started()
            assert [job.state.value for job in (first, waiting)] == ["started", "pending"]
            await host.finish(first)
            await host.cancel(second)
            assert [job.state.value for job in (first, second)] == ["finished", "cancelled"]
            assert (first.has_started, second.has_started) == (True, True)
            assert (await first.started(), await second.started()) == ({"x": "a"}, {"y": "a"})
            await host.cancel(first)  # without effect
            assert first.state is JobState.FINISHED

    run(kind, story)


@both
@removed
def test_pods_that_are_being_started_are_returned_by_what_removes_their_job(
    kind: Any, how: str
) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            job = host.submit(TRAIN)
            await until_on_loop(lambda: len(starts.tried) == 2)
            answer = asyncio.create_task(over(host, job, how))
            await until_on_loop(lambda: job.state is not JobState.PENDING)
            await asyncio.sleep(0.01)
            assert (answer.done(), job.has_started) == (False, False)
            starts.let_go.set()
            assert await answer == BOTH_ON_A == job.places
            if how == "finish":
                assert await job.started() == BOTH_ON_A
            else:
                with pytest.raises(GangRejectedError, match="withdrawn before it started"):
                    await job.started()
            assert job.has_started is (how == "finish")

    run(kind, story, Starts("all"))


@both
def test_finish_returns_only_the_pods_that_were_started_since(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(4))
            job = host.submit(gang("fit", workers=4, min_available=3, cpu=1))
            assert sorted(await job.started()) == ["fit-0", "fit-1", "fit-2"]
            await starts.begun.wait()
            answer = asyncio.create_task(host.finish(job))
            await until_on_loop(lambda: job.state is JobState.FINISHED)
            starts.let_go.set()
            assert await answer == {"fit-3": "a"}
            assert await host.finish(job) == {}

    run(kind, story, Starts("fit-3"), max_starts=4)


@both
@pytest.mark.parametrize("fails", [0, 1])
def test_job_that_is_finished_before_a_quorum_was_started_is_rejected(
    kind: Any, fails: int
) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            job = host.submit(TRAIN)
            await starts.begun.wait()
            ended = asyncio.create_task(host.finish(job))
            await until_on_loop(lambda: job.state is JobState.FINISHED)
            starts.let_go.set()
            with pytest.raises(GangRejectedError, match="finished before it started"):
                await job.started()
            assert await ended == ({} if fails else {"train-0": "a"})
            assert not job.has_started

    run(kind, story, Starts("all", fails=fails), max_starts=1)


@both
def test_late_start_of_a_withdrawn_job_is_none_of_the_next_job_of_its_name(kind: Any) -> None:
    """The UIDs are the same: the start of the first run counted as one of the second."""

    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            first = host.submit(gang("train", workers=1, cpu=1))
            await starts.begun.wait()
            answer = asyncio.create_task(host.cancel(first))
            with pytest.raises(GangRejectedError):
                await first.started()
            second = host.submit(gang("train", workers=1, cpu=3))  # fits nowhere
            starts.let_go.set()
            assert await answer == {"train-0": "a"}
            assert (second.has_started, dict(second.places)) == (False, {})

    run(kind, story, Starts("all"))


@both
def test_eviction_that_ends_after_a_withdrawal_leaves_the_next_job_alone(kind: Any) -> None:
    """The pod of the next job has the same UID; it was deleted with the evicted one."""
    evicting, let_go = asyncio.Event(), asyncio.Event()

    async def end(_pod: Pod, _node: NodeName) -> None:
        evicting.set()
        await let_go.wait()

    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            low = host.submit(Pod(name="low", requests={"cpu": 1}))
            await low.started()
            high = host.submit(Pod(name="high", requests={"cpu": 1}, priority=5))
            await evicting.wait()
            await host.cancel(low)
            again = host.submit(Pod(name="low", requests={"cpu": 1}, priority=1))
            let_go.set()
            assert await high.started() == {"high": "a"}
            await host.finish(high)
            assert await again.started() == {"low": "a"}

    assert run(kind, story, evict=end, make=preempting).tried == ["low", "high", "low"]


# A start that ends its own job ------------------------------------------------------------------


@removed
@pytest.mark.parametrize("max_starts", [1, 2])
def test_start_on_a_thread_may_end_its_own_job(how: str, max_starts: int) -> None:
    jobs: list[Job] = []
    ready, answers = threading.Event(), list[Any]()

    def start(_pod: Pod, _node: NodeName) -> None:
        assert ready.wait(HANG)
        answers.append((getattr(host, how)(jobs[0]), jobs[0].has_started))

    with Host(start=start, max_starts=max_starts) as host:
        host.tell(node(1))
        jobs.append(host.submit(POD))
        ready.set()
        if how == "finish":
            assert jobs[0].wait(HANG) == {"p": "a"} == jobs[0].places
            assert repr(jobs[0]) == "<Job default/p finished>"
        else:
            with pytest.raises(GangRejectedError):
                jobs[0].wait(HANG)
    assert answers == [({}, False)]


def test_start_on_asyncio_may_finish_its_own_job() -> None:
    jobs: list[AsyncJob] = []

    async def start(_pod: Pod, _node: NodeName) -> None:
        assert await host.finish(jobs[0]) == {}
        assert not jobs[0].has_started

    async def main() -> None:
        async with asyncio.timeout(HANG), host:
            host.tell(node(1))
            jobs.append(host.submit(POD))
            assert await jobs[0].started() == {"p": "a"} == jobs[0].places
            assert (jobs[0].has_started, jobs[0].state) == (True, JobState.FINISHED)

    host = AsyncHost(start=start)
    asyncio.run(main())


def test_every_job_of_a_farm_whose_workers_end_at_once_has_started() -> None:
    with ThreadPoolExecutor(4) as workers:
        made: dict[str, Future[Job]] = {f"p-{index}": Future() for index in range(100)}

        def work(name: str) -> None:
            host.finish(made[name].result(HANG))

        def start(pod: Pod, _node: NodeName) -> None:
            workers.submit(work, pod.name)

        with Host(start=start) as host:
            host.tell(node(2))
            for name, future in made.items():
                future.set_result(host.submit(Pod(name=name, requests={"cpu": 1})))
            for name, future in made.items():
                assert future.result().wait(HANG) == {name: "a"}
                assert future.result().has_started


# Questions, and what is refused -----------------------------------------------------------------


def test_wait_in_vain_says_so_with_the_last_error_of_start_as_its_cause() -> None:
    def start(_pod: Pod, _node: NodeName) -> None:
        raise OSError("no such machine")

    with Host(start=start) as host:
        waiting = host.submit(TRAIN)
        with pytest.raises(TimeoutError, match=r"default/train has not started within 0\.01 s"):
            waiting.wait(0.01)
        host.tell(node(1))
        job = host.submit(POD)
        while job.start_error is None:
            threading.Event().wait(0.001)
        with pytest.raises(TimeoutError, match="last start failed: no such machine") as said:
            job.wait(0)
        assert said.value.__cause__ is job.start_error


@both
@removed
def test_question_about_a_job_that_is_over_is_refused(kind: Any, how: str) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(2))
            job = host.submit(TRAIN)
            await job.started()
            while (answer := str(await host.why(job))).endswith("being bound"):
                await asyncio.sleep(0.001)  # the job has started, and that is reported next
            assert answer == "2 members hold nodes"
            await over(host, job, how)
            with pytest.raises(UnknownPodError, match="default/train"):
                await host.why(job)
            await host.submit(TRAIN).started()
            with pytest.raises(UnknownPodError):
                await host.why(job)  # not the answer about the job that has its name now
            with pytest.raises(InvalidValueError, match="Job of this host"):
                await host.why("default/train")

    run(kind, story)


def test_question_that_a_withdrawal_overtakes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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


@both
def test_question_about_a_job_that_is_cancelled_meanwhile_is_refused(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            host.submit(POD)
            await starts.begun.wait()
            job = host.submit(TRAIN)  # not taken in while the only start is under way
            asked = asyncio.create_task(host.why(job))
            await asyncio.sleep(0.01)
            assert not asked.done()
            cancelling = asyncio.create_task(host.cancel(job))
            await until_on_loop(lambda: job.state is JobState.CANCELLED)
            starts.let_go.set()
            assert await cancelling == {}
            with pytest.raises(UnknownPodError):
                await asked

    run(kind, story, Starts("p"), max_starts=1)


@both
def test_what_is_no_job_or_event_is_refused(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            for wrong in (None, "train", 3, Node(name="n")):
                with pytest.raises(InvalidValueError, match="a Gang or a Pod"):
                    host.submit(wrong)
                with pytest.raises(InvalidValueError, match="Job of this host"):
                    await host.cancel(wrong)
            with pytest.raises(InvalidValueError):
                host.tell(node(1), "a node")
            await until_it_fits_nowhere(host, host.submit(POD))  # no event was taken in

    run(kind, story)


def test_driver_of_a_host_takes_a_batch_of_events() -> None:
    with Host(start=lambda _pod, _node: None) as host:
        host.driver.tell(node(1), PodAdded(POD))
        host.driver.ready(timeout=HANG)


# Hosts that end ---------------------------------------------------------------------------------


async def call(host: Any, name: str, job: Any) -> None:
    if name in ("tell", "submit"):
        getattr(host, name)(node(1) if name == "tell" else Pod(name="new"))
    else:
        await getattr(host, name)(job)


CALLS = ("tell", "submit", "why", "finish", "cancel")


@both
def test_calls_of_a_host_that_a_plugin_ended_raise_its_error_at_once(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        await host.__aenter__()
        host.tell(node(1))
        started = host.submit(POD)
        await started.started()
        waiting = host.submit(LARGE)
        host.tell(node(1, "b"))
        host.submit(BAD)
        with pytest.raises(GangRejectedError, match=r"ended with an error: .*'Broken'") as rejected:
            await waiting.started()
        assert isinstance(rejected.value.__cause__, PluginError)
        assert (waiting.state, started.state) == (JobState.CANCELLED, JobState.STARTED)
        assert (waiting.has_started, started.places) == (False, {"p": "a"})
        for name in CALLS:
            for job in (started, waiting):
                with pytest.raises(HostClosedError, match=f"{name} was refused: .*oops") as said:
                    await call(host, name, job)
                assert isinstance(said.value.__cause__, PluginError)
        with pytest.raises(PluginError, match="oops"):
            await host.aclose()
        await host.aclose()
        for name in CALLS:
            with pytest.raises(HostClosedError):
                await call(host, name, waiting)

    run(kind, story, make=broken)


@both
def test_question_that_waits_for_its_job_is_refused_when_an_error_ends_the_host(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        await host.start()
        host.tell(node(2))
        host.submit(POD)
        await starts.begun.wait()
        host.submit(BAD)
        host.tell(*(NodeAdded(Node(name=f"n-{index}")) for index in range(100)))
        late = host.submit(TRAIN)  # more events later than the driver takes in before it decides
        asked = asyncio.create_task(host.why(late))
        await asyncio.sleep(0)
        starts.let_go.set()
        with pytest.raises(HostClosedError, match="why was refused"):
            await asked
        with pytest.raises(PluginError):
            await host.stop()

    run(kind, story, Starts("p"), make=broken, max_starts=1)


@both
def test_closed_host_takes_nothing_in(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            job = host.submit(POD)
            await job.started()
            waiting = host.submit(TRAIN)
        with pytest.raises(GangRejectedError, match="the host was closed"):
            await waiting.started()
        for name in ("tell", "submit"):
            ended = f"{name} was refused: the host is being closed or has ended"
            with pytest.raises(HostClosedError, match=ended) as said:
                await call(host, name, job)
            assert said.value.__cause__ is None
        assert await host.cancel(job) == {"p": "a"}  # what the caller has to end
        with pytest.raises(HostClosedError):
            await host.__aenter__()

    run(kind, story)


@both
def test_job_is_refused_while_the_host_is_being_closed(kind: Any) -> None:
    async def refused(host: Any) -> bool:
        try:
            await host.cancel(host.submit(Pod(name="new", requests={"cpu": 9})))
        except HostClosedError:
            return True
        return False

    async def story(host: Any, starts: Starts) -> None:
        await host.__aenter__()
        host.tell(node(1))
        job = host.submit(POD)
        await starts.begun.wait()
        closing = asyncio.create_task(host.aclose())
        while not await refused(host):
            await asyncio.sleep(0.001)
        host.tell(node(1))  # a watch that goes on meanwhile is no error
        starts.let_go.set()
        await closing
        assert await job.started() == {"p": "a"}

    run(kind, story, Starts("all"))


@both
def test_driver_that_was_stopped_ends_the_waits(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with host:
            job = host.submit(TRAIN)
            host.driver.stop()
            with pytest.raises(GangRejectedError, match="the host was closed"):
                await job.started()
            with pytest.raises(HostClosedError):
                host.submit(POD)

    run(kind, story)


# Hosts that start and stop ----------------------------------------------------------------------


@both
def test_host_that_was_not_started_refuses_jobs_and_questions_and_says_so(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        async with kind(start=_starts.start) as other:
            foreign = other.submit(LARGE)
        host.tell(node(1))  # what is told is kept
        for name in ("submit", "why"):
            refused = f"{name} was refused: the host has not been started; call start"
            with pytest.raises(HostClosedError, match=refused) as said:
                await call(host, name, foreign)
            assert (said.value.call, said.value.__cause__) == (name, None)
        await host.start()
        assert await host.submit(POD).started() == {"p": "a"}
        await host.stop()

    run(kind, story)


@both
def test_host_is_started_once(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        await host.start()
        for again in (host.start, host.__aenter__):
            with pytest.raises(HostClosedError, match="start was refused: the host was started"):
                await again()
        host.tell(node(1))
        assert await host.submit(POD).started() == {"p": "a"}
        await host.stop()
        with pytest.raises(HostClosedError, match=r"start was refused: .*ended; make another"):
            await host.start()

    run(kind, story)


@both
def test_host_may_be_stopped_again_and_from_several_places(kind: Any) -> None:
    async def story(host: Any, starts: Starts) -> None:
        async with host:
            host.tell(node(1))
            job = host.submit(POD)
            await starts.begun.wait()
            stops = [asyncio.create_task(host.stop()) for _ in range(2)]
            await asyncio.sleep(0.01)
            assert [each.done() for each in stops] == [False, False]  # a start is under way
            starts.let_go.set()
            await asyncio.gather(*stops)
            assert await job.started() == {"p": "a"}
            await host.stop()

    run(kind, story, Starts("p"))


@both
def test_stopped_host_answers_about_its_jobs_at_once(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        await host.start()
        host.tell(node(1))
        running, waiting = host.submit(POD), host.submit(LARGE)
        await running.started()
        await host.stop()
        assert str(await host.why(running)) == "on a"
        assert "does not fit" in str(await host.why(waiting))

    run(kind, story)


@both
def test_host_that_is_stopped_before_it_was_started_cannot_be_started(kind: Any) -> None:
    async def story(host: Any, _starts: Starts) -> None:
        await host.stop()
        for name in ("tell", "submit"):
            with pytest.raises(HostClosedError, match="closed or has ended"):
                await call(host, name, None)
        with pytest.raises(HostClosedError, match="make another"):
            await host.start()

    run(kind, story)


def test_start_that_ends_the_interpreter_is_the_cause_too() -> None:
    def leave(_pod: Pod, _node: NodeName) -> None:
        raise SystemExit(3)

    host = Host(start=leave)
    host.__enter__()
    host.tell(node(1))
    job = host.submit(POD)
    with pytest.raises(GangRejectedError) as said:
        job.wait(HANG)
    assert isinstance(said.value.__cause__, SystemExit)
    with pytest.raises(SystemExit):
        host.close()
