"""JSON text into plain values: what ``kubectl get -o json`` prints.

JSON is almost a subset of YAML, and a YAML parser reads most of it. Two reasons to read it apart:
JSON may escape a character outside the basic plane as a surrogate pair, two escapes, which
YAML refuses; and the JSON parser of Python is about 50 times faster.

Rules:
  R1  the values are those that the YAML reader gives for the same text;
  R2  text that is not JSON, or that gives one key twice, is left to the YAML reader: its errors
      name line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn, cast

from gangsched.errors import ManifestError
from gangsched.manifests.scalars import Number, Value, read_plain

__all__ = ["read_json"]

_SEPARATOR: Final = re.compile(r"\s*(?:---[ \t]*\r?\n\s*)?")


def read_json(text: str, *, file: str, max_depth: int) -> list[Value] | None:
    """Return the documents of *text*, which ``---`` may separate; None if it is not JSON.

    Runtime complexity: O(text).

    Args:
        text: JSON, or anything else.
        file: The file's name for errors.
        max_depth: How deep mappings and lists may be nested.

    Raises:
        ManifestError: A document is nested too deep, or contains half of a surrogate pair.
    """
    documents: list[Value] = []
    position, expects_separator = 0, False
    while True:
        found = _SEPARATOR.match(text, position)
        end = position if found is None else found.end()
        if end == len(text) and documents:
            return documents
        has_separator = "---" in text[position:end]
        if text[end : end + 1] not in ("{", "[") or (expects_separator and not has_separator):
            return None
        try:
            value, position = _DECODER.raw_decode(text, end)
        except ValueError:
            return None
        except RecursionError as error:
            raise _too_deep(file, len(documents) + 1, max_depth) from error
        documents.append(cast("Value", value))
        expects_separator = True
        _check(value, file, len(documents), max_depth)


def _check(document: Any, file: str, number: int, max_depth: int) -> None:
    """Refuse a document that is nested too deep, or a string with half of a surrogate pair."""
    level = [document]
    for _depth in range(max_depth):
        inner: list[Any] = []
        for container in level:
            for value in _values(container):
                if isinstance(value, str):
                    _check_string(value, file, number)
                elif isinstance(value, dict | list):
                    inner.append(value)
        if not inner:
            return
        level = inner
    raise _too_deep(file, number, max_depth)


def _values(container: Any) -> Iterator[Any]:
    if isinstance(container, dict):
        yield from cast("dict[str, Any]", container)
        yield from container.values()
    else:
        yield from container


def _check_string(text: str, file: str, number: int) -> None:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise ManifestError(file, number, "", "not JSON: half of a surrogate pair")


def _too_deep(file: str, number: int, max_depth: int) -> ManifestError:
    return ManifestError(file, number, "", f"nested deeper than {max_depth} levels")


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key is given twice")
    return mapping


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_mapping,
    parse_int=read_plain,
    parse_float=Number,
    parse_constant=_refuse,
)
