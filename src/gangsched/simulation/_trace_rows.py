"""Rows of a CSV file with a header, whose cells are checked one by one.

Rules:
  R1  a malformed cell is an error that names file, line, column and value; nothing is guessed;
  R2  a column that is used is given once.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from gangsched.errors import InvalidValueError, TraceError
from gangsched.resources import Resources
from gangsched.simulation.workload import parse_seconds

__all__ = ["Row", "Table"]

_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_SIGNED: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_LONGEST_SHOWN: Final = 80


@final
class Row:
    """One row, as text."""

    __slots__ = ("_columns", "_file", "_values", "line")

    def __init__(
        self, file: str, line: int, columns: dict[str, int], values: Sequence[str]
    ) -> None:
        self._file = file
        self.line = line
        self._columns = columns
        self._values = values

    def __contains__(self, column: str) -> bool:
        return column in self._columns

    def text(self, column: str) -> str:
        """Return a cell as it is; an empty string if there is no such column."""
        place = self._columns.get(column)
        return "" if place is None else self._values[place]

    def refuse(self, column: str, expected: str) -> TraceError:
        """Return the error about a cell that is malformed."""
        value = self.text(column)
        got = repr(value) if len(value) <= _LONGEST_SHOWN else f"{value[:60]!r}..."
        return self.problem(column, f"expected {expected}, got {got}")

    def problem(self, column: str, problem: str) -> TraceError:
        """Return an error about a column of this row."""
        return TraceError(self._file, self.line, column, problem)

    def name(self, column: str) -> str:
        """Return a cell that is not blank."""
        text = self.text(column)
        if not text.strip():
            raise self.refuse(column, "a non-empty string")
        return text

    def whole(self, column: str, *, least: int, most: int = 10**9 - 1) -> int:
        """Return a whole number."""
        text = self.text(column)
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            raise self.refuse(column, f"an int from {least} to {most}")
        return int(text)

    def integer(self, column: str) -> int:
        """Return a whole number that may be negative; 0 for an empty cell."""
        text = self.text(column)
        if not text:
            return 0
        if not _SIGNED.fullmatch(text):
            raise self.refuse(column, f"an int from {1 - 10**9} to {10**9 - 1}")
        return int(text)

    def quantity(self, column: str) -> str:
        """Return a quantity of a resource, as it is written."""
        text = self.text(column)
        try:
            is_valid = Resources({"cpu": text}).amount("cpu") >= 0
        except InvalidValueError:
            is_valid = False
        if not is_valid:
            raise self.refuse(column, "a quantity >= 0, such as 2, 500m or 4Gi")
        return text

    def instant(self, column: str) -> float:
        """Return an instant in seconds."""
        text = self.text(column)
        seconds = float(text) if _DECIMAL.fullmatch(text) else math.inf
        if seconds == math.inf:
            raise self.refuse(column, "a number of seconds >= 0 in digits, such as 90 or 0.5")
        return seconds

    def duration(self, column: str) -> str:
        """Return a duration in decimal seconds, as it is written."""
        text = self.text(column)
        try:
            parse_seconds(text, field=column)
        except InvalidValueError as error:
            raise self.refuse(column, error.expected) from error
        return text


@final
class Table:
    """A CSV file: its columns, and its rows as they are read.

    Args:
        lines: The lines of the file.
        file: The name of the file for errors.
        expected: The columns that a file without any header should have had, for its error.
    """

    def __init__(self, lines: Iterable[str], file: str, *, expected: Sequence[str]) -> None:
        self.file = file
        self._reader = csv.reader(lines, strict=True)
        self.columns: tuple[str, ...] = ()
        self.line = 1
        for line, fields in self._fields():
            # Spreadsheets write a byte order mark, which is not part of the first name.
            self.columns = (fields[0].removeprefix("\ufeff"), *fields[1:])
            self.line = line
            break
        if not self.columns:
            problem = f"expected a header with {', '.join(expected)}, got nothing"
            raise TraceError(file, 1, "", problem)

    def require(self, columns: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Check that the columns are given once.

        Raises:
            TraceError: Columns are missing, or one is given twice.
        """
        missing = [column for column in columns if column not in self.columns]
        if len(missing) > 1:
            problem = f"the columns {', '.join(missing)} are missing in {', '.join(self.columns)}"
            raise TraceError(self.file, self.line, missing[0], problem)
        for column in (*columns, *optional):
            count = self.columns.count(column)
            if count > 1 or (count == 0 and column in columns):
                times = "is given twice" if count else "is missing"
                problem = f"the column {times} in {', '.join(self.columns)}"
                raise TraceError(self.file, self.line, column, problem)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows after the header, once."""
        places = {name: place for place, name in enumerate(self.columns)}
        width = len(self.columns)
        for line, fields in self._fields():
            if len(fields) != width:
                problem = f"expected {width} fields, got {len(fields)}"
                raise TraceError(self.file, line, "", problem)
            yield Row(self.file, line, places, fields)

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        try:
            for fields in self._reader:
                if fields:
                    yield self._reader.line_num, fields
        except csv.Error as error:
            line = max(1, self._reader.line_num)
            raise TraceError(self.file, line, "", f"not CSV: {error}") from error
