"""``Resources``, the amounts of named resources, and ``FrozenMap``, the immutable mapping below it.

Rules:
  R1  both are immutable, hashable and picklable. Both iterate in name order, so that results do
      not depend on the order in which entries were given;
  R2  an amount is an integer in thousandths of a unit (see ``gangsched.quantity``), of a type that
      says so: ``Resources(dict(r)) == r``;
  R3  a resource with amount zero is left out, so that equal amounts compare equal. ``pods`` is the
      exception: on a node, ``pods: 0`` allows no pod and a missing ``pods`` sets no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar, final, overload

from gangsched.errors import InvalidValueError
from gangsched.quantity import (
    Thousandths,
    check_thousandths,
    format_quantity,
    parse_quantity,
)

__all__ = ["EMPTY", "NOTHING", "FrozenMap", "Resources", "shifted", "with_zeros"]

V = TypeVar("V")
_BINARY_NAMES: Final = ("memory", "ephemeral-storage", "hugepages-")
_LIMIT: Final = "pods"
"""The resource of which zero differs from not being named."""


def _entries(field: str, given: Any) -> dict[str, Any]:
    """Return the entries of a mapping or of an iterable of pairs."""
    try:
        entries: dict[Any, Any] = dict(given)
    except (TypeError, ValueError):
        raise InvalidValueError(field, given, "a mapping, or an iterable of pairs") from None
    for name in entries:
        if not isinstance(name, str):
            raise InvalidValueError(field, name, "a mapping with string keys")
    return entries


class _ReadOnlyDict(dict[str, V], Generic[V]):
    """A dict of which the methods that change it raise ``TypeError``."""

    __slots__ = ()

    def _fill(self, entries: Mapping[str, V]) -> None:
        """Add the entries of one that is being made."""
        super().update(entries)

    def _refuse(self, *_args: object, **_named: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is immutable")

    if not TYPE_CHECKING:  # type checkers read what it can do from dict
        __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class FrozenMap(_ReadOnlyDict[V]):
    """An immutable, hashable, picklable mapping with string keys, in key order.

    It is a dict, so that it is read as fast as one. The methods that change a dict raise.

    Runtime complexity: look-up O(1); construction O(n log n); hash O(n), computed once.

    Raises:
        InvalidValueError: *items* is neither a mapping nor an iterable of pairs, or a key is not
            a string.
        TypeError: It is to be changed.
    """

    __slots__ = ("_hash",)

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        super().__init__(sorted(_entries("items", items).items()))
        self._hash: int | None = None

    def __hash__(self) -> int:  # type: ignore[override]  # dict has none
        if self._hash is None:
            self._hash = hash(tuple(self.items()))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"


@final
class Resources(FrozenMap[int]):
    """Amounts of named resources, exact, in thousandths of a unit.

    The constructor takes quantities in Kubernetes' notation, or an int as a number of whole units.
    The values of the mapping are ints in thousandths::

        >>> asked = Resources({"cpu": "500m", "nvidia.com/gpu": 2})
        >>> asked
        Resources({'cpu': '500m', 'nvidia.com/gpu': '2'})
        >>> asked.amount("cpu")
        500

    These values are of type ``Thousandths``, so a copy keeps its amounts. The result of arithmetic
    on them is a plain int; ``from_milli`` takes it::

        >>> Resources({**asked, "nvidia.com/gpu": 1})
        Resources({'cpu': '500m', 'nvidia.com/gpu': '1'})
        >>> Resources.from_milli({name: 2 * amount for name, amount in asked.items()})
        Resources({'cpu': '1', 'nvidia.com/gpu': '4'})

    As the dict that it is, it is written to JSON in thousandths: write ``quantity`` instead.

    A resource that is not named has amount zero. Subtraction can go below zero: an overcommitted
    node has a negative amount free.

    Attributes:
        defaulted: What kube-scheduler adds to these requests when it scores nodes: 100m of cpu and
            200Mi of memory for each container that requests none. In thousandths. No capacity is
            taken for it, and equality ignores it: equal requests fit on the same nodes. Empty
            unless ``with_defaulted`` has set it, as the readers of pods do.

    Raises:
        InvalidValueError: *quantities* is neither a mapping nor an iterable of pairs, a key is not
            a string, or a value is not a quantity. The error names the resource.
    """

    __slots__ = ("defaulted",)

    # Two signatures, because type checkers do not infer the union of both for a dict literal with
    # str and int values.
    @overload
    def __init__(self, quantities: Mapping[str, str | int] = ...) -> None: ...
    @overload
    def __init__(self, quantities: Iterable[tuple[str, str | int]]) -> None: ...
    def __init__(
        self, quantities: Mapping[str, str | int] | Iterable[tuple[str, str | int]] = ()
    ) -> None:
        given: dict[str, str | int] = _entries("quantities", quantities)
        amounts = {name: parse_quantity(quantity, field=name) for name, quantity in given.items()}
        self._fill(_sorted(amounts))
        self._hash = None
        self.defaulted: FrozenMap[int] = _NO_AMOUNTS

    @classmethod
    def from_milli(cls, amounts: Mapping[str, int]) -> Resources:
        """Return the resources for amounts in thousandths.

        Raises:
            InvalidValueError: *amounts* is not a mapping, a key is not a string, or a value is not
                an int of at most 2**127. The error names the resource.
        """
        given = _entries("amounts", amounts)
        for name, amount in given.items():
            check_thousandths(name, amount)
        return _made(given)

    def to_milli(self) -> dict[str, int]:
        """Return the amounts as plain ints in thousandths, in a new dict."""
        return {name: int(amount) for name, amount in self.items()}

    def with_defaulted(self, amounts: Mapping[str, int]) -> Resources:
        """Return the same amounts with *amounts*, in thousandths, as ``defaulted``.

        Raises:
            InvalidValueError: *amounts* is not a mapping, a key is not a string, or a value is not
                an int of at most 2**127. The error names the resource.
        """
        given = _entries("defaulted", amounts)
        for name, amount in given.items():
            check_thousandths(name, amount)
        return _made(self, _non_zero(given))

    def __add__(self, other: Resources) -> Resources:
        amounts = {n: self.amount(n) + other.amount(n) for n in {**self, **other}}
        return _made(amounts, shifted(self.defaulted, other.defaulted, 1))

    def __sub__(self, other: Resources) -> Resources:
        amounts = {n: self.amount(n) - other.amount(n) for n in {**self, **other}}
        return _made(amounts, shifted(self.defaulted, other.defaulted, -1))

    def amount(self, name: str) -> int:
        """Return the amount of one resource in thousandths; 0 if it is not named."""
        return self.get(name, 0)

    def missing_from(self, free: Mapping[str, int]) -> tuple[str, ...]:
        """Return the resources of which *free* (in thousandths) has too little, in name order.

        Runtime complexity: O(resources requested).
        """
        missing: tuple[str, ...] = ()
        for name, need in self.items():  # with every node, so no generator
            if need > free.get(name, 0) and need > 0:
                missing += (name,)
        return missing

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self.to_milli(), dict(self.defaulted)))

    def __repr__(self) -> str:
        more = f".with_defaulted({dict(self.defaulted)})" if self.defaulted else ""
        given = {name: self.quantity(name) for name in self}
        return f"Resources({given}){more}"

    def __str__(self) -> str:
        return ", ".join(f"{name}={self.quantity(name)}" for name in self) or "nothing"

    def quantity(self, name: str) -> str:
        """Return the amount of one resource in Kubernetes' notation."""
        return format_quantity(self.amount(name), binary=name.startswith(_BINARY_NAMES))


