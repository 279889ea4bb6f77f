"""The fingerprint of an object: its whole state as one comparable value.

Rules:
  R1  it includes everything reachable, public or not, down to the last counter;
  R2  the order of lists, deques and dicts counts, that of sets does not;
  R3  a mutable object that is visited again is named by the number of its first visit. So aliasing
      counts, too, and cycles end. Frozen values are compared by content alone;
  R4  objects from outside the library that are no plain values are opaque, such as a plugin's
      state;
  R5  an object that cannot be described is an error, and never left out silently.
"""

from __future__ import annotations

import copy
import enum
import random
import re
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, final

import attrs
from sortedcontainers import SortedDict, SortedList

from gangsched import PodGroupCounters, PriorityHeap
from gangsched.core.nodes.views import NodeViews
from gangsched.resources import FrozenMap

__all__ = [
    "Fingerprint",
    "attributes",
    "fingerprint",
    "is_as",
    "is_frozen",
    "is_ours",
    "reachable",
    "remembered",
    "without",
]

Fingerprint = tuple[str, ...]
"""One line for each thing, with the path to it: two of them are compared as they are."""

_NUMBER = re.compile(r" no\. (\d+)( again|)$")
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_SEQUENCES = (list, tuple, deque, SortedList)
_ITERATORS: tuple[type[Any], ...] = (type(iter(())), type(iter([])))


def fingerprint(*roots: object) -> Fingerprint:
    """Return all that *roots* remember; equal if and only if their states are equal."""
    return tuple(_lines(roots))


def is_as(before: Fingerprint, *roots: object) -> bool:
    """Return whether the fingerprint of *roots* is *before*; ends at the first line that is not."""
    return all(one == other for one, other in zip_longest(before, _lines(roots)))


def _lines(roots: tuple[object, ...]) -> Iterator[str]:
    walk = _Walk()
    for n, root in enumerate(roots):
        yield from walk.lines(f"[{n}]", root)


def without(whole: Fingerprint, *paths: str) -> Fingerprint:
    """Return a fingerprint without the objects at paths that match one of some expressions.

    Objects are numbered again, so that the number of omitted objects makes no difference.
    """
    left_out = re.compile("|".join(f"(?:{path})" for path in paths))
    numbers: dict[str, int] = {}

    def anew(found: re.Match[str]) -> str:
        return f" no. {numbers.setdefault(found[1], len(numbers))}{found[2]}"

    lines = (line for line in whole if not left_out.search(line.partition(": ")[0]))
    return tuple(_NUMBER.sub(anew, line) for line in lines)


def reachable(root: object, held: Callable[[Any], list[Any]]) -> list[Any]:
    """Return everything that can be reached, each thing once, by what each of them holds."""
    found: dict[int, Any] = {}
    todo: list[Any] = [root]
    while todo:
        thing = todo.pop()
        if id(thing) not in found:
            found[id(thing)] = thing
            todo += held(thing)
    return list(found.values())


def is_ours(thing: object) -> bool:
    """Say whether a thing is an instance of a class of the library."""
    module = type(thing).__module__
    return module == "gangsched" or module.startswith("gangsched.")


def attributes(thing: Any) -> dict[str, Any]:
    """Return what an object has in its slots and in its ``__dict__``, by name."""
    if isinstance(thing, PriorityHeap):
        # what it remembers, not how far it is with sorting, which reading may change
        live = [entry for entry in thing._entries if not _is_tombstone(entry)]
        return {"entries": sorted(live, key=lambda entry: str(entry[1])), "pushed": thing._pushed}
    if type(thing).__name__ == "HeapEntry":
        return {"state": [thing[place] for place in range(4)]}
    found = {name: getattr(thing, name) for name in _slots(type(thing)) if hasattr(thing, name)}
    return {**found, **dict(sorted(getattr(thing, "__dict__", {}).items()))}


def remembered(thing: object) -> dict[str, Any]:
    """Return what counts of the attributes of an object, by name."""
    found = attributes(thing)
    if isinstance(thing, PodGroupCounters):
        del found["standing"]  # computed when it is read first, which a question may do
    return found


def _is_tombstone(entry: Any) -> bool:
    return (not isinstance(entry, list) or len(entry) == 4) and entry[3] is None


