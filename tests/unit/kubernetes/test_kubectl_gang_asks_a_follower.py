"""``kubectl gang --scheduler-url`` of a replica that does not lead: the leader is asked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.configuration import LeaderElection, Settings
from gangsched.kubernetes import _client
from gangsched.kubernetes._api import Response
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until
from support.scraping import fetch

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LEASES = "/apis/coordination.k8s.io/v1/leases"
ELECTED = Settings(leader_election=LeaderElection(resource_namespace="kube-system"))


class Server(MemoryApi):
    """An API server that answers for the pod of the leader, if there is one.

    Attributes:
        answer: What the pod answers; None if there is no such pod.
        asked: The requests to pods.
    """

    namespace = "default"

    def __init__(self) -> None:
        super().__init__()
        self.answer: dict[str, Any] | None = None
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **named: Any) -> Response:
        if path.endswith("/token"):
            return Response(201, {}, b'{"status": {"token": "t"}}')
        if "/proxy/" not in path:
            return await super().request(method, path, **named)
        self.asked.append(path)
        if self.answer is None:
            return Response(503, {}, b'{"message": "no endpoints"}')
        return Response(200, {}, json.dumps(self.answer).encode())


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", gpu=1))
    found.put(GROUPS, group_json("train", 2))
    for n in range(2):
        found.put(PODS, pod_json(f"train-{n}", group="train"))
    return found


def ask_the_follower(
    api: Server, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of ``get`` with a follower's address."""
    found: list[tuple[int, str, str]] = []

    @on_a_loop
    async def run() -> None:
        first, second = free_ports(2)
        async with running(api, ELECTED, serve=("127.0.0.1", first)):
            await until(lambda: api.objects.get(LEASES))
            async with running(api, ELECTED, serve=("127.0.0.1", second)):
                while " leads" not in await asyncio.to_thread(fetch, second, "/gangs"):
                    await asyncio.sleep(0.02)
                arguments = ["get", "--scheduler-url", f"http://127.0.0.1:{second}", *more]
                code = await asyncio.to_thread(_kubectl.main, arguments)
                printed = capsys.readouterr()
                found.append((code, printed.out, printed.err))

    run()
    return found[0]


def test_leader_is_asked_in_its_pod(api: Server, capsys: pytest.CaptureFixture[str]) -> None:
    api.answer = {
        "apiVersion": "gangsched.kubectl/v1",
        "kind": "GangList",
        "schedulerNames": ["gangsched"],
        "at": "2026-11-23T10:00:00.000000Z",
        "total": 0,
        "items": [],
    }
    code, _out, beside = ask_the_follower(api, capsys)
    assert code == 0
    assert beside.startswith("by the scheduler at kube-system/")
    assert api.asked[0].endswith(":10259/proxy/gangs?namespace=default")


def test_listing_says_that_it_is_by_the_default_configuration(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, beside = ask_the_follower(api, capsys)
    assert code == 0
    assert "train" in out
    assert beside.startswith(
        "by listing and the default configuration, which may not be the scheduler's; "
    )
    assert " leads; and of the leader: " in beside
    assert "no endpoints" in beside


def test_both_reasons_are_said_if_the_scheduler_must_answer(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, beside = ask_the_follower(api, capsys, "--ask-scheduler", "always")
    assert (code, out) == (2, "")
    assert " leads; and of the leader: " in beside
