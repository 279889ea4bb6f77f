"""Values of an option that differ from its default, by its type."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin

from attrs import NOTHING as REQUIRED
from attrs import fields, has, resolve_types

from gangsched import AnnotatedRunTimes, Quota
from gangsched.model import Resources
from gangsched.run_times import RunTimes

__all__ = ["others"]

# a log can have these run times only
_WRITABLE: dict[object, type[Any]] = {RunTimes: AnnotatedRunTimes}
# a quota with namespaces, but without limits, is refused
_BESIDE: dict[object, dict[str, Any]] = {Quota: {"hard": Resources({"cpu": 2})}}


def others(kind: Any, default: object) -> Iterator[tuple[str, Any]]:
    """Yield values that differ from the default: of a class, one for each of its fields."""
    kind = next((each for each in get_args(kind) if NoneType in get_args(kind)), kind)
    kind = _WRITABLE.get(kind, kind)
    if get_origin(kind) is UnionType:  # the last alternative says most
        kind = get_args(kind)[-1]
    if has(kind):
        yield from _each_field(kind)
    elif get_origin(kind) is Iterable:
        for path, value in others(get_args(kind)[0], None):
            yield f"0.{path}" if path else "0", (value,)
    elif issubclass(get_origin(kind) or kind, tuple):
        yield "", ("x", "y")
    elif issubclass(kind, enum.Enum):
        yield from (("", each) for each in kind if each is not default)
    elif issubclass(kind, bool):
        yield "", not default
    elif issubclass(kind, int | float):
        yield "", 7 if default in (REQUIRED, None) else cast("float", default) + 1
    else:
        yield "", {str: "x", Resources: Resources({"cpu": 3})}[kind]


def _each_field(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value of an attrs class for each field, which alone differs from its default."""
    made = [each for each in fields(resolve_types(kind)) if each.init]
    needed = {f.name: next(others(f.type, REQUIRED))[1] for f in made if f.default is REQUIRED}
    needed |= _BESIDE.get(kind, {})
    for each in made:
        for path, value in others(each.type, each.default):
            name = f"{each.name}.{path}" if path else each.name
            yield name, kind(**{**needed, each.name: value})
