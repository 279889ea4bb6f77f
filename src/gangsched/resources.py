"""Amounts of resources, and the immutable mapping under them.

Rules:
  R1  both are immutable, hashable and picklable, and iterate in name order, so that whatever
      is made from them is the same in every run;
  R2  an amount is an integer in thousandths of a unit (see ``gangsched.quantity``).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Final, Generic, TypeVar, cast, final, overload

from gangsched.errors import InvalidValueError
from gangsched.quantity import format_quantity, parse_quantity

__all__ = ["EMPTY", "NOTHING", "FrozenMap", "Resources"]

V = TypeVar("V")
T = TypeVar("T")
_BINARY_NAMES: Final = ("memory", "ephemeral-storage", "hugepages-")


def _entries(field: str, given: Any) -> dict[str, Any]:
    """Take apart what a mapping is made of."""
    try:
        entries: dict[Any, Any] = dict(given)
    except (TypeError, ValueError):
        raise InvalidValueError(field, given, "a mapping or an iterable of pairs") from None
    for name in entries:
        if not isinstance(name, str):
            raise InvalidValueError(field, name, "a mapping with strings as names")
    return entries


class FrozenMap(Mapping[str, V], Generic[V]):
    """An immutable, hashable, picklable mapping with string keys, in key order.

    Runtime complexity: look-up O(1); making one O(n log n); hash O(n) once.

    Raises:
        InvalidValueError: It is made of what is no mapping, or of a key that is no text.
    """

    __slots__ = ("_data", "_hash")

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._data: dict[str, V] = dict(sorted(_entries("items", items).items()))
        self._hash: int | None = None

    def __getitem__(self, key: str) -> V:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    # a mapping has these already, made of the methods above; these are some times as fast
    def items(self) -> ItemsView[str, V]:
        return self._data.items()

    def keys(self) -> KeysView[str]:
        return self._data.keys()

    def values(self) -> ValuesView[V]:
        return self._data.values()

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, /, default: V | T) -> V | T: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        return self._data.get(key, default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return bool(self._data == cast("Any", other)._data)
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._data.items()))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._data,))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"


@final
class Resources(FrozenMap[int]):
    """Amounts of named resources, exact, in thousandths of a unit.

    Made from quantities in Kubernetes' notation or from whole numbers of units::

        >>> Resources({"cpu": "500m", "nvidia.com/gpu": 2})["cpu"]
        500

    A resource that is not named is zero; zeros are dropped, so equal amounts are equal.
    Subtraction may go below zero: an overcommitted node has less than nothing free.

    Raises:
        InvalidValueError: It is made of what is no mapping of names to quantities; what is no
            quantity is named by its resource.
    """

    __slots__ = ()

    # Two signatures, as a type checker reads a mixed dict literal as no union of both.
    @overload
    def __init__(self, quantities: Mapping[str, str | int] = ...) -> None: ...
    @overload
    def __init__(self, quantities: Iterable[tuple[str, str | int]]) -> None: ...
    def __init__(
        self, quantities: Mapping[str, str | int] | Iterable[tuple[str, str | int]] = ()
    ) -> None:
        given: dict[str, str | int] = _entries("quantities", quantities)
        amounts = {name: parse_quantity(quantity, field=name) for name, quantity in given.items()}
        super().__init__({name: amount for name, amount in amounts.items() if amount})

    @classmethod
    def from_milli(cls, amounts: Mapping[str, int]) -> Resources:
        """Make one from integers in thousandths."""
        made = cls()
        made._data = dict(sorted((name, n) for name, n in amounts.items() if n))
        return made

    def __add__(self, other: Resources) -> Resources:
        return self.from_milli({n: self.amount(n) + other.amount(n) for n in {**self, **other}})

    def __sub__(self, other: Resources) -> Resources:
        return self.from_milli({n: self.amount(n) - other.amount(n) for n in {**self, **other}})

    def amount(self, name: str) -> int:
        """Return how much of one resource, in thousandths; 0 when it is not named."""
        return self._data.get(name, 0)

    def missing_from(self, free: Mapping[str, int]) -> tuple[str, ...]:
        """Return the resources of which *free* (in thousandths) has too little, in name order.

        Runtime complexity: O(resources asked for).
        """
        return tuple(n for n, need in self._data.items() if need > free.get(n, 0) and need > 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Resources.from_milli, (self._data,))

    def __str__(self) -> str:
        return ", ".join(f"{name}={self.quantity(name)}" for name in self._data) or "nothing"

    def quantity(self, name: str) -> str:
        """Return how much of one resource, in Kubernetes' notation."""
        return format_quantity(self.amount(name), binary=name.startswith(_BINARY_NAMES))


NOTHING: Final = Resources()
EMPTY: Final[FrozenMap[str]] = FrozenMap()
