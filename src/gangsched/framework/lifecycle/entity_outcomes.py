"""What a scheduling cycle, an event or a deadline means for one queued entity.

Every module that learns something about an entity returns one of these values, or passes it to
``transition``. None of them says where in the queue the entity goes: that is decided there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from attrs import frozen

from gangsched.events import Bind
from gangsched.framework.state.pods import Member
from gangsched.model import NodeName

__all__ = [
    "CHANGED",
    "Changed",
    "CycleEnded",
    "Failed",
    "KeepsWaiting",
    "Outcome",
    "PermitGranted",
    "Prepared",
    "Rejected",
]


@final
@frozen
class Changed:
    """An event changed the entity: its members, its pod group or its bundle."""


CHANGED: Final = Changed()
"""The only value of its class, for the path that every event takes."""


@final
@frozen
class CycleEnded:
    """The scheduling cycle of one member is over; other members may still be tried."""


@final
@frozen
class Failed:
    """A pod of the entity gave its node back without a rejection of its group.

    The entity backs off.
    """


@final
@frozen
class KeepsWaiting:
    """The pod group cannot be completed now; its members keep waiting on permit."""


@final
@frozen
class Rejected:
    """The current attempt of the pod group is rejected.

    Attributes:
        reason: Why; every waiting member gets it.
        lacks_capacity: Whether too few members are left that could be placed. Otherwise the
            attempt was cut short, and proves nothing about equivalent entities, unless
            *awaits_event* is true.
        awaits_event: Whether ``pre_filter`` refused so many members before any node was looked at,
            and only an event can change its answer.
        freed: Nodes that members of it have given back in this step already.
        evict: Whether bound members, and members being bound, are evicted too.
    """

    reason: str
    lacks_capacity: bool = False
    awaits_event: bool = False
    freed: tuple[NodeName, ...] = ()
    evict: bool = False


@final
class Prepared(NamedTuple):
    """Members of one pod group, or one regular pod, with their answers from PreBind and Bind.

    Attributes:
        members: The members that hold nodes.
        binds: The effect for each of them; None for a member that PreBind refused.
        refused: Why PreBind refused a member, by its number.
    """

    members: Sequence[Member]
    binds: Sequence[Bind | None]
    refused: Mapping[int, str]


@final
class PermitGranted(NamedTuple):
    """The members are released to bind.

    Attributes:
        parties: One part for each pod group of a composite pod group; otherwise one.
    """

    parties: Sequence[Prepared]


Outcome: TypeAlias = Changed | CycleEnded | Failed | KeepsWaiting | PermitGranted | Rejected
