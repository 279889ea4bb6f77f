"""The plain client of tests repeats a request of which etcd could not say whether it was done."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from support.control_plane.client import ApiError, Client

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
        thread = threading.Thread(target=made.serve_forever)
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
