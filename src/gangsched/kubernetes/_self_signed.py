"""A certificate that a process makes for itself, with a key that never leaves it.

kube-scheduler does the same if it is given no certificate: what is served is encrypted, and nothing
says to whom. Python's ``ssl`` can make no certificate, so the package ``cryptography`` makes it.

Rules:
  R1  the key is new with each start, and is in a private file while it is loaded only;
  R2  who has to verify the certificate needs one of an authority, as a file: see ``_certificates``.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from gangsched.kubernetes._extra import missing

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = ["self_signed", "self_signed_context"]

_VALID: Final = timedelta(days=3650)
_SKEW: Final = timedelta(hours=1)
"""How far the clock of a peer may be behind."""


def self_signed_context(names: Iterable[str]) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate of its own."""
    certificate, key = self_signed(names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # ssl takes files only; the folder is readable by this user only
    with tempfile.TemporaryDirectory(prefix="gangsched-") as folder:
        chain = Path(folder, "chain.pem")
        chain.write_bytes(certificate + key)
        context.load_cert_chain(chain)
    return context


def self_signed(names: Iterable[str]) -> tuple[bytes, bytes]:
    """Return a certificate for names and addresses, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    itself = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gangsched")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(itself)
        .issuer_name(itself)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(map(_alternative_name, names)), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return certificate.public_bytes(encoding), key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode("ascii"))
