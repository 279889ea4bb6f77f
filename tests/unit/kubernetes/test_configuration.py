"""Kubeconfig files, exec plugins, ServiceAccounts, and what happens when they change."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes_asyncio", reason="the extra kubernetes is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")

import yaml

from gangsched.kubernetes import _load_access
from gangsched.kubernetes._configuration import (
    Access,
    ConfigurationError,
    Credentials,
    read_access,
)
from support.patience import HANG, until_on_loop
from support.scripted_api import run

pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")

PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"


def write(
    folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **extra: Any
) -> Path:
    """Write a kubeconfig with one context."""
    path = folder / "config"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **extra,
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def read(path: Path | str, *, context: str | None = None) -> dict[str, Any]:
    """Read a kubeconfig in this process, as the other process does."""
    asked = {"kubeconfig": str(path), "context": context, "service_account": None}
    return asyncio.run(_load_access._read(asked))


def plugin(folder: Path, *lines: str, name: str = "plugin.py") -> dict[str, Any]:
    """Write a program that prints a credential, and return the user that runs it."""
    program = folder / name
    program.write_text("\n".join(("import json, os, sys, time", *lines)), encoding="utf-8")
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(program)],
            "env": [{"name": "WHO", "value": "gangsched"}],
            "interactiveMode": "Never",
        }
    }


def credential(**status: Any) -> str:
    return (
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', "
        f"'kind': 'ExecCredential', 'status': {status!r}}}))"
    )


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Kubeconfig -----------------------------------------------------------------------------------


def test_token_and_authority_of_the_current_context_are_read(tmp_path: Path) -> None:
    found = read(write(tmp_path, {"token": "t"}, {"certificate-authority-data": encoded(PEM)}))
    assert found["authorization"] == "Bearer t"
    assert found["authority"] == PEM
    assert found["verify"]
    assert found["server"] == "https://api:6443"


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca.crt", "user.crt", "user.key"):
        (tmp_path / name).write_text(f"{name}\n{PEM}", encoding="utf-8")
    user = {"client-certificate": "user.crt", "client-key": "user.key"}
    found = read(write(tmp_path, user, {"certificate-authority": "ca.crt"}))
    assert found["authority"].startswith("ca.crt")
    assert found["certificate"].startswith("user.crt")
    assert found["key"].startswith("user.key")
    assert {os.path.basename(file) for file in found["files"]} == {
        "config",
        "ca.crt",
        "user.crt",
        "user.key",
    }


def test_certificates_in_the_kubeconfig_are_read(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")}
    found = read(write(tmp_path, user))
    assert (found["certificate"], found["key"]) == ("cert", "key")
    assert found["authorization"] == ""


def test_another_context_is_used_if_it_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"token": "t"},
        contexts=[
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "y", "context": {"cluster": "c", "user": "v"}},
        ],
        users=[{"name": "u", "user": {"token": "t"}}, {"name": "v", "user": {"token": "other"}}],
    )
    assert read(path, context="y")["authorization"] == "Bearer other"


def test_several_files_are_merged(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = write(tmp_path / "one", {"token": "t"})
    second = tmp_path / "two" / "config"
    second.write_text(yaml.safe_dump({"users": [], "clusters": [], "contexts": []}))
    missing = tmp_path / "no-such-file"
    found = read(os.pathsep.join(map(str, (missing, first, second))))
    assert found["authorization"] == "Bearer t"
    assert found["files"] == [str(first), str(second)]


def test_token_file_precedes_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of the file\n", encoding="utf-8")
    found = read(write(tmp_path, {"token": "t", "tokenFile": "token"}))
    assert found["authorization"] == "Bearer of the file"


def test_proxy_server_name_and_no_verification_are_read(tmp_path: Path) -> None:
    cluster = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    found = read(write(tmp_path, {"token": "t"}, cluster))
    assert not found["verify"]
    assert found["server_name"] == "kubernetes"
    assert found["proxy"] == "http://proxy:3128"


def test_basic_authentication_is_read(tmp_path: Path) -> None:
    found = read(write(tmp_path, {"username": "a", "password": "b"}))
    assert found["authorization"] == f"Basic {encoded('a:b')}"


# Exec plugins ---------------------------------------------------------------------------------


def test_exec_plugin_gives_a_token_and_its_expiry(tmp_path: Path) -> None:
    user = plugin(
        tmp_path,
        "assert os.environ['WHO'] == 'gangsched'",
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'",
        credential(token="t", expirationTimestamp="2030-01-01T00:00:00Z"),
    )
    found = read(write(tmp_path, user))
    assert found["authorization"] == "Bearer t"
    assert found["expires_at"] == 1893456000.0


def test_exec_plugin_gives_a_client_certificate(tmp_path: Path) -> None:
    user = plugin(tmp_path, credential(clientCertificateData="cert", clientKeyData="key"))
    found = read(write(tmp_path, user))
    assert (found["certificate"], found["key"]) == ("cert", "key")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("sys.exit('no network')",), "no network"),
        (("print('{')",), "decode"),
        (("print('{}')",), "missing key"),
    ],
)
def test_exec_plugin_that_fails_is_named_with_its_problem(
    tmp_path: Path, lines: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(Exception, match=problem):
        read(write(tmp_path, plugin(tmp_path, *lines)))


# In a process of its own ----------------------------------------------------------------------


def test_access_is_read_by_another_process_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    user = plugin(tmp_path, credential(clientCertificateData="cert", clientKeyData="secret"))
    path = write(tmp_path, user, {"certificate-authority-data": encoded(PEM)})
    access = read_access(kubeconfig=str(path))
    assert access.server == "https://api:6443"
    assert access.key == "secret"
    assert "secret" not in repr(access)
    assert list(scratch.iterdir()) == []


def test_kubeconfig_of_the_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path, {"token": "t"})))
    assert read_access().authorization == "Bearer t"


def test_service_account_is_read_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("of the account\n", encoding="utf-8")
    (tmp_path / "ca.crt").write_text(PEM, encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = read_access(service_account=str(tmp_path))
    assert access.server == "https://[::1]:443"
    assert access.authorization == "Bearer of the account"
    assert access.authority == PEM
    assert access.files == (str(tmp_path / "token"), str(tmp_path / "ca.crt"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"current-context": "nowhere"}, "nowhere"),
        ({"clusters": []}, "name c"),
        ({"clusters": [{"name": "c", "cluster": {"server": "api:6443"}}]}, "api:6443"),
    ],
)
def test_malformed_kubeconfig_is_an_error_that_names_the_file(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    path = write(tmp_path, {"token": "t"}, **change)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        read_access(kubeconfig=str(path))
    assert caught.value.source == str(path)


def test_missing_kubeconfig_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no-such-file"):
        read_access(kubeconfig=str(tmp_path / "no-such-file"))


# Credentials that change ----------------------------------------------------------------------


class Readings:
    """Accesses that are read one after the other; an exception is raised."""

    def __init__(self, *results: Access | Exception) -> None:
        self.results = list(results)
        self.count = 0

    def __call__(self) -> Access:
        time.sleep(0.01)
        result = self.results[min(self.count, len(self.results) - 1)]
        self.count += 1
        if isinstance(result, Exception):
            raise result
        return result


def access(token: str, **fields: Any) -> Access:
    return Access("https://api", authorization=token, **fields)


def test_calls_at_the_same_time_share_one_reading() -> None:
    async def story() -> None:
        readings = Readings(access("old"), access("new"))
        credentials = Credentials(readings)
        old = await credentials.load()
        results = await asyncio.gather(*(credentials.refresh(old) for _ in range(10)))
        assert results == [True] * 10
        assert readings.count == 2
        # who saw the old one only is told of the new one without another reading
        assert await credentials.refresh(old)
        assert readings.count == 2

    run(story())


def test_access_that_stays_the_same_is_read_less_and_less() -> None:
    async def story() -> None:
        readings = Readings(access("same"))
        now = 0.0
        credentials = Credentials(readings, clock=lambda: now)
        seen = await credentials.load()
        times: list[float] = []
        while now < 200.0:
            before = readings.count
            assert not await credentials.refresh(seen)
            if readings.count > before:
                times.append(now)
            now += 1.0
        gaps = [after - before for before, after in pairwise(times)]
        assert gaps == [4.0, 8.0, 16.0, 32.0, 60.0, 60.0]

    run(story())


def test_reading_that_fails_is_reported_and_changes_nothing() -> None:
    async def story() -> None:
        problems: list[Exception] = []
        failure = ConfigurationError("config", "half written")
        readings = Readings(access("old"), failure, access("new"))
        now = 0.0
        credentials = Credentials(readings, on_problem=problems.append, clock=lambda: now)
        old = await credentials.load()
        assert not await credentials.refresh(old)
        assert problems == [failure]
        assert credentials.access is old
        now = 100.0
        assert await credentials.refresh(old)
        assert credentials.access.authorization == "new"

    run(story())


def test_first_reading_that_fails_is_raised() -> None:
    credentials = Credentials(Readings(ConfigurationError("config", "absent")))
    with pytest.raises(ConfigurationError, match="absent"):
        run(credentials.load())


async def kept(credentials: Credentials, condition: Callable[[], bool]) -> None:
    keeping = asyncio.ensure_future(credentials.keep_current(interval=0.01))
    try:
        async with asyncio.timeout(HANG):
            while not condition():
                await asyncio.sleep(0.01)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def test_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    # as the kubelet does it: a link to a directory that is replaced as a whole
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name, encoding="utf-8")
    (tmp_path / "data").symlink_to("one")
    token = tmp_path / "token"
    token.symlink_to("data/token")

    async def story() -> None:
        def read() -> Access:
            return access(token.read_text(encoding="utf-8"), files=(str(token),))

        credentials = Credentials(read)
        await credentials.load()
        (tmp_path / "new").symlink_to("two")
        os.replace(tmp_path / "new", tmp_path / "data")
        await kept(credentials, lambda: credentials.access.authorization == "two")

    run(story())


def test_file_that_stays_the_same_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t", encoding="utf-8")

    async def story() -> None:
        readings = Readings(access("t", files=(str(tmp_path / "token"),)))
        credentials = Credentials(readings)
        await credentials.load()
        count = 0

        def later() -> bool:
            nonlocal count
            count += 1
            return count > 20

        await kept(credentials, later)
        assert readings.count == 1

    run(story())


def test_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one", encoding="utf-8")

    async def story() -> None:
        count = 0

        def read() -> Access:
            nonlocal count
            count += 1
            found = access(path.read_text(encoding="utf-8"), files=(str(path),))
            if count == 2:
                path.write_text("three", encoding="utf-8")
            return found

        credentials = Credentials(read)
        await credentials.load()
        path.write_text("two--", encoding="utf-8")
        await kept(credentials, lambda: credentials.access.authorization == "three")

    run(story())


def test_credential_is_read_again_before_it_expires() -> None:
    async def story() -> None:
        readings = Readings(access("old", expires_at=1000.0), access("new", expires_at=5000.0))
        now = 900.0
        credentials = Credentials(readings, clock=lambda: now)
        await credentials.load()
        keeping = asyncio.ensure_future(credentials.keep_current(interval=0.01))
        await asyncio.sleep(0.1)
        assert readings.count == 1
        now = 985.0
        await asyncio.sleep(0.1)
        assert credentials.access.authorization == "new"
        assert readings.count == 2
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    run(story())


def test_exec_plugin_is_run_again_when_its_token_expires(tmp_path: Path) -> None:
    counter, may_end = tmp_path / "count", tmp_path / "may-end"
    user = plugin(
        tmp_path,
        f"path = {str(counter)!r}",
        "n = 1 + (int(open(path).read()) if os.path.exists(path) else 0)",
        "open(path, 'w').write(str(n))",
        f"while n == 2 and not os.path.exists({str(may_end)!r}): time.sleep(0.01)",
        "until = time.gmtime(time.time() + (2 if n == 1 else 9000))",
        "soon = time.strftime('%Y-%m-%dT%H:%M:%SZ', until)",
        "status = {'token': f't{n}', 'expirationTimestamp': soon}",
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', "
        "'kind': 'ExecCredential', 'status': status}))",
    )
    path = write(tmp_path, user)

    async def story() -> None:
        credentials = Credentials(lambda: read_access(kubeconfig=str(path)))
        assert (await credentials.load()).authorization == "Bearer t1"
        keeping = asyncio.ensure_future(credentials.keep_current(interval=0.01))
        await until_on_loop(lambda: counter.read_text() == "2")
        may_end.touch()  # by the loop, which does not wait for the plugin
        await until_on_loop(lambda: credentials.access.authorization == "Bearer t2")
        await asyncio.sleep(0.1)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        assert counter.read_text() == "2"

    run(story())


def test_program_of_the_loader_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    class Input:
        def read(self) -> str:
            return json.dumps({"kubeconfig": "/no/such", "context": None, "service_account": None})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", Input())
        assert _load_access.main() == 0
    assert "no such file: name a kubeconfig" in json.loads(capsys.readouterr().out)["problem"]
    assert stat.S_ISREG(os.stat(_load_access.__file__).st_mode)
