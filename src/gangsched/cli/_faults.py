"""All faults of a configuration file, in the order of the file: ``--check``.

Theory of operation. The readers of a configuration end with the first fault. So a copy of the
document is repaired and read again until it has none: what a fault names is taken out, and its
default is used. A field that has none, because an entry needs it, gets a value that is valid, so
that the rest of the entry is read. Each fault is about the document as it would be without those
before it.

A fault that cannot be repaired so is the consequence of other fields. A default may be too large
for a field beside it, and the arguments of a plugin mean nothing without its name. Then a field is
looked for without which the fault is gone, first beside it, then in all of the document.

Rules:
  R1  a path is told as in the file: what was taken out of a list moves no place;
  R2  a fault that follows from a repair is not told: its path was told before, or is within one.
      Neither is one whose sentence compares it with a field beside it that was repaired;
  R3  a field gets a valid value once, and any other repair makes the document smaller, so there is
      an end. If no repair helps, the faults that were found so far are all.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

from attrs import evolve, frozen

from gangsched.errors import InvalidValueError

__all__ = ["Check", "Fault", "faults_of"]

_Fields: TypeAlias = "Mapping[object, Any]"

_MOST: Final = 100
"""The most faults that are looked for."""
_VALID: Final[Mapping[str, Any]] = {
    "defaultingType": "List",
    "hard": {"cpu": 1},
    "maxSkew": 1,
    "name": "any-{}",
    "namespaces": ["any-{}"],
    "nominal": {"cpu": 1},
    "resources": [{"name": "cpu"}],
    "topologyKey": "any",
    "type": "LeastAllocated",
    "weight": 2,
    "whenUnsatisfiable": "ScheduleAnyway",
}
"""Of each field that an entry needs, or that others depend on, a value that is valid."""
_OTHERS: Final = re.compile(r"(?:than|least|without) (\w+(?:(?:, | or )\w+)*)")
"""In a sentence, the fields beside it that a value is compared with, or that it needs."""
_WORD: Final = re.compile(r"\w+")


@final
@frozen
class Fault:
    """One fault.

    Attributes:
        path: The field, as errors name it; empty for the document as a whole.
        sentence: What is wrong.
        value: The value, which may be a part of the field.
        is_unknown: Whether no field has this name.
    """

    path: str
    sentence: str
    value: object = None
    is_unknown: bool = False

    @classmethod
    def of(cls, error: InvalidValueError) -> Fault:
        """Return the fault that an error names."""
        return cls(error.field, str(error), error.value, error.expected.startswith("absent"))

    def told_at(self, path: str) -> str:
        """Return the sentence with another path of the field."""
        return f"{path}{self.sentence.removeprefix(self.path)}"


Check: TypeAlias = Callable[[object], Fault | None]
"""Returns the first fault of a document; None if it has none."""


class _Items(list[Any]):
    """A list of the document, which knows the place that each item has in the file."""

    def __init__(self, items: list[object]) -> None:
        super().__init__(map(_copied, items))
        self.places = list(range(len(items)))


def _copied(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _copied(value) for key, value in cast("_Fields", node).items()}
    return _Items(cast("list[object]", node)) if isinstance(node, list) else node


class _Place(NamedTuple):
    """A value within the document: what it is in, and under which key or index.

    Attributes:
        path: Its path in the file.
        told: The same as errors tell it: an entry of ``pluginConfig`` by the name of the plugin.
    """

    container: Any
    key: Any
    path: str
    told: str

    def take_out(self) -> None:
        del self.container[self.key]
        if isinstance(self.container, _Items):
            del self.container.places[self.key]


def faults_of(document: object, check: Check, also: Iterable[Fault] = ()) -> list[Fault]:
    """Return all faults of a document, in the order of the document.

    Runtime complexity: one check for each fault. If faults follow from others, one for each field.

    Args:
        document: The document.
        check: Finds the first fault.
        also: Faults that are known already.
    """
    root = [_copied(document)]  # in a list, so that the document has a place, too
    order = {place.path: number for number, place in enumerate(_places(root))}
    found: dict[str, Fault] = {}
    unknown, repaired, filled = set[str](), set[str](), set[str]()
    while len(found) < _MOST and (fault := check(root[0])) is not None:
        place, path, told = _located(root, fault.path)
        part = None if place is None else _part(place, fault.value)
        if part is not None:
            place, path = part, part.path
        if fault.is_unknown:
            unknown.add(_parent(path))
        # a field that is absent is mostly the one that is misspelt beside it
        is_misspelt = place is None and _parent(path) in unknown
        if not is_misspelt and not _follows(fault, path, found, repaired):
            found[path] = evolve(fault, path=path, sentence=fault.told_at(told))
        repaired.add(path)
        if path not in filled and part is None and _filled(root, place, fault.path, path):
            filled.add(path)
        elif place is not None and place.path:
            place.take_out()
        elif not _repaired(root, fault, check):
            break
    return sorted((*also, *found.values()), key=lambda fault: _rank(order, fault.path))


def _follows(fault: Fault, path: str, found: Collection[str], repaired: Set[str]) -> bool:
    """Return whether a fault is there because of the repair of another one."""
    for names in _OTHERS.findall(fault.sentence):
        beside = (f"{_parent(path)}.{name}".removeprefix(".") for name in _WORD.findall(names))
        if not repaired.isdisjoint(beside):
            return True
    return any(path == at or _is_within(at, path) for at in found)


def _filled(root: list[Any], place: _Place | None, named: str, path: str) -> bool:
    """Give a field that an entry needs a valid value; return whether it is such a field.

    Args:
        root: The document.
        place: The field; None if it is absent.
        named: The path of the field, as its fault names it.
        path: The path of the field in the file.
    """
    parent, _dot, key = named.rpartition(".")
    if place is not None:
        owner, key = place.container, place.key
    else:
        around = _located(root, parent)[0]
        owner = None if around is None else around.container[around.key]
    if not isinstance(owner, dict) or key not in _VALID:
        return False
    value = _VALID[key]
    number = "".join(filter(str.isdigit, path))
    if isinstance(value, str):  # a name is that of no other entry, and neither is a namespace
        value = value.format(number)
    elif isinstance(value, list):
        items = cast("list[object]", value)
        value = [each.format(number) if isinstance(each, str) else each for each in items]
    cast("dict[object, Any]", owner)[key] = _copied(value)
    return True


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _part(place: _Place, value: object) -> _Place | None:
    """Return the part of a field that its fault is about; None for all of it."""
    held = place.container[place.key]
    if isinstance(held, dict) and isinstance(value, str) and value in cast("_Fields", held):
        return _at(place, value, f".{value}")
    if isinstance(held, _Items) and held and not isinstance(value, list):
        # of a list that is too long, the last item is
        number = held.index(value) if value in held else len(held) - 1
        return _at(place, number, f"[{held.places[number]}]")
    return None


def _at(place: _Place, key: Any, step: str, told: str | None = None) -> _Place:
    """Return the place within a place, under a key; *step* is the end of its path."""
    end, told_end = (
        text if place.path else text.removeprefix(".") for text in (step, told or step)
    )
    return _Place(place.container[place.key], key, place.path + end, place.told + told_end)


def _is_within(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))


def _rank(order: Mapping[str, int], path: str) -> int:
    """Return the place of a path in the file; of one that is not there, that of what it is in."""
    while path not in order and path:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return order.get(path, 0)


def _located(root: list[Any], path: str) -> tuple[_Place | None, str, str]:
    """Return the value at a path or None, its path in the file, and the path as it is told."""
    place, rest = _document(root), path
    while rest:
        step = _next(place, rest.removeprefix("."))
        if step is None:
            path, told = (f"{at}{rest}".removeprefix(".") for at in (place.path, place.told))
            return None, path, told
        place, rest = step
    return place, place.path, place.told


def _document(root: list[Any]) -> _Place:
    return _Place(root, 0, "", "")


def _next(place: _Place, rest: str) -> tuple[_Place, str] | None:
    """Return the next value on a path, and what is left of the path."""
    held = place.container[place.key]
    if isinstance(held, dict):
        names = sorted(cast("_Fields", held), key=lambda name: -len(str(name)))
        for key in names:  # the longest first: a key may have dots
            name = str(key)
            if rest.startswith(name) and rest[len(name) : len(name) + 1] in ("", ".", "["):
                return _at(place, key, f".{name}"), rest[len(name) :]
    if isinstance(held, _Items) and rest[0] == "[":
        name, _bracket, after = rest[1:].partition("]")
        for number, item in enumerate(held):
            # the argument of a plugin is found by the plugin's name
            is_named = _name_of(item) == name
            if is_named or str(number) == name:
                at = f"[{held.places[number]}]"
                return _at(place, number, at, f"[{name}]" if is_named else at), after
    return None


def _name_of(item: object) -> object:
    return cast("_Fields", item).get("name") if isinstance(item, dict) else None


def _places(root: list[Any]) -> Iterator[_Place]:
    """Yield the places of all values in the order of the file."""
    left = [_document(root)]
    while left:
        place = left.pop()
        yield place
        left += reversed(list(_children(place)))


def _children(place: _Place) -> Iterator[_Place]:
    held = place.container[place.key]
    if isinstance(held, dict):
        for key in cast("_Fields", held):
            yield _at(place, key, f".{key}")
    elif isinstance(held, _Items):
        for number in range(len(held)):
            yield _at(place, number, f"[{held.places[number]}]")


def _repaired(root: list[Any], fault: Fault, check: Check) -> bool:
    """Take out a field without which the document does not have a fault; return whether it is."""
    fault_path = _located(root, fault.path)[1]
    for path, tried in _smaller(root, fault.path, fault_path):
        after = check(tried[0])
        if after is not None:
            if (after.path, after.sentence) == (fault.path, fault.sentence):
                continue
            after_path = _located(tried, after.path)[1]
            # what is missing now is no repair, and neither is what is in a place that is missing
            if after_path in (fault_path, path) or _is_within(path, after_path):
                continue
        root[:] = tried
        return True
    return False


def _smaller(root: list[Any], named: str, fault: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield copies of the document without something, and the path of that."""
    name = named.rpartition("[")[2].partition("]")[0]
    if "]" in named and not name.isdigit():  # a plugin, wherever it is named
        tried = copy.deepcopy(root)
        for place in reversed(list(_places(tried))):
            if _name_of(place.container[place.key]) == name:
                place.take_out()
        yield named, tried
    for path in sorted(_paths(root), key=lambda path: _distance(path, fault)):
        tried = copy.deepcopy(root)
        next(each for each in _places(tried) if each.path == path).take_out()
        yield path, tried


def _paths(root: list[Any]) -> list[str]:
    return [place.path for place in _places(root) if place.path]


def _distance(path: str, fault: str) -> tuple[int, int, str]:
    """Return the order in which fields are taken out: those beside a fault, then small ones."""
    parent = _parent(fault)
    if _parent(path) == parent:
        return 0, 0, path
    if path == parent:
        return 1, 0, path
    depth = path.count(".") + path.count("[")
    return (3 if _is_within(fault, path) else 2), -depth, path
