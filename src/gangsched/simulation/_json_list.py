"""A JSON list of objects, read one object at a time.

Rules:
  R1  the memory needed is that of one object, or of the longest line: a log of gigabytes is never
      in memory as a whole;
  R2  an error names the line on which the object begins, or that on which the text is malformed;
  R3  an object has at most ``LONGEST`` characters, and gives each key once.

A string cannot contain a line break, so a line is counted without its strings: where as many
braces are closed as opened, an object ends. If the next one begins on the same line, the line is
divided between the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn, cast

from gangsched.errors import TraceError

__all__ = ["LONGEST", "objects_of"]

LONGEST: Final = 10_000_000
"""The largest number of characters of one object, unless it is on one line."""

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or the rest of the line if it is not closed: so no line takes quadratic time."""

_BRACE_OR_STRING: Final = re.compile(rf"[{{}}]|{_STRING.pattern}", re.DOTALL)
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_BEGIN, _VALUE_OR_END, _VALUE, _COMMA_OR_END, _DONE = range(5)
_EXPECTED: Final = {
    _BEGIN: "'['",
    _VALUE_OR_END: "an object or ']'",
    _VALUE: "an object",
    _COMMA_OR_END: "',' or ']'",
    _DONE: "nothing more",
}


def objects_of(lines: Iterable[str], file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each object of a list with the number of its first line.

    Runtime complexity: O(text).

    Args:
        lines: The lines of the file.
        file: The name of the file for errors.

    Raises:
        TraceError: The text is no JSON list of objects, an object is too long, or gives a key
            twice.
    """
    parts = _Parts(file)
    kept: list[str] = []
    first, open_braces, length, number = 1, 0, 0, 0
    for number, line in enumerate(lines, 1):
        text = line.lstrip("\ufeff") if number == 1 else line
        bare = _STRING.sub("", text)
        before, opened = open_braces, bare.count("{")
        open_braces += opened - bare.count("}")
        end = _end_of_last(text, before) if 0 < open_braces <= opened and before > 0 else 0
        if end:
            yield from parts.read("".join((*kept, text[:end])), first)
            kept, first, length, text = [], number, 0, text[end:]
        kept.append(text)
        length += len(text)
        if open_braces <= 0:
            yield from parts.read("".join(kept), first)
            kept, first, open_braces, length = [], number + 1, 0, 0
        elif length > LONGEST and len(kept) > 1:
            problem = f"expected an object of at most {LONGEST:,} characters, got more"
            raise TraceError(file, first, "", problem)
    yield from parts.read("".join(kept), first)
    parts.end(max(number, 1))


class _Parts:
    """Reads pieces of the text, each with whole objects, and knows what may come next."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._next = _BEGIN

    def read(self, text: str, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects of a piece that begins on line *first*."""
        place, line, counted = 0, first, 0
        while True:
            place = _end_of_blank(text, place)
            line += text.count("\n", counted, place)
            counted = place
            if place == len(text):
                return
            char = text[place]
            if char == "{" and self._next in (_VALUE, _VALUE_OR_END):
                value, place = self._decoded(text, place, line)
                self._next = _COMMA_OR_END
                yield line, value
            else:
                self._step(char, line)
                place += 1

    def end(self, line: int) -> None:
        """Check that the list has ended."""
        if self._next != _DONE:
            problem = f"expected {_EXPECTED[self._next]}, got the end of the file"
            raise TraceError(self._file, line, "", problem)

    def _step(self, char: str, line: int) -> None:
        if char == "[" and self._next == _BEGIN:
            self._next = _VALUE_OR_END
        elif char == "," and self._next == _COMMA_OR_END:
            self._next = _VALUE
        elif char == "]" and self._next in (_VALUE_OR_END, _COMMA_OR_END):
            self._next = _DONE
        else:
            problem = f"expected {_EXPECTED[self._next]}, got {char!r}"
            raise TraceError(self._file, line, "", problem)

    def _decoded(self, text: str, place: int, line: int) -> tuple[dict[str, Any], int]:
        try:
            value, end = _DECODER.raw_decode(text, place)
        except json.JSONDecodeError as error:
            line += text.count("\n", place, error.pos)
            raise TraceError(self._file, line, "", f"not JSON: {error.msg}") from error
        except _RepeatedKeyError as error:
            raise TraceError(self._file, line, "", str(error)) from error
        except ValueError as error:
            raise TraceError(self._file, line, "", f"not JSON: {error}") from error
        except RecursionError as error:
            raise TraceError(
                self._file, line, "", "the object is nested too deeply to be read"
            ) from error
        return cast("dict[str, Any]", value), end


def _end_of_last(line: str, depth: int) -> int:
    """Return where the last object ends that ends within a line; 0 if none does."""
    end = 0
    for found in _BRACE_OR_STRING.finditer(line):
        if found[0] in "{}":
            depth += 1 if found[0] == "{" else -1
            end = found.end() if not depth else end
    return end


def _end_of_blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return place if found is None else found.end()


class _RepeatedKeyError(ValueError):
    """A key occurs twice in one object. This is JSON, but one of the values would be lost."""


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        given: set[str] = set()
        for key, _value in pairs:
            if key in given:
                raise _RepeatedKeyError(f"the key {key[:60]!r} occurs twice in one object")
            given.add(key)
    return mapping


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_mapping, parse_constant=_refuse)
