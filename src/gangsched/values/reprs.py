"""The ``repr`` of the values in ``gangsched.model`` and ``gangsched.constraints``.

Rules:
  R1  ``eval`` of a ``repr`` gives an equal value, where the public names of ``gangsched`` are
      imported;
  R2  attributes that have their default are left out, so that the rest can be read;
  R3  a mapping is written as a plain dict, and an amount in Kubernetes' notation: the constructors
      take both;
  R4  Hypothesis and IPython print it too. Without ``_repr_pretty_``, Hypothesis prints the call
      that drew a value, whose function is private to a strategy.
"""

from __future__ import annotations

import enum
from typing import Any, Protocol, cast

from attrs import Attribute, Factory, fields

from gangsched.resources import FrozenMap, Resources

__all__ = ["Printer", "pretty_repr", "short_repr"]


class Printer(Protocol):
    """What Hypothesis and IPython pass to ``_repr_pretty_``."""

    def text(self, obj: str) -> None:
        """Write a text."""
        ...

    def break_(self) -> None:
        """Begin a new line, indented."""
        ...

    def begin_group(self, indent: int = 0, open: str = "") -> None:  # noqa: A002  # its name
        """Write a text, and indent the lines that follow."""
        ...

    def end_group(self, dedent: int = 0, close: str = "") -> None:
        """Indent the lines that follow less, and write a text."""
        ...


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


def pretty_repr(value: object, printer: Printer, cycle: bool) -> None:
    """Print the ``repr`` of a value; a class has this function as ``_repr_pretty_``."""
    printer.text(repr(value))


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
