"""A host that an error or ``close`` has ended: every call says so at once, with the error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from gangsched import (
    GangRejectedError,
    HostClosedError,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    Scheduler,
    Success,
    gang,
    presets,
)
from gangsched.drivers.host import AsyncHost, AsyncJob, Host, Job, JobState
from gangsched.protocols import ClusterState
from support.patience import HANG

ENDED = "the host is being closed or has ended"
NODE = NodeAdded(Node(name="a", allocatable={"cpu": 1}))
GOOD, BAD = Pod(name="good", requests={"cpu": 1}), Pod(name="bad", requests={"cpu": 1})
NEW = Pod(name="new", requests={"cpu": 1})
LARGE = Pod(name="large", requests={"cpu": 9})


class Broken:
    """A plugin that raises for one pod."""

    name = "Broken"

    def filter(self, _state: object, pod: Pod, _node: object) -> Success:
        if pod.name == "bad":
            raise KeyError("oops")
        return Success()


def broken(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, plugins=[Broken()])


def start(_pod: Pod, _node: NodeName) -> None:
    """Start a pod at once."""


async def start_async(_pod: Pod, _node: NodeName) -> None:
    await asyncio.sleep(0)


CALLS: dict[str, Callable[[Host, Job], object]] = {
    "tell": lambda host, _job: host.tell(NODE),
    "submit": lambda host, _job: host.submit(NEW),
    "why": Host.why,
    "finish": Host.finish,
    "cancel": Host.cancel,
}


def dead() -> tuple[Host, Job, Job]:
    """Return a host that an error of a plugin has ended, a job that started and one that waits."""
    host = Host(start=start, make=broken)
    host.__enter__()
    host.tell(NODE)
    started = host.submit(GOOD)
    started.wait(HANG)
    host.finish(started)
    again = host.submit(GOOD)
    again.wait(HANG)
    host.tell(NodeAdded(Node(name="b", allocatable={"cpu": 1})))
    waiting = host.submit(LARGE)
    host.submit(BAD)
    host._thread.join(HANG)
    assert not host._thread.is_alive()
    return host, again, waiting


@pytest.mark.parametrize("call", CALLS)
def test_call_of_a_host_that_a_plugin_ended_raises_its_error_at_once(call: str) -> None:
    host, started, waiting = dead()
    for job in (started, waiting):
        with pytest.raises(HostClosedError, match=f"{call} was refused: .*plugin 'Broken'") as said:
            CALLS[call](host, job)
        assert isinstance(said.value.__cause__, PluginError)
    with pytest.raises(PluginError, match="oops"):
        host.close()
    host.close()
    with pytest.raises(HostClosedError) as after:
        CALLS[call](host, waiting)
    assert isinstance(after.value.__cause__, PluginError)


def test_wait_for_a_job_that_an_error_of_a_plugin_kept_waiting_has_it_as_the_cause() -> None:
    host, started, waiting = dead()
    with pytest.raises(GangRejectedError, match="ended with an error: plugin 'Broken'") as said:
        waiting.wait(HANG)
    assert isinstance(said.value.__cause__, PluginError)
    assert (waiting.state, waiting.has_started) == (JobState.CANCELLED, False)
    assert started.wait(HANG) == {"good": "a"}
    assert (started.state, started.places) == (JobState.STARTED, {"good": "a"})
    with pytest.raises(PluginError):
        host.close()


def test_question_that_waits_for_its_job_is_answered_when_an_error_ends_the_host() -> None:
    entered, let_go = threading.Event(), threading.Event()

    class Slow(Broken):
        def filter(self, state: object, pod: Pod, node: object) -> Success:
            entered.set()
            assert let_go.wait(HANG)
            return super().filter(state, pod, node)

    host = Host(start=start, make=lambda cluster: presets.gang(cluster, plugins=[Slow()]))
    host.__enter__()
    host.tell(NODE)
    host.submit(BAD)
    assert entered.wait(HANG)
    late = host.submit(NEW)  # not taken in any more
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            host.why(late)
        except BaseException as error:
            errors.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    let_go.set()
    asking.join(HANG)
    assert [type(error) for error in errors] == [HostClosedError]
    with pytest.raises(PluginError):
        host.close()


@pytest.mark.parametrize("call", ["tell", "submit"])
def test_closed_host_takes_nothing_in(call: str) -> None:
    with Host(start=start) as host:
        host.tell(NODE)
        job = host.submit(NEW)
        job.wait(HANG)
    with pytest.raises(HostClosedError, match=f"{call} was refused: {ENDED}") as said:
        CALLS[call](host, job)
    assert said.value.__cause__ is None
    assert host.cancel(job) == {"new": "a"}  # what the caller has to end
    with pytest.raises(HostClosedError):
        host.__enter__()


def test_job_is_refused_while_the_host_is_being_closed() -> None:
    begun, let_go = threading.Event(), threading.Event()

    def slow(_pod: Pod, _node: NodeName) -> None:
        begun.set()
        assert let_go.wait(HANG)

    host = Host(start=slow)
    host.__enter__()
    host.tell(NODE)
    job = host.submit(NEW)
    assert begun.wait(HANG)
    closing = threading.Thread(target=host.close, daemon=True)
    closing.start()
    while not host._is_closing:
        threading.Event().wait(0.001)
    with pytest.raises(HostClosedError):
        host.submit(GOOD)
    host.tell(NODE)  # a watch that goes on meanwhile is no error
    let_go.set()
    closing.join(HANG)
    assert job.wait(HANG) == {"new": "a"}


def test_driver_that_was_stopped_ends_the_waits() -> None:
    with Host(start=start) as host:
        job = host.submit(gang("train", workers=2, cpu=1))
        host.driver.stop()
        with pytest.raises(GangRejectedError, match="the host was closed"):
            job.wait(HANG)
        with pytest.raises(HostClosedError):
            host.submit(NEW)


def test_host_that_never_ran_ends_the_waits_when_it_is_closed() -> None:
    host = Host(start=start)
    job = host.submit(NEW)
    host.close()
    with pytest.raises(GangRejectedError, match="the host was closed"):
        job.wait(HANG)


def test_start_that_ends_the_interpreter_is_the_cause_too() -> None:
    def leave(_pod: Pod, _node: NodeName) -> None:
        raise SystemExit(3)

    host = Host(start=leave)
    host.__enter__()
    host.tell(NODE)
    job = host.submit(NEW)
    with pytest.raises(GangRejectedError) as said:
        job.wait(HANG)
    assert isinstance(said.value.__cause__, SystemExit)
    with pytest.raises(SystemExit):
        host.close()


# On asyncio -----------------------------------------------------------------------------------


async def tell(host: AsyncHost, _job: AsyncJob) -> None:
    host.tell(NODE)


async def submit(host: AsyncHost, _job: AsyncJob) -> None:
    host.submit(NEW)


ASYNC_CALLS: dict[str, Callable[[AsyncHost, AsyncJob], Awaitable[object]]] = {
    "tell": tell,
    "submit": submit,
    "why": AsyncHost.why,
    "finish": AsyncHost.finish,
    "cancel": AsyncHost.cancel,
}


@pytest.mark.parametrize("call", ASYNC_CALLS)
def test_call_of_a_host_that_a_plugin_ended_raises_its_error_on_asyncio(call: str) -> None:
    async def main() -> None:
        host = AsyncHost(start=start_async, make=broken)
        await host.__aenter__()
        host.tell(NODE)
        started = host.submit(GOOD)
        await started.started()
        waiting = host.submit(LARGE)
        host.tell(NodeAdded(Node(name="b", allocatable={"cpu": 1})))
        host.submit(BAD)
        with pytest.raises(GangRejectedError, match="plugin 'Broken'") as rejected:
            await waiting.started()
        assert isinstance(rejected.value.__cause__, PluginError)
        assert (waiting.state, started.state) == (JobState.CANCELLED, JobState.STARTED)
        for job in (started, waiting):
            with pytest.raises(HostClosedError, match=f"{call} was refused: .*oops") as said:
                await ASYNC_CALLS[call](host, job)
            assert isinstance(said.value.__cause__, PluginError)
        with pytest.raises(PluginError, match="oops"):
            await host.aclose()
        await host.aclose()
        with pytest.raises(HostClosedError):
            await ASYNC_CALLS[call](host, waiting)

    async def limited() -> None:
        async with asyncio.timeout(HANG):
            await main()

    asyncio.run(limited())


@pytest.mark.parametrize("call", ["tell", "submit"])
def test_closed_host_takes_nothing_in_on_asyncio(call: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG), AsyncHost(start=start_async) as host:
            host.tell(NODE)
            job = host.submit(NEW)
            await job.started()
        with pytest.raises(HostClosedError, match=ENDED):
            await ASYNC_CALLS[call](host, job)
        assert await host.cancel(job) == {"new": "a"}
        with pytest.raises(HostClosedError):
            await host.__aenter__()

    asyncio.run(main())


def run(story: Callable[[], Awaitable[object]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG):
            await story()

    asyncio.run(main())


def test_question_that_waits_for_its_job_ends_with_the_host_on_asyncio() -> None:
    async def story() -> None:
        host = AsyncHost(start=start_async, make=broken)
        host.tell(NODE)
        host.submit(BAD)
        host.tell(*(NodeAdded(Node(name=f"n-{index}")) for index in range(100)))
        late = host.submit(NEW)  # more events later than the driver takes in before it decides
        asked = asyncio.create_task(host.why(late))
        await asyncio.sleep(0)
        await host.__aenter__()
        with pytest.raises(HostClosedError, match="why was refused"):
            await asked
        with pytest.raises(PluginError):
            await host.aclose()

    run(story)


def test_driver_that_was_stopped_ends_the_waits_on_asyncio() -> None:
    async def story() -> None:
        async with AsyncHost(start=start_async) as host:
            job = host.submit(gang("train", workers=2, cpu=1))
            host.driver.stop()
            with pytest.raises(GangRejectedError, match="the host was closed"):
                await job.started()

    run(story)


def test_job_is_refused_while_the_host_is_being_closed_on_asyncio() -> None:
    async def story() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def slow(_pod: Pod, _node: NodeName) -> None:
            begun.set()
            await let_go.wait()

        host = AsyncHost(start=slow)
        await host.__aenter__()
        host.tell(NODE)
        job = host.submit(NEW)
        await begun.wait()
        closing = asyncio.create_task(host.aclose())
        await asyncio.sleep(0.01)
        with pytest.raises(HostClosedError):
            host.submit(GOOD)
        host.tell(NODE)  # a watch that goes on meanwhile is no error
        let_go.set()
        await closing
        assert await job.started() == {"new": "a"}

    run(story)
