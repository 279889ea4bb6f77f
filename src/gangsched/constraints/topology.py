"""The topology constraint of a gang: its nodes have one value of a label in common."""

from __future__ import annotations

from typing import Any, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.values.fields import check_flag, check_text
from gangsched.values.reprs import short_repr

__all__ = ["Topology"]


def _check_prefer(owner: Topology, _attribute: object, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or value in ("", owner.key)):
        raise InvalidValueError("prefer", value, f"a finer level than {owner.key}, or None")


@final
@frozen
class Topology:
    """A topology constraint of a gang: its nodes have one value of a label in common.

    Source: the topology constraints of KEP-5732; the preferred level of KAI Scheduler.

    Attributes:
        key: The key of the label: of a rack, a zone, a network.
        required: Whether the constraint is hard. If it is, the gang waits until it fits into one
            value. If not, a gang that fits into no single value goes to one of the next coarser
            level, if the scheduler knows ``levels``; at last to the fewest values.
        prefer: A finer level that the gang shares if it fits into one of its values, else one of
            the next coarser level, up to *key*; at last it has the fewest values of this level
            within *key*. None for no matter. It needs ``levels``.
    """

    key: str = field(validator=check_text)
    required: bool = field(default=True, validator=check_flag)
    prefer: str | None = field(default=None, validator=_check_prefer, kw_only=True)

    def __repr__(self) -> str:
        return short_repr(self)
