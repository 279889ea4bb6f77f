"""From a kubeconfig to a client, and what is said without the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
pytest.importorskip("httptools", reason="the extra kubernetes-fast is not installed")
pytest.importorskip("kubernetes_asyncio", reason="the extra kubernetes is not installed")

from gangsched.errors import InvalidValueError
from gangsched.kubernetes._client import Client, connect
from gangsched.kubernetes._configuration import ConfigurationError
from gangsched.kubernetes._transport_aiohttp import AiohttpTransport
from gangsched.kubernetes._transport_httptools import HttptoolsTransport
from support.scripted_api import reply, run, scripted_api


def kubeconfig(folder: Path, server: str, proxy: str = "") -> str:
    path = folder / "config"
    more = f", proxy-url: {proxy}" if proxy else ""
    path.write_text(
        f"""
clusters: [{{name: c, cluster: {{server: '{server}'{more}}}}}]
users: [{{name: u, user: {{token: secret}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
""",
        encoding="utf-8",
    )
    return str(path)


def test_client_of_a_kubeconfig_asks_with_its_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with scripted_api() as server:
            server.answers(reply(200, {}))
            path = kubeconfig(tmp_path, server.access.server)
            client = await connect(kubeconfig=path)
            try:
                assert isinstance(client, Client)
                assert isinstance(client._transport, HttptoolsTransport)
                assert (await client.request("GET", "/version")).status == 200
            finally:
                await client.aclose()
            assert server.requests[0].headers["authorization"] == "Bearer secret"

    run(story())


def test_proxy_is_used_by_the_default_transport(tmp_path: Path) -> None:
    async def story() -> None:
        async with scripted_api() as proxy:
            proxy.answers(reply(200, {"by": "proxy"}))
            path = kubeconfig(tmp_path, "http://no.such.host.invalid", proxy.access.server)
            client = await connect(kubeconfig=path)
            try:
                assert isinstance(client, Client)
                assert isinstance(client._transport, AiohttpTransport)
                assert b"proxy" in (await client.request("GET", "/version")).body
            finally:
                await client.aclose()

    run(story())


def test_fast_transport_refuses_a_proxy(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://api", "http://proxy:3128")
    with pytest.raises(ConfigurationError, match="proxy:3128"):
        run(connect(kubeconfig=path, transport="httptools"))


def test_unknown_transport_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://api")
    unknown: Any = "pycurl"
    with pytest.raises(InvalidValueError, match="pycurl"):
        run(connect(kubeconfig=path, transport=unknown))


WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
import gangsched, gangsched.kubernetes
try:
    import {module}
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "names", "extra"),
    [
        ("gangsched.kubernetes._decode", ["msgspec"], "kubernetes"),
        ("gangsched.kubernetes._reflector", ["msgspec"], "kubernetes"),
        ("gangsched.kubernetes._transport_aiohttp", ["aiohttp"], "kubernetes"),
        ("gangsched.kubernetes._transport_httptools", ["httptools"], "kubernetes-fast"),
    ],
)
def test_missing_extra_is_named(module: str, names: list[str], extra: str) -> None:
    program = WITHOUT.format(names=names, module=module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"pip install 'gangsched[{extra}]'" in done.stdout, done.stderr


def test_importing_the_package_loads_nothing_of_the_extra() -> None:
    program = (
        "import sys, gangsched.kubernetes; print([m for m in "
        "('aiohttp', 'msgspec', 'httptools', 'uvloop', 'kubernetes_asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_fast_transport_loads_neither_aiohttp_nor_models(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    program = (
        "import asyncio, sys\n"
        "from gangsched.kubernetes._client import connect\n"
        "async def main():\n"
        f"    client = await connect(kubeconfig={path!r})\n"
        "    await client.aclose()\n"
        "asyncio.run(main())\n"
        "print([m for m in ('aiohttp', 'kubernetes_asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
