"""Where the pages of a process are served, and how they are protected.

Rules:
  R1  what is served to other machines is encrypted, and each request but those for the health is
      reviewed. Only a process of this machine, or of this pod, reaches loopback: it needs no token;
  R2  everything for everyone, in plain HTTP, is served only if *insecure* is said. The log warns;
  R3  with a certificate, loopback is as any other address;
  R4  *health* is a second address with the health alone, in plain HTTP, for kubelets.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, final

from attrs import define, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._certificates import server_context
from gangsched.kubernetes._reviews import Reviews
from gangsched.kubernetes._server import OPEN, Answer, Page, Server

__all__ = ["Pages", "Serving", "is_loopback"]

_Makers: TypeAlias = Mapping[str, Callable[[], Page]]
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")

_log = logging.getLogger("gangsched.kubernetes.server")


@final
@frozen
class Serving:
    """Where the pages of a process are served.

    Attributes:
        host: The address.
        port: The port; 0 for a free one.
        certificate: The file with the certificate and its chain, as PEM. It is read again when it
            changes. None for a certificate that the process makes for itself.
        key: The file with its key.
        insecure: Serve plain HTTP without any review, whatever the address is.
        health: A further host and port, for ``/healthz``, ``/livez`` and ``/readyz`` alone, in
            plain HTTP; None for none.

    Raises:
        InvalidValueError: A file is given without the other, or beside *insecure*.
    """

    host: str
    port: int
    certificate: Path | None = field(default=None, kw_only=True)
    key: Path | None = field(default=None, kw_only=True)
    insecure: bool = field(default=False, kw_only=True)
    health: tuple[str, int] | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            given = (self.certificate, self.key)
            raise InvalidValueError("certificate, key", given, "both of them, or neither")
        if self.insecure and self.certificate is not None:
            raise InvalidValueError("insecure", True, "False if there is a certificate")

    @property
    def is_open(self) -> bool:
        """Whether it is plain HTTP without any review."""
        return self.insecure or (self.certificate is None and is_loopback(self.host))

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for plain HTTP.

        Raises:
            InvalidValueError: A file is absent or malformed, or the key is not its certificate's.
        """
        if self.is_open:
            return None
        if self.certificate is not None and self.key is not None:
            return server_context(self.certificate, self.key)
        # its import takes time that a process with a certificate need not spend
        from gangsched.kubernetes._self_signed import self_signed_context

        return self_signed_context(dict.fromkeys((*_LOCAL, *_own_names(self.host))))


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _own_names(host: str) -> list[str]:
    names = [host, socket.gethostname()]
    with suppress(ValueError):
        names = names[ipaddress.ip_address(host).is_unspecified :]
    # a name that DNS does not know would make the certificate malformed
    return [each for each in names if each.isascii() and 0 < len(each) < 64]


@final
@define(eq=False)
class Pages:
    """The pages of a process, while they are served.

    Attributes:
        pages: By path, what makes its page.
        answers: By path, what makes a page that takes its time.
        api: The API server that reviews; None before there is a connection.
    """

    pages: _Makers
    answers: Mapping[str, Answer] | None = None
    api: Api | None = None
    _servers: list[Server] = field(factory=list[Server], init=False)

    async def start(self, serving: Serving, what: str) -> int:
        """Begin to serve; return the port.

        Args:
            serving: Where.
            what: What is served, for the log.

        Raises:
            InvalidValueError: A file of the certificate cannot be used.
            OSError: An address is in use, or is none of this machine.
        """
        context = serving.context()
        reviews = None if serving.is_open else Reviews(lambda: self.api)
        server = Server(self.pages, self.answers, reviews)
        self._servers.append(server)
        port = await server.start(serving.host, serving.port, context)
        _log.info("serving %s at %s:%d, %s", what, serving.host, port, _how(serving))
        if serving.is_open and not is_loopback(serving.host):
            _log.warning(
                "everything is served at %s:%d without encryption and without a token, to all that"
                " reach it: --insecure-serve",
                *(serving.host, port),
            )
        if serving.health is not None:
            open_pages = {path: make for path, make in self.pages.items() if path in OPEN}
            health = Server(open_pages)
            self._servers.append(health)
            host, _ = serving.health
            _log.info("serving the health at %s:%d", host, await health.start(*serving.health))
        return port

    async def stop(self) -> None:
        """Stop serving."""
        for server in self._servers:
            await server.stop()
        self._servers.clear()


def _how(serving: Serving) -> str:
    if serving.is_open:
        return "plain HTTP"
    whose = serving.certificate or "a certificate of its own"
    return f"HTTPS with {whose}; requests are reviewed by the API server"
