"""A pod or gang that a reservation holds back is told so: by its event, condition and reason."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from gangsched.cli import _kubectl
from gangsched.configuration import Settings, read_settings
from support.cluster_objects import PODS, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.memory_cluster import cluster, notes, put_gang, scheduled
from support.running import ALONE, on_a_loop, running, until

RESERVED = "reserved for pod group default/large"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> MemoryApi:
    """A node of 4 GPUs, 2 of them taken, and a gang of 4 for which it is drained."""
    found = cluster(gpu=4)
    found.be_connected_to(monkeypatch)
    put_gang(found, "runs", 2)
    return found


def with_backfill() -> Settings:
    profile = {"schedulerName": "gangsched", "pluginConfig": [{"name": "Backfill", "args": {}}]}
    return evolve(read_settings({"profiles": [profile]}), leader_election=ALONE.leader_election)


async def why(port: int, capsys: pytest.CaptureFixture[str], name: str) -> tuple[str, str]:
    arguments = ["why", name, "--scheduler-url", f"http://127.0.0.1:{port}"]
    assert await asyncio.to_thread(_kubectl.main, arguments) == 0
    printed = capsys.readouterr()
    return printed.out, printed.err


async def reserve(api: MemoryApi) -> None:
    await until(lambda: api.pods()["default/runs-1"])
    put_gang(api, "large", 4)
    await until(lambda: notes(api, "large"))
    await asyncio.sleep(0.3)


@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_loop
async def test_reservation_is_named_to_those_that_it_holds_back_and_to_no_others(
    api: MemoryApi, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    async with running(api, with_backfill(), serve=("127.0.0.1", port)):
        await reserve(api)
        put_gang(api, "small", 2)
        await until(lambda: notes(api, "small") and scheduled(api, "small-1"))
        small, beside = await why(port, capsys, "small")
        api.put(PODS, pod_json("alone"))
        api.put(PODS, pod_json("choosy", nodeSelector={"zone": "z"}))
        api.put(PODS, pod_json("urgent", gpu=9, priority=5))  # the nodes are not kept from it
        await until(lambda: all(notes(api, name) for name in ("alone", "choosy", "urgent")))
        large, _beside = await why(port, capsys, "large")
    assert RESERVED in notes(api, "small")[0]
    assert all(RESERVED in scheduled(api, f"small-{n}")["message"] for n in range(2))
    first, reason, helps, *_ = small.splitlines()
    assert first.startswith("pod group default/small")
    assert reason.startswith("why: ")
    assert RESERVED in reason
    assert helps == (
        "what would help: no more nodes: pod group default/small fits as things stand, on nodes"
        " that are reserved for pod group default/large; it starts when default/large has"
        " started, or with a higher priority"
    )
    assert "by the default configuration" in beside
    assert RESERVED in notes(api, "alone")[0]
    assert RESERVED not in notes(api, "choosy")[0]
    assert "Insufficient" in notes(api, "urgent")[0]
    assert RESERVED not in notes(api, "urgent")[0]
    assert RESERVED not in large
    assert "reserved: 1 node is drained for pod group default/large" in large


@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_loop
async def test_scheduler_with_defaults_is_not_said_to_have_another_configuration(
    api: MemoryApi, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    async with running(api, serve=("127.0.0.1", port)):
        await reserve(api)
        said, beside = await why(port, capsys, "large")
    assert "what would help: " in said
    assert "default configuration" not in beside