def _made(amounts: Mapping[str, int], defaulted: FrozenMap[int] | None = None) -> Resources:
    """Return the resources for amounts in thousandths that are known to be valid."""
    made = Resources()
    made._fill(_sorted(amounts))
    if defaulted is not None:
        made.defaulted = defaulted
    return made


def with_zeros(found: Resources, names: Iterable[str]) -> Resources:
    """Return the same amounts, with zeros for further names: as a limit, zero is not nothing."""
    amounts = {**found, **{name: Thousandths(0) for name in names if name not in found}}
    made = _made({}, found.defaulted)
    made._fill(dict(sorted(amounts.items())))
    return made


def _restored(amounts: Mapping[str, int], defaulted: Mapping[str, int]) -> Resources:
    return with_zeros(Resources.from_milli(amounts).with_defaulted(defaulted), amounts)


def shifted(amounts: FrozenMap[int], change: FrozenMap[int], times: int) -> FrozenMap[int]:
    """Return amounts with *times* a change added; zeros are left out. O(1) without a change."""
    if change is _NO_AMOUNTS:  # nearly always, with each pod that a node takes
        return amounts
    found = {n: amounts.get(n, 0) + times * change.get(n, 0) for n in {**amounts, **change}}
    return _non_zero(found)


def _non_zero(amounts: Mapping[str, int]) -> FrozenMap[int]:
    found = {name: int(amount) for name, amount in amounts.items() if amount}
    return FrozenMap(found) if found else _NO_AMOUNTS


def _sorted(amounts: Mapping[str, int]) -> dict[str, int]:
    return {
        name: Thousandths(amounts[name])
        for name in sorted(amounts)
        if amounts[name] or name == _LIMIT
    }


_NO_AMOUNTS: Final[FrozenMap[int]] = FrozenMap()
NOTHING: Final = Resources()
EMPTY: Final[FrozenMap[str]] = FrozenMap()
