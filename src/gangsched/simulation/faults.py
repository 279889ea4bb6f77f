"""Faults: what goes wrong in a run, and where, as values.

Rules:
  R1  a fault names its place by counting from 1, or by an instant; so one plan and one seed give
      one history;
  R2  a plan can be printed, written and read back: ``eval(repr(plan)) == plan``;
  R3  a fault whose place is never reached has no effect, and no other fault replaces it.

What is counted:
  - binds: each ``Bind`` that is performed, in the run or of one group;
  - members: each pod that is assigned to a node, whether it waits on permit or is bound at once;
  - events: each event that a watch would deliver: all except the answers to binds;
  - calls: each call of the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast, final

from attrs import field, frozen, validators

from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey
from gangsched.quantity import is_seconds
from gangsched.values.fields import (
    as_tuple,
    check_flag,
    check_instant,
    check_positive,
    check_seconds,
    check_text,
)
from gangsched.values.forms import BOOL, INT, SECONDS, STR, Form, Record, many, optional, union

__all__ = [
    "BindAnswerLost",
    "BindFails",
    "BindSlow",
    "ClockJumps",
    "EventDelayed",
    "EventDropped",
    "EventDuplicated",
    "EventReordered",
    "Fault",
    "FaultPlan",
    "NodeVanishes",
    "SchedulerRestarts",
]


_group: Final = validators.optional(check_text)


@final
@frozen
class BindFails:
    """A bind fails: the pod is not bound, and the scheduler is notified.

    Attributes:
        bind: The number of the bind.
        group: Count only the binds of this group; None to count every bind of the run.
    """

    bind: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)


@final
@frozen
class BindAnswerLost:
    """A bind succeeds but is reported as failed; the watch delivers the truth.

    Attributes:
        bind: The number of the bind.
        group: Count only the binds of this group; None to count every bind of the run.
        seconds: How long after the report the watch delivers that the pod is bound. With 0 the
            cluster state shows it already when the failure is reported.
    """

    bind: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)
    seconds: float = field(default=0.0, validator=check_seconds)


@final
@frozen
class BindSlow:
    """A bind takes longer than others.

    Attributes:
        bind: The number of the bind.
        group: Count only the binds of this group; None to count every bind of the run.
        seconds: How much longer.
    """

    bind: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)
    seconds: float = field(default=30.0, validator=check_seconds)


@final
@frozen
class NodeVanishes:
    """A node disappears while a gang is scheduled, with all pods on it.

    Attributes:
        member: The number of the member. The node that the member is assigned to disappears: when
            the member starts to wait on permit, or before it is bound.
        group: Count only the members of this group; None to count every pod of the run.
        seconds: How long after that the node is added again, without pods; None for never.
    """

    member: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)
    seconds: float | None = field(default=None, validator=validators.optional(check_seconds))


@final
@frozen
class EventDuplicated:
    """An event is delivered twice.

    Attributes:
        event: The number of the event.
        seconds: How long after the event it is delivered again.
    """

    event: int = field(validator=check_positive)
    seconds: float = field(default=0.0, validator=check_seconds)


@final
@frozen
class EventDelayed:
    """An event is delivered late.

    Attributes:
        event: The number of the event.
        seconds: How late.
    """

    event: int = field(validator=check_positive)
    seconds: float = field(default=5.0, validator=check_seconds)


@final
@frozen
class EventReordered:
    """An event is delivered after later ones.

    Attributes:
        event: The number of the event.
        by: How many other events are delivered first; fewer if nothing else happens.
    """

    event: int = field(validator=check_positive)
    by: int = field(default=1, validator=check_positive)


@final
@frozen
class EventDropped:
    """An event is not delivered; a listing shows it later.

    Attributes:
        event: The number of the event.
        seconds: How long after the event the scheduler reads a listing.
    """

    event: int = field(validator=check_positive)
    seconds: float = field(default=30.0, validator=check_seconds)


@final
@frozen
class SchedulerRestarts:
    """A new scheduler takes over from a listing.

    Effects of the old scheduler that were not performed yet are dropped. Binds in progress are not
    answered; the watch delivers those that succeed.

    Attributes:
        call: The number of the call before which the scheduler is replaced.
    """

    call: int = field(validator=check_positive)


@final
@frozen
class ClockJumps:
    """The clock jumps forward: what was due in between happens at once, late.

    Attributes:
        at: The instant of the jump.
        seconds: How far the clock jumps.
    """

    at: float = field(validator=check_instant)
    seconds: float = field(default=60.0, validator=check_seconds)


Fault: TypeAlias = (
    BindFails
    | BindAnswerLost
    | BindSlow
    | NodeVanishes
    | EventDuplicated
    | EventDelayed
    | EventReordered
    | EventDropped
    | SchedulerRestarts
    | ClockJumps
)

_GROUP: Final = optional(STR)
_RECORDS: Final[tuple[Record[Any], ...]] = (
    Record(BindFails, bind=INT, group=_GROUP),
    Record(BindAnswerLost, bind=INT, group=_GROUP, seconds=SECONDS),
    Record(BindSlow, bind=INT, group=_GROUP, seconds=SECONDS),
    Record(NodeVanishes, member=INT, group=_GROUP, seconds=optional(SECONDS)),
    Record(EventDuplicated, event=INT, seconds=SECONDS),
    Record(EventDelayed, event=INT, seconds=SECONDS),
    Record(EventReordered, event=INT, by=INT),
    Record(EventDropped, event=INT, seconds=SECONDS),
    Record(SchedulerRestarts, call=INT),
    Record(ClockJumps, at=SECONDS, seconds=SECONDS),
)
_FAULTS: Final[Form[Any]] = many(union(*_RECORDS))
_KINDS: Final = tuple(record.kind for record in _RECORDS)


def _as_faults(given: Iterable[Fault]) -> tuple[Fault, ...]:
    return as_tuple(given)


def _check_faults(_owner: object, _attribute: object, value: object) -> None:
    if not isinstance(value, tuple):
        raise InvalidValueError("faults", value, "a sequence of faults")
    for index, fault in enumerate(cast("tuple[object, ...]", value)):
        if type(fault) not in _KINDS:
            raise InvalidValueError(f"faults[{index}]", fault, "a Fault")


@final
@frozen
class FaultPlan:
    """The faults of a run.

    Attributes:
        faults: The faults. If several apply to one event or one bind, the first decides what
            happens to it; an event may also be delivered twice, and a bind may also be slow.
        ahead: Whether the scheduler sees the cluster as it is, also before an event is
            delivered. If not, it sees what was delivered, as in the cache behind a watch.
    """

    faults: tuple[Fault, ...] = field(default=(), converter=_as_faults, validator=_check_faults)
    ahead: bool = field(default=False, validator=check_flag)

    @classmethod
    def drawn(
        cls, seed: int, *, count: int = 8, places: int = 40, seconds: float = 60.0
    ) -> FaultPlan:
        """Return a plan that is drawn from a seed.

        Args:
            seed: A whole number; the same seed gives the same plan.
            count: How many faults.
            places: The largest number of a bind, a member or an event; four times that for calls.
            seconds: The longest duration of a fault, and the last instant of a clock jump.

        Raises:
            InvalidValueError: An argument is malformed.
        """
        for name, value, least in (("count", count, 0), ("places", places, 1)):
            if type(value) is not int or value < least:
                raise InvalidValueError(name, value, f"an int >= {least}")
        if type(seed) is not int:
            raise InvalidValueError("seed", seed, "an int")
        if not is_seconds(seconds) or seconds < 0:
            raise InvalidValueError("seconds", seconds, "a finite number of seconds >= 0")
        draw = random.Random(seed)

        def place() -> int:
            return draw.randint(1, places)

        def while_() -> float:
            return round(draw.uniform(0, seconds), 1)

        kinds: tuple[Callable[[], Fault], ...] = (
            lambda: BindFails(place()),
            lambda: BindAnswerLost(place(), None, draw.choice((0.0, while_()))),
            lambda: BindSlow(place(), None, while_()),
            lambda: NodeVanishes(place(), None, draw.choice((None, while_()))),
            lambda: EventDuplicated(place(), draw.choice((0.0, while_()))),
            lambda: EventDelayed(place(), while_()),
            lambda: EventReordered(place(), draw.randint(1, 3)),
            lambda: EventDropped(place(), while_()),
            lambda: SchedulerRestarts(draw.randint(1, 4 * places)),
            lambda: ClockJumps(while_(), while_()),
        )
        return cls(tuple(draw.choice(kinds)() for _ in range(count)), ahead=draw.random() < 0.5)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain data: ``faults``, each with its ``kind``, and ``ahead``."""
        return {"faults": _FAULTS.write(self.faults), "ahead": self.ahead}

    @classmethod
    def from_json(cls, data: object) -> FaultPlan:
        """Return the plan of plain data.

        Args:
            data: What ``to_json`` returned.

        Raises:
            InvalidValueError: The data is malformed; the error names the field.
        """
        if not isinstance(data, dict):
            raise InvalidValueError("plan", data, "an object with faults and ahead")
        return _PLAN.read(cast("object", data), "")


_PLAN: Final = Record(FaultPlan, faults=_FAULTS, ahead=BOOL)
