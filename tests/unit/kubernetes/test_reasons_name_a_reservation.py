"""A pod or gang that a reservation holds back is told so: by its event, condition, and reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, presets
from gangsched.cli import _kubectl
from gangsched.configuration import Settings, read_settings
from gangsched.kubernetes import _client
from gangsched.kubernetes._reserved import with_reservation
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

EVENTS = "/apis/events.k8s.io/v1/events"
RESERVED = "1 node(s) are reserved for pod group default/large"


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A node of 4 GPUs, 2 of them taken, and a gang of 4 for which it is drained."""
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", gpu=4))
    gang(found, "runs", 2)
    return found


def gang(api: MemoryApi, name: str, size: int, **pod: Any) -> None:
    api.put(GROUPS, group_json(name, size))
    for n in range(size):
        api.put(PODS, pod_json(f"{name}-{n}", group=name, **pod))


def with_backfill() -> Settings:
    entry: dict[str, Any] = {"name": "Backfill", "args": {}}
    profile: dict[str, Any] = {"schedulerName": "gangsched", "pluginConfig": [entry]}
    return evolve(read_settings({"profiles": [profile]}), leader_election=ALONE.leader_election)


def notes(api: MemoryApi, name: str) -> list[str]:
    found = api.objects.get(EVENTS, {}).values()
    return [each["note"] for each in found if each["regarding"]["name"] == name]


def conditions(api: MemoryApi, name: str) -> str:
    found = api.get(PODS, f"default/{name}")
    assert found is not None
    return "".join(each.get("message", "") for each in found["status"].get("conditions", []))


async def why(port: int, capsys: pytest.CaptureFixture[str], name: str) -> tuple[str, str]:
    arguments = ["why", name, "--scheduler-url", f"http://127.0.0.1:{port}"]
    assert await asyncio.to_thread(_kubectl.main, arguments) == 0
    printed = capsys.readouterr()
    return printed.out, printed.err


async def reserve(api: MemoryApi) -> None:
    await until(lambda: api.pods()["default/runs-1"])
    gang(api, "large", 4)
    await until(lambda: notes(api, "large"))
    await asyncio.sleep(0.3)


def test_event_condition_and_reason_of_a_gang_name_the_reservation(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        async with running(api, with_backfill(), serve=("127.0.0.1", port)):
            await reserve(api)
            gang(api, "small", 2)
            await until(lambda: notes(api, "small"))
            await until(lambda: conditions(api, "small-1"))
            said, beside = await why(port, capsys, "small")
        assert RESERVED in notes(api, "small")[0]
        assert all(RESERVED in conditions(api, f"small-{n}") for n in range(2))
        first, reason, helps, *_ = said.splitlines()
        assert first.startswith("pod group default/small")
        assert reason.startswith("why: ")
        assert RESERVED in reason
        assert helps == (
            "what would help: no more nodes: pod group default/small fits as things stand, on nodes"
            " that are reserved for pod group default/large; it starts when default/large has"
            " started, or with a higher priority"
        )
        assert "by the default configuration" in beside

    run()


def test_event_of_a_pod_without_a_gang_names_the_reservation(api: Server) -> None:
    @on_a_loop
    async def run() -> None:
        async with running(api, with_backfill()):
            await reserve(api)
            api.put(PODS, pod_json("alone"))
            await until(lambda: notes(api, "alone"))
        assert notes(api, "alone")[0].endswith(f"Insufficient nvidia.com/gpu; {RESERVED}")

    run()


def test_gang_that_has_the_reservation_and_other_reasons_do_not_name_it(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        async with running(api, with_backfill(), serve=("127.0.0.1", port)):
            await reserve(api)
            choosy = pod_json("choosy")
            choosy["spec"]["nodeSelector"] = {"zone": "z"}
            api.put(PODS, choosy)
            await until(lambda: notes(api, "choosy"))
            api.put(PODS, pod_json("urgent", gpu=9, priority=5))  # the nodes are not kept from it
            await until(lambda: notes(api, "urgent"))
            said, _beside = await why(port, capsys, "large")
        assert RESERVED not in notes(api, "choosy")[0]
        assert "Insufficient" in notes(api, "urgent")[0]
        assert RESERVED not in notes(api, "urgent")[0]
        assert RESERVED not in said
        assert "reserved: 1 node is drained for pod group default/large" in said

    run()


def test_scheduler_with_defaults_is_not_said_to_have_another_configuration(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        async with running(api, serve=("127.0.0.1", port)):
            await until(lambda: api.pods()["default/runs-1"])
            gang(api, "large", 4)
            await until(lambda: notes(api, "large"))
            said, beside = await why(port, capsys, "large")
        assert "what would help: " in said
        assert "default configuration" not in beside

    run()


def test_reason_without_a_reservation_is_unchanged() -> None:
    reason = "0/1 nodes are available: 1 Insufficient cpu."
    assert with_reservation(reason, presets.gang(InMemoryCluster()), None) == reason
