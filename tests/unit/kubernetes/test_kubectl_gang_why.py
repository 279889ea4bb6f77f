"""``kubectl gang`` names the true cause: other schedulers, quotas, reservations, refused binds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from attrs import evolve

from gangsched.cli import _kubectl
from gangsched.configuration import Settings, read_settings
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

NAME = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    return found


def gang(api: MemoryApi, name: str, size: int, **pod: Any) -> None:
    """Add a gang that only labels describe."""
    for n in range(size):
        found = pod_json(f"{name}-{n}", **pod)
        found["metadata"]["labels"] = {NAME: name, MINIMUM: str(size)}
        api.put(PODS, found)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert _kubectl.main([*arguments, "--request-timeout", "5s"]) == 0
    return capsys.readouterr().out


async def asked(
    capsys: pytest.CaptureFixture[str], port: int, *arguments: str, how: str = "always"
) -> str:
    """Return what a command prints that asks a running scheduler."""
    url = ("--scheduler-url", f"http://127.0.0.1:{port}", "--ask-scheduler", how)
    line = [*arguments, *url, "--request-timeout", "5s"]
    code = await asyncio.to_thread(_kubectl.main, line)
    printed = capsys.readouterr()
    return printed.out if code == 0 else printed.err


async def until_asked(
    capsys: pytest.CaptureFixture[str], port: int, text: str, *arguments: str
) -> str:
    """Ask until the answer has a text; return it, and at the end the last answer."""
    found = ""
    for _try in range(60):
        found = await asked(capsys, port, *arguments)
        if text in found:
            break
        await asyncio.sleep(0.05)
    return found


def configured(**more: Any) -> Settings:
    """Return the settings of a configuration file."""
    head = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    return evolve(read_settings({**head, **more}), leader_election=ALONE.leader_election)


# Other schedulers ------------------------------------------------------------------------------


def test_scheduler_that_the_pods_name_is_printed_where_it_differs(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(NODES, node_json("a", gpu=4))
    gang(api, "typo", 2, scheduler="typo-sched")
    gang(api, "right", 2)
    said = listed(capsys, "why", "typo")
    assert "why: fits now; its pods name the scheduler typo-sched, which is not gangsched\n" in said
    assert "what would help: pods with the schedulerName gangsched" in said
    assert "starts now" not in said
    assert "pods name" not in listed(capsys, "why", "right")
    assert "typo-sched" in listed(capsys, "get")


def test_scheduler_that_the_pods_name_is_printed_of_a_gang_that_does_not_fit(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(NODES, node_json("a", gpu=1))
    gang(api, "typo", 2, scheduler="typo-sched")
    said = listed(capsys, "why", "typo")
    assert "nvidia.com/gpu is short\n" in said
    assert "scheduler: its pods name the scheduler typo-sched, which is not gangsched\n" in said
    assert "what would help: 1 more node" in said


@pytest.mark.parametrize("has_object", [False, True])
def test_scheduler_that_the_pods_name_is_printed_if_another_one_is_asked(
    has_object: bool, api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        api.put(NODES, node_json("a", gpu=4))
        gang(api, "right", 2)
        gang(api, "typo", 2, scheduler="typo-sched")
        if has_object:
            api.put(GROUPS, group_json("typo", 2))
        async with running(api, serve=("127.0.0.1", port)):
            await until(lambda: api.pods()["default/right-1"])
            said = await asked(capsys, port, "why", "typo", how="auto")
        assert "its pods name the scheduler typo-sched, which is not gangsched" in said

    run()


def test_places_count_the_pods_of_the_same_scheduler_alone(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(PODS, pod_json("other", scheduler="default-scheduler", priority=9))
    gang(api, "first", 2, priority=5)
    gang(api, "second", 2, priority=1)
    items = json.loads(listed(capsys, "queue", "-o", "json"))["items"]
    places = {item["name"]: (item["place"], item["state"]) for item in items}
    assert places == {
        "default/other": (0, "queued, 0 ahead"),
        "default/first": (0, "queued, 0 ahead"),
        "default/second": (1, "queued, 1 ahead"),
    }


# What the running scheduler knows ---------------------------------------------------------------


def test_deleted_gang_is_in_no_list_and_why_says_that_it_has_no_pods(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        gang(api, "large", 3)
        gang(api, "stays", 3)
        api.put(GROUPS, group_json("empty", 3))
        async with running(api, serve=("127.0.0.1", port)):
            await until_asked(capsys, port, "large", "get")
            for n in range(3):
                api.remove(PODS, f"default/large-{n}")
            said = await until_asked(capsys, port, "it has no pods", "why", "large")
            assert "why: it has no pods with the schedulerName gangsched\n" in said
            await asyncio.sleep(1.1)  # a listing is kept for a second
            rows = await asked(capsys, port, "get")
            queue = await asked(capsys, port, "queue")
        assert "large" not in rows + queue
        assert "stays" in rows
        assert "no pod with the schedulerName gangsched is a member" in rows  # of "empty"

    run()


def test_why_of_a_gang_whose_binds_are_refused_says_so(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        api.put(NODES, node_json("a", gpu=4))
        gang(api, "g", 2)
        api.fault = lambda method, path: (
            refused(403, "pods/binding is forbidden")
            if method == "POST" and path.endswith("/binding")
            else None
        )
        async with running(api, serve=("127.0.0.1", port)):
            said = await until_asked(capsys, port, "is forbidden", "why", "g")
            assert "why: 2 members are being bound; the API server says: pods/binding is" in said
            assert "fits now" not in said
            assert "starts now" not in said
            rows = await until_asked(capsys, port, "is forbidden", "get")
            assert "pods/binding is forbidden" in rows
            api.fault = lambda _method, _path: None
            await until(lambda: api.pods()["default/g-1"])
            said = await until_asked(capsys, port, "2 hold a node", "why", "g")
            assert "why:" not in said

    run()


def test_gang_that_waits_for_a_quota_is_not_said_to_start(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    quotas = [{"name": "team-a", "namespaces": ["default"], "hard": {"nvidia.com/gpu": "2"}}]

    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        api.put(NODES, node_json("a", gpu=8))
        gang(api, "first", 2, priority=5)
        async with running(api, configured(quotas=quotas), serve=("127.0.0.1", port)):
            await until(lambda: api.pods()["default/first-1"])
            gang(api, "second", 2)
            said = await until_asked(capsys, port, "exceeded quota", "why", "second")
            assert "why: not admitted: exceeded quota team-a: requested" in said
            helps = "another gang of the quota team-a ends, or the quota is raised"
            assert f"what would help: {helps}\n" in said
            assert "starts now" not in said
            gang(api, "third", 3)
            said = await until_asked(capsys, port, "more than the whole quota", "why", "third")
            helps = "the quota team-a is raised, or the gang requests less"
            assert f"what would help: {helps}\n" in said

    run()


def test_reservation_is_shown_with_the_gang_that_has_it_and_with_others(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        api.put(NODES, node_json("a", gpu=4))
        gang(api, "runs", 2)
        settings = configured(
            profiles=[
                {
                    "schedulerName": "gangsched",
                    "pluginConfig": [{"name": "Backfill", "args": {}}],
                }
            ]
        )
        async with running(api, settings, serve=("127.0.0.1", port)):
            await until(lambda: api.pods()["default/runs-1"])
            gang(api, "large", 4, priority=5)
            reserved = "1 node is drained for pod group default/large"
            queue = await until_asked(capsys, port, reserved, "queue")
            assert reserved in next(line for line in queue.splitlines() if "large" in line)
            gang(api, "small", 2)
            said = await until_asked(capsys, port, "reserved:", "why", "small")
            assert f"reserved: {reserved}\n" in said
            assert "starts now" not in said
            assert "what would help: no more nodes: pod group default/small fits" in said

    run()


def test_scheduler_that_answers_is_not_said_to_be_another_one(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names are those of the scheduler that answers, not those of the defaults."""

    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        api.put(NODES, node_json("a", gpu=1))
        gang(api, "g", 2, scheduler="gpus")
        settings = configured(profiles=[{"schedulerName": "gpus"}])
        async with running(api, settings, serve=("127.0.0.1", port)):
            said = await until_asked(capsys, port, "is short", "why", "g")
        assert "what would help: 1 more node" in said
        assert "its pods name" not in said

    run()


# Words ------------------------------------------------------------------------------------------


def test_instants_of_what_would_help_are_dates(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(NODES, node_json("a", gpu=1))
    gang(api, "g", 2, gpu=4)
    said = listed(capsys, "why", "g")
    assert "would start pod group default/g by 20" in said
    assert "t=" not in said


def test_option_of_other_commands_names_these(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _kubectl.main(["demand", "--scheduler-url", "http://127.0.0.1:1"])
    said = capsys.readouterr().err
    assert "; --scheduler-url is an option of get, why, queue (see" in said
    assert "did you mean" not in said


def test_misspelled_option_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _kubectl.main(["get", "--scheduler-ur1", "x"])
    assert "did you mean --scheduler-url?" in capsys.readouterr().err
