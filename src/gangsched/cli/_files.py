"""Files that the command reads and writes, and the errors about them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

__all__ = [
    "STANDARD_INPUT",
    "BadInputError",
    "lines",
    "opened",
    "print_json",
    "read",
    "written",
]

STANDARD_INPUT: Final = "-"
"""The name of the file that can be read once only."""

_GZIP: Final = b"\x1f\x8b"
"""The first bytes of a file of gzip."""


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
    try:
        with Path(name).open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield _decoded(line, name, number)
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error


def opened(name: str) -> Iterator[str]:
    """Yield the lines of a text file, with their line breaks as they are.

    Raises:
        BadInputError: The file cannot be read, or is not UTF-8.
    """
    try:
        with Path(name).open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _no_text(name, error) from error


def read(name: str) -> str:
    """Return a text file, or standard input, with its line breaks as they are."""
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.read()
        return Path(name).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInputError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _no_text(name, error) from error


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


def _no_text(name: str, error: UnicodeDecodeError) -> BadInputError:
    sentence = f"{name}: expected UTF-8 text, byte {error.start} is not"
    if error.object.startswith(_GZIP):
        sentence += "; the file is compressed: give what gunzip -c prints, by a pipe"
    return BadInputError(sentence)


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        where = f"{name}: line {number}"
        raise BadInputError(f"{where}: expected UTF-8 text, byte {error.start} is not") from error
