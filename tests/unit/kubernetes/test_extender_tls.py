"""TLS of the extender: clients with a certificate, and certificates that are replaced."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme
from attrs import define, field

from gangsched.errors import InvalidValueError
from gangsched.kubernetes.extender import server_context
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.extender_client import Asking, extending
from support.memory_api import MemoryApi
from support.running import on_a_loop

NAMES = ["n0"]


@define(eq=False)
class Files:
    """The files of the extender, as a mounted Secret has them: links into a folder."""

    folder: Path
    authority: trustme.CA = field(factory=trustme.CA)
    of_clients: trustme.CA = field(factory=trustme.CA)
    count: int = 0

    def write(self, *, key_of: trustme.LeafCert | None = None) -> None:
        """Write a new certificate, in place of the one before at once, as the kubelet does."""
        issued = self.authority.issue_cert("localhost")
        self.count += 1
        data = self.folder / f"set-{self.count}"
        data.mkdir()
        issued.cert_chain_pems[0].write_to_path(data / "tls.crt")
        (key_of or issued).private_key_pem.write_to_path(data / "tls.key")
        self.of_clients.cert_pem.write_to_path(data / "ca.crt")
        link = self.folder / "new"
        link.symlink_to(data)
        os.replace(link, self.folder / "data")

    def context(self) -> ssl.SSLContext:
        """Return the context of the extender."""
        data = self.folder / "data"
        return server_context(data / "tls.crt", data / "tls.key", data / "ca.crt")

    def client(self, *, of: trustme.CA | None = None) -> ssl.SSLContext:
        """Return the context of kube-scheduler; *of* has issued its certificate."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        (of or self.of_clients).issue_cert("kube-scheduler").configure_cert(context)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(tmp_path)
    found.write()
    return found


@asynccontextmanager
async def serving(files: Files) -> AsyncIterator[Asking]:
    api = MemoryApi()
    api.put(NODES, node_json("n0"))
    api.put(PODS, pod_json("solo"))
    client = files.client()
    async with extending(api, context=files.context(), client=client) as asking:
        yield asking


async def connects(asking: Asking, client: ssl.SSLContext) -> bool:
    """Return whether a new connection gets an answer."""
    body = {"Pod": asking.pod("solo"), "NodeNames": NAMES}
    connector = aiohttp.TCPConnector(ssl=client)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.post(f"{asking.url}/filter", json=body) as response:
                return response.status == 200
        except (aiohttp.ClientError, ConnectionError):
            return False


async def serial(asking: Asking, client: ssl.SSLContext) -> str:
    """Return the serial number of the certificate that a new connection gets."""
    host, _, port = asking.url.removeprefix("https://").partition(":")
    _reader, writer = await asyncio.open_connection(host, int(port), ssl=client)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    await writer.wait_closed()
    assert isinstance(found, str)
    return found


@on_a_loop
async def test_replaced_certificate_is_served_without_a_restart_if_it_is_valid(
    files: Files,
) -> None:
    async with serving(files) as asking:
        client = files.client()
        before = await serial(asking, client)
        files.write(key_of=files.authority.issue_cert("localhost"))
        assert [await serial(asking, client) for _ in range(2)] == [before] * 2
        (files.folder / "data").unlink()
        assert await serial(asking, client) == before
        files.write()
        assert await asking.filter("solo", NAMES) == NAMES  # on the connection that is open
        assert await serial(asking, client) != before


def test_refused_files_are_logged_once_and_say_why(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    @on_a_loop
    async def story() -> None:
        async with serving(files) as asking:
            (files.folder / "data" / "tls.crt").write_text("no certificate", encoding="ascii")
            for _ in range(3):
                await serial(asking, files.client())

    with caplog.at_level(logging.ERROR, "gangsched.kubernetes.certificates"):
        story()
    (record,) = caplog.records
    assert "the certificate is not renewed: tls must be a certificate" in record.getMessage()


@on_a_loop
async def test_clients_of_a_replaced_authority_are_refused(files: Files) -> None:
    async with serving(files) as asking:
        assert not await connects(asking, files.client(of=trustme.CA()))
        old = files.client()
        assert await connects(asking, old)
        files.of_clients = trustme.CA()
        assert not await connects(asking, files.client())
        files.write()
        assert await connects(asking, files.client())
        assert not await connects(asking, old)  # nor by the session that it has from before


def test_certificates_of_clients_are_verified_as_go_verifies_them(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 and later would refuse authorities that lack an extension of X.509."""
    create = ssl.create_default_context

    def of_python_3_13(purpose: ssl.Purpose) -> ssl.SSLContext:
        context = create(purpose)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", of_python_3_13)
    context = files.context()
    current = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True).context
    assert not current.verify_flags & ssl.VERIFY_X509_STRICT
    assert current.verify_mode is ssl.CERT_REQUIRED
    assert current.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"tls must be a certificate and its key: .*absent"):
        server_context(tmp_path / "absent", tmp_path / "absent")
