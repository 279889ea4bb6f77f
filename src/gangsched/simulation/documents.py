"""YAML and JSON text into plain values, as the API server would read it.

Rules:
  R1  a key that is given twice in one mapping is an error;
  R2  the output is bounded by the input: nesting has a limit, and so has the number of values
      that aliases unfold to;
  R3  every malformed text is a ``ManifestError``; PyYAML is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

from attrs import frozen

from gangsched.errors import ManifestError
from gangsched.manifests.fields import join_path
from gangsched.manifests.scalars import Number, Value, kinds, read_plain, shown
from gangsched.simulation._json_documents import read_json

__all__ = ["Document", "read_documents", "read_one_document"]

MAX_DEPTH: Final = 200
MAX_UNFOLDED: Final = 1_000_000

_SHOWN_LEVELS: Final = 10
"""Of a document that is nested too deep, the path of this many levels is shown."""

_TAG: Final = "tag:yaml.org,2002:"


@final
@frozen
class Document:
    """One document of a file.

    Attributes:
        number: Its position in the file, from 1; empty documents count.
        value: Its value.
    """

    number: int
    value: Value


def read_one_document(text: str, file: str) -> Value:
    """Return the first document of *text*; None if there is none. See ``read_documents``."""
    return next((document.value for document in read_documents(text, file=file)), None)


def read_documents(text: str, *, file: str) -> Iterator[Document]:
    """Yield the documents of *text*, one after the other.

    Runtime complexity: O(text).

    Args:
        text: YAML, or JSON.
        file: The file's name for errors.

    Raises:
        ManifestError: The text is malformed, gives a key twice, is nested too deep, or unfolds to
            too many values by aliases.
        ModuleNotFoundError: PyYAML is not installed, and the text is not JSON.
    """
    values = read_json(text, file=file, max_depth=MAX_DEPTH)
    if values is not None:
        for number, value in enumerate(values, start=1):
            yield Document(number, value)
        return
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "reading manifests needs PyYAML: pip install 'gangsched[cli]'", name="yaml"
        ) from error

    untyped: Any = yaml  # the stubs of PyYAML do not type what parse yields
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(file)
    try:
        for event in untyped.parse(text, Loader=loader):
            match event:
                case yaml.DocumentStartEvent():
                    builder.start_document()
                case yaml.DocumentEndEvent():
                    yield builder.end_document()
                case yaml.MappingStartEvent():
                    builder.open({}, event.tag, event.anchor)
                case yaml.SequenceStartEvent():
                    builder.open([], event.tag, event.anchor)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    builder.close()
                case yaml.AliasEvent():
                    builder.alias(str(event.anchor))
                case yaml.ScalarEvent():
                    builder.scalar(event.value, event.tag, event.anchor, plain=event.implicit[0])
                case _:
                    pass
    except UnicodeEncodeError as error:
        raise builder.refuse("not YAML: half of a surrogate pair") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise builder.refuse(f"not YAML: {error.problem or error.context}{where}") from error
    except yaml.YAMLError as error:
        raise builder.refuse(f"not YAML: {str(error).splitlines()[0]}") from error


class _Frame:
    """A mapping or a sequence that is not complete yet."""

    def __init__(self, container: dict[str, Value] | list[Value], anchor: str | None) -> None:
        self.container = container
        self.anchor = anchor
        self.size = 1
        self.key: str | None = None
        self.merging = False
        self.merged: list[dict[str, Value]] = []


@final
class _Builder:
    """Builds documents from parser events, on an explicit stack instead of by recursion."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._number = 0
        self._between = True
        self._forget()

    def _forget(self) -> None:
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Value, int] | None] = {}
        self._unfolded = 0
        self._value: Value = None

    def refuse(self, problem: str, path: str = "") -> ManifestError:
        """Return the error about the current document."""
        return ManifestError(self._file, self._number + self._between, path, problem)

    def start_document(self) -> None:
        self._number += 1
        self._between = False
        self._forget()

    def end_document(self) -> Document:
        self._between = True
        return Document(self._number, self._value)

    def open(
        self, container: dict[str, Value] | list[Value], tag: str | None, anchor: str | None
    ) -> None:
        kind = "map" if isinstance(container, dict) else "seq"
        if tag not in (None, "!", _TAG + kind):
            raise self.refuse(f"the tag {tag!r} is not supported", self._path())
        if len(self._stack) >= MAX_DEPTH:
            outer = self._path(_SHOWN_LEVELS) + "…"
            raise self.refuse(f"nested deeper than {MAX_DEPTH} levels", outer)
        if self._stack and self._expects_key():
            raise self.refuse("expected a string as a key, got a collection", self._path())
        if anchor:
            self._anchors[anchor] = None
        self._stack.append(_Frame(container, anchor))

    def close(self) -> None:
        frame = self._stack.pop()
        if isinstance(frame.container, dict):
            for mapping in frame.merged:
                for key, value in mapping.items():
                    frame.container.setdefault(key, value)
        self._add(frame.container, frame.size, frame.anchor)

    def alias(self, anchor: str) -> None:
        if anchor not in self._anchors:
            raise self.refuse(f"the alias *{anchor} has no anchor before it", self._path())
        target = self._anchors[anchor]
        if target is None:
            raise self.refuse(f"the alias *{anchor} is inside its own anchor", self._path())
        value, size = target
        self._unfolded += size
        if self._unfolded > MAX_UNFOLDED:
            raise self.refuse(f"its aliases unfold to more than {MAX_UNFOLDED:,} values")
        self._add(value, size, None)

    def scalar(self, text: str, tag: str | None, anchor: str | None, *, plain: bool) -> None:
        if plain and text == "<<" and self._stack and self._expects_key():
            frame = self._stack[-1]
            if frame.merged:
                raise self.refuse("the key '<<' is given twice", self._path())
            frame.key, frame.merging = text, True
            return
        if tag is not None and tag.removeprefix(_TAG) in ("!", "str"):
            value: Value = text
        elif tag is not None:
            value = read_plain(text)
            if tag.removeprefix(_TAG) not in kinds(value):
                raise self.refuse(f"{shown(text)} is not a value of the tag {tag!r}", self._path())
        else:
            value = read_plain(text) if plain else text
        self._add(value, 1, anchor)

    def _expects_key(self) -> bool:
        return isinstance(self._stack[-1].container, dict) and self._stack[-1].key is None

    def _add(self, value: Value, size: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = (value, size)
        if not self._stack:
            self._value = value
            return
        frame = self._stack[-1]
        frame.size += size
        if isinstance(frame.container, list):
            frame.container.append(value)
        elif frame.key is None:
            self._add_key(frame.container, value)
        elif frame.merging:
            for mapping in value if isinstance(value, list) else [value]:
                if not isinstance(mapping, dict):
                    raise self.refuse("'<<' takes mappings only", self._path())
                frame.merged.append(mapping)
            frame.key, frame.merging = None, False
        else:
            frame.container[frame.key] = value
            frame.key = None

    def _add_key(self, container: dict[str, Value], value: Value) -> None:
        match value:
            case str():
                key = value
            case bool():
                key = "true" if value else "false"
            case int() | Number():
                key = str(value)
            case _:
                raise self.refuse(f"expected a string as a key, got {shown(value)}", self._path())
        if key in container:
            raise self.refuse("the key is given twice", join_path(self._path(), key))
        self._stack[-1].key = key

    def _path(self, levels: int | None = None) -> str:
        """Return the path of the current value, or of its container some levels from the top."""
        path = ""
        for frame in self._stack[:levels]:
            if isinstance(frame.container, list):
                path = join_path(path, len(frame.container))
            elif frame.key is not None:
                path = join_path(path, frame.key)
        return path
