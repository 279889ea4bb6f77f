"""``kubectl gang`` of a gang that runs while further members wait: it says both."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

SAID = "runs: 2 of 3 members hold nodes, and its minimum of 2 is met; 1 waits: "


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", gpu=2))
    found.put(GROUPS, group_json("train", 2))
    for n in range(3):
        pod = pod_json(f"train-{n}", group="train")
        if n < 2:
            pod["spec"]["nodeName"] = "a"
            pod["status"] = {**pod.get("status", {}), "phase": "Running"}
        found.put(PODS, pod)
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert _kubectl.main([*arguments, "--request-timeout", "5s"]) == 0
    found = capsys.readouterr()
    return found.out, found.err


def test_listing_says_that_the_gang_runs_and_why_a_member_waits(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = printed(capsys, "why", "train", "--ask-scheduler", "never")
    first, why = out.splitlines()
    assert first == (
        "pod group default/train: Running: 3 members are there, it needs 2, 2 hold a node, 2 run"
    )
    assert why.startswith(f"why: {SAID}pod default/train-2 does not fit: ")
    assert SAID in printed(capsys, "get", "--ask-scheduler", "never")[0]


def test_running_scheduler_says_the_same_and_nothing_is_listed_for_what_would_help(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has started, so no number of nodes would start it."""

    @on_a_loop
    async def run() -> None:
        (port,) = free_ports(1)
        async with running(api, ALONE, serve=("127.0.0.1", port)):
            await until(lambda: api.get(PODS, "default/train-2"))
            while "runs: " not in await asyncio.to_thread(fetch, port, "/why?group=default/train"):
                await asyncio.sleep(0.02)
            url = ("--scheduler-url", f"http://127.0.0.1:{port}", "--ask-scheduler", "always")
            before = len(api.requests)
            out, err = await asyncio.to_thread(printed, capsys, "why", "train", *url)
            assert out.splitlines()[1].startswith(f"why: {SAID}")
            assert "what would help" not in out + err
            assert not [path for _method, path in api.requests[before:] if "/nodes" in path]
            as_json, _ = await asyncio.to_thread(printed, capsys, "get", "-o", "json", *url)
            assert json.loads(as_json)["items"][0]["reason"].startswith(SAID)

    run()
