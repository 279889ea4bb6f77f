"""Connections that notice a dead peer.

A watch is silent for minutes, so a peer that vanished without a word would be noticed when the
watch should have ended. The kernel asks after 15 seconds of silence, and gives up after 30 more.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

__all__ = ["SOCKET_OPTIONS", "keep_alive"]

_NAMED: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_MILLISECONDS: Final = 45_000

SOCKET_OPTIONS: Final[tuple[tuple[int, int, int], ...]] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (*_NAMED, ("TCP_USER_TIMEOUT", _MILLISECONDS))
        if hasattr(socket, name)
    ),
)
"""What is set, as far as this platform has it: level, name and value."""


def keep_alive(connected: Any) -> None:
    """Set the options on a connected socket; do nothing for None."""
    if connected is None:
        return
    for level, name, value in SOCKET_OPTIONS:
        # a platform may know an option and not allow it; the connection works without
        with contextlib.suppress(OSError):
            connected.setsockopt(level, name, value)
