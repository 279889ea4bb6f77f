"""How a scheduler is made, as a value: a preset and its arguments.

Rules:
  R1  every argument of the preset is in it, those left out with their default, so that a default
      that changes later does not change what the recipe makes;
  R2  a recipe that was written is read back as an equal one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from gangsched import presets
from gangsched._core._backoff import Backoff
from gangsched._core._ordering import Order
from gangsched._core._quorum import MatchPolicy
from gangsched._forms import SECONDS, TEXT, WHOLE, Form, Record, as_object, at, choice, optional
from gangsched.coscheduling import WhenBindFails, WhenBlocked
from gangsched.errors import InvalidValueError
from gangsched.framework import Backfill, PlacementStrategy, Preemption, Scheduler, SchedulingUnit
from gangsched.model import FrozenMap
from gangsched.protocols import ClusterState
from gangsched.run_times import AnnotatedRunTimes

__all__ = ["Recipe"]

_PRESETS: Final[Mapping[str, Callable[..., Scheduler]]] = {
    "coscheduling": presets.coscheduling,
    "gang": presets.gang,
    "pod_by_pod": presets.pod_by_pod,
}
_BACKOFF: Final = Record(Backoff, whole=True, initial=SECONDS, maximum=SECONDS)
_PREEMPTION: Final = Record(Preemption, whole=True, grace=SECONDS, search_budget=WHOLE)
_RUN_TIMES: Final = Record(
    AnnotatedRunTimes, whole=True, annotation=TEXT, wrong_by=SECONDS, seed=WHOLE
)
_BACKFILL: Final = Record(
    Backfill,
    whole=True,
    run_times=optional(_RUN_TIMES.form),
    after_attempts=WHOLE,
    after_seconds=SECONDS,
    least_members=WHOLE,
    overdue_after=SECONDS,
    drain_for=SECONDS,
)
_ARGUMENTS: Final[Mapping[str, Form[Any]]] = {
    "permit_timeout": SECONDS,
    "order": choice(Order),
    "when_blocked": choice(WhenBlocked),
    "reject_percentage": WHOLE,
    "match_policy": choice(MatchPolicy),
    "when_bind_fails": choice(WhenBindFails),
    "unit": choice(SchedulingUnit),
    "placement": choice(PlacementStrategy),
    "search_budget": WHOLE,
    "backoff": _BACKOFF.form,
    "preemption": optional(_PREEMPTION.form),
    "backfill": optional(_BACKFILL.form),
}


def _taken(name: str, value: Any) -> Any:
    """Return an argument as it is read back; a text for the member of an enumeration."""
    form = _ARGUMENTS[name]
    try:
        written = value if isinstance(value, str) else form.write(value)
    except (AttributeError, TypeError):
        written = value
    return form.read(written, name)


@final
class Recipe:
    """A preset and its arguments: makes schedulers, and can be written down.

    It is called with a cluster state, as the presets are::

        make = Recipe("coscheduling", permit_timeout=30.0)
        scheduler = make(cluster)

    Attributes:
        preset: ``coscheduling``, ``gang`` or ``pod_by_pod``.
        arguments: All arguments of the preset but the cluster state.

    Raises:
        InvalidValueError: There is no such preset, or it has no such argument.
    """

    __slots__ = ("arguments", "preset")

    def __init__(self, preset: str, **arguments: Any) -> None:
        made_by = _PRESETS.get(preset)
        if made_by is None:
            raise InvalidValueError("preset", preset, "one of " + ", ".join(_PRESETS))
        takes = inspect.signature(made_by).parameters
        names = [name for name in takes if name in _ARGUMENTS]
        for name, value in arguments.items():
            if name not in names:
                raise InvalidValueError(name, value, f"an argument of presets.{preset}")
        given = {name: arguments.get(name, takes[name].default) for name in names}
        if given["backoff"] is None:
            given["backoff"] = Backoff()
        self.preset: str = preset
        self.arguments: FrozenMap[Any] = FrozenMap(
            {name: _taken(name, value) for name, value in given.items()}
        )

    def __call__(self, cluster: ClusterState) -> Scheduler:
        """Make a scheduler over a cluster state.

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
        """Return it as plain data, for a log's header."""
        arguments = {n: _ARGUMENTS[n].write(value) for n, value in self.arguments.items()}
        return {"preset": self.preset, "arguments": arguments}

    @classmethod
    def from_json(cls, data: object, *, path: str = "") -> Recipe:
        """Return the recipe of plain data.

        Args:
            data: What ``to_json`` returned.
            path: Where it stands, for errors.

        Raises:
            InvalidValueError: It is malformed; names the field.
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
                raise InvalidValueError(at(inside, name), value, "an argument of a preset")
            read[name] = form.read(value, at(inside, name))
        try:
            return cls(given["preset"], **read)
        except InvalidValueError as error:
            raise InvalidValueError(at(path, error.field), error.value, error.expected) from error
