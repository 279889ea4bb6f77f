"""The arguments of one plugin in a configuration file.

Rules:
  R1  an argument that stands for a field of a class of options has the name of the field, in camel
      case, with ``Seconds`` behind a duration. Type, bounds and default are those of the field;
  R2  each argument is read once; what was not read is an error.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from attrs import fields

from gangsched.configuration.scoring import read_scoring_strategy
from gangsched.configuration.settings import ProfileSettings
from gangsched.configuration.spread import read_default_constraints
from gangsched.errors import InvalidValueError
from gangsched.model import TopologySpreadConstraint
from gangsched.plugins import NodeResources
from gangsched.values.fields import check_positive
from gangsched.values.hints import hint

__all__ = ["Arguments", "argument_name"]

D = TypeVar("D")
E = TypeVar("E", bound=Enum)


class Arguments:
    """The arguments of one plugin, each of which is read once."""

    def __init__(self, plugin: str, profile: ProfileSettings) -> None:
        self._plugin = plugin
        self._given: dict[str, Any] = dict(profile.args.get(plugin, {}))
        self._known: set[str] = set()
        # the same fields in every args of kube-scheduler
        self._given.pop("apiVersion", None)
        self._given.pop("kind", None)

    def path(self, name: str) -> str:
        return f"profiles[0].pluginConfig[{self._plugin}].args.{name}"

    def options(
        self, kind: type[Any], *, absent: Collection[str] = (), **defaults: Any
    ) -> dict[str, Any]:
        """Return the fields of a class of options.

        Args:
            kind: The attrs class.
            absent: The fields that a file cannot have.
            defaults: By the name of a field, its default if it is not that of the class.
        """
        found: dict[str, Any] = {}
        hints = get_type_hints(kind)
        for each in fields(kind):
            if each.name in absent:
                continue
            of, default = hints[each.name], defaults.get(each.name, each.default)
            name = argument_name(each.name, of)
            if of is bool:
                found[each.name] = self.flag(name, default)
            elif of is float:
                found[each.name] = self.seconds(name, default)
            elif of is int:
                least = 1 if each.validator is check_positive else 0
                found[each.name] = self.whole(name, default, least=least)
            else:  # an enumeration; None says that there is no choice
                (choices,) = (part for part in get_args(of) or (of,) if part is not NoneType)
                found[each.name] = self.choice(name, choices, default)
        return found

    def choice(self, name: str, kind: type[E], default: D) -> E | D:
        given = self._take(name)
        if given is None:
            return default
        for each in kind:
            if each.value == given:
                return each
        expected = f"one of {', '.join(str(each.value) for each in kind)}"
        raise InvalidValueError(self.path(name), given, expected)

    def whole(self, name: str, default: int, *, least: int = 0) -> int:
        given = self._take(name, default)
        if type(given) is not int or given < least:
            raise InvalidValueError(self.path(name), given, f"a whole number >= {least}")
        return given

    def flag(self, name: str, default: bool) -> bool:
        given = self._take(name, default)
        if type(given) is not bool:
            raise InvalidValueError(self.path(name), given, "true or false")
        return given

    def seconds(self, name: str, default: float) -> float:
        given = self._take(name, default)
        if type(given) not in (int, float) or not 0 <= given <= 1e9:
            raise InvalidValueError(self.path(name), given, "a number of seconds >= 0")
        return float(given)

    def strategy(self, name: str) -> NodeResources:
        return read_scoring_strategy(self.path(name), self._take(name))

    def constraints(self, name: str) -> tuple[TopologySpreadConstraint, ...]:
        return read_default_constraints(self.path(name), self._take(name))

    def close(self) -> None:
        for name, value in self._given.items():
            expected = f"absent: it is not an argument here{hint(name, self._known)}"
            raise InvalidValueError(self.path(name), value, expected)

    def _take(self, name: str, default: object = None) -> Any:
        self._known.add(name)
        return self._given.pop(name, default)


def argument_name(field: str, kind: object) -> str:
    """Return the name that a file has for a field of a class of options."""
    first, *others = field.split("_")
    if kind is float and others[-1:] != ["seconds"]:
        others.append("seconds")
    return first + "".join(word.capitalize() for word in others)
