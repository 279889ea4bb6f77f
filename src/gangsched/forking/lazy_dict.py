"""``LazyDict``: a copy of a dict whose values are copied when they are first read.

It makes ``Scheduler.what_if`` copy what a question reads instead of the whole state.
``smallest_change`` asks up to 65 questions.

Rules:
  R1  every method that returns a value returns its copy;
  R2  the keys, their order and their number are those of the given dict from the start.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from typing import Any, final

__all__ = ["LazyDict"]

_NOTHING: Any = object()


@final
class LazyDict(dict[Any, Any]):
    """A copy of a dict that copies each value when it is first read.

    Args:
        given: The dict to copy; it must not change while the copy is in use.
        copied: The function that copies a value. It is called at most once for each key.
    """

    __slots__ = ("_copied", "_own")

    def __init__(self, given: dict[Any, Any], copied: Callable[[Any], Any]) -> None:
        super().__init__(given)
        self._copied = copied
        self._own: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if key in self._own:
            return value
        value = self._copied(value)
        super().__setitem__(key, value)
        self._own.add(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._own.add(key)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._own.discard(key)

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            return default
        return self[key]

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, default: Any = _NOTHING) -> Any:
        if key not in self and default is not _NOTHING:
            return default
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[Any, Any]:
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        super().clear()
        self._own.clear()

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    # Overridden for dict(self): only if __iter__ is overridden, CPython calls keys() and
    # __getitem__. Otherwise it reads the entries directly, and the values are not copies.
    def __iter__(self) -> Iterator[Any]:
        return super().__iter__()

    def values(self) -> Any:
        return _Values(self)

    def items(self) -> Any:
        return _Items(self)

    def copy(self) -> dict[Any, Any]:
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | dict(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | dict(self)

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


class _Values(ValuesView[Any]):
    """The values view, which also supports ``reversed``."""

    def __init__(self, given: LazyDict) -> None:
        super().__init__(given)
        self._given = given

    def __reversed__(self) -> Iterator[Any]:
        return (self._given[key] for key in reversed(self._given))


class _Items(ItemsView[Any, Any]):
    """The items view, which also supports ``reversed``."""

    def __init__(self, given: LazyDict) -> None:
        super().__init__(given)
        self._given = given

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        return ((key, self._given[key]) for key in reversed(self._given))
