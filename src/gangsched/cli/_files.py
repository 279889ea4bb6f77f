"""Files that the command reads and writes, and the errors about them."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

__all__ = [
    "STANDARD_INPUT",
    "BadInputError",
    "content_of",
    "lines",
    "opened",
    "print_json",
    "read",
    "text_of",
    "written",
]

STANDARD_INPUT: Final = "-"
"""The name of the file that can be read once only."""

_GZIP: Final = b"\x1f\x8b"
"""The first bytes of a file of gzip."""
_NO_MEMBER: Final = "Not a gzipped file"
"""How the error about bytes begins that should begin a part of such a file."""


class BadInputError(Exception):
    """Bad input, described for the user in one sentence, or in one for each fault."""

    def sentences(self) -> tuple[str, ...]:
        """Return the sentences."""
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def lines(name: str) -> Iterator[str]:
    """Yield the lines of a file, or of standard input; each is read when it is needed."""
    if name == STANDARD_INPUT:
        yield from sys.stdin
        return
    with _open(name) as file:
        for number, line in enumerate(file, start=1):
            yield _decoded(line, name, number)


def opened(name: str) -> Iterator[str]:
    """Yield the lines of a text file, with their line breaks as they are.

    Raises:
        BadInputError: The file cannot be read, or is not UTF-8.
    """
    with _open(name) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        yield from text


def read(name: str) -> str:
    """Return a text file, or standard input, with its line breaks as they are."""
    return text_of(content_of(name), name)


def content_of(name: str) -> bytes:
    """Return the bytes of a file, or of standard input, as they are.

    Raises:
        BadInputError: The file cannot be read.
    """
    if name == STANDARD_INPUT:
        binary = getattr(sys.stdin, "buffer", None)  # a stream of text need not have one
        return sys.stdin.read().encode() if binary is None else binary.read()
    with _named(name):
        return Path(name).read_bytes()


def text_of(content: bytes, name: str) -> str:
    """Return bytes as text, unpacked if gzip has compressed them.

    Raises:
        BadInputError: They are not UTF-8, or not whole.
    """
    with _named(name):
        plain = gzip.decompress(content) if content.startswith(_GZIP) else content
        return plain.decode("utf-8-sig")


@contextmanager
def _open(name: str) -> Generator[IO[bytes]]:
    """Open a file for reading; the content of one that gzip has compressed is read unpacked."""
    with _named(name), Path(name).open("rb") as file:
        is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
        yield cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_packed else file


@contextmanager
def _named(name: str) -> Generator[None]:
    """Describe what is wrong with a file that is read."""
    try:
        yield
    except UnicodeDecodeError as error:
        sentence = f"{name}: expected UTF-8 text, byte {error.start} is not"
        raise BadInputError(sentence) from error
    except (EOFError, zlib.error) as error:
        raise BadInputError(f"{name}: the compressed file is not whole: {error}") from error
    except gzip.BadGzipFile as error:
        problem = f"the compressed file is damaged: {error}"
        if str(error).startswith(_NO_MEMBER):  # a file that begins so is not taken as compressed
            problem = "the beginning of the compressed file was read; what follows it is not gzip"
        raise BadInputError(f"{name}: {problem}") from error
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror or error}") from error


def print_json(data: dict[str, Any]) -> None:
    """Print plain data as JSON.

    Raises:
        BadInputError: A number is infinite, not a number, or too long. Instants and amounts near
            the largest float are accepted, but their products exceed it.
    """
    try:
        text = json.dumps(data, indent=2, allow_nan=False)
    except ValueError as error:
        raise BadInputError(
            "--output json: a figure of the report is too large; expected smaller instants and"
            " amounts in the input"
        ) from error
    print(text)


@contextmanager
def written(name: str | None) -> Generator[Callable[[str], object] | None, None, None]:
    """Open a file for a decision log; None if the name is None."""
    if name is None:
        yield None
        return
    try:
        with Path(name).open("w", encoding="ascii", newline="\n") as file:
            yield file.write
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        where = f"{name}: line {number}"
        raise BadInputError(f"{where}: expected UTF-8 text, byte {error.start} is not") from error
