"""TLS: authorities, client certificates, names, and their rotation."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")
pytest.importorskip("trustme", reason="trustme is not installed")

import trustme
from attrs import evolve

from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._configuration import Access, ConfigurationError
from gangsched.kubernetes._counted import close_stream
from gangsched.kubernetes._tls import tls_context
from support.api_clients import TRANSPORTS, client_of
from support.scripted_api import ScriptedApi, bookmark, reply, run, scripted_api, stream

each_transport = pytest.mark.parametrize("name", TRANSPORTS)


class Authority:
    """An authority, and what it issues."""

    def __init__(self) -> None:
        self.ca = trustme.CA()
        self.pem: str = self.ca.cert_pem.bytes().decode()

    def server(self, *names: str, asks: bool = False) -> ssl.SSLContext:
        """Return the context of a server, which asks for a certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        if asks:
            self.ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def user(self, name: str = "scheduler") -> tuple[str, str]:
        """Return a client certificate and its key."""
        issued = self.ca.issue_cert(f"{name}@example.org", common_name=name)
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems).decode()
        return chain, issued.private_key_pem.bytes().decode()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[ScriptedApi]:
    async with scripted_api(context) as server:
        server.answers(reply(200, {}))
        yield server


@each_transport
def test_certificate_of_a_known_authority_is_accepted(name: str, authority: Authority) -> None:
    async def story() -> None:
        async with serving(authority.server("127.0.0.1")) as server:
            access = evolve(server.access, authority=authority.pem)
            async with client_of(name, access) as client:
                for _ in range(3):
                    assert (await client.request("GET", "/version")).status == 200
                assert server.connections == 1
                marks = [bookmark(str(n)) for n in range(300)]
                server.answers(stream(*marks, b"x" * 500_000 + b"\n"))
                count = 0
                async for lines in client.watch("/w", timeout=5.0):
                    count += len(lines)
                assert count == 301

    run(story())


@each_transport
@pytest.mark.parametrize("problem", ["authority", "name"])
def test_server_that_cannot_be_verified_gets_no_request(
    name: str, problem: str, authority: Authority
) -> None:
    async def story() -> None:
        names = ("127.0.0.1",) if problem == "authority" else ("elsewhere",)
        async with serving(authority.server(*names)) as server:
            pem = Authority().pem if problem == "authority" else authority.pem
            access = evolve(server.access, authority=pem, authorization="Bearer secret")
            async with client_of(name, access) as client:
                with pytest.raises(ConnectionLost, match=r"(?i)certificate") as lost:
                    await client.request("POST", "/x", body=b"{}", timeout=1.5)
                assert not lost.value.sent
            assert server.requests == []

    run(story())


@each_transport
@pytest.mark.parametrize(
    ("served", "options"),
    [("kubernetes", {"server_name": "kubernetes"}), ("elsewhere", {"verify": False})],
    ids=["name of the kubeconfig", "not verified if that is asked for"],
)
def test_server_is_verified_as_the_kubeconfig_says(
    name: str, served: str, options: dict[str, Any], authority: Authority
) -> None:
    async def story() -> None:
        async with serving(authority.server(served)) as server:
            known = evolve(server.access, authority=authority.pem)
            access = evolve(server.access if "verify" in options else known, **options)
            async with client_of(name, access) as client:
                assert (await client.request("GET", "/version")).status == 200

    run(story())


@each_transport
def test_rotated_client_certificate_is_used_for_new_connections(
    name: str, authority: Authority
) -> None:
    async def story() -> None:
        async with serving(authority.server("127.0.0.1", asks=True)) as server:
            one, two = authority.user(), authority.user("rotated")
            base = evolve(server.access, authority=authority.pem)
            accesses = iter(
                evolve(base, certificate=certificate, key=key) for certificate, key in (one, two)
            )
            server.answers(reply(200, {}), reply(401, {}), reply(200, {}))
            async with client_of(name, lambda: next(accesses), linger=0.0) as client:
                for _ in range(2):
                    assert (await client.request("GET", "/version")).status == 200
                await asyncio.sleep(0.05)
            assert [each.connection for each in server.requests] == [1, 1, 2]

    run(story())


@each_transport
def test_certificate_whose_key_is_not_there_yet_is_not_used(
    name: str, authority: Authority
) -> None:
    async def story() -> None:
        async with serving(authority.server("127.0.0.1", asks=True)) as server:
            (certificate, key), (rotated, _) = authority.user(), authority.user("rotated")
            base = evolve(server.access, authority=authority.pem, key=key)
            accesses = iter(evolve(base, certificate=each) for each in (certificate, rotated))
            server.answers(reply(401, {}), reply(200, {}))
            async with client_of(name, lambda: next(accesses)) as client:
                assert (await client.request("GET", "/version")).status == 200
            assert server.connections == 1

    run(story())


def test_requests_under_way_end_on_the_old_connection(authority: Authority) -> None:
    async def story() -> None:
        async with serving(authority.server("127.0.0.1")) as server:
            base = evolve(server.access, authority=authority.pem)
            other = Authority()
            accesses = iter((base, evolve(base, authority=authority.pem + other.pem)))
            server.answers(stream(bookmark("1"), ends=False))
            async with client_of("httptools", lambda: next(accesses)) as client:
                batches = client.watch("/w", timeout=1.0)
                assert len(await anext(batches)) == 1
                server.answers(reply(401, {}), reply(200, {}))
                assert (await client.request("GET", "/version")).status == 200
                await close_stream(batches)
            assert server.connections == 3

    run(story())


def test_key_is_in_no_file_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    certificate, key = authority.user()
    tls_context(Access("https://x", certificate=certificate, key=key))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("field", ["authority", "certificate"])
def test_malformed_certificate_is_an_error_that_names_the_server(field: str) -> None:
    malformed: dict[str, Any] = {field: "no certificate"}
    with pytest.raises(ConfigurationError, match="https://x"):
        tls_context(Access("https://x", **malformed))


def test_authorities_are_verified_as_go_verifies_them(authority: Authority) -> None:
    context = tls_context(Access("https://x", authority=authority.pem))
    assert context is not None
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert tls_context(Access("http://x")) is None
