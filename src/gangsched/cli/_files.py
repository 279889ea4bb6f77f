"""Files that the command reads and writes, and what it says of those that it cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["BadInputError", "lines", "read", "written"]


class BadInputError(Exception):
    """A sentence for the user."""


def lines(name: str) -> Iterator[str]:
    """Read a file line by line, as it is asked for."""
    if name == "-":
        yield from sys.stdin
        return
    try:
        with Path(name).open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _decoded(line, name, number)
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error


def read(name: str) -> str:
    """Read a text file, or standard input."""
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name}: expected UTF-8 text, byte {error.start} is not") from error


@contextmanager
def written(name: str | None) -> Generator[Callable[[str], object] | None, None, None]:
    """Open a file for a decision log, if one is asked for."""
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
