"""Decisions: what an extension point returns.

Rules:
  R1  the set is closed: match on it and end with ``assert_never``;
  R2  a decision is a value; who returns it has changed nothing;
  R3  what a plugin elsewhere would reach out and do to a group's waiting members, it returns
      here as a verdict on that group, and the scheduler carries it out.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from attrs import field, frozen

from gangsched._fields import check_seconds
from gangsched.model import GroupKey

__all__ = [
    "SKIP",
    "SUCCESS",
    "EvictGroup",
    "HoldGroup",
    "Outcome",
    "RejectGroup",
    "Skip",
    "Success",
    "Unschedulable",
    "Verdict",
    "Wait",
]


@final
@frozen
class Success:
    """Go on."""


@final
@frozen
class Skip:
    """This plugin has nothing to say about this pod."""


@final
@frozen
class Wait:
    """Hold the node, and wait for siblings.

    Attributes:
        timeout: For how many seconds at most; finite and not negative. With 0 the wait is over
            in the instant in which it began.
    """

    timeout: float = field(validator=check_seconds)


@final
@frozen
class Unschedulable:
    """Not now.

    Attributes:
        reason: Why, in words a user understands. Several reasons are separated by ``", "``; nodes
            are counted by each.
        resolvable: Whether freeing resources could help. An incomplete group is not resolvable
            in this sense; a full cluster is.
    """

    reason: str
    resolvable: bool = True


Outcome: TypeAlias = Success | Wait | Unschedulable | Skip
"""What an extension point decides about one pod."""


@final
@frozen
class RejectGroup:
    """Every member of the group that waits gives its node back, at once.

    Attributes:
        group: Which group.
        reason: Why; every member is told.
    """

    group: GroupKey
    reason: str


@final
@frozen
class HoldGroup:
    """Members that wait keep their nodes until another entity's cycle begins, or their timeout.

    The group cannot be completed as things stand, but room may be freed before anybody else
    wants what it holds.

    Attributes:
        group: Which group.
        reason: Why it cannot be completed; told to its members when it falls.
    """

    group: GroupKey
    reason: str


@final
@frozen
class EvictGroup:
    """Every member of the group gives its node back, those that are bound or being bound too.

    Attributes:
        group: Which group.
        reason: Why; every member is told.
    """

    group: GroupKey
    reason: str


Verdict: TypeAlias = RejectGroup | HoldGroup | EvictGroup
"""What an extension point decides about a whole group."""

SUCCESS: Final = Success()
SKIP: Final = Skip()
