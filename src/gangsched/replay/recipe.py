"""How a scheduler is made, as a value: a preset and its arguments.

Rules:
  R1  a recipe has every argument of the preset; one that is not given has its default. So a
      default that changes later does not change what the recipe makes;
  R2  a recipe that was written is read back as an equal one;
  R3  a recipe may come from a file of unknown origin, so the work of one decision is bounded:
      ``MOST_STEPS``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from gangsched import presets
from gangsched._core._backoff import Backoff
from gangsched._core._ordering import Order
from gangsched._core._quorum import MatchPolicy
from gangsched._core._quotas import Quota
from gangsched._forms import (
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
from gangsched.coscheduling import WhenBindFails, WhenBlocked
from gangsched.errors import InvalidValueError
from gangsched.model import FrozenMap
from gangsched.options import Backfill, PlacementStrategy, Preemption, SchedulingUnit
from gangsched.protocols import ClusterState
from gangsched.run_times import AnnotatedRunTimes
from gangsched.scheduler import Scheduler

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

_BACKOFF: Final = Record(Backoff, whole=True, initial=SECONDS, maximum=SECONDS)


def _read_steps(value: object, path: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_STEPS:
        raise InvalidValueError(path, value, f"an int from 0 to {MOST_STEPS}")
    return value


_STEPS: Final[Form[int]] = Form(lambda value: value, _read_steps)
_PREEMPTION: Final = Record(
    Preemption, whole=True, grace=SECONDS, search_budget=_STEPS, elastic_members=BOOL
)
_RUN_TIMES: Final = Record(
    AnnotatedRunTimes, whole=True, annotation=STR, wrong_by=SECONDS, seed=INT
)
_BACKFILL: Final = Record(
    Backfill,
    whole=True,
    run_times=optional(_RUN_TIMES.form),
    after_attempts=INT,
    after_seconds=SECONDS,
    least_members=INT,
    overdue_after=SECONDS,
    drain_for=SECONDS,
)
_QUOTA: Final = Record(Quota, whole=True, name=STR, namespaces=many(STR), hard=LIMITS)
_ARGUMENTS: Final[Mapping[str, Form[Any]]] = {
    "permit_timeout": SECONDS,
    "order": choice(Order),
    "when_blocked": choice(WhenBlocked),
    "reject_percentage": INT,
    "match_policy": choice(MatchPolicy),
    "when_bind_fails": choice(WhenBindFails),
    "bind_retries": INT,
    "minima_first": BOOL,
    "unit": choice(SchedulingUnit),
    "placement": choice(PlacementStrategy),
    "search_budget": _STEPS,
    "backoff": _BACKOFF.form,
    "preemption": optional(_PREEMPTION.form),
    "backfill": optional(_BACKFILL.form),
    "strict_priorities": BOOL,
    "can_evict": optional(BOOL),
    "quotas": many(_QUOTA.form),
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
