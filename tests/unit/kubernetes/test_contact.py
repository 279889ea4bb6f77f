"""An API server without answers: the reason is in the log and in the readiness at once.

The client repeats a request for half a minute. None of these tests waits for the end of that.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from attrs import evolve

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._run import run
from gangsched.kubernetes.extender import run_extender
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, readiness

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

ELECTED = Settings(leader_election=LeaderElection(resource_namespace="ns", resource_name="x"))
SAID = "no answer from the API server: "


def lost(problem: str = "refused") -> ConnectionLost:
    return ConnectionLost("GET", "/x", problem, sent=False)


@asynccontextmanager
async def program(command: str, settings: Settings, **named: Any) -> AsyncIterator[int]:
    """Run a command; yields the port of its pages."""
    stop, (port,) = asyncio.Event(), free_ports(1)
    given = {"stop": stop, "serve": ("127.0.0.1", port), **named}
    work = (
        run(settings, **given)
        if command == "run"
        else run_extender(settings, listen=("127.0.0.1", 0), **given)
    )
    task = asyncio.create_task(work)
    try:
        yield port
        stop.set()
        await asyncio.wait_for(task, HANG)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def readiness_with(port: int, text: str) -> str:
    async with asyncio.timeout(HANG):
        while text not in (answer := await readiness(port)):
            assert " 200 " not in answer
            await asyncio.sleep(0.02)
    return answer


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("command", "settings", "problem"),
    [
        ("run", ALONE, "Connect call failed"),
        ("extender", ELECTED, "Connect call failed"),
        ("run", ELECTED, "certificate verify failed"),
        ("extender", ALONE, "certificate verify failed"),
    ],
)
@on_a_loop
async def test_reason_of_no_connection_is_logged_and_in_the_readiness(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    command: str,
    settings: Settings,
    problem: str,
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    (port,) = free_ports(1) if "call" in problem else [server.sockets[0].getsockname()[1]]
    authority = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    file = tmp_path / "config"
    server_of = f"server: 'https://127.0.0.1:{port}', certificate-authority-data: {authority}"
    file.write_text(
        f"""
clusters: [{{name: c, cluster: {{{server_of}}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
""",
        encoding="utf-8",
    )
    settings = evolve(settings, client=evolve(settings.client, kubeconfig=str(file)))
    async with server, program(command, settings) as pages:
        assert problem in await readiness_with(pages, SAID)
        assert any(problem in each for each in warnings(caplog))


@pytest.mark.parametrize("command", ["run", "extender"])
@on_a_loop
async def test_refused_discovery_is_logged_once_and_is_the_reason(
    caplog: pytest.LogCaptureFixture, command: str
) -> None:
    api, asked = MemoryApi(), ("GET", "/apis/scheduling.k8s.io")
    api.fault = lambda _method, path: (
        refused(403, "this group is forbidden") if path == asked[1] else None
    )
    async with program(command, ALONE, api=api) as port:
        answer = await readiness_with(port, "this group is forbidden")
        assert "[-] which APIs are served is not known: " in answer
        looks = api.requests.count(asked)
        await until(lambda: api.requests.count(asked) > looks)
    assert sum("this group is forbidden" in each for each in warnings(caplog)) == 1


class Hanging(MemoryApi):
    """An API server that answers everything but watches of the cluster."""

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        raise ConnectionLost("GET", path, "TimeoutError", sent=True)
        yield ()


@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_loop
async def test_lost_connections_of_all_kinds_are_one_sentence_without_their_paths() -> None:
    (port,) = free_ports(1)
    text = ""
    async with running(Hanging(), ALONE, serve=("127.0.0.1", port)):
        async with asyncio.timeout(HANG):
            # until each watch has failed once
            while ": no answer: TimeoutError" not in text or "are not listed yet\n" in text:
                await asyncio.sleep(0.05)
                text = await asyncio.to_thread(fetch, port, "/readyz")
    (line,) = text.splitlines()
    assert line.count("are not listed yet") == line.count("TimeoutError") == 1
    assert line.count(",") >= 10
    assert "watch" not in line


# What is logged ---------------------------------------------------------------------------------


def test_problem_is_logged_at_once_and_again_after_a_minute_or_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 100.0
    contact, other = Contact(lambda: now), "certificate verify failed"
    for seconds, problem, count in [
        (0.0, "refused", 1),
        (0.0, "refused", 1),
        (59.0, "refused", 1),
        (1.0, "refused", 2),
        (0.0, other, 2),  # within the same second
        (1.0, other, 3),
    ]:
        now += seconds
        contact.lost(lost(problem))
        assert len(warnings(caplog)) == count
    assert warnings(caplog)[0] == f"{lost()}; it is repeated"
    assert other in warnings(caplog)[2]
    contact.answered()
    contact.lost(lost(other))
    assert len(warnings(caplog)) == 4


def test_problem_explains_a_replica_that_is_not_ready_and_no_other() -> None:
    contact = Contact()
    assert contact.explained(["not scheduling yet"]) == ["not scheduling yet"]
    contact.lost(lost())
    assert contact.explained([]) == []
    assert contact.explained(["not scheduling yet"]) == ["not scheduling yet", f"{SAID}refused"]
    assert contact.explained(["nodes: no answer: refused"]) == ["nodes: no answer: refused"]
