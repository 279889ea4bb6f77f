"""The TLS context of what this process serves, whose certificates are replaced meanwhile.

Rules:
  R1  the files are looked at for each new connection, and read if they have changed. So a rotated
      certificate, as of cert-manager, needs no restart. Connections that are open stay;
  R2  files that cannot be used, such as a certificate without its new key, change nothing. The ones
      before stay in use, the log has an error, and the files are read again when they change;
  R3  each set of files has a context of its own. So an authority that was removed is forgotten, and
      no session is resumed that began with the files before;
  R4  a certificate of a client is verified as Go verifies it. Python's additional strictness (from
      3.13) refuses the authorities of many clusters.
"""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from gangsched.errors import InvalidValueError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ServerContext", "server_context"]

_Stamps: TypeAlias = tuple[tuple[int, int, int, int], ...]

_log = logging.getLogger("gangsched.kubernetes.certificates")


@final
class ServerContext(ssl.SSLContext):
    """A TLS context that reads its files again when they have changed.

    Args:
        certificate: The file with the certificate and its chain, as PEM.
        key: The file with its key.
        authority: The file with the authorities of client certificates; None to ask for none.

    Raises:
        InvalidValueError: A file is absent or malformed, or the key is not that of the certificate.
    """

    def __new__(cls, certificate: Path, key: Path, authority: Path | None = None) -> Self:
        """Return a context of a server; the handshakes are those of the current one."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, certificate: Path, key: Path, authority: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._authority = authority
        self._stamps = self._look()
        self._refused: _Stamps = ()
        self._current = _read(certificate, key, authority)
        if authority is not None:
            # for those that look; the handshakes are those of the current context
            self.verify_mode = ssl.CERT_REQUIRED

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection with the files as they are now; event loops call this."""
        self._renew()
        return self._current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _renew(self) -> None:
        stamps = self._look()
        if stamps in (self._stamps, self._refused):
            return
        try:
            self._current = _read(self._certificate, self._key, self._authority)
        except InvalidValueError as error:
            # not looked at again before they change: each connection would log the same
            self._refused = stamps
            _log.error("the certificate is not renewed: %s", error)
        else:
            self._stamps, self._refused = stamps, ()
            _log.info("the certificate is renewed from %s", self._certificate)

    def _look(self) -> _Stamps:
        """Return what changes with the files; a Secret's are links to files of another folder."""
        found: list[tuple[int, int, int, int]] = []
        for path in (self._certificate, self._key, self._authority):
            try:
                stat = os.stat(path) if path is not None else None
            except OSError:
                stat = None
            found.append(
                (0, 0, 0, 0)
                if stat is None
                else (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
            )
        return tuple(found)


def server_context(certificate: Path, key: Path, authority: Path | None = None) -> ssl.SSLContext:
    """Return a TLS context of a server. Files that change later are read again.

    Args:
        certificate: The file with the certificate and its chain, as PEM.
        key: The file with its key.
        authority: The file with the authorities of client certificates. Every client then needs a
            certificate. None to ask for none.

    Raises:
        InvalidValueError: A file is absent or malformed, or the key is not that of the certificate.
    """
    return ServerContext(certificate, key, authority)


def _read(certificate: Path, key: Path, authority: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        expected = f"a certificate and its key: {error}"
        raise InvalidValueError("tls", f"{certificate}, {key}", expected) from error
    if authority is not None:
        try:
            context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as error:
            expected = f"certificates of authorities: {error}"
            raise InvalidValueError("client-ca", str(authority), expected) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context