def is_frozen(thing: object) -> bool:
    """Say whether a thing is a value that never changes, though what it holds may."""
    return _has_frozen(type(thing))


_FROZEN: dict[type, bool] = {}
_SLOTS: dict[type, tuple[str, ...]] = {}


def _has_frozen(kind: type) -> bool:
    if kind not in _FROZEN:
        is_value = issubclass(kind, FrozenMap | tuple | frozenset)
        _FROZEN[kind] = is_value or (attrs.has(kind) and attrs.inspect(kind).is_frozen)
    return _FROZEN[kind]


def _slots(kind: type) -> tuple[str, ...]:
    if kind not in _SLOTS:
        names = {
            _mangled(base, slot)
            for base in kind.__mro__
            for slot in _as_tuple(base.__dict__.get("__slots__", ()))
            if slot not in ("__dict__", "__weakref__")
        }
        _SLOTS[kind] = tuple(sorted(names))
    return _SLOTS[kind]


def _mangled(owner: type, slot: str) -> str:
    is_private = slot.startswith("__") and not slot.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{slot}" if is_private else slot


def _as_tuple(slots: str | tuple[str, ...]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


@final
class _Walk:
    """One walk through everything."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []  # what is alive keeps its id

    def lines(self, path: str, thing: Any) -> Iterator[str]:
        """Yield a line for *thing* and for all that it holds."""
        kind = type(thing).__qualname__
        if isinstance(thing, enum.Enum):
            yield f"{path}: {kind}.{thing.name}"
        elif isinstance(thing, _PLAIN):
            yield f"{path}: {kind} {thing!r}"
        elif isinstance(thing, type):
            yield f"{path}: class {thing.__module__}.{thing.__qualname__}"
        elif isinstance(thing, types.FunctionType | types.BuiltinFunctionType):
            yield f"{path}: function {thing.__module__}.{thing.__qualname__}"
        elif isinstance(thing, types.MethodType):
            yield f"{path}: method {thing.__func__.__qualname__}"
            yield from self.lines(f"{path}.__self__", thing.__self__)
        elif is_frozen(thing):
            yield f"{path}: {kind}"
            yield from self._parts(path, thing)
        elif id(thing) in self._numbers:
            yield f"{path}: {kind} no. {self._numbers[id(thing)]} again"
        else:
            self._kept.append(thing)
            number = self._numbers[id(thing)] = len(self._numbers)
            yield f"{path}: {kind} no. {number}"
            yield from self._parts(path, thing)

    def _parts(self, path: str, thing: Any) -> Iterator[str]:
        if isinstance(thing, set | frozenset):
            yield from sorted(line for each in thing for line in _Walk().lines(path + "{}", each))
        elif isinstance(thing, SortedDict):
            yield from self._entries(path, [(key, thing[key]) for key in thing])
        elif isinstance(thing, Mapping) and not isinstance(thing, NodeViews):  # it holds none
            yield from self._entries(path, list(thing.items()))
        elif isinstance(thing, _SEQUENCES):
            yield f"{path}: {len(thing)} in all"
            for index, each in enumerate(thing):
                yield from self.lines(f"{path}[{index}]", each)
        elif isinstance(thing, _ITERATORS):
            yield from self.lines(path, list(copy.copy(thing)))
        elif isinstance(thing, random.Random):
            yield f"{path}: {thing.getstate()!r}"
        elif isinstance(thing, BaseException):
            yield from self.lines(f"{path}.args", thing.args)
        elif is_ours(thing):
            for name, value in remembered(thing).items():
                yield from self.lines(f"{path}.{name}", value)
        elif type(thing).__module__ in ("builtins", "collections", "sortedcontainers"):
            if type(thing) is not object:
                raise TypeError(f"{path}: no fingerprint of {thing!r}")
        else:
            yield f"{path}: opaque, of {type(thing).__module__}"

    def _entries(self, path: str, entries: list[tuple[object, object]]) -> Iterator[str]:
        yield f"{path}: {len(entries)} in all"
        for index, (key, value) in enumerate(entries):
            if isinstance(key, str | int):
                yield f"{path}: entry {index} is {key!r}"
            else:
                yield from self.lines(f"{path}.key[{index}]", key)
            yield from self.lines(f"{path}[{key if isinstance(key, str) else index}]", value)
