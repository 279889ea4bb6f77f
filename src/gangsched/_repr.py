"""The ``repr`` of the values in ``gangsched.model`` and ``gangsched.constraints``.

Rules:
  R1  ``eval`` of a ``repr`` gives an equal value, where the public names of ``gangsched`` are
      imported;
  R2  attributes that have their default are left out, so that the rest can be read;
  R3  a mapping is written as a plain dict, and an amount in Kubernetes' notation: the constructors
      take both.
"""

from __future__ import annotations

import enum
from typing import Any, Protocol, cast

from attrs import Attribute, Factory, fields

from gangsched.resources import FrozenMap, Resources

__all__ = ["short_repr"]


class _WithDefault(Protocol):
    """The default of an attribute that is computed, as ``attrs.Factory`` has it."""

    factory: Any
    takes_self: bool


def short_repr(value: Any) -> str:
    """Return the constructor call that makes a frozen attrs value, without defaults.

    Args:
        value: An instance of an attrs class whose ``__init__`` takes all attributes by name.
    """
    given = [
        f"{attribute.name}={_written(getattr(value, attribute.name))}"
        for attribute in _attributes_of(value)
        if getattr(value, attribute.name) != _default(value, attribute)
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def _attributes_of(value: Any) -> tuple[Attribute[Any], ...]:
    attributes: tuple[Attribute[Any], ...] = fields(_kind(value))
    return attributes


def _kind(value: object) -> Any:
    return type(value)


def _default(value: Any, attribute: Attribute[Any]) -> Any:
    default: Any = attribute.default
    if not isinstance(default, cast("type", Factory)):
        return default
    computed = cast("_WithDefault", default)
    return computed.factory(value) if computed.takes_self else computed.factory()


def _written(value: Any) -> str:
    # issubclass and not isinstance: the latter makes a type checker forget what Any may hold.
    kind = _kind(value)
    if issubclass(kind, Resources):
        return repr({name: value.quantity(name) for name in value})
    if issubclass(kind, FrozenMap):
        return repr(dict(value))
    if issubclass(kind, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if issubclass(kind, tuple):
        parts = [_written(part) for part in value]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    return repr(value)
