"""A certificate that a process makes for itself, with a key that never leaves it.

kube-scheduler does the same if it is given no certificate: what is served is encrypted, and nothing
says to whom. Python's ``ssl`` can make no certificate, and an image without a shell has no
``openssl``. So the key and the one signature of the certificate are made here: ECDSA with the curve
P-256 (FIPS 186-4) and SHA-256. OpenSSL does the rest, which is everything that a peer sees.

Rules:
  R1  the key is new with each start, and is in a private file while it is loaded only;
  R2  nothing that others choose is signed, and there is one signature for each key. So the time
      that the arithmetic takes tells nobody anything, and it need not be constant;
  R3  who has to verify the certificate needs one of an authority, as a file: see ``_certificates``.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import secrets
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["self_signed", "self_signed_context"]

_Point: TypeAlias = tuple[int, int] | None

# The curve: y² = x³ - 3x + b over the integers modulo _P; _N is the order of the point _G.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_BYTES: Final = 32

_DAYS: Final = 3650
_SKEW: Final = timedelta(hours=1)
"""How far the clock of a peer may be behind."""

_ECDSA_SHA256: Final = "2a8648ce3d040302"
_EC_KEY: Final = "2a8648ce3d0201"
_P256: Final = "2a8648ce3d030107"
_COMMON_NAME: Final = "550403"
_SUBJECT_ALT_NAME: Final = "551d11"
_BASIC_CONSTRAINTS: Final = "551d13"


def self_signed_context(names: Iterable[str]) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate of its own."""
    certificate, key = self_signed(names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # ssl takes files only; the folder is readable by this user only
    with tempfile.TemporaryDirectory(prefix="gangsched-") as folder:
        chain = Path(folder, "chain.pem")
        chain.write_text(f"{certificate}{key}", encoding="ascii")
        context.load_cert_chain(chain)
    return context


def self_signed(names: Iterable[str]) -> tuple[str, str]:
    """Return a certificate for names and addresses, and its key, as PEM."""
    private = 1 + secrets.randbelow(_N - 1)
    public = _times(private, _G)
    assert public is not None
    point = b"\x04" + b"".join(part.to_bytes(_BYTES, "big") for part in public)
    signed = _to_be_signed(point, [*names])
    signature = _signature(private, signed)
    algorithm = _sequence(_object(_ECDSA_SHA256))
    certificate = _sequence(signed, algorithm, _bits(signature))
    # RFC 5915: the version, the key, the curve and the public key
    key = _sequence(
        _integer(1),
        _tagged(0x04, private.to_bytes(_BYTES, "big")),
        _tagged(0xA0, _object(_P256)),
        _tagged(0xA1, _bits(point)),
    )
    return _pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key)


# The certificate, RFC 5280 ----------------------------------------------------------------------


def _to_be_signed(point: bytes, names: list[str]) -> bytes:
    now = datetime.now(UTC)
    common = _tagged(0x0C, b"gangsched")
    name = _sequence(_tagged(0x31, _sequence(_object(_COMMON_NAME), common)))
    extensions = _sequence(
        _sequence(_object(_BASIC_CONSTRAINTS), _tagged(0x01, b"\xff"), _tagged(0x04, _sequence())),
        _sequence(
            _object(_SUBJECT_ALT_NAME), _tagged(0x04, _sequence(*map(_alternative_name, names)))
        ),
    )
    return _sequence(
        _tagged(0xA0, _integer(2)),  # the third version
        _integer(secrets.randbits(127) | 1),
        _sequence(_object(_ECDSA_SHA256)),
        name,
        _sequence(_instant(now - _SKEW), _instant(now + timedelta(days=_DAYS))),
        name,
        _sequence(_sequence(_object(_EC_KEY), _object(_P256)), _bits(point)),
        _tagged(0xA3, extensions),
    )


def _alternative_name(name: str) -> bytes:
    try:
        return _tagged(0x87, ipaddress.ip_address(name).packed)
    except ValueError:
        return _tagged(0x82, name.encode("idna"))


def _instant(when: datetime) -> bytes:
    return _tagged(0x17, when.strftime("%y%m%d%H%M%SZ").encode())


# The signature, FIPS 186-4 ----------------------------------------------------------------------


def _signature(private: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        once = 1 + secrets.randbelow(_N - 1)
        point = _times(once, _G)
        assert point is not None
        r = point[0] % _N
        s = pow(once, -1, _N) * (digest + r * private) % _N
        if r and s:
            return _sequence(_integer(r), _integer(s))


def _times(factor: int, point: _Point) -> _Point:
    found: _Point = None
    while factor:
        if factor & 1:
            found = _sum(found, point)
        point = _sum(point, point)
        factor >>= 1
    return found


def _sum(one: _Point, other: _Point) -> _Point:
    """Return the sum of two points of the curve; None is its zero."""
    if one is None or other is None:
        return one or other
    (x1, y1), (x2, y2) = one, other
    if x1 == x2:
        if (y1 + y2) % _P == 0:
            return None
        slope = (3 * x1 * x1 - 3) * pow(2 * y1, -1, _P) % _P
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, _P) % _P
    x = (slope * slope - x1 - x2) % _P
    return x, (slope * (x1 - x) - y1) % _P


# The encoding, DER ------------------------------------------------------------------------------


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tagged(0x03, b"\x00" + content)


def _object(digits: str) -> bytes:
    return _tagged(0x06, bytes.fromhex(digits))


def _pem(label: str, content: bytes) -> str:
    text = base64.b64encode(content).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))
