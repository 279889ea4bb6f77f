"""An API server that cannot be reached: the reason is in the log and in the readiness at once.

The client repeats a request for half a minute. None of these tests waits for the end of that.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")

import trustme
from attrs import evolve

from gangsched.kubernetes import LeaderElection, Settings
from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._contact import Contact
from gangsched.kubernetes._run import run
from gangsched.kubernetes.extender import run_extender
from support.api_clients import TRANSPORTS, client_of
from support.memory_api import MemoryApi, refused
from support.patience import HANG
from support.running import ALONE, on_a_loop, until
from support.scripted_api import abort, reply, scripted_api

ELECTED = Settings(leader_election=LeaderElection(resource_namespace="ns", resource_name="x"))
SAID = "no answer from the API server: "

both = pytest.mark.parametrize("settings", [ALONE, ELECTED], ids=["alone", "elected"])
commands = pytest.mark.parametrize("command", ["run", "extender"])


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lost(problem: str = "refused") -> ConnectionLost:
    return ConnectionLost("GET", "/x", problem, sent=False)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def kubeconfig(folder: Path, server: str, authority: bytes) -> str:
    data = base64.b64encode(authority).decode()
    path = folder / "config"
    path.write_text(
        f"""
clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {data}}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
""",
        encoding="utf-8",
    )
    return str(path)


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


@asynccontextmanager
async def program(command: str, settings: Settings, **named: Any) -> AsyncIterator[int]:
    """Run a command; yields the port of its pages."""
    stop, port = asyncio.Event(), free_port()
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


# A program --------------------------------------------------------------------------------------


@commands
@both
@on_a_loop
async def test_connection_that_is_refused_is_logged_and_is_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, command: str, settings: Settings
) -> None:
    authority = trustme.CA().cert_pem.bytes()
    file = kubeconfig(tmp_path, f"https://127.0.0.1:{free_port()}", authority)
    async with program(command, _with(settings, file)) as port:
        answer = await readiness_with(port, SAID)
        assert "Connect call failed" in answer
        assert any("Connect call failed" in each for each in warnings(caplog))


@commands
@both
@on_a_loop
async def test_certificate_of_an_unknown_authority_is_logged_and_is_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, command: str, settings: Settings
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    file = kubeconfig(tmp_path, url, trustme.CA().cert_pem.bytes())
    async with server, program(command, _with(settings, file)) as port:
        answer = await readiness_with(port, SAID)
        assert "certificate verify failed" in answer
        assert any("certificate verify failed" in each for each in warnings(caplog))


def _with(settings: Settings, file: str) -> Settings:
    return evolve(settings, client=evolve(settings.client, kubeconfig=file))


@commands
@on_a_loop
async def test_refused_discovery_is_logged_once_and_is_the_reason(
    caplog: pytest.LogCaptureFixture, command: str
) -> None:
    api = MemoryApi()
    api.fault = lambda _method, path: (
        refused(403, "this group is forbidden") if path == "/apis/scheduling.k8s.io" else None
    )
    async with program(command, ALONE, api=api) as port:
        answer = await readiness_with(port, "this group is forbidden")
        assert "[-] which APIs are served is not known: " in answer
        looks = api.requests.count(("GET", "/apis/scheduling.k8s.io"))
        await until(lambda: api.requests.count(("GET", "/apis/scheduling.k8s.io")) > looks)
    assert sum("this group is forbidden" in each for each in warnings(caplog)) == 1


# The client -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSPORTS)
@on_a_loop
async def test_first_request_without_an_answer_is_noted_while_it_is_repeated(name: str) -> None:
    contact = Contact()
    async with scripted_api() as server, client_of(name, server.access, contact=contact) as client:
        server.answers(*[abort()] * 3, reply(200, {}))
        task = asyncio.create_task(client.request("GET", "/x", timeout=HANG))
        await until(lambda: contact.problem or task.done())
        assert contact.problem
        assert (await task).status == 200
        assert contact.problem == ""


# What is logged ---------------------------------------------------------------------------------


def test_problem_that_stays_is_logged_at_once_and_again_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    contact = Contact(clock)
    for seconds, count in [(0.0, 1), (0.0, 1), (59.0, 1), (1.0, 2), (1.0, 2)]:
        clock.now += seconds
        contact.lost(lost())
        assert len(warnings(caplog)) == count
    assert warnings(caplog)[0] == f"{lost()}; it is repeated"


def test_other_problem_is_logged_and_an_answer_ends_all(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    contact = Contact(clock)
    contact.lost(lost("refused"))
    contact.lost(lost("certificate verify failed"))  # within the same second
    assert len(warnings(caplog)) == 1
    clock.now += 1.0
    contact.lost(lost("certificate verify failed"))
    assert "certificate verify failed" in warnings(caplog)[1]
    contact.answered()
    contact.lost(lost("certificate verify failed"))
    assert len(warnings(caplog)) == 3


def test_problem_explains_a_replica_that_is_not_ready_and_no_other() -> None:
    contact = Contact()
    assert contact.explained(["not scheduling yet"]) == ["not scheduling yet"]
    contact.lost(lost())
    assert contact.explained([]) == []
    assert contact.explained(["not scheduling yet"]) == ["not scheduling yet", f"{SAID}refused"]
    assert contact.explained(["nodes: no answer: refused"]) == ["nodes: no answer: refused"]
