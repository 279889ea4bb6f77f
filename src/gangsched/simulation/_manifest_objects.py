"""The objects of documents: lists are taken apart, and a generated name is chosen.

Rules:
  R1  a list of any kind is read as kubectl reads it. An item without a kind, as in the answers of
      the API server, has that of the list without ``List``, and the list's version;
  R2  an object with ``generateName`` and no name gets a name that depends on its content, on its
      arrival and on how many equal objects came before. So the same file gives the same names
      each time, and a document that is added to it changes no other name.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, cast, final

from gangsched.manifests.fields import Field, Source
from gangsched.manifests.scalars import Value
from gangsched.simulation.documents import read_documents

__all__ = ["GeneratedNames", "read_roots", "version_of"]

_LIST: Final = "List"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names, as in Kubernetes: no vowel, so no word."""
_SUFFIX: Final = 5
_MOST_PREFIX: Final = 63 - _SUFFIX


def read_roots(text: str, file: str, notes: list[str]) -> Iterator[Field]:
    """Yield each object of a file: the root of a document, or an item of a list.

    Raises:
        ManifestError: The text is malformed, or an object has no kind or no version.
    """
    for document in read_documents(text, file=file):
        root = Field(Source(file, document.number, notes), "", document.value)
        if root.given:
            yield from _objects(root)


def version_of(root: Field) -> str:
    """Return the ``apiVersion`` of an object, which it must have."""
    return root["apiVersion"].name()


def _objects(root: Field) -> Iterator[Field]:
    version, kind = version_of(root), root["kind"].name()
    items = root["items"]
    # other kinds may end in List, too; Go writes null for a list without items
    has_items = isinstance(items.value, list) or (
        not items.given and "items" in dict(root.entries())
    )
    if kind != _LIST and not (kind.endswith(_LIST) and has_items):
        yield root
        return
    for item in items.elements():
        yield from _objects(_with_kind(item.required(), version, kind.removesuffix(_LIST)))


def _with_kind(item: Field, version: str, kind: str) -> Field:
    """Return an item of a list with the kind that the list implies, if it has none (R1)."""
    if not kind or (item["kind"].given and item["apiVersion"].given):
        return item
    value = cast("dict[str, Value]", item.value)
    return Field(item.source, item.path, {**value, "apiVersion": version, "kind": kind})


@final
class GeneratedNames:
    """The names of the objects of one file that state ``generateName`` and no name.

    Args:
        at: When the objects arrive.
    """

    def __init__(self, at: float) -> None:
        self._at = at
        self._equal: dict[str, int] = {}
        self._used: set[str] = set()

    def named(self, root: Field) -> Field:
        """Return an object with its name. O(size of an object that has none)."""
        metadata = root["metadata"]
        prefix = metadata["generateName"].text()
        if metadata["name"].text() or not prefix:
            return root
        content = f"{self._at!r} {root.value!r}"
        number = self._equal.get(content, 0)
        while (name := f"{prefix[:_MOST_PREFIX]}{_letters(f'{number} {content}')}") in self._used:
            number += 1
        self._equal[content] = number + 1
        self._used.add(name)
        value = cast("dict[str, Value]", root.value)
        given = cast("dict[str, Value]", metadata.value)
        return Field(root.source, root.path, {**value, "metadata": {**given, "name": name}})


def _letters(content: str) -> str:
    number = int.from_bytes(blake2b(content.encode(), digest_size=8).digest(), "big")
    return "".join(_LETTERS[number // len(_LETTERS) ** n % len(_LETTERS)] for n in range(_SUFFIX))
