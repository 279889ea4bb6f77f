"""A replica that cannot reach the Lease could not take over, so it is not ready."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gangsched.configuration import LeaderElection, Settings
from gangsched.kubernetes import run
from gangsched.kubernetes._leases import Election
from gangsched.kubernetes._replica import Replica
from gangsched.kubernetes.extender import run_extender
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.patience import HANG
from support.running import on_a_loop, until

LEASES = "/apis/coordination.k8s.io/v1/leases"


class Clock:
    """A steady clock that can be moved on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def held(api: MemoryApi, holder: str = "another") -> None:
    metadata = {"namespace": "ns", "name": "x"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": holder}})


def refusing(*methods: str, answer: Fault) -> Callable[[str, str], Fault | None]:
    def fault(method: str, _path: str) -> Fault | None:
        return answer if method in methods else None

    return fault


@asynccontextmanager
async def candidate(api: MemoryApi, clock: Clock) -> AsyncGenerator[Election]:
    """Yield a candidate that waits for the Lease and looks at it every 10 ms."""
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
    ("answer", "reason"),
    [(refused(403, "leases is forbidden"), "leases is forbidden"), (lost_before(), "cut off")],
)
@on_a_loop
async def test_lease_that_was_never_read_is_a_problem_with_its_reason(
    answer: Fault, reason: str
) -> None:
    api, clock = MemoryApi(), Clock()
    held(api)
    api.fault = refusing("GET", answer=answer)
    async with candidate(api, clock) as one:
        assert "has not answered yet" in one.problems()[0]
        await looks(api)
        (problem,) = one.problems()
        assert problem.startswith("the lease ns/x is out of reach: the lease cannot be read: ")
        assert reason in problem
        api.fault = lambda _method, _path: None
        await until(lambda: not one.problems())


@on_a_loop
async def test_lease_that_is_not_readable_is_a_problem_after_the_lease_duration() -> None:
    api, clock = MemoryApi(), Clock()
    held(api)
    async with candidate(api, clock) as one:
        await until(lambda: not one.problems())
        api.fault = refusing("GET", answer=refused(403))
        await looks(api)
        clock.now += 14.9
        assert one.problems() == []
        clock.now += 0.2
        assert "cannot be read" in one.problems()[0]
        api.fault = lambda _method, _path: None
        held(api, "a third")  # else the lease has expired, and this candidate leads
        await until(lambda: not one.problems())


@pytest.mark.parametrize("method", ["POST", "PUT"])
@on_a_loop
async def test_lease_that_cannot_be_written_when_it_is_free_is_a_problem(method: str) -> None:
    api, clock = MemoryApi(), Clock()
    if method == "PUT":
        held(api, "")
    api.fault = refusing(method, answer=refused(403, "cannot do that"))
    async with candidate(api, clock) as one:
        await looks(api)
        (problem,) = one.problems()
        assert "the lease cannot be written: " in problem
        assert "cannot do that" in problem


@on_a_loop
async def test_candidate_that_another_one_forestalls_has_no_problem() -> None:
    api, clock = MemoryApi(), Clock()
    held(api, "")
    api.fault = refusing("PUT", answer=refused(409))
    async with candidate(api, clock) as one:
        await until(lambda: not one.problems())


@on_a_loop
async def test_replica_is_ready_when_it_has_read_the_lease_of_another() -> None:
    api, stop = MemoryApi(), asyncio.Event()
    held(api)

    async def never(_api: object, _may_write: object) -> Any:
        raise AssertionError

    named = LeaderElection(resource_namespace="ns", resource_name="x", retry_period=0.01)
    replica = Replica(named, stop, never, lambda _leads: None)
    api.fault = refusing("GET", answer=refused(403, "leases is forbidden"))
    assert replica.problems() == ["not scheduling yet"]
    task = asyncio.create_task(replica.run(api))
    await looks(api)
    assert "leases is forbidden" in replica.problems()[0]
    api.fault = lambda _method, _path: None
    await until(lambda: not replica.problems())
    stop.set()
    await task


async def readiness(port: int) -> str:
    """Return what ``/readyz`` answers; an empty text if nothing listens yet."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def readiness_with(port: int, text: str) -> str:
    """Wait until the answer of ``/readyz`` has a text; return the answer."""
    async with asyncio.timeout(HANG):
        while text not in (answer := await readiness(port)):
            assert " 200 " not in answer
            await asyncio.sleep(0.02)
    return answer


@pytest.mark.parametrize("command", ["run", "extender"])
@on_a_loop
async def test_readiness_has_the_answer_of_the_api_server_about_the_lease(command: str) -> None:
    api, stop = MemoryApi(), asyncio.Event()
    held(api)
    api.fault = refusing("GET", answer=refused(403, "leases is forbidden"))
    named = LeaderElection(resource_namespace="ns", resource_name="x", retry_period=0.01)
    settings = Settings(leader_election=named)
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = ("127.0.0.1", int(found.getsockname()[1]))
    work = (
        run(settings, api=api, stop=stop, serve=address)
        if command == "run"
        else run_extender(settings, api=api, stop=stop, listen=("127.0.0.1", 0), serve=address)
    )
    task = asyncio.create_task(work)
    answer = await readiness_with(address[1], "leases is forbidden")
    assert answer.startswith("HTTP/1.1 503 ")
    assert "[-] the lease ns/x is out of reach: the lease cannot be read: " in answer
    api.fault = lambda _method, _path: None
    expected = "HTTP/1.1 200 OK" if command == "run" else "another replica leads"
    assert "lease" not in await readiness_with(address[1], expected)
    stop.set()
    await task
