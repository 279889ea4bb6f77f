"""The end of a scheduler that has much to do: what it still does, and when its Lease is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._api import Response
from support.cluster_objects import NODES, node_json
from support.extender_client import Asking, extending
from support.memory_api import Fault, MemoryApi, lost_after, lost_before, refused
from support.memory_cluster import all_bound, cluster, events, put_gang
from support.running import on_a_loop, running, until

LEASES = "/apis/coordination.k8s.io/v1/leases"
LEASE = "ns/x"
SIZE = 3
NEVER = 3600.0
"""Seconds of a lease that expires in no test."""

ELECTION = LeaderElection(
    resource_namespace="ns",
    resource_name="x",
    lease_duration=NEVER,
    renew_deadline=NEVER / 2,
    retry_period=NEVER / 4,
)
QUICK = LeaderElection(
    resource_namespace="ns", resource_name="x", lease_duration=NEVER, retry_period=0.01
)


def settings(drain: float = 20.0) -> Settings:
    return Settings(leader_election=ELECTION, drain=drain)


class Api(MemoryApi):
    """An API server that holds requests back.

    Attributes:
        seen: Called with each request before it is carried out.
        holds: Says of a request, by its method and its path, whether it is held back.
        go_on: Lets the requests go on that are held back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: Callable[[str, str], object] = lambda _method, _path: None
        self.holds: Callable[[str, str], bool] = lambda _method, _path: False
        self.go_on = asyncio.Event()

    async def request(self, method: str, path: str, **named: Any) -> Response:
        self.seen(method, path)
        if self.holds(method, path):
            await self.go_on.wait()
        return await super().request(method, path, **named)

    def holder(self) -> str | None:
        lease = self.get(LEASES, LEASE)
        found: str | None = None if lease is None else lease["spec"]["holderIdentity"]
        return found


def flood(gangs: int) -> Api:
    """Return a cluster with gangs of distinct shape that all fit."""
    api = Api()
    cluster(40, api=api, gpu=100)
    for g in range(gangs):
        put_gang(api, f"g{g}", SIZE, tolerations=[{"key": f"s{g}", "operator": "Exists"}])
    return api


