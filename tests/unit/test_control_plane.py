"""The test control plane: its programs and its plain client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from support.control_plane import NoToolchain, programs
from support.control_plane.client import ApiError, Client
from support.control_plane.programs import MODULES, PROGRAMS, cache_folder

# Programs of the test control plane: what is built, under which name it is kept, and when

pytest.importorskip("fcntl", reason="the control plane needs a POSIX system")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for go, which notes its arguments and writes what it should build."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    go = folder / "go"
    go.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {calls}\n'
        '[ "$1" = env ] && echo go1.26 && exit 0\n'
        'while [ "$1" != -o ]; do shift; done\n'
        '[ -n "$FAILS" ] && echo "no such module" >&2 && exit 1\n'
        'echo built > "$2"\n',
        encoding="utf-8",
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def builds(calls: Path) -> list[str]:
    """Return the packages that were built."""
    lines = calls.read_text(encoding="utf-8").splitlines()
    return [line.split()[-1] for line in lines if line.startswith("build")]


def test_program_is_built_once_and_then_found(toolchain: Path, cache: Path) -> None:
    found = programs(["etcd"])
    assert programs(["etcd"]) == found
    assert found["etcd"].read_text(encoding="utf-8") == "built\n"
    assert found["etcd"].is_relative_to(cache_folder())
    assert cache_folder().is_relative_to(cache)
    assert builds(toolchain) == ["go.etcd.io/etcd/server/v3"]


def test_only_missing_programs_of_a_module_are_built_with_their_version(toolchain: Path) -> None:
    programs(["kube-scheduler"])
    programs(["kube-apiserver", "kube-scheduler"])
    assert builds(toolchain) == [
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kube-apiserver",
    ]
    assert "-X k8s.io/component-base/version.gitVersion=v1." in toolchain.read_text("utf-8")


def test_failed_build_leaves_nothing_in_the_cache(
    toolchain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(NoToolchain, match="no such module"):
        programs(["etcd"])
    assert not [path for path in cache_folder().rglob("etcd") if path.is_file()]
    assert not list(cache_folder().rglob(".build-*"))


def test_missing_toolchain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoToolchain, match="go is not on the PATH"):
        programs(["etcd"])


def test_module_files_name_no_host_and_no_machine() -> None:
    for program in PROGRAMS.values():
        text = (MODULES / program.module / "go.mod").read_text(encoding="utf-8")
        assert "://" not in text
        # a replacement is by another module, and never by a folder
        replaced = [line.partition("=>")[2].strip() for line in text.splitlines() if "=>" in line]
        assert all(not name.startswith((".", "/")) for name in replaced)
        assert (MODULES / program.module / "go.sum").is_file()


# The plain client of tests repeats a request of which etcd could not say whether it was done

UNDECIDED = (500, {"message": "etcdserver: request timed out"})
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}}


class Scripted(HTTPServer):
    """Answers each request by the next line of a script, and records it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[tuple[int, object]] = []
        self.requests: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        assert isinstance(self.server, Scripted)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append(f"{self.command} {self.path}")
        status, body = self.server.script.pop(0)
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_args: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def client_of(server: Scripted) -> Client:
    return Client(f"http://127.0.0.1:{server.server_port}")


def test_request_is_repeated_until_it_is_decided(server: Scripted) -> None:
    server.script = [UNDECIDED, UNDECIDED, (201, POD)]
    with client_of(server) as client:
        assert client.create(PODS, POD) == POD
    assert server.requests == [f"POST {PODS}"] * 3


def test_object_that_the_first_request_has_made_is_returned(server: Scripted) -> None:
    made = {"metadata": {"name": "p", "uid": "u"}}
    server.script = [UNDECIDED, (409, {"reason": "AlreadyExists"}), (200, made)]
    with client_of(server) as client:
        assert client.create(PODS, POD) == made
    assert server.requests[-1] == f"GET {PODS}/p"


def test_object_that_the_first_request_has_deleted_is_gone(server: Scripted) -> None:
    server.script = [UNDECIDED, (404, {})]
    with client_of(server) as client:
        assert client.delete(f"{PODS}/p") == {}


def test_object_that_exists_is_a_conflict_at_the_first_request(server: Scripted) -> None:
    server.script = [(409, {"reason": "AlreadyExists"})]
    with client_of(server) as client, pytest.raises(ApiError) as refused:
        client.create(PODS, POD)
    assert refused.value.status == 409
