"""Preemption: whether, and how patiently, lower priorities are displaced."""

from __future__ import annotations

from typing import final

from attrs import field, frozen

from gangsched._fields import check_seconds
from gangsched.errors import InvalidValueError

__all__ = ["Preemption"]


def _check_steps(owner: object, attribute: object, value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidValueError("search_budget", value, "an int >= 0")


@final
@frozen(kw_only=True)
class Preemption:
    """Let pods and gangs displace others of lower priority, where that makes room for all of them.

    Attributes:
        grace: For how many seconds the victims may take to be gone. Until then the room is kept;
            after that it is not, and the room of who is still there is not counted on any more.
        search_budget: How many steps one search for a placement may take while it is planned who
            has to go; see ``Scheduler``. Where it ends undecided, more have to go, or nobody.
    """

    grace: float = field(default=60.0, validator=check_seconds)
    search_budget: int = field(default=500, validator=_check_steps)
