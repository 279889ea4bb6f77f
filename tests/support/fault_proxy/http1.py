"""Messages of HTTP/1.1, as far as a client of an API server and the server itself use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from attrs import frozen

__all__ = ["Message", "chunk", "chunks", "read_message", "refusal", "write_message"]

_LAST_CHUNK: Final = b"0\r\n\r\n"
_TOO_LONG: Final = 1 << 26


@frozen
class Message:
    """The head of a request or of an answer.

    Attributes:
        start: The first line.
        headers: Names in lower case, and values.
    """

    start: str
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str:
        """Return the value of a header; empty if there is none."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks, of which the number is not known."""
        return self.header("transfer-encoding").lower() == "chunked"

    @property
    def closes(self) -> bool:
        """Whether the connection ends with it."""
        return self.header("connection").lower() == "close"

    def encoded(self) -> bytes:
        """Return it as it is sent."""
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """Return the next head; None if the connection ended before it began."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionError("the connection ended within a head") from error
        return None
    start, *lines = head.decode("latin-1").split("\r\n")[:-2]
    pairs = (line.partition(":") for line in lines)
    return Message(start, tuple((name.lower(), value.strip()) for name, _colon, value in pairs))


async def read_body(reader: asyncio.StreamReader, message: Message) -> bytes:
    """Return the whole body of a message."""
    if message.is_chunked:
        return b"".join([piece async for piece in chunks(reader)])
    return await reader.readexactly(int(message.header("content-length") or 0))


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks of a body."""
    while True:
        size = int((await reader.readline()).split(b";")[0] or b"0", 16)
        piece = await reader.readexactly(size)
        await reader.readline()
        if not size:
            return
        yield piece


def chunk(piece: bytes) -> bytes:
    """Return a chunk as it is sent; an empty one ends the body."""
    return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else _LAST_CHUNK


def write_message(writer: asyncio.StreamWriter, message: Message, body: bytes) -> None:
    """Send a message with a body of known length."""
    kept = ("transfer-encoding", "content-length")
    headers = tuple(pair for pair in message.headers if pair[0] not in kept)
    length = ("content-length", str(len(body)))
    writer.write(Message(message.start, (*headers, length)).encoded() + body)


def refusal(status: int, reason: str, text: str) -> tuple[Message, bytes]:
    """Return an answer with a ``Status`` object."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": status,
    }
    headers = [("content-type", "application/json")]
    if status == 429:
        headers.append(("retry-after", "1"))
    return Message(f"HTTP/1.1 {status} {reason}", tuple(headers)), json.dumps(body).encode()
