"""How the pages of a process are served: HTTPS and reviews, loopback, and plain HTTP by name."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gangsched.errors import InvalidValueError
from gangsched.kubernetes import LeaderElection, Serving, Settings
from gangsched.kubernetes._self_signed import self_signed
from gangsched.kubernetes._server import Page, Server
from gangsched.kubernetes._serving import Pages, is_loopback
from support.cluster_objects import PODS, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.memory_cluster import cluster
from support.root import ROOT
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, sample
from support.strangers import Stranger


def pages() -> Pages:
    return Pages({"/metrics": lambda: Page(b"secret"), "/readyz": lambda: Page(b"ok")})


async def statuses(port: int) -> dict[str, int]:
    stranger = Stranger(port)
    return {
        path: await asyncio.to_thread(stranger.status, path) for path in ("/metrics", "/readyz")
    }


def fetch_plain(port: int) -> str:
    try:
        return fetch(port, "/metrics")
    except OSError:  # the server closes the connection
        return ""


@on_a_loop
async def test_address_of_others_is_https_with_a_certificate_and_needs_a_token(
    tmp_path: Path,
) -> None:
    found = pages()
    port = await found.start(Serving("0.0.0.0", 0), "pages")
    assert await statuses(port) == {"/metrics": 401, "/readyz": 200}
    assert await asyncio.to_thread(fetch_plain, port) == ""
    shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    (tmp_path / "own.crt").write_text(shown)
    stranger = Stranger(port, authority=tmp_path / "own.crt")
    assert await asyncio.to_thread(stranger.status, "/readyz") == 200
    await found.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@on_a_loop
async def test_plain_http_is_served_on_loopback_and_elsewhere_by_name_with_a_warning(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = pages()
    with caplog.at_level(logging.WARNING, "gangsched.kubernetes"):
        port = await found.start(Serving(host, 0, insecure=host == "0.0.0.0"), "pages")
    assert await asyncio.to_thread(fetch, port, "/metrics") == "secret"
    await found.stop()
    warnings = ["without encryption and without a token" in text for text in caplog.messages]
    assert warnings == [True] * (host == "0.0.0.0")


@on_a_loop
async def test_certificate_of_files_is_verified_and_renewed(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")

    def issue() -> None:
        issued = authority.issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
        issued.private_key_pem.write_to_path(tmp_path / "tls.key")

    issue()
    files: dict[str, Any] = {"certificate": tmp_path / "tls.crt", "key": tmp_path / "tls.key"}
    found = pages()
    port = await found.start(Serving("127.0.0.1", 0, **files), "pages")
    stranger = Stranger(port, authority=tmp_path / "ca.crt")
    assert await asyncio.to_thread(stranger.status, "/metrics") == 401
    before = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    issue()
    after = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    assert before != after
    assert await asyncio.to_thread(stranger.status, "/metrics") == 401
    await found.stop()


@on_a_loop
async def test_health_has_an_address_with_nothing_else() -> None:
    (health,) = free_ports(1)
    found = pages()
    await found.start(Serving("0.0.0.0", 0, health=("127.0.0.1", health)), "pages")
    assert await asyncio.to_thread(fetch, health, "/readyz") == "ok"
    assert await asyncio.to_thread(fetch, health, "/metrics") == "not found\n"
    await found.stop()


@pytest.mark.parametrize(
    ("settings", "leads"),
    [(ALONE, None), (Settings(leader_election=LeaderElection(resource_namespace="ns")), 1.0)],
    ids=["alone", "elected"],
)
@pytest.mark.once("makes schedulers that decide about whole gangs")
@on_a_loop
async def test_pages_of_a_scheduler_have_the_metric_of_a_leader_if_it_was_elected(
    settings: Settings, leads: float | None
) -> None:
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    api, (port,) = cluster(), free_ports(1)
    api.put(PODS, pod_json("p"))
    async with running(api, settings, serve=("127.0.0.1", port)):
        await until(lambda: api.pods()["default/p"])
        found = await asyncio.to_thread(fetch, port, "/metrics")
    assert sample(found, "gangsched_ready") == 1
    name = "leader_election_master_status"
    assert (sample(found, name) if name in found else None) == leads


def test_documented_alerts_that_need_a_series_name_one_that_is_always_there() -> None:
    page = ROOT / "docs" / "how-to" / "alert-on-kubernetes.md"
    named = set(re.findall(r"absent\((\w+)", page.read_text(encoding="utf-8")))
    assert named == {"gangsched_ready"}


@on_a_loop
async def test_scheduler_that_is_served_to_others_asks_for_tokens() -> None:
    (port,) = free_ports(1)
    async with running(MemoryApi(), serve=("0.0.0.0", port)):
        while not (await statuses(port))["/readyz"]:
            await asyncio.sleep(0.02)
        assert (await statuses(port))["/metrics"] == 401


@on_a_loop
async def test_oldest_connection_makes_place_for_those_that_ask() -> None:
    """Otherwise strangers who say nothing would keep kubelets out, who then end the process."""
    server = Server({"/readyz": lambda: Page(b"ok")})
    port = await server.start("127.0.0.1", 0)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
    assert await asyncio.to_thread(fetch, port, "/readyz") == "ok"
    for _reader, writer in silent:
        writer.close()
    await server.stop()


@on_a_loop
async def test_no_flood_has_more_connections_open_than_the_server_allows() -> None:
    server = Server({"/readyz": lambda: Page(b"ok")})
    port = await server.start("127.0.0.1", 0)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(server._connections))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    silent = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(200)))
    await until(lambda: most >= 64)
    assert await asyncio.to_thread(fetch, port, "/readyz") == "ok"
    watching.cancel()
    assert most <= 65
    for _reader, writer in silent:
        writer.close()
    await server.stop()


def open_sockets() -> int:
    return sum(isinstance(each, socket.socket) and each.fileno() != -1 for each in gc.get_objects())


@on_a_loop
async def test_no_socket_is_left_to_an_asker_that_does_not_close_its_own() -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def ask(port: int) -> ssl.SSLSocket:
        asker = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
        asker.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        assert asker.recv(1) == b"H"
        return asker

    before = open_sockets()
    found = pages()
    port = await found.start(Serving("0.0.0.0", 0), "pages")
    asker = await asyncio.to_thread(ask, port)
    await found.stop()
    asker.close()
    assert open_sockets() == before


def test_loopback_is_what_this_machine_alone_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.3.2.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "example.com")))


def test_files_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="both of them, or neither"):
        Serving("0.0.0.0", 1, certificate=Path("c"))
    with pytest.raises(InvalidValueError, match="insecure"):
        Serving("0.0.0.0", 1, certificate=Path("c"), key=Path("k"), insecure=True)


# A certificate of its own -----------------------------------------------------------------------


def test_own_certificate_is_signed_by_its_key_and_has_its_names() -> None:
    certificate, key = self_signed(["localhost", "127.0.0.1", "::1"])
    found = x509.load_pem_x509_certificate(certificate)
    found.verify_directly_issued_by(found)
    private: Any = load_pem_private_key(key, None)
    assert private.public_key() == found.public_key()
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert [str(each) for each in addresses] == ["127.0.0.1", "::1"]
