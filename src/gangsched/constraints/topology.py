"""The topology constraint of a gang: its nodes have one value of a label in common."""

from __future__ import annotations

from typing import final

from attrs import field, frozen

from gangsched.values.fields import check_flag, check_text
from gangsched.values.reprs import short_repr

__all__ = ["Topology"]


@final
@frozen
class Topology:
    """A topology constraint of a gang: its nodes have one value of a label in common.

    Source: the topology constraints of KEP-5732.

    Attributes:
        key: The key of the label: of a rack, a zone, a network.
        required: Whether the constraint is hard. If it is, the gang waits until it fits into one
            value. If not, a gang that fits into no single value is spread over several.
    """

    key: str = field(validator=check_text)
    required: bool = field(default=True, validator=check_flag)

    def __repr__(self) -> str:
        return short_repr(self)
