"""A candidate that must not write the Lease asks for it at the pace of its retry period."""

from __future__ import annotations

import asyncio

import pytest

from gangsched.kubernetes._leases import Election
from support.memory_api import MemoryApi, refused
from support.stepped_loop import run_stepped

LEASES = "/apis/coordination.k8s.io/v1/leases"


@pytest.mark.parametrize("holder", ["another", "x"])
def test_expired_lease_that_must_not_be_taken_is_tried_once_a_retry_period(holder: str) -> None:
    api = MemoryApi()
    api.fault = lambda method, _path: refused(403) if method == "PUT" else None
    metadata = {"namespace": "ns", "name": "lease"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": holder}})

    async def candidate() -> None:
        loop = asyncio.get_running_loop()
        election = Election(
            api, identity="x", namespace="ns", name="lease", clock=loop.time, draw=lambda: 0.0
        )
        acquiring = asyncio.create_task(election.acquire())
        await asyncio.sleep(20.0)  # by then the Lease of the other has expired
        api.requests.clear()
        await asyncio.sleep(100.0)
        assert not acquiring.done()
        acquiring.cancel()
        await asyncio.wait((acquiring,))

    run_stepped(candidate(), limit=200.0)
    tried = [method for method, _path in api.requests]
    assert tried.count("PUT") == tried.count("GET") == 50


def test_lease_is_taken_as_soon_as_it_expires() -> None:
    api = MemoryApi()
    metadata = {"namespace": "ns", "name": "lease"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "other"}})

    async def candidate() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        election = Election(
            api,
            identity="x",
            namespace="ns",
            name="lease",
            lease_duration=15.0,
            retry_period=7.0,
            clock=loop.time,
            draw=lambda: 0.0,
        )
        await election.acquire()
        assert 15.0 <= loop.time() - began < 15.05
        return loop.time()

    run_stepped(candidate())


def test_candidate_says_once_who_holds_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    """A second scheduler that waits by mistake would otherwise look like one that runs."""
    caplog.set_level("INFO", "gangsched.kubernetes.leases")
    api = MemoryApi()
    metadata = {"namespace": "ns", "name": "lease"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "other"}})

    async def candidate() -> None:
        loop = asyncio.get_running_loop()
        election = Election(api, identity="x", namespace="ns", name="lease", clock=loop.time)
        await election.acquire()
        taken = {"kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "other"}}
        api.put(LEASES, taken)
        await election.acquire()

    run_stepped(candidate())
    said = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert (
        said
        == [
            "x stands by: other holds the lease ns/lease",
            "x leads: it holds the lease ns/lease",
        ]
        * 2
    )
