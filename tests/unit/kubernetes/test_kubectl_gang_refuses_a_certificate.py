"""A scheduler at an address whose certificate cannot be verified gets no token, but a remedy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")
pytest.importorskip("cryptography")

from gangsched.kubernetes._ask import AtUrl, NotAnsweredError
from gangsched.kubernetes._self_signed import self_signed_context
from support.patience import HANG

pytestmark = pytest.mark.once("serves HTTPS")


class Handler(BaseHTTPRequestHandler):
    """Writes down what it was sent."""

    sent: list[str] = []  # noqa: RUF012 - of one test, in one process

    def do_GET(self) -> None:
        self.sent.append(self.headers.get("Authorization", ""))
        self.send_error(401)


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = self_signed_context(["localhost"]).wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    serving.join(HANG)
    server.server_close()


def test_certificate_that_nothing_vouches_for_is_answered_with_the_option(
    url: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="ascii")
    with pytest.raises(NotAnsweredError) as caught:
        asyncio.run(AtUrl(url, HANG, token=token).ask("gangs", {}))
    assert "self-signed certificate" in caught.value.problem
    assert "--scheduler-ca FILE" in caught.value.remedy
    assert "--serve-cert" in caught.value.remedy
    assert Handler.sent == []


def test_address_that_serves_nothing_is_answered_with_how_to_serve() -> None:
    with pytest.raises(NotAnsweredError) as caught:
        asyncio.run(AtUrl("https://localhost:1", HANG).ask("gangs", {}))
    assert "--serve" in caught.value.remedy
    assert "--scheduler-ca" not in caught.value.remedy
