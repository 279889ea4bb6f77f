"""A bounded cache: what is derived from the same bytes is derived once, and shared.

Rules:
  R1  the oldest entry goes first. Pods of a job arrive together, so that is near enough to the
      least recently used, and a look-up is one look-up in a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar, final

__all__ = ["Shared"]

V = TypeVar("V")

_MOST: Final = 4096
_LONGEST: Final = 8192
"""Bytes beyond which a key is not worth to be kept."""


@final
class Shared(Generic[V]):
    """Values by the bytes that they are derived from.

    Runtime complexity: a look-up is O(length of the key).

    Args:
        most: The most values that are kept.
        longest: The most bytes of a key; the value of a longer one is derived each time.
    """

    __slots__ = ("_longest", "_most", "_values", "get")

    def __init__(self, most: int = _MOST, longest: int = _LONGEST) -> None:
        self._most = most
        self._longest = longest
        self._values: dict[bytes, V] = {}
        self.get: Callable[[bytes], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: bytes, value: V) -> V:
        """Keep a value, and return it."""
        if len(key) <= self._longest:
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]
        return value
