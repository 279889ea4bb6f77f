"""Write values as JSON data and read them back: one form for each kind of value.

Rules:
  R1  reading a written value returns an equal value;
  R2  the forms are a closed set: data that no form describes is an error;
  R3  a field with its default value is left out, and a missing field is read as the default;
  R4  an error names the dotted path of the data and the value.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast, final

from attrs import NOTHING as REQUIRED
from attrs import fields_dict, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import FrozenMap, Resources
from gangsched.quantity import is_seconds
from gangsched.resources import with_zeros

__all__ = [
    "BOOL",
    "STRS_BY_NAME",
    "JSON",
    "LIMITS",
    "RESOURCES",
    "SECONDS",
    "STR",
    "INT",
    "Form",
    "Record",
    "as_object",
    "at",
    "by_name",
    "choice",
    "many",
    "mapping",
    "optional",
    "row",
    "union",
]

T = TypeVar("T")


@final
@frozen
class Form(Generic[T]):
    """Two functions that write and read values of one kind.

    Attributes:
        write: Returns the JSON data of a value.
        read: Returns the value of JSON data. The second argument is the path of the data, for
            the message of ``InvalidValueError``.
    """

    write: Callable[[T], Any]
    read: Callable[[Any, str], T]


def at(path: str, name: str) -> str:
    """Return the path of the field *name* of the object at *path*."""
    return f"{path}.{name}" if path else name


def _checked(kind: Callable[[Any], bool], expected: str) -> Form[Any]:
    def read(value: Any, path: str) -> Any:
        if not kind(value):
            raise InvalidValueError(path, value, expected)
        return value

    return Form(lambda value: value, read)


STR: Final[Form[Any]] = _checked(lambda value: isinstance(value, str), "a string")
INT: Final[Form[Any]] = _checked(lambda value: type(value) is int, "an int")
BOOL: Final[Form[Any]] = _checked(lambda value: type(value) is bool, "a bool")

# An error about an unknown field lists the fields of the object if there are at most this many.
_LISTED: Final = 12
_ENDLESS: Final = {"Infinity": math.inf, "-Infinity": -math.inf}


def _write_seconds(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"


def _read_seconds(value: Any, path: str) -> float:
    if isinstance(value, str) and value in _ENDLESS:
        return _ENDLESS[value]
    if not is_seconds(value):
        raise InvalidValueError(path, value, 'a finite number of seconds or "Infinity"')
    return value


SECONDS: Final = Form(_write_seconds, _read_seconds)
"""A number of seconds; an infinite one is written as a string."""


def _plain(value: Any, path: str) -> Any:
    # amounts in thousandths would be read back as whole units
    if issubclass(type(value), FrozenMap):
        raise InvalidValueError(path, value, "plain JSON data")
    if isinstance(value, dict):
        entries = cast("Mapping[Any, Any]", value)
        if not all(isinstance(name, str) for name in entries):
            raise InvalidValueError(path, entries, "an object with strings as names")
        return {name: _plain(one, at(path, name)) for name, one in entries.items()}
    if isinstance(value, list):
        items = cast("Sequence[Any]", value)
        return [_plain(one, f"{path}[{index}]") for index, one in enumerate(items)]
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, bool | int | float | str | type(None)) or not is_finite:
        raise InvalidValueError(path, value, "plain JSON data")
    return value


JSON: Final[Form[Any]] = Form(lambda value: _plain(value, "value"), _plain)
"""Any JSON data; reading and writing copy it."""


def as_object(value: Any, path: str) -> dict[str, Any]:
    """Require a JSON object.

    Raises:
        InvalidValueError: *value* is not a dict.
    """
    if not isinstance(value, dict):
        raise InvalidValueError(path, value, "an object")
    return cast("dict[str, Any]", value)


def _list(value: Any, path: str) -> list[object]:
    if not isinstance(value, list):
        raise InvalidValueError(path, value, "a list")
    return cast("list[object]", value)


def optional(form: Form[Any]) -> Form[Any]:
    """Return the form of a value or None."""
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda value, path: None if value is None else form.read(value, path),
    )


def many(form: Form[T]) -> Form[tuple[T, ...]]:
    """Return the form of a tuple of any length."""
    return Form(
        lambda values: [form.write(value) for value in values],
        lambda values, path: tuple(
            form.read(value, f"{path}[{index}]") for index, value in enumerate(_list(values, path))
        ),
    )


def row(*forms: Form[Any]) -> Form[tuple[Any, ...]]:
    """Return the form of a tuple with one value for each form."""

    def read(values: Any, path: str) -> tuple[Any, ...]:
        given = _list(values, path)
        if len(given) != len(forms):
            raise InvalidValueError(path, given, f"{len(forms)} values")
        return tuple(
            form.read(value, f"{path}[{index}]")
            for index, (form, value) in enumerate(zip(forms, given, strict=True))
        )

    return Form(
        lambda values: [form.write(one) for form, one in zip(forms, values, strict=True)], read
    )


def mapping(form: Form[T]) -> Form[FrozenMap[T]]:
    """Return the form of a mapping with strings as keys."""
    return Form(
        lambda value: {name: form.write(one) for name, one in value.items()},
        lambda value, path: FrozenMap(
            {name: form.read(one, at(path, name)) for name, one in as_object(value, path).items()}
        ),
    )


STRS_BY_NAME: Final[Form[Any]] = mapping(STR)
_MOST: Final = 1 << 96
_AMOUNTS: Final[Form[Any]] = mapping(
    _checked(
        lambda value: type(value) is int and -_MOST <= value <= _MOST, "an int of at most 96 bits"
    )
)
_DEFAULTED: Final = "defaulted"


def _write_resources(value: Resources) -> dict[str, Any]:
    amounts: dict[str, Any] = value.to_milli()
    return {**amounts, _DEFAULTED: dict(value.defaulted)} if value.defaulted else amounts


def _read_resources(value: Any, path: str) -> Resources:
    given = as_object(value, path)
    # an amount is an int, so an object is not the amount of a resource of this name
    if not isinstance(given.get(_DEFAULTED), Mapping):
        return Resources.from_milli(_AMOUNTS.read(given, path))
    amounts = {name: one for name, one in given.items() if name != _DEFAULTED}
    defaulted = _AMOUNTS.read(given[_DEFAULTED], at(path, _DEFAULTED))
    return Resources.from_milli(_AMOUNTS.read(amounts, path)).with_defaulted(defaulted)


def _read_limits(value: Any, path: str) -> Resources:
    found = _read_resources(value, path)
    return with_zeros(found, (name for name in as_object(value, path) if name != _DEFAULTED))


RESOURCES: Final[Form[Resources]] = Form(_write_resources, _read_resources)
"""Amounts in thousandths. Integers, because a float would round large amounts."""

LIMITS: Final[Form[Resources]] = Form(_write_resources, _read_limits)
"""Limits in thousandths: a zero is kept."""


def choice(kind: type[enum.Enum]) -> Form[Any]:
    """Return the form of an enumeration: the values of its members."""
    values = {member.value: member for member in kind}

    def read(value: Any, path: str) -> enum.Enum:
        if not isinstance(value, str) or value not in values:
            raise InvalidValueError(path, value, "one of " + ", ".join(values))
        return values[value]

    return Form(lambda member: member.value, read)


def by_name(kind: type[enum.Enum]) -> Form[Any]:
    """Return the form of an enumeration: the names of its members in lower case."""
    members = {member.name.lower(): member for member in kind}

    def read(value: Any, path: str) -> enum.Enum:
        if not isinstance(value, str) or value not in members:
            raise InvalidValueError(path, value, "one of " + ", ".join(members))
        return members[value]

    return Form(lambda member: member.name.lower(), read)


@final
class Record(Generic[T]):
    """The form of an attrs class: a JSON object with a key for each field.

    Args:
        kind: The attrs class.
        later: Fields that data of earlier versions lacks, which are then read as their default.
        whole: Whether fields with their default value are written too; then all have to be read.
        forms: The form of each field.
    """

    def __init__(
        self,
        kind: type[T],
        later: Collection[str] = (),
        /,
        *,
        whole: bool = False,
        **forms: Form[Any],
    ) -> None:
        self.kind = kind
        self.forms: Mapping[str, Form[Any]] = forms
        # cast: type[T] cannot be declared to be an attrs class
        attributes = fields_dict(cast("Any", kind))
        self._defaults = {name: attributes[name].default for name in forms}
        plain = (bool, int, float, str, tuple, FrozenMap, enum.Enum, type(None))
        self._required: list[str] = []
        for name, default in self._defaults.items():
            if whole or default is REQUIRED or not isinstance(default, plain):
                self._defaults[name] = REQUIRED
                if name not in later:
                    self._required.append(name)
        self.form: Form[T] = Form(self.write, self.read)

    def write(self, value: T) -> dict[str, Any]:
        """Return the JSON object of a value."""
        defaults = self._defaults
        written: dict[str, Any] = {}
        for name, form in self.forms.items():
            one = getattr(value, name)
            # equal requests may differ in what is defaulted
            if one != defaults[name] or (form is RESOURCES and one.defaulted):
                written[name] = form.write(one)
        return written

    def read(self, value: Any, path: str) -> T:
        """Return the value of a JSON object."""
        given = as_object(value, path)
        for name in given:
            if name not in self.forms:
                raise InvalidValueError(at(path, name), given[name], self._absent(name, path))
        for name in self._required:
            if name not in given:
                raise InvalidValueError(at(path, name), None, "present")
        read = {name: self.forms[name].read(one, at(path, name)) for name, one in given.items()}
        try:
            return self.kind(**read)
        except InvalidValueError as error:
            raise InvalidValueError(at(path, error.field), error.value, error.expected) from error

    def _absent(self, name: str, path: str) -> str:
        """Return what was expected of a field that is unknown; a long list is not repeated."""
        of = f"of {path}" if path else "there"
        if len(self.forms) <= _LISTED:
            return f"absent: the fields {of} are {', '.join(self.forms)}"
        from difflib import get_close_matches  # only errors need it

        near = get_close_matches(name, self.forms, n=1)
        return f"absent: no field {of} has this name" + (
            f" (did you mean {near[0]}?)" if near else ""
        )


def union(*records: Record[Any]) -> Form[Any]:
    """Return the form of several classes: a JSON object with the class name as ``kind``."""
    by_kind: dict[type, Record[Any]] = {record.kind: record for record in records}
    by_name = {record.kind.__name__: record for record in records}

    def write(value: Any) -> dict[str, Any]:
        record = by_kind.get(value.__class__)
        if record is None:
            raise InvalidValueError("kind", value, "one of " + ", ".join(by_name))
        return {"kind": record.kind.__name__, **record.write(value)}

    def read(value: Any, path: str) -> Any:
        given = dict(as_object(value, path))
        name = given.pop("kind", None)
        if not isinstance(name, str) or name not in by_name:
            raise InvalidValueError(at(path, "kind"), name, "one of " + ", ".join(by_name))
        return by_name[name].read(given, path)

    return Form(write, read)
