"""Converters and validators for the fields of the model classes.

Rules:
  R1  a converter never raises: it returns a value that it cannot convert unchanged, and the
      validator raises, because attrs tells the field's name to the validator only;
  R2  every error names the field, dotted if it is nested, and the value.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, cast

from attrs import Attribute

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.quantity import format_quantity, is_seconds
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources

__all__ = [
    "Check",
    "as_counts",
    "as_resources",
    "as_texts",
    "as_tuple",
    "check_amounts",
    "check_count",
    "check_counts",
    "check_each",
    "check_flag",
    "check_instant",
    "check_namespace",
    "check_now",
    "check_optional",
    "check_positive",
    "check_seconds",
    "check_string",
    "check_text",
    "check_texts",
    "check_whole",
    "of_group",
    "refuse_choice",
]

T = TypeVar("T")
Check: TypeAlias = "Callable[[Any, Attribute[Any], Any], None]"


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


# Converters -------------------------------------------------------------------------------


def as_resources(given: Resources | Mapping[str, str | int]) -> Resources:
    """Convert a mapping to ``Resources``; ``check_amounts`` validates the result."""
    if isinstance(given, Resources):
        return given
    if _is_mapping(given):
        for name in given:
            if not isinstance(name, str):
                break
        else:
            return Resources(given)
    return cast("Resources", given)


def as_texts(given: Mapping[str, str]) -> FrozenMap[str]:
    """Convert to an immutable mapping; ``check_texts`` validates the result."""
    if isinstance(given, FrozenMap):
        return given
    if _is_mapping(given):
        try:
            return FrozenMap(given)
        except InvalidValueError:
            pass
    return cast("FrozenMap[str]", given)


def as_counts(given: Mapping[str, int]) -> FrozenMap[int]:
    """Convert to an immutable mapping; ``check_counts`` validates the result."""
    return cast("FrozenMap[int]", as_texts(cast("Mapping[str, str]", given)))


def as_tuple(given: Iterable[T]) -> tuple[T, ...]:
    """Convert an iterable other than a string to a tuple; ``check_each`` validates the result.

    Each field wraps it in a function of its own, because type checkers do not resolve generic
    converters.
    """
    if not isinstance(given, tuple | str):
        try:
            parts = iter(given)
        except TypeError:
            pass
        else:
            return tuple(parts)
    return cast("tuple[T, ...]", given)


def _is_mapping(given: object) -> bool:
    return type(given) is dict or isinstance(given, Mapping)


# Validators -------------------------------------------------------------------------------


def check_text(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a non-empty string."""
    if not isinstance(value, str) or not value:
        raise InvalidValueError(attribute.name, value, "a non-empty string")


def check_string(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a string."""
    if not isinstance(value, str):
        raise InvalidValueError(attribute.name, value, "a string")


def check_namespace(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a namespace: a non-empty string without a slash.

    With a slash, two groups could share one key ``namespace/name``.
    """
    if not isinstance(value, str) or not value or "/" in value:
        raise InvalidValueError(attribute.name, value, "a non-empty string without a slash")


def check_instant(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require an instant: a finite number of seconds."""
    if not is_seconds(value):
        raise InvalidValueError(attribute.name, value, "a finite number of seconds")


def check_seconds(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a duration: a finite number of seconds >= 0."""
    if not is_seconds(value) or value < 0:
        raise InvalidValueError(attribute.name, value, "a finite number of seconds >= 0")


def check_positive(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require an int >= 1."""
    if type(value) is not int or value < 1:
        raise InvalidValueError(attribute.name, value, "an int >= 1")


def check_whole(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require an int."""
    if type(value) is not int:
        raise InvalidValueError(attribute.name, value, "an int")


def check_count(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require an int >= 0; a bool is not accepted."""
    if type(value) is not int or value < 0:
        raise InvalidValueError(attribute.name, value, "an int >= 0")


def check_flag(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a bool."""
    if type(value) is not bool:
        raise InvalidValueError(attribute.name, value, "a bool")


def check_amounts(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require ``Resources`` with no amount below zero."""
    if value is NOTHING:
        return
    if not isinstance(value, Resources):
        if isinstance(value, Mapping):
            names = cast("Mapping[object, object]", value)
            value = next(name for name in names if not isinstance(name, str))
        raise InvalidValueError(attribute.name, value, "a mapping of names to quantities")
    for name, amount in value.items():
        if amount < 0:
            raise InvalidValueError(
                f"{attribute.name}.{name}",
                format_quantity(amount),
                "a quantity >= 0",
            )


def check_texts(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a mapping of strings to strings."""
    if value is EMPTY:
        return
    if not isinstance(value, Mapping):
        raise InvalidValueError(attribute.name, value, "a mapping of strings to strings")
    for name, one in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not isinstance(one, str):
            raise InvalidValueError(f"{attribute.name}.{name}", one, "a string")


def check_counts(_owner: object, attribute: Attribute[Any], value: object) -> None:
    """Require a mapping of non-empty strings to ints >= 1."""
    if value is EMPTY:
        return
    if not isinstance(value, Mapping) or isinstance(value, Resources):
        raise InvalidValueError(attribute.name, value, "a mapping of strings to ints")
    for name, count in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not name:
            raise InvalidValueError(
                attribute.name, name, "a mapping with non-empty strings as names"
            )
        if type(count) is not int or count < 1:
            expected = "an int >= 1"
            raise InvalidValueError(f"{attribute.name}.{name}", count, expected)


def check_each(kind: type[object], expected: str) -> Check:
    """Return a validator that requires a tuple of *kind*."""

    def check(_owner: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, tuple):
            raise InvalidValueError(
                attribute.name, value, f"a sequence with {expected} as each item"
            )
        for index, one in enumerate(cast("tuple[object, ...]", value)):
            if not isinstance(one, kind):
                raise InvalidValueError(f"{attribute.name}[{index}]", one, expected)

    return check


def check_optional(kind: type[object], expected: str) -> Check:
    """Return a validator that requires a value of *kind*, or None."""

    def check(_owner: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None and not isinstance(value, kind):
            raise InvalidValueError(attribute.name, value, expected)

    return check


def of_group(check: Check) -> Check:
    """Return a validator whose error names the group too."""

    def check_and_name(owner: _Keyed, attribute: Attribute[Any], value: object) -> None:
        try:
            check(owner, attribute, value)
        except InvalidValueError as error:
            raise InvalidPodGroupError(
                owner.key, error.field, error.value, error.expected
            ) from None

    return check_and_name


def check_now(now: object) -> None:
    """Require the argument ``now`` to be an instant.

    Raises:
        InvalidValueError: *now* is not a finite number of seconds.
    """
    if type(now) is float and -math.inf < now < math.inf:
        return  # with every call of the scheduler, and of parts of it
    if not is_seconds(now):
        raise InvalidValueError("now", now, "a finite number of seconds")


def refuse_choice(kind: type[enum.Enum], field: str, value: object) -> NoReturn:
    """Raise for a value that is not a member of an enumeration."""
    raise InvalidValueError(field, value, "one of " + ", ".join(one.value for one in kind))