def is_binding(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def is_event(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/events")


def bound_by_gang(api: MemoryApi) -> dict[str, int]:
    bound: dict[str, int] = {}
    for key, node in api.pods().items():
        gang = key.rpartition("-")[0]
        bound[gang] = bound.get(gang, 0) + (node is not None)
    return bound


# Decisions --------------------------------------------------------------------------------------


@on_a_loop
async def test_gangs_that_wait_are_left_to_the_next_leader_and_none_is_partly_bound() -> None:
    api = flood(200)
    async with running(api, settings()) as stop:
        api.seen = lambda method, path: stop.set() if is_binding(method, path) else None
        await stop.wait()
    bound = bound_by_gang(api)
    assert set(bound.values()) == {0, SIZE}
    assert sum(bound.values()) < len(api.pods()) / 2
    assert api.holder() == ""


@on_a_loop
async def test_stop_is_seen_while_events_keep_coming() -> None:
    """The inbox is never empty: a stop that waited for its turn would wait for ever."""
    api = flood(1)
    ends = asyncio.Event()

    async def churn() -> None:
        number = 0
        while not ends.is_set():
            for _ in range(200):
                number += 1
                api.put(NODES, node_json(f"n{number % 40}", gpu=100 + number % 7))
            await asyncio.sleep(0)

    churning = asyncio.create_task(churn())
    async with running(api, settings()) as stop:
        await until(lambda: all_bound(api))
        stop.set()
    ends.set()
    await churning
    assert api.holder() == ""


# The lease --------------------------------------------------------------------------------------


@on_a_loop
async def test_lease_is_given_up_after_the_last_bind_and_before_events_are_written() -> None:
    api = flood(1)
    api.holds = lambda method, path: is_binding(method, path) or is_event(method, path)
    held: list[str] = []
    api.seen = lambda method, path: held.append(path) if is_binding(method, path) else None
    async with running(api, settings()) as stop:
        await until(lambda: len(held) == SIZE)
        stop.set()
        await asyncio.sleep(0.05)
        assert api.holder()  # the binds are not answered yet
        api.holds = is_event
        api.go_on.set()
        api.go_on = asyncio.Event()
        await until(lambda: api.holder() == "")
        api.go_on.set()
    assert all_bound(api)
    names = {each["regarding"]["name"] for each in events(api)}
    assert names == {"g0", "g0-0", "g0-1", "g0-2"}


@on_a_loop
async def test_lease_that_was_given_up_is_not_renewed_while_events_are_written() -> None:
    api = flood(1)
    api.holds = is_event
    async with running(api, Settings(leader_election=QUICK)) as stop:
        await until(lambda: all_bound(api))
        stop.set()
        await until(lambda: api.holder() == "")
        await asyncio.sleep(10 * QUICK.retry_period)
        assert api.holder() == ""
        api.go_on.set()
    assert api.holder() == ""


@on_a_loop
async def test_another_replica_leads_at_once_when_the_leader_stops_under_load() -> None:
    api = flood(30)
    async with running(api, settings()) as first:
        await until(api.holder)
        leader = api.holder()
        async with running(api, settings()):
            api.seen = lambda method, path: first.set() if is_binding(method, path) else None
            await until(lambda: api.holder() not in ("", leader))
            await until(lambda: all_bound(api))
            assert api.objects[LEASES][LEASE]["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize(
    ("fault", "is_given_up"),
    [
        (None, False),
        (lost_before, False),
        (lost_after, False),
        (lambda: refused(500), False),
        (lambda: refused(429, retry_after="60"), True),
        (lambda: refused(403, retry_after="60"), True),
    ],
    ids=["no answer", "answer lost", "answer lost after it was done", "500", "429", "403"],
)
@on_a_loop
async def test_lease_is_kept_if_a_bind_may_still_be_carried_out(
    fault: Callable[[], Fault] | None, is_given_up: bool
) -> None:
    """After such an answer the bind is repeated, and it is under way when the drain ends."""
    api, sent = flood(1), asyncio.Event()

    # what follows a lost answer is a look at the pod, which is not answered either
    def strikes(method: str, path: str) -> Fault | None:
        binds = is_binding(method, path)
        return fault() if fault and (binds or (method == "GET" and "/pods/g0-" in path)) else None

    api.fault = strikes
    api.holds = lambda method, path: fault is None and is_binding(method, path)
    api.seen = lambda method, path: sent.set() if is_binding(method, path) else None
    async with running(api, settings(drain=1.0)) as stop:
        await sent.wait()
        stop.set()
    assert (api.holder() == "") == is_given_up


@on_a_loop
async def test_lease_is_given_up_if_the_cluster_is_not_listed_yet() -> None:
    api = flood(1)
    api.holds = lambda method, path: method == "GET" and path.startswith("/apis/scheduling")
    async with running(api, settings()) as stop:
        await until(api.holder)
        stop.set()
    assert api.holder() == ""


@on_a_loop
async def test_lease_is_given_up_although_a_renewal_was_cancelled_on_its_way() -> None:
    """The renewal was carried out, so the version that is known is an old one."""
    api = flood(1)

    async def renewed_elsewhere() -> None:
        lease = api.get(LEASES, LEASE)
        assert lease is not None
        lease["spec"]["renewTime"] = f"as of {api.version}"
        api.put(LEASES, lease)

    renewing: list[str] = []

    def holds(method: str, path: str) -> bool:
        if method == "PUT" and "/leases/" in path and all_bound(api):
            renewing.append(path)
            return len(renewing) == 1
        return False

    async with running(api, Settings(leader_election=QUICK)) as stop:
        api.holds = holds
        await until(lambda: renewing)
        await renewed_elsewhere()
        stop.set()
    assert api.holder() == ""


# The extender -----------------------------------------------------------------------------------


@on_a_loop
async def test_extender_gives_its_lease_up_once_the_binds_that_it_has_sent_are_answered() -> None:
    api = flood(2)
    api.holds = lambda method, path: is_binding(method, path) or is_event(method, path)
    held: list[str] = []
    api.seen = lambda method, path: held.append(path) if is_binding(method, path) else None
    stop = asyncio.Event()
    names = [f"n{n}" for n in range(40)]

    async def bind(asking: Asking, name: str) -> str:
        return await asking.bind(name, await asking.decided(name, names))

    async with extending(api, settings(), stop=stop) as asking:
        sent = [asyncio.create_task(bind(asking, f"g0-{n}")) for n in range(SIZE)]
        lacks_a_member = asyncio.create_task(bind(asking, "g1-0"))
        await until(lambda: len(held) == SIZE)
        stop.set()
        assert "the extender stops" in await lacks_a_member
        assert api.holder()
        api.holds = is_event
        api.go_on.set()
        api.go_on = asyncio.Event()
        assert await asyncio.gather(*sent) == [""] * SIZE
        await until(lambda: api.holder() == "")
        api.go_on.set()
    assert bound_by_gang(api) == {"default/g0": SIZE, "default/g1": 0}
