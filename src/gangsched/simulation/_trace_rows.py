"""Rows of a CSV file with a header, whose cells are checked one by one.

Rules:
  R1  a malformed cell is an error that names file, line, column and value; nothing is guessed;
  R2  a column that is used is given once;
  R3  a file may call its columns otherwise, and have other units: then errors name its own columns;
  R4  what programs write for a cell without a value (``nan``, ``null``) is an empty cell;
  R5  cells are separated by commas, semicolons or tabs: by what splits the header most often;
  R6  the instants of a file are of one clock: all are seconds since the trace began, or all are
      dates, be it as ISO dates or as seconds since 1970.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, final

from gangsched.errors import InvalidValueError, TraceError
from gangsched.resources import Resources
from gangsched.simulation._trace_spellings import (
    AMOUNTS,
    SECONDS,
    begun,
    clock_of,
    delimiter,
    read_date,
    read_duration,
)
from gangsched.simulation.workload import parse_seconds

__all__ = ["Faults", "Row", "Table"]


_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_SIGNED: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_LONGEST_SHOWN: Final = 80
_LONGEST_NUMBER: Final = 40
_MOST_SHOWN: Final = 20
_ABSENT: Final = frozenset({"n/a", "na", "nan", "none", "null"})


@final
class Faults:
    """The malformed rows of a file: they are reported together, or left out and counted.

    Attributes:
        skip: Whether they are left out.
    """

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self._shown: list[TraceError] = []
        self._faults = 0
        self._rows = 0

    def take(self, errors: Sequence[TraceError]) -> None:
        """Take what is wrong with one row."""
        self._rows += 1
        self._faults += len(errors)
        self._shown += errors[: _MOST_SHOWN - len(self._shown)]

    def sentences(self, file: str) -> tuple[str, ...]:
        """Return how many rows were left out, with the first fault.

        Raises:
            TraceError: They are not left out; the error has the first 20 faults.
        """
        if not self._shown:
            return ()
        first, *others = self._shown
        if not self.skip:
            raise TraceError(
                *(first.file, first.line, first.column, first.problem),
                tuple(others),
                self._faults - len(self._shown),
            )
        rows = "1 malformed row was" if self._rows == 1 else f"{self._rows} malformed rows were"
        return (f"{file}: {rows} left out; the first fault: {str(first)[len(first.file) + 2 :]}",)


@final
class Row:
    """One row, as text."""

    __slots__ = ("_table", "_values", "line")

    def __init__(self, table: Table, line: int, values: Sequence[str]) -> None:
        self._table = table
        self.line = line
        self._values = values

    def __contains__(self, column: str) -> bool:
        return column in self._table.places

    def text(self, column: str) -> str:
        """Return a cell as it is; an empty string if there is no such column, or no value."""
        text = self._cell(column)
        return "" if len(text) < 5 and text.lower() in _ABSENT else text

    def _cell(self, column: str) -> str:
        place = self._table.places.get(column)
        return "" if place is None else self._values[place]

    def refuse(self, column: str, expected: str) -> TraceError:
        """Return the error about a cell that is malformed."""
        value = self._cell(column)
        got = repr(value) if len(value) <= _LONGEST_SHOWN else f"{value[:60]!r}..."
        return self.problem(column, f"expected {expected}, got {got}")

    def problem(self, column: str, problem: str) -> TraceError:
        """Return an error about a column of this row."""
        return TraceError(self._table.file, self.line, self._table.own_name(column), problem)

    def name(self, column: str) -> str:
        """Return a cell that is not blank."""
        text = self._cell(column)
        if not text.strip():
            raise self.refuse(column, "a non-empty string")
        return text

    def number(self, column: str) -> Decimal | None:
        """Return a number >= 0 in the unit of its column; None if the cell is none."""
        text = self.text(column)
        if len(text) > _LONGEST_NUMBER or not _DECIMAL.fullmatch(text):
            return None
        return Decimal(text) * self._table.units.get(column, 1)

    def whole(self, column: str, *, least: int, most: int = 10**9 - 1) -> int:
        """Return a whole number, which may be written with a fraction of zero."""
        text = self.text(column)
        if _WHOLE.fullmatch(text):
            number = int(text)
        else:
            given = self.number(column)
            number = -1 if given is None or given % 1 else int(given)
        if not least <= number <= most:
            raise self.refuse(column, f"an int from {least} to {most}")
        return number

    def amount(self, column: str) -> str:
        """Return a number of devices, which may be a fraction; 0 for an empty cell."""
        text = self.text(column) or "0"
        if column not in self._table.units and _WHOLE.fullmatch(text):
            return text  # nearly every row of most traces
        number = self.number(column)
        if number is None or number >= 10**9 or number * 1000 % 1:
            expected = "a number from 0 to 999999999 of at most 3 decimals, such as 1 or 0.5"
            raise self.refuse(column, expected)
        return f"{number.normalize():f}"

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
        number = self.number(column) if column in self._table.units else None
        text = self.text(column) if number is None else f"{number:f}"
        try:
            is_valid = Resources({"cpu": text}).amount("cpu") >= 0
        except InvalidValueError:
            is_valid = False
        if not is_valid:
            raise self.refuse(column, "a quantity >= 0, such as 2, 500m or 4Gi")
        return text

    def instant(self, column: str) -> float:
        """Return an instant in seconds: a number, or a date, as seconds since 1970."""
        text = self.text(column)
        number: Decimal | str | None = text
        if column in self._table.units or not _DECIMAL.fullmatch(text):
            number = self.number(column)
        seconds = read_date(text) if number is None else float(number)
        if not 0 <= seconds < math.inf:
            raise self.refuse(
                column, "a number >= 0 such as 90 or 0.5, or a date such as 2017-10-07T01:12:09Z"
            )
        clock = clock_of(seconds, is_date=number is None)
        if clock is not None:
            line, other, first = self._table.first_instant(self.line, clock, text)
            if clock != other:
                raise self.refuse(column, f"{other} as in line {line}, which has {first!r}")
        return seconds

    def duration(self, column: str) -> str:
        """Return a duration in decimal seconds."""
        number = self.number(column) if column in self._table.units else None
        text = read_duration(self.text(column)) if number is None else f"{number:f}"
        try:
            parse_seconds(text, field=column)
        except InvalidValueError as error:
            expected = "a duration > 0 such as 90, 0.5, 1h30m or 1-02:03:04"
            raise self.refuse(column, expected) from error
        return text


@final
class Table:
    """A CSV file: its columns, and its rows as they are read.

    Args:
        lines: The lines of the file.
        file: The name of the file for errors.
        expected: The columns that a file without any header should have had, for its error.
        columns: By the name of a column, what the file calls it: ``COLUMN`` or ``COLUMN:UNIT``. An
            empty string means that the file has none, whatever its header says.
        faults: Takes malformed rows; None to raise what is wrong with the first.

    Attributes:
        columns: The names of the columns.
        places: The place of each column.
        units: By the name of a column, what its numbers are multiplied with.
    """

    def __init__(
        self,
        lines: Iterable[str],
        file: str,
        *,
        expected: Sequence[str],
        columns: Mapping[str, str] | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.file = file
        self.faults = faults
        self._first_instant: tuple[int, str, str] | None = None
        header, lines = begun(lines)
        self._reader = csv.reader(lines, delimiter=delimiter(header), strict=True)
        self.columns: tuple[str, ...] = ()
        self.units: dict[str, Decimal] = {}
        self.line = 1
        for line, fields in self._fields():
            # Spreadsheets write a byte order mark, which is not part of the first name.
            self.columns = (fields[0].removeprefix("\ufeff"), *fields[1:])
            self.line = line
            break
        if not self.columns:
            problem = f"expected a header with {', '.join(expected)}, got nothing"
            raise TraceError(file, 1, "", problem)
        self._own = self.columns
        if columns:
            self.columns = self._renamed(columns)
        self.places: dict[str, int] = {name: place for place, name in enumerate(self.columns)}

    def take(self, errors: Sequence[TraceError]) -> None:
        """Take what is wrong with a row.

        Raises:
            TraceError: Malformed rows are not collected.
        """
        if self.faults is None:
            raise errors[0]
        self.faults.take(errors)

    def own_name(self, column: str) -> str:
        """Return what the file calls a column."""
        place = self.places.get(column)
        return column if place is None else self._own[place]

    def first_instant(self, line: int, clock: str, text: str) -> tuple[int, str, str]:
        """Return line, clock and text of the first instant of the file, which may be this one."""
        if self._first_instant is None:
            self._first_instant = (line, clock, text)
        return self._first_instant

    def _renamed(self, columns: Mapping[str, str]) -> tuple[str, ...]:
        own = self._own
        names = [f"{name} (of the file)" if name in columns else name for name in own]
        for column, source in columns.items():
            name, _, unit = (source, "", "") if source in own else source.rpartition(":")
            if name in own:
                names[own.index(name)] = column
            elif source:
                problem = f"expected a column for {column} among {', '.join(own)}"
                raise TraceError(self.file, self.line, source, problem)
            if unit:
                self.units[column] = self._factor(column, source, unit)
        return tuple(names)

    def _factor(self, column: str, source: str, unit: str) -> Decimal:
        is_amount = column.endswith("_per_worker")
        units: Mapping[str, Decimal] = {}
        if column.endswith("_s") or is_amount:
            units = AMOUNTS if is_amount else SECONDS
        if unit not in units:
            problem = f"expected one of the units {', '.join(units)} for {column}, got {unit!r}"
            if not units:
                problem = f"expected no unit for {column}, got {unit!r}"
            raise TraceError(self.file, self.line, source, problem)
        return units[unit]

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
        width = len(self.columns)
        for line, fields in self._fields():
            if len(fields) == width:
                yield Row(self, line, fields)
            else:
                problem = f"expected {width} fields, got {len(fields)}"
                self.take([TraceError(self.file, line, "", problem)])

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        try:
            for fields in self._reader:
                if fields:
                    yield self._reader.line_num, fields
        except csv.Error as error:
            line = max(1, self._reader.line_num)
            raise TraceError(self.file, line, "", f"not CSV: {error}") from error
