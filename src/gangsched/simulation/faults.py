"""Faults: what goes wrong in a run, and where, as values.

Rules:
  R1  a fault says where it strikes by counting what happens, from 1, or by an instant; so one plan
      and one seed give one history;
  R2  a plan can be printed, written and read back: ``eval(repr(plan)) == plan``;
  R3  a fault whose place never comes does not strike, and nothing else strikes in its stead.

What is counted:
  - binds: each ``Bind`` that is performed, in a run or of one group;
  - members: each pod that is given a node, whether it waits or is bound at once;
  - events: each fact that a watch would tell: all but the answers to binds;
  - calls: each call of the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast, final

from attrs import field, frozen
from attrs.validators import optional

from gangsched._fields import (
    as_tuple,
    check_flag,
    check_instant,
    check_positive,
    check_seconds,
    check_text,
)
from gangsched._forms import FLAG, SECONDS, TEXT, WHOLE, Form, Record, many, union
from gangsched._forms import optional as or_none
from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey
from gangsched.quantity import is_seconds

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


_group: Final = optional(check_text)


@final
@frozen
class BindFails:
    """A bind is refused: nothing is bound, and that is reported.

    Attributes:
        bind: Which bind.
        group: Of which group it is counted; None for all binds of the run.
    """

    bind: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)


@final
@frozen
class BindAnswerLost:
    """A bind is done, and reported as failed; what is true is told by the watch.

    Attributes:
        bind: Which bind.
        group: Of which group it is counted; None for all binds of the run.
        seconds: How long after the report the watch tells that the pod is bound. With 0 the
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
        bind: Which bind.
        group: Of which group it is counted; None for all binds of the run.
        seconds: How much longer.
    """

    bind: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)
    seconds: float = field(default=30.0, validator=check_seconds)


@final
@frozen
class NodeVanishes:
    """A node goes in the middle of a gang, with all that runs on it.

    Attributes:
        member: Which member is given that node: it goes when the member waits with it, or before
            the member is bound to it.
        group: Of which group members are counted; None for all pods of the run.
        seconds: How long after that the node is there again, without pods; None for never.
    """

    member: int = field(validator=check_positive)
    group: GroupKey | None = field(default=None, validator=_group)
    seconds: float | None = field(default=None, validator=optional(check_seconds))


@final
@frozen
class EventDuplicated:
    """An event is told twice.

    Attributes:
        event: Which event.
        seconds: How long after it happened it is told again.
    """

    event: int = field(validator=check_positive)
    seconds: float = field(default=0.0, validator=check_seconds)


@final
@frozen
class EventDelayed:
    """An event is told late.

    Attributes:
        event: Which event.
        seconds: How late.
    """

    event: int = field(validator=check_positive)
    seconds: float = field(default=5.0, validator=check_seconds)


@final
@frozen
class EventReordered:
    """An event is told after later ones.

    Attributes:
        event: Which event.
        by: How many others happen first; fewer when nothing else happens any more.
    """

    event: int = field(validator=check_positive)
    by: int = field(default=1, validator=check_positive)


@final
@frozen
class EventDropped:
    """An event is not told; a listing shows it.

    Attributes:
        event: Which event.
        seconds: How long after it the scheduler takes in a listing.
    """

    event: int = field(validator=check_positive)
    seconds: float = field(default=30.0, validator=check_seconds)


@final
@frozen
class SchedulerRestarts:
    """A new scheduler takes over from a listing.

    What the old one had decided and was not performed yet is not performed. Binds that are under
    way are not answered; where they succeed, the watch tells it.

    Attributes:
        call: Before which call.
    """

    call: int = field(validator=check_positive)


@final
@frozen
class ClockJumps:
    """The clock leaps forward: what would have happened meanwhile happens at once, late.

    Attributes:
        at: At which instant.
        seconds: How far.
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

_GROUP: Final = or_none(TEXT)
_RECORDS: Final[tuple[Record[Any], ...]] = (
    Record(BindFails, bind=WHOLE, group=_GROUP),
    Record(BindAnswerLost, bind=WHOLE, group=_GROUP, seconds=SECONDS),
    Record(BindSlow, bind=WHOLE, group=_GROUP, seconds=SECONDS),
    Record(NodeVanishes, member=WHOLE, group=_GROUP, seconds=or_none(SECONDS)),
    Record(EventDuplicated, event=WHOLE, seconds=SECONDS),
    Record(EventDelayed, event=WHOLE, seconds=SECONDS),
    Record(EventReordered, event=WHOLE, by=WHOLE),
    Record(EventDropped, event=WHOLE, seconds=SECONDS),
    Record(SchedulerRestarts, call=WHOLE),
    Record(ClockJumps, at=SECONDS, seconds=SECONDS),
)
_FAULTS: Final[Form[Any]] = many(union(*_RECORDS))
_KINDS: Final = tuple(record.kind for record in _RECORDS)


def _faults(given: Iterable[Fault]) -> tuple[Fault, ...]:
    return as_tuple(given)


def _check_faults(_owner: object, _attribute: object, value: object) -> None:
    if not isinstance(value, tuple):
        raise InvalidValueError("faults", value, "a sequence with a Fault as each item")
    for index, fault in enumerate(cast("tuple[object, ...]", value)):
        if type(fault) not in _KINDS:
            raise InvalidValueError(f"faults[{index}]", fault, "a Fault")


@final
@frozen
class FaultPlan:
    """What goes wrong in a run.

    Attributes:
        faults: The faults. Where several strike one event or one bind, the first of them decides
            what becomes of it; it may be told twice and be slow besides.
        ahead: Whether the cluster state shows a fact at once when it is told late, as a state that
            is read from the source does; if not, it shows what was told, as a cache behind a watch.
    """

    faults: tuple[Fault, ...] = field(default=(), converter=_faults, validator=_check_faults)
    ahead: bool = field(default=False, validator=check_flag)

    @classmethod
    def drawn(
        cls, seed: int, *, count: int = 8, places: int = 40, seconds: float = 60.0
    ) -> FaultPlan:
        """Return a plan that is drawn from a seed.

        Args:
            seed: A whole number; the same gives the same plan.
            count: How many faults.
            places: Up to which bind, member and event they strike; up to four times that call.
            seconds: How long what takes time takes at most, and up to which instant a clock jumps.

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
        """Return it as plain data for JSON: ``faults``, each with its ``kind``, and ``ahead``."""
        return {"faults": _FAULTS.write(self.faults), "ahead": self.ahead}

    @classmethod
    def from_json(cls, data: object) -> FaultPlan:
        """Return the plan of plain data.

        Args:
            data: What ``to_json`` returned.

        Raises:
            InvalidValueError: It is malformed; names the field.
        """
        return _PLAN.read(data, "")


_PLAN: Final = Record(FaultPlan, faults=_FAULTS, ahead=FLAG)
