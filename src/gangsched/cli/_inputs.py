"""The files of a run, and the SHA-256 of each, by which a reader of the report knows them.

Rules:
  R1  the hash is that of the bytes as they are, also of a compressed file: ``sha256sum`` agrees;
  R2  standard input and a pipe, such as a process substitution of a shell, are read once, into
      memory; a regular file is read again for each pass.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import final

from gangsched.cli._files import STANDARD_INPUT, content_of, opened, text_of
from gangsched.simulation import Input

__all__ = ["Inputs", "input_of"]


@final
class Inputs:
    """Reads the files of a run, and notes them.

    Attributes:
        noted: What was read, in order.
    """

    def __init__(self) -> None:
        self.noted: list[Input] = []

    def text(self, name: str, *, use: str, at: float | None = None) -> str:
        """Return the text of a file, or of standard input."""
        content = content_of(name)
        self.noted.append(Input(use, name, at, hashlib.sha256(content).hexdigest()))
        return text_of(content, name)

    def lines(self, name: str, *, use: str) -> Callable[[], Iterable[str]]:
        """Return what reads the lines of a file from its beginning, each when it is needed."""
        if name != STANDARD_INPUT and Path(name).is_file():
            self.noted.append(input_of(name, use=use))
            return lambda: opened(name)
        # newline="" leaves the line breaks inside quoted cells to the CSV reader
        text = self.text(name, use=use)
        return lambda: io.StringIO(text, newline="")


def input_of(name: str, *, use: str) -> Input:
    """Return a regular file with its hash; without one if it cannot be read again."""
    if not Path(name).is_file():
        return Input(use, name)
    with Path(name).open("rb") as file:
        return Input(use, name, sha256=hashlib.file_digest(file, "sha256").hexdigest())
