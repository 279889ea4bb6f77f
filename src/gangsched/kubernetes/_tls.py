"""The TLS context of the connections to an API server.

Rules:
  R1  no file with a key is left behind: the key is in a private file while it is loaded only;
  R2  a certificate is verified as Go verifies it, as every other client of the API server does.
      Python's additional strictness (from 3.13) refuses the authorities of many clusters.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from gangsched.kubernetes._configuration import Access, ConfigurationError

__all__ = ["tls_context"]

_CHAIN: Final = "chain.pem"


def tls_context(access: Access) -> ssl.SSLContext | None:
    """Return the context for *access*; None if its server is reached without TLS.

    Raises:
        ConfigurationError: A certificate or its key is malformed, or they do not match.
    """
    if not access.server.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cadata=access.authority)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not access.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.certificate:
            _load_chain(context, access.certificate, access.key or "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(access.server, f"TLS: {error}") from error
    return context


def _load_chain(context: ssl.SSLContext, certificate: str, key: str) -> None:
    # ssl takes files only; the directory is readable by this user only
    with tempfile.TemporaryDirectory(prefix="gangsched-") as directory:
        chain = Path(directory, _CHAIN)
        chain.write_text(f"{certificate}\n{key}", encoding="utf-8")
        context.load_cert_chain(chain)
