"""Kubeconfig files, exec plugins, ServiceAccounts, their changes, and wrong configurations."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
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

from gangsched.configuration import ProfileSettings, Settings, read_settings
from gangsched.errors import GangschedError, InvalidValueError, ProfileError
from gangsched.kubernetes import _load_access, run
from gangsched.kubernetes._configuration import (
    Access,
    ConfigurationError,
    Credentials,
    read_access,
)
from gangsched.kubernetes.extender import run_extender
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import on_a_loop, until

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


def plugin(folder: Path, *lines: str) -> dict[str, Any]:
    """Write a program that prints a credential, and return the user that runs it."""
    program = folder / "plugin.py"
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


def credential(status: str) -> str:
    return (
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', "
        f"'kind': 'ExecCredential', 'status': {status}}}))"
    )


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Kubeconfig -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "cluster", "expected"),
    [
        (
            {"token": "t"},
            {"certificate-authority-data": encoded(PEM)},
            {
                "authorization": "Bearer t",
                "authority": PEM,
                "verify": True,
                "server": "https://api:6443",
            },
        ),
        (
            {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")},
            {},
            {"certificate": "cert", "key": "key", "authorization": ""},
        ),
        (
            {"token": "t", "tokenFile": "token"},
            {
                "insecure-skip-tls-verify": True,
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy:3128",
            },
            {
                "authorization": "Bearer of the file",
                "verify": False,
                "server_name": "kubernetes",
                "proxy": "http://proxy:3128",
            },
        ),
        (
            {"username": "a", "password": "b"},
            {},
            {"authorization": f"Basic {encoded('a:b')}"},
        ),
    ],
)
def test_access_is_that_of_the_current_context(
    user: dict[str, Any], cluster: dict[str, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("of the file\n", encoding="utf-8")
    found = read(write(tmp_path, user, cluster))
    assert {name: found[name] for name in expected} == expected


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    names = ["ca.crt", "user.crt", "user.key"]
    for name in names:
        (tmp_path / name).write_text(f"{name}\n{PEM}", encoding="utf-8")
    user = {"client-certificate": "user.crt", "client-key": "user.key"}
    found = read(write(tmp_path, user, {"certificate-authority": "ca.crt"}))
    assert found["authority"].startswith("ca.crt")
    assert found["certificate"].startswith("user.crt")
    assert found["key"].startswith("user.key")
    assert {os.path.basename(file) for file in found["files"]} == {"config", *names}


def test_several_files_are_merged_and_another_context_is_used_if_it_is_named(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    contexts = [{"name": n, "context": {"cluster": "c", "user": u}} for n, u in ("xu", "yv")]
    users = [{"name": name, "user": {"token": f"of {name}"}} for name in "uv"]
    first = write(tmp_path / "one", {}, contexts=contexts, users=users)
    second = tmp_path / "two" / "config"
    second.write_text(yaml.safe_dump({"users": [], "clusters": [], "contexts": []}))
    files = os.pathsep.join(map(str, (tmp_path / "no-such-file", first, second)))
    found = read(files)
    assert found["authorization"] == "Bearer of u"
    assert found["files"] == [str(first), str(second)]
    assert read(files, context="y")["authorization"] == "Bearer of v"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"},
            {"authorization": "Bearer t", "expires_at": 1893456000.0},
        ),
        (
            {"clientCertificateData": "cert", "clientKeyData": "key"},
            {"certificate": "cert", "key": "key"},
        ),
    ],
)
def test_exec_plugin_gives_a_token_and_its_expiry_or_a_client_certificate(
    status: dict[str, str], expected: dict[str, Any], tmp_path: Path
) -> None:
    user = plugin(
        tmp_path,
        "assert os.environ['WHO'] == 'gangsched'",
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'",
        credential(repr(status)),
    )
    found = read(write(tmp_path, user))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("sys.exit('no network')", "no network"),
        ("print('{')", "decode"),
        ("print('{}')", "missing key"),
    ],
)
def test_exec_plugin_that_fails_is_named_with_its_problem(
    tmp_path: Path, line: str, problem: str
) -> None:
    with pytest.raises(Exception, match=problem):
        read(write(tmp_path, plugin(tmp_path, line)))


# In a process of its own ------------------------------------------------------------------------


def test_access_is_read_by_another_process_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    data = {"client-certificate-data": encoded("cert"), "client-key-data": encoded("secret")}
    path = write(tmp_path, data, {"certificate-authority-data": encoded(PEM)})
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(path))
    access = read_access()
    assert (access.server, access.key) == ("https://api:6443", "secret")
    assert "secret" not in repr(access)
    assert list(scratch.iterdir()) == []


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
        (None, "config: .*no such file: name a kubeconfig"),
    ],
)
def test_malformed_or_missing_kubeconfig_is_an_error_that_names_the_file(
    tmp_path: Path, change: dict[str, Any] | None, problem: str
) -> None:
    path = tmp_path / "config" if change is None else write(tmp_path, {"token": "t"}, **change)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        read_access(kubeconfig=str(path))
    assert caught.value.source == str(path)


# Credentials that change ------------------------------------------------------------------------


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


@on_a_loop
async def test_calls_at_the_same_time_share_one_reading() -> None:
    readings = Readings(access("old"), access("new"))
    credentials = Credentials(readings)
    old = await credentials.load()
    results = await asyncio.gather(*(credentials.refresh(old) for _ in range(10)))
    assert results == [True] * 10
    # a caller that saw the old one only is told of the new one without another reading
    assert await credentials.refresh(old)
    assert readings.count == 2


@on_a_loop
async def test_access_that_stays_the_same_is_read_less_and_less() -> None:
    readings, now, times = Readings(access("same")), 0.0, list[float]()
    credentials = Credentials(readings, clock=lambda: now)
    seen = await credentials.load()
    while now < 200.0:
        before = readings.count
        assert not await credentials.refresh(seen)
        if readings.count > before:
            times.append(now)
        now += 1.0
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == [4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@on_a_loop
async def test_reading_that_fails_is_reported_and_changes_nothing() -> None:
    problems: list[Exception] = []
    failure = ConfigurationError("config", "half written")
    with pytest.raises(ConfigurationError, match="half written"):
        await Credentials(Readings(failure)).load()
    now = 0.0
    readings = Readings(access("old"), failure, access("new"))
    credentials = Credentials(readings, on_problem=problems.append, clock=lambda: now)
    old = await credentials.load()
    assert not await credentials.refresh(old)
    assert problems == [failure]
    assert credentials.access is old
    now = 100.0
    assert await credentials.refresh(old)
    assert credentials.access.authorization == "new"


async def kept(credentials: Credentials, condition: Callable[[], object]) -> None:
    """Keep credentials current until a condition holds."""
    keeping = asyncio.ensure_future(credentials.keep_current(interval=0.01))
    try:
        await until(condition)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


@on_a_loop
async def test_rotated_token_file_is_read_again_and_one_that_stays_is_not(tmp_path: Path) -> None:
    # as the kubelet does it: a link to a directory that is replaced as a whole
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name, encoding="utf-8")
    (tmp_path / "data").symlink_to("one")
    token, count = tmp_path / "token", 0
    token.symlink_to("data/token")

    def read() -> Access:
        nonlocal count
        count += 1
        return access(token.read_text(encoding="utf-8"), files=(str(token),))

    credentials = Credentials(read)
    await credentials.load()
    looks = iter(range(20))
    await kept(credentials, lambda: next(looks, None) is None)
    assert count == 1
    (tmp_path / "new").symlink_to("two")
    os.replace(tmp_path / "new", tmp_path / "data")
    await kept(credentials, lambda: credentials.access.authorization == "two")


@on_a_loop
async def test_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path, count = tmp_path / "token", 0
    path.write_text("one", encoding="utf-8")

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


@on_a_loop
async def test_credential_is_read_again_before_it_expires() -> None:
    readings = Readings(access("old", expires_at=1000.0), access("new", expires_at=5000.0))
    now = 900.0
    credentials = Credentials(readings, clock=lambda: now)
    await credentials.load()
    looks = iter(range(20))
    await kept(credentials, lambda: next(looks, None) is None)
    assert readings.count == 1
    now = 985.0
    await kept(credentials, lambda: credentials.access.authorization == "new")
    assert readings.count == 2


@on_a_loop
async def test_exec_plugin_is_run_again_when_its_token_expires(tmp_path: Path) -> None:
    counter, may_end = tmp_path / "count", tmp_path / "may-end"
    user = plugin(
        tmp_path,
        f"path = {str(counter)!r}",
        "n = 1 + (int(open(path).read()) if os.path.exists(path) else 0)",
        "open(path, 'w').write(str(n))",
        f"while n == 2 and not os.path.exists({str(may_end)!r}): time.sleep(0.01)",
        "until = time.gmtime(time.time() + (2 if n == 1 else 9000))",
        "soon = time.strftime('%Y-%m-%dT%H:%M:%SZ', until)",
        credential("{'token': f't{n}', 'expirationTimestamp': soon}"),
    )
    path = write(tmp_path, user)
    credentials = Credentials(lambda: read_access(kubeconfig=str(path)))
    assert (await credentials.load()).authorization == "Bearer t1"
    keeping = asyncio.ensure_future(credentials.keep_current(interval=0.01))
    await until(lambda: counter.read_text() == "2")
    may_end.touch()  # by the loop, which does not wait for the plugin
    await until(lambda: credentials.access.authorization == "Bearer t2")
    await asyncio.sleep(0.1)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert counter.read_text() == "2"


# All that needs no cluster is checked before a replica is ready ---------------------------------

LEASES = "/apis/coordination.k8s.io/v1/leases"


def with_a_holder() -> MemoryApi:
    """Return an API server where another replica leads."""
    api = MemoryApi()
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 15}
    metadata = {"namespace": "kube-system", "name": "gangsched"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": spec})
    return api


ARGS = "profiles[0].pluginConfig"
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"pluginConfig": [{"name": "Backfill", "args": {"afterAttempt": 1}}]},
        f"{ARGS}[Backfill].args.afterAttempt must be absent:"
        " it is not an argument here (did you mean afterAttempts?), got 1",
    ),
    (
        {"pluginConfig": [{"name": "DefaultPreemption", "args": {"graceSeconds": "1m"}}]},
        f"{ARGS}[DefaultPreemption].args.graceSeconds must be a number of seconds",
    ),
]


@pytest.mark.parametrize(("profile", "problem"), WRONG)
@pytest.mark.parametrize("command", ["run", "extender"])
@on_a_loop
async def test_standby_with_a_wrong_argument_ends_before_it_serves_or_asks_for_the_lease(
    command: str, profile: dict[str, Any], problem: str
) -> None:
    api, settings = with_a_holder(), read_settings({"profiles": [profile]})
    where = ("127.0.0.1", free_ports(1)[0])
    work = (
        run(settings, api=api, serve=where)
        if command == "run"
        else run_extender(settings, api=api, listen=("127.0.0.1", 0), serve=where)
    )
    with pytest.raises(InvalidValueError) as raised:
        async with asyncio.timeout(HANG):
            await work
    assert str(raised.value).startswith(problem)
    assert api.requests == []
    with socket.socket() as client:
        assert client.connect_ex(where) != 0


class Picky:
    """A plugin that refuses a value."""

    name = "Picky"

    def __init__(self, level: int = 0) -> None:
        if level < 0:
            raise ValueError(f"level {level} is negative")


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        (
            ProfileSettings(enabled=("Picky",), args={"Picky": {"level": -1}}),
            r"pluginConfig\[Picky\].args .*level -1 is neg",
        ),
        (ProfileSettings(weights={"NodePorts": 3}), "NodePorts"),
    ],
)
@on_a_loop
async def test_profile_that_cannot_work_ends_before_the_lease(
    profile: ProfileSettings, problem: str
) -> None:
    api = with_a_holder()
    with pytest.raises((ProfileError, InvalidValueError), match=problem):
        await run(Settings(profile=profile), api=api, factories={"Picky": Picky})
    assert api.requests == []


@on_a_loop
async def test_wrong_argument_is_told_rather_than_absent_credentials() -> None:
    profile = ProfileSettings(args={"Backfill": {"afterAttempt": 1}})
    with pytest.raises(GangschedError, match="afterAttempt must be absent"):
        await run(Settings(profile=profile))


def test_program_of_the_loader_prints_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Input:
        def read(self) -> str:
            return json.dumps({"kubeconfig": "/no/such", "context": None, "service_account": None})

    monkeypatch.setattr(sys, "stdin", Input())
    assert _load_access.main() == 0
    assert "no such file: name a kubeconfig" in json.loads(capsys.readouterr().out)["problem"]
