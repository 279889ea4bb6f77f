"""The proxy that injects faults: each fault is what its name says, and depends on the seed only."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from support.fault_proxy import Fault, FaultProxy, Order, Rates, Request
from support.fault_proxy.faults import Plan
from support.patience import HANG


class Upstream(BaseHTTPRequestHandler):
    """An API server with three events and an account of what was written."""

    protocol_version = "HTTP/1.1"
    written: list[str]

    def log_message(self, *args: Any) -> None:
        """Be silent."""

    def do_POST(self) -> None:
        """Perform a write."""
        self.rfile.read(int(self.headers["content-length"]))
        self.written.append(self.path)
        self._answer(b'{"kind":"Status"}')

    def do_GET(self) -> None:
        """List, or watch."""
        if "watch=true" not in self.path:
            return self._answer(b'{"items":[]}')
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name in "abc":
            line = json.dumps({"type": "ADDED", "object": {"metadata": {"uid": name}}}) + "\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line.encode()))
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def written() -> list[str]:
    """The paths that were written to."""
    return []


@pytest.fixture
def proxy(written: list[str]) -> Iterator[FaultProxy]:
    """A proxy in front of an upstream."""
    handler = type("Handler", (Upstream,), {"written": written})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with FaultProxy(f"http://127.0.0.1:{server.server_port}") as running:
            yield running
        server.shutdown()
        thread.join()


def ask(proxy: FaultProxy, method: str, path: str) -> tuple[int, str]:
    """Return status and body of the answer to a request."""
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=HANG)
    try:
        connection.request(method, path, b"{}" if method == "POST" else None)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def uids(lines: str) -> str:
    """Return the identities of the objects of a watch's events."""
    events = [json.loads(line) for line in lines.splitlines()]
    return "".join(event["object"].get("metadata", {}).get("uid", "?") for event in events)


def order(proxy: FaultProxy, fault: Fault, times: int = 1) -> None:
    """Order a fault for the next requests."""
    proxy.order(Order(lambda request: True, fault, times))


def test_request_without_fault_passes(proxy: FaultProxy, written: list[str]) -> None:
    assert ask(proxy, "POST", "/pods") == (200, '{"kind":"Status"}')
    assert written == ["/pods"]
    assert uids(ask(proxy, "GET", "/pods?watch=true")[1]) == "abc"


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST_ANSWER])
def test_connection_ends_before_or_after_the_write(
    proxy: FaultProxy, written: list[str], fault: Fault
) -> None:
    order(proxy, fault)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(proxy, "POST", "/pods")
    assert written == (["/pods"] if fault is Fault.LOST_ANSWER else [])
    assert ask(proxy, "POST", "/pods")[0] == 200


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault.CONFLICT, 409),
        (Fault.TOO_MANY_REQUESTS, 429),
        (Fault.INTERNAL_ERROR, 500),
        (Fault.UNAVAILABLE, 503),
        (Fault.GONE, 410),
    ],
)
def test_refused_request_is_not_performed(
    proxy: FaultProxy, written: list[str], fault: Fault, status: int
) -> None:
    order(proxy, fault)
    answered, body = ask(proxy, "POST", "/pods")
    assert (answered, json.loads(body)["code"], written) == (status, status, [])


def test_late_error_comes_after_the_write(proxy: FaultProxy, written: list[str]) -> None:
    order(proxy, Fault.LATE_ERROR)
    assert ask(proxy, "POST", "/pods")[0] == 504
    assert written == ["/pods"]


@pytest.mark.parametrize("fault", [Fault.DUPLICATE, Fault.REORDER, Fault.GONE, Fault.STALL])
def test_watch_has_the_fault_of_its_events(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr("support.fault_proxy.faults.ON_EVENTS", (fault,))
    proxy.plan.rates = Rates(events=1.0, longest_delay=0.5)
    expected = {
        Fault.DUPLICATE: "aabbcc",
        Fault.REORDER: "bac",
        Fault.GONE: "?",
        Fault.STALL: "abc",
    }
    assert uids(ask(proxy, "GET", "/pods?watch=true")[1]) == expected[fault]


def test_cut_watch_ends_within_an_event(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.fault_proxy.faults.ON_EVENTS", (Fault.WATCH_CUT,))
    proxy.plan.rates = Rates(events=1.0)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(proxy, "GET", "/pods?watch=true")


def test_partition_holds_requests_until_it_is_healed(proxy: FaultProxy) -> None:
    proxy.partition()
    answers: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: answers.append(ask(proxy, "GET", "/pods")))
    asking.start()
    asking.join(0.2)
    assert asking.is_alive()
    proxy.heal()
    asking.join(HANG)
    assert answers[0][0] == 200


def test_faults_depend_on_the_seed_and_not_on_the_order_of_requests() -> None:
    paths = [f"/pods/{number}" for number in range(200)]
    requests = [Request("POST", path) for path in paths]

    def faults(seed: int, given: list[Request]) -> dict[str, Fault | None]:
        plan = Plan(seed, Rates(requests=0.5))
        return {request.path: plan.for_request(request)[0] for request in given}

    assert faults(1, requests) == faults(1, requests[::-1]) != faults(2, requests)
    assert len({fault for fault in faults(1, requests).values() if fault}) == 8
