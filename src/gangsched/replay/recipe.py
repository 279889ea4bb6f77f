"""How a scheduler is made, as a value: a preset and its arguments.

Rules:
  R1  a recipe has every argument of the preset but the plugins; one that is not given has its
      default. So a default that changes later does not change what the recipe makes. The form of an
      argument follows from its type;
  R2  a recipe that was written is read back as an equal one. One of an earlier version may lack
      fields that an option has by now: ``_LATER``;
  R3  a recipe may come from a file of unknown origin, so the work of one decision is bounded:
      ``MOST_STEPS``.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, final, get_args, get_type_hints

from attrs import has

from gangsched import presets
from gangsched.errors import InvalidValueError
from gangsched.model import FrozenMap, Resources
from gangsched.options.levels import as_levels
from gangsched.options.preemption import Preemption
from gangsched.options.quota import Quota
from gangsched.primitives.backoff import Backoff
from gangsched.protocols import ClusterState
from gangsched.run_times import AnnotatedRunTimes, RunTimes
from gangsched.scheduler import Scheduler
from gangsched.values.forms import (
    BOOL,
    INT,
    LIMITS,
    SECONDS,
    STR,
    Form,
    Record,
    as_object,
    at,
    choice,
    many,
    optional,
)

__all__ = ["MOST_STEPS", "Recipe"]

_PRESETS: Final[Mapping[str, Callable[..., Scheduler]]] = {
    "coscheduling": presets.coscheduling,
    "gang": presets.gang,
    "pod_by_pod": presets.pod_by_pod,
}
_FORMER_NAMES: Final = {"pod-by-pod": "pod_by_pod"}
"""Names in logs of earlier versions, by which a preset can still be read."""

MOST_STEPS: Final = 1_000_000
"""The largest search budget of a recipe, in steps."""


def _read_steps(value: object, path: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_STEPS:
        raise InvalidValueError(path, value, f"an int from 0 to {MOST_STEPS}")
    return value


_STEPS: Final[Form[int]] = Form(lambda value: value, _read_steps)
_LEVELS: Final[Form[Any]] = Form(
    lambda value: [[*keys] for keys in as_levels(value).topologies],
    lambda value, path: many(many(STR)).read(value, path),
)
_WRITABLE: Final[Mapping[object, type[Any]]] = {RunTimes: AnnotatedRunTimes}
"""By the type of an option, the one class of it that a recipe can have."""
_LATER: Final[Mapping[object, tuple[str, ...]]] = {
    Preemption: ("reclaim",),
    Quota: ("parent", "nominal", "borrow", "lend", "weight", "reclaim_from"),
}
"""By the class of an option, the fields that recipes of earlier versions lack."""
_FORMS: Final[Mapping[object, Form[Any]]] = {
    bool: BOOL,
    int: INT,
    float: SECONDS,
    str: STR,
    Resources: LIMITS,
}


def _form(name: str, kind: Any) -> Form[Any]:
    """Return the form of an option, by its name and type."""
    if name == "search_budget":
        return _STEPS
    if name == "levels":
        return _LEVELS
    parts = get_args(kind)
    if NoneType in parts:
        return optional(_form(name, next(each for each in parts if each is not NoneType)))
    if parts:
        return many(_form(name, parts[0]))
    kind = _WRITABLE.get(kind, kind)
    if has(kind):
        fields = get_type_hints(kind)
        forms = {n: _form(n, of) for n, of in fields.items()}
        return Record(kind, _LATER.get(kind, ()), whole=True, **forms).form
    return choice(kind) if issubclass(kind, enum.Enum) else _FORMS[kind]


_NOT_WRITTEN: Final = ("cluster", "plugins", "return", "weights")
_ARGUMENTS: Final[Mapping[str, Form[Any]]] = {
    name: _form(name, kind)
    for preset in _PRESETS.values()
    for name, kind in get_type_hints(preset).items()
    if name not in _NOT_WRITTEN
}


def _taken(name: str, value: Any) -> Any:
    """Return an argument as it would be read back; an enumeration's value becomes its member."""
    form = _ARGUMENTS[name]
    try:
        written = value if isinstance(value, str) else form.write(value)
    except (AttributeError, TypeError):
        written = value
    return form.read(written, name)


@final
class Recipe:
    """A preset and its arguments: makes schedulers, and can be written into a log.

    A recipe is called with a cluster state, as the presets are::

        make = Recipe("coscheduling", permit_timeout=30.0)
        scheduler = make(cluster)

    Attributes:
        preset: ``coscheduling``, ``gang`` or ``pod_by_pod``.
        arguments: Every argument of the preset except the cluster state.

    Raises:
        InvalidValueError: There is no such preset, it has no such argument, or an argument is
            malformed. A search budget is at most 1,000,000 steps.
    """

    __slots__ = ("arguments", "preset")

    def __init__(self, preset: str, **arguments: Any) -> None:
        made_by = _PRESETS.get(preset) if isinstance(preset, str) else None
        if made_by is None:
            raise InvalidValueError("preset", preset, "one of " + ", ".join(_PRESETS))
        takes = inspect.signature(made_by).parameters
        names = [name for name in takes if name in _ARGUMENTS]
        for name in arguments:
            if name not in names:
                expected = f"among those of presets.{made_by.__name__}: {', '.join(names)}"
                raise InvalidValueError("arguments", name, expected)
        given = {name: arguments.get(name, takes[name].default) for name in names}
        if given["backoff"] is None:
            given["backoff"] = Backoff()
        self.preset: str = preset
        self.arguments: FrozenMap[Any] = FrozenMap(
            {name: _taken(name, value) for name, value in given.items()}
        )

    def __call__(self, cluster: ClusterState) -> Scheduler:
        """Return a new scheduler over a cluster state.

        Raises:
            InvalidValueError: An argument is malformed.
        """
        return _PRESETS[self.preset](cluster, **self.arguments)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recipe):
            return NotImplemented
        return (self.preset, self.arguments) == (other.preset, other.arguments)

    def __hash__(self) -> int:
        return hash((self.preset, self.arguments))

    def __repr__(self) -> str:
        arguments = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        return f"Recipe({self.preset!r}{arguments})"

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data, for the header of a log."""
        arguments = {n: _ARGUMENTS[n].write(value) for n, value in self.arguments.items()}
        return {"preset": self.preset, "arguments": arguments}

    @classmethod
    def from_json(cls, data: object, *, path: str = "") -> Recipe:
        """Return the recipe of plain data.

        Args:
            data: What ``to_json`` returned.
            path: The path of the data, for errors.

        Raises:
            InvalidValueError: The data is malformed; the error names the field.
        """
        given = as_object(data, path)
        if given.keys() != {"preset", "arguments"}:
            raise InvalidValueError(path, data, "an object with preset and arguments")
        read: dict[str, Any] = {}
        inside = at(path, "arguments")
        arguments = as_object(given["arguments"], inside)
        for name, value in arguments.items():
            form = _ARGUMENTS.get(name)
            if form is None:
                raise InvalidValueError(inside, name, "among those of the presets")
            read[name] = form.read(value, at(inside, name))
        preset = given["preset"]
        if isinstance(preset, str):
            preset = _FORMER_NAMES.get(preset, preset)
        try:
            return cls(preset, **read)
        except InvalidValueError as error:
            raise InvalidValueError(at(path, error.field), error.value, error.expected) from error
