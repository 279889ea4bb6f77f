"""Fields of a document, each with its path: a field has the expected type, or is refused by path.

Rules:
  R1  null is absent, as in the API: a field that is absent reads as its default;
  R2  nothing is converted: a number is not read as a string, nor a string as a number; only a
      quantity may be either;
  R3  every refusal names the file, the document, the dotted path and the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError, ManifestError
from gangsched.manifests.notes import Note
from gangsched.manifests.scalars import Number, Value, shortened, shown
from gangsched.quantity import MILLI, parse_quantity
from gangsched.resources import FrozenMap, Resources

__all__ = ["MOST_PODS", "Field", "Source", "join_path", "reads_whole"]

MOST_PODS: Final = 150_000
"""The most pods that one field may ask for: what Kubernetes supports in a whole cluster."""

_INT32: Final = 2**31 - 1
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)


@lru_cache(maxsize=4096)
def join_path(path: str, key: str | int) -> str:
    """Return the dotted path of a child: ``spec.containers[0].limits[nvidia.com/gpu]``."""
    if isinstance(key, int) or not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


@final
@frozen(eq=False)
class Source:
    """The document that fields come from.

    Attributes:
        file: The file, as the caller named it.
        document: The document's number in it, from 1.
        notes: Sentences about fields that could not be represented; grows while fields are read.
        noted: The notes of the document's objects; grows too.
    """

    file: str
    document: int
    notes: list[str] = field(factory=list[str])
    noted: list[Note] = field(factory=list[Note])

    def note(self, sentence: str) -> None:
        """Add a sentence about a field that could not be represented."""
        self.notes.append(f"{self.file}: document {self.document}: {sentence}")


@final
@frozen(eq=False)
class Field:
    """A value of a document, which may be absent.

    Attributes:
        source: The document.
        path: The dotted path from the root; empty for the root.
        value: The value; None if it is absent.
    """

    source: Source
    path: str
    value: Value

    def __getitem__(self, key: str) -> Field:
        """Return the field *key* of a mapping; an absent field if the mapping is absent."""
        return Field(self.source, join_path(self.path, key), self._mapping().get(key))

    @property
    def given(self) -> bool:
        """Whether the field is present."""
        return self.value is not None

    def problem(self, problem: str) -> ManifestError:
        """Return an error about this field."""
        return ManifestError(self.source.file, self.source.document, self.path, problem)

    def refuse(self, expected: str) -> ManifestError:
        """Return the error that names what was expected instead of this value."""
        return self.problem(f"expected {expected}, got {shown(self.value)}")

    def refuse_as(self, error: InvalidValueError) -> ManifestError:
        """Return the error of a value made from this field, as an error about this field."""
        return self.problem(f"expected {error.expected}, got {shortened(repr(error.value))}")

    def required(self) -> Field:
        """Return this field, which must be present."""
        if self.value is None:
            raise self.refuse("a value")
        return self

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Yield key and field of each entry of a mapping, in the document's order."""
        for key, value in self._mapping().items():
            yield key, Field(self.source, join_path(self.path, key), value)

    def elements(self) -> Iterator[Field]:
        """Yield each element of a list."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.refuse("a list")
        for index, value in enumerate(self.value):
            yield Field(self.source, join_path(self.path, index), value)

    def text(self, default: str = "") -> str:
        """Return a string; an empty string is read as an absent one."""
        match self.value:
            case None | "":
                return default
            case str():
                return self.value
            case bool() | int() | Number():
                raise self.refuse("a string, in quotes")
            case _:
                raise self.refuse("a string")

    def name(self) -> str:
        """Return a string that must be present and not empty."""
        text = self.text()
        if not text:
            raise self.refuse("a non-empty string")
        return text

    def word(self, words: tuple[str, ...], default: str | None = None) -> str:
        """Return one of *words*; the field must be present unless it has a default."""
        text = self.text(default or "")
        if text not in words and text != default:
            raise self.refuse("one of " + ", ".join(words))
        return text

    def flag(self) -> bool:
        """Return a boolean; false if the field is absent."""
        if self.value is not None and not isinstance(self.value, bool):
            raise self.refuse("a bool")
        return bool(self.value)

    def whole(self, default: int | None = None, *, least: int, most: int = _INT32) -> int:
        """Return a whole number between two bounds; it must be present unless it has a default."""
        number = default if self.value is None else self.value
        if type(number) is not int or not least <= number <= most:
            bounds = f">= {least}" if most == _INT32 else f"from {least} to {most}"
            raise self.refuse(f"an int {bounds}")
        return number

    def texts(self) -> FrozenMap[str]:
        """Return a mapping of strings, such as labels."""
        return FrozenMap([(key, field.text()) for key, field in self.entries()])

    def quantity(self, name: str) -> int:
        """Return a quantity of the resource *name*, in thousandths; not negative.

        A quantity finer than a thousandth is rounded up, as the API server does. A float, as
        decoded from JSON, is the number that its shortest text says: 0.1 is exactly ``100m``.
        """
        value: object = self.value
        if isinstance(value, Number | float):
            value = repr(value)
        if not isinstance(value, int | str):
            raise self.refuse("a Kubernetes quantity such as 500m, 4Gi or 1e3")
        try:
            amount = parse_quantity(value, rounds_up=True)
        except InvalidValueError as error:
            raise self.refuse_as(error) from error
        if amount < 0:
            raise self.refuse("a quantity >= 0")
        if amount % MILLI and reads_whole(name):
            raise self.refuse("a whole quantity")
        return amount

    def amounts(self) -> dict[str, int]:
        """Return a mapping of resource names to exact quantities, in thousandths."""
        return {name: field.quantity(name) for name, field in self.entries()}

    def resources(self) -> Resources:
        """Return a mapping of resource names to exact quantities, as ``Resources``."""
        return Resources.from_milli(self.amounts())

    def _mapping(self) -> dict[str, Value]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.refuse("a mapping")
        return self.value


def reads_whole(name: str) -> bool:
    """Return whether a resource has whole units only: pods, and devices with a domain name."""
    return name == "pods" or "/" in name
