"""Leader election: one holder at a time, and how soon another takes over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gangsched.kubernetes._leases import Election
from support.memory_api import Fault, MemoryApi, lost_before, refused
from support.running import until
from support.stepped_loop import on_a_stepped_loop

LEASES = "/apis/coordination.k8s.io/v1/leases"


def candidate(api: MemoryApi, name: str, **named: Any) -> Election:
    times = {"lease_duration": 0.6, "renew_deadline": 0.4, "retry_period": 0.05}
    given = {**times, "clock": asyncio.get_running_loop().time, **named}
    return Election(api, identity=name, namespace="ns", name="x", **given)


def lease(api: MemoryApi) -> dict[str, Any]:
    found = api.get(LEASES, "ns/x")
    assert found is not None
    spec: dict[str, Any] = found["spec"]
    return spec


@on_a_stepped_loop
async def test_first_candidate_makes_the_lease_and_leads() -> None:
    api = MemoryApi()
    one = candidate(api, "one")
    assert not one.is_leading
    await one.acquire()
    assert one.is_leading
    assert lease(api)["holderIdentity"] == "one"
    assert lease(api)["leaseTransitions"] == 0


@pytest.mark.parametrize("behind", [0.0, 3600.0])
@on_a_stepped_loop
async def test_second_candidate_waits_while_the_first_renews(behind: float) -> None:
    """Expiry is measured by the own clock: the instants of a holder that is behind look expired."""
    api, time = MemoryApi(), asyncio.get_running_loop().time
    one = candidate(api, "one", wall=lambda: 1_700_000_000.0 - behind + time())
    two = candidate(api, "two", wall=lambda: 1_700_000_000.0 + time())
    await one.acquire()
    holding = asyncio.create_task(one.hold())
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(1.0)
    assert one.is_leading
    assert not waiting.done()
    holding.cancel()
    waiting.cancel()
    await asyncio.gather(holding, waiting, return_exceptions=True)


@on_a_stepped_loop
async def test_lease_that_is_given_up_is_taken_at_once() -> None:
    api = MemoryApi()
    one, two = candidate(api, "one"), candidate(api, "two", retry_period=30.0, renew_deadline=31.0)
    await one.acquire()
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(0.1)
    began = asyncio.get_running_loop().time()
    await one.release()
    await waiting
    assert asyncio.get_running_loop().time() - began < 0.3
    assert two.is_leading
    assert not one.is_leading
    assert lease(api)["leaseTransitions"] == 1


@on_a_stepped_loop
async def test_lease_of_a_killed_holder_is_taken_when_it_has_expired() -> None:
    api = MemoryApi()
    one, two = candidate(api, "one"), candidate(api, "two")
    await one.acquire()
    began = asyncio.get_running_loop().time()
    await two.acquire()
    passed = asyncio.get_running_loop().time() - began
    assert 0.6 <= passed < 1.0
    assert not one.is_leading


@on_a_stepped_loop
async def test_holder_that_cannot_renew_stops_before_another_may_begin() -> None:
    api = MemoryApi()
    one = candidate(api, "one")
    await one.acquire()
    began = asyncio.get_running_loop().time()
    api.fault = lambda _method, _path: lost_before()
    await one.hold()
    assert not one.is_leading
    assert asyncio.get_running_loop().time() - began < 0.6


@on_a_stepped_loop
async def test_holder_goes_on_when_single_renewals_fail() -> None:
    api = MemoryApi()
    one = candidate(api, "one")
    await one.acquire()
    left = [refused(500), lost_before(), refused(409)]

    def fault(method: str, _path: str) -> Fault | None:
        return left.pop() if method == "PUT" and left else None

    api.fault = fault
    holding = asyncio.create_task(one.hold())
    await until(lambda: not left)
    await asyncio.sleep(0.2)
    assert one.is_leading
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


@on_a_stepped_loop
async def test_paused_process_does_not_lead_when_it_wakes_up() -> None:
    api, slept = MemoryApi(), [0.0]
    time = asyncio.get_running_loop().time
    one = candidate(api, "one", clock=lambda: time() + slept[0])
    await one.acquire()
    slept[0] = 60.0
    assert not one.is_leading


@on_a_stepped_loop
async def test_of_many_candidates_one_leads_at_a_time() -> None:
    api = MemoryApi()
    leading: list[str] = []

    async def live(name: str) -> None:
        for _ in range(10):
            own = candidate(api, name)
            await own.acquire()
            leading.append(name)
            assert len(leading) == 1, leading
            await asyncio.sleep(0.005)
            leading.remove(name)
            await own.release()

    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(live(f"r{n}"))
