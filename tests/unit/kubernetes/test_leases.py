"""The Lease: out of reach, not to be written, or held by another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gangsched.configuration import LeaderElection, Settings
from gangsched.kubernetes import run
from gangsched.kubernetes._leases import Election
from gangsched.kubernetes._replica import Replica
from gangsched.kubernetes.extender import run_extender
from support.control_plane.processes import free_ports
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.patience import HANG
from support.running import on_a_loop, until
from support.scraping import readiness
from support.stepped_loop import run_stepped

LEASES = "/apis/coordination.k8s.io/v1/leases"
NAMED = LeaderElection(resource_namespace="ns", resource_name="x", retry_period=0.01)
FORBIDDEN = refused(403, "leases is forbidden")


class Clock:
    """A steady clock that can be moved on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def hold(api: MemoryApi, holder: str = "another") -> None:
    metadata = {"namespace": "ns", "name": "x"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": holder}})


def held(holder: str = "another", **answers: Fault) -> MemoryApi:
    """Return an API server with a Lease, and its answers to some methods."""
    api = MemoryApi()
    hold(api, holder)
    api.fault = lambda method, _path: answers.get(method)
    return api


def works(api: MemoryApi) -> None:
    api.fault = lambda _method, _path: None


@asynccontextmanager
async def candidate(
    api: MemoryApi, clock: Callable[[], float] | None = None
) -> AsyncGenerator[Election]:
    """Yield a candidate that waits for the Lease and looks at it every 10 ms."""
    clock = clock or Clock()
    found = Election(api, identity="one", namespace="ns", name="x", retry_period=0.01, clock=clock)
    waiting = asyncio.create_task(found.acquire())
    try:
        yield found
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def looks(api: MemoryApi, number: int = 3) -> None:
    """Wait until the Lease was asked for again, some times."""
    wanted = sum(method == "GET" for method, _ in api.requests) + number
    await until(lambda: sum(method == "GET" for method, _ in api.requests) >= wanted)


@pytest.mark.parametrize(
    ("answer", "reason"), [(FORBIDDEN, "leases is forbidden"), (lost_before(), "cut off")]
)
@on_a_loop
async def test_lease_that_was_never_read_is_a_problem_with_its_reason(
    answer: Fault, reason: str
) -> None:
    api = held(GET=answer)
    async with candidate(api) as one:
        assert "has not answered yet" in one.problems()[0]
        await looks(api)
        (problem,) = one.problems()
        assert problem.startswith("the lease ns/x is out of reach: the lease cannot be read: ")
        assert reason in problem
        works(api)
        await until(lambda: not one.problems())


@on_a_loop
async def test_lease_that_is_not_readable_is_a_problem_after_the_lease_duration() -> None:
    api, clock = held(), Clock()
    async with candidate(api, clock) as one:
        await until(lambda: not one.problems())
        api.fault = lambda method, _path: FORBIDDEN if method == "GET" else None
        await looks(api)
        clock.now += 14.9
        assert one.problems() == []
        clock.now += 0.2
        assert "cannot be read" in one.problems()[0]
        works(api)
        hold(api, "a third")  # else the lease has expired, and this candidate leads
        await until(lambda: not one.problems())


@pytest.mark.parametrize("method", ["POST", "PUT"])
@on_a_loop
async def test_lease_that_cannot_be_written_when_it_is_free_is_a_problem(method: str) -> None:
    api = held("", **{method: refused(403, "cannot do that")})
    if method == "POST":
        api.remove(LEASES, "ns/x")
    async with candidate(api) as one:
        await looks(api)
        (problem,) = one.problems()
        assert "the lease cannot be written: " in problem
        assert "cannot do that" in problem


@on_a_loop
async def test_candidate_that_another_one_forestalls_has_no_problem() -> None:
    async with candidate(held("", PUT=refused(409))) as one:
        await until(lambda: not one.problems())


@on_a_loop
async def test_replica_is_ready_when_it_has_read_the_lease_of_another() -> None:
    api, stop = held(GET=FORBIDDEN), asyncio.Event()

    async def never(_api: object, _may_write: object) -> Any:
        raise AssertionError

    replica = Replica(NAMED, stop, never, lambda _leads: None)
    assert replica.problems() == ["not scheduling yet"]
    task = asyncio.create_task(replica.run(api))
    await looks(api)
    assert "leases is forbidden" in replica.problems()[0]
    works(api)
    await until(lambda: not replica.problems())
    stop.set()
    await task


@pytest.mark.parametrize("command", ["run", "extender"])
@on_a_loop
async def test_readiness_has_the_answer_of_the_api_server_about_the_lease(command: str) -> None:
    api, stop, (port,) = held(GET=FORBIDDEN), asyncio.Event(), free_ports(1)

    async def readiness_with(text: str) -> str:
        async with asyncio.timeout(HANG):
            while text not in (answer := await readiness(port)):
                assert " 200 " not in answer
                await asyncio.sleep(0.02)
        return answer

    settings, where = Settings(leader_election=NAMED), ("127.0.0.1", port)
    work = (
        run(settings, api=api, stop=stop, serve=where)
        if command == "run"
        else run_extender(settings, api=api, stop=stop, listen=("127.0.0.1", 0), serve=where)
    )
    task = asyncio.create_task(work)
    answer = await readiness_with("leases is forbidden")
    assert answer.startswith("HTTP/1.1 503 ")
    assert "[-] the lease ns/x is out of reach: the lease cannot be read: " in answer
    works(api)
    expected = "HTTP/1.1 200 OK" if command == "run" else "another replica leads"
    assert "lease" not in await readiness_with(expected)
    stop.set()
    await task


# When a candidate asks, and what it says --------------------------------------------------------


def election(api: MemoryApi, identity: str = "x", **named: Any) -> Election:
    clock = asyncio.get_running_loop().time
    return Election(
        api, identity=identity, namespace="ns", name="x", clock=clock, draw=lambda: 0.0, **named
    )


@pytest.mark.parametrize("holder", ["another", "x"])
def test_expired_lease_that_must_not_be_taken_is_tried_once_a_retry_period(holder: str) -> None:
    api = held(holder, PUT=refused(403))

    async def story() -> None:
        acquiring = asyncio.create_task(election(api).acquire())
        await asyncio.sleep(20.0)  # by then the Lease of the other has expired
        api.requests.clear()
        await asyncio.sleep(100.0)
        assert not acquiring.done()
        acquiring.cancel()
        await asyncio.wait((acquiring,))

    run_stepped(story(), limit=200.0)
    tried = [method for method, _path in api.requests]
    assert tried.count("PUT") == tried.count("GET") == 50


def test_lease_is_taken_as_soon_as_it_expires() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await election(held(), lease_duration=15.0, retry_period=7.0).acquire()
        assert 15.0 <= loop.time() - began < 15.05

    run_stepped(story())


def test_lease_that_cannot_be_written_is_a_warning_once_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        api = held("", PUT=refused(403, "cannot do that"))
        trying = asyncio.create_task(election(api).acquire())
        await asyncio.sleep(0.1)
        assert len(caplog.records) == 1
        await asyncio.sleep(59.0)
        assert len(caplog.records) == 1
        await asyncio.sleep(63.0)
        assert len(caplog.records) == 3
        works(api)
        await trying

    run_stepped(story(), limit=200.0)
    problem = "the lease cannot be written: cannot do that"
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        problem
    ] * 3


def test_candidate_says_once_who_holds_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    """A second scheduler that waits by mistake would otherwise look like one that runs."""
    caplog.set_level("INFO", "gangsched.kubernetes.leases")

    async def story() -> None:
        api = held()
        candidate = election(api)
        await candidate.acquire()
        hold(api)
        await candidate.acquire()

    run_stepped(story())
    said = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    once = ["x stands by: another holds the lease ns/x", "x leads: it holds the lease ns/x"]
    assert said == once * 2
