"""Options of sockets: connections that notice a dead peer, and bytes that the kernel keeps.

A watch is silent for minutes, so a peer that vanished without a word would be noticed when the
watch should have ended. The kernel asks after 15 seconds of silence, and gives up after 30 more.

What need not be read yet wakes the process all the same, unless the kernel is told to keep it. The
loss of a connection is told at once even so, and so is more than what is kept.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

__all__ = ["SOCKET_OPTIONS", "keep_alive", "keep_bytes", "tell_bytes"]

_CLOSED: Final = (OSError, ValueError)
"""What a socket raises that is closed, before its connection is told: ValueError by uvloop."""

_NAMED: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_MILLISECONDS: Final = 45_000
_MOST_KEPT: Final = 64 * 1024

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
        with contextlib.suppress(*_CLOSED):
            connected.setsockopt(level, name, value)


def keep_bytes(connected: Any) -> bool:
    """Let the kernel keep up to 64 KiB without telling; return whether it does so."""
    try:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _MOST_KEPT)
    except _CLOSED:  # or not on this platform: what comes is told at once
        return False
    return True


def tell_bytes(connected: Any) -> None:
    """Let the kernel tell every byte again, those that it has kept among them."""
    with contextlib.suppress(*_CLOSED):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
