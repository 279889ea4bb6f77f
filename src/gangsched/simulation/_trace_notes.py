"""Counts of the rows of a trace that are not taken over as they are.

Rules:
  R1  each kind of row is a sentence in ``skipped``, with the number of such rows;
  R2  the sentences are in the order in which the first row of each kind was read.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias, final

__all__ = ["Note", "Notes"]

Note: TypeAlias = tuple[str, str]
"""What is said of one row, and of several: ``("job has no end", "jobs have no end")``."""


@final
class Notes:
    """Counts rows by what is said of them.

    Args:
        file: The name of the file, with which each sentence begins.
    """

    def __init__(self, file: str) -> None:
        self._file: Final = file
        self._counts: Counter[Note] = Counter()

    def count(self, note: Note, rows: int = 1) -> None:
        """Count further rows of a kind."""
        self._counts[note] += rows

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each kind of which there are rows.

        >>> notes = Notes("t.swf")
        >>> notes.count(("job is empty", "jobs are empty"), 2)
        >>> notes.sentences()
        ('t.swf: 2 jobs are empty',)
        """
        return tuple(
            f"{self._file}: {rows} {one if rows == 1 else many}"
            for (one, many), rows in self._counts.items()
            if rows
        )
