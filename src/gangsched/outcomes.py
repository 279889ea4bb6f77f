"""Outcomes: what an extension point returns.

An outcome is about one pod, a verdict about a whole group. Both are plain values: returning one
changes nothing, and the scheduler carries it out. Where a Go plugin of kube-scheduler calls its
handle to reject the waiting members of a group, a plugin returns a verdict on that group instead.

Rules:
  R1  the set is closed: match on it and end with ``assert_never``;
  R2  an outcome is an immutable value, valid when it is made: a wrong field is refused by its
      constructor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, cast, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey
from gangsched.values.fields import check_flag, check_seconds, check_text

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
    """The plugin agrees: the cycle goes on."""


@final
@frozen
class Skip:
    """The plugin does not concern itself with this pod."""


@final
@frozen
class Wait:
    """Keep the pod on its node and wait on permit.

    Attributes:
        timeout: The longest wait, in seconds; finite and >= 0. A timeout of 0 expires at the
            instant at which the wait began.
    """

    timeout: float = field(validator=check_seconds)


def _as_reasons(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return reasons as a tuple; ``_check_reasons`` validates it."""
    if isinstance(given, str):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        return cast("tuple[str, ...]", given)


def _check_reasons(_owner: object, _attribute: Attribute[Any], value: object) -> None:
    expected = "a non-empty string, or a sequence of them"
    if not isinstance(value, tuple):
        raise InvalidValueError("reasons", value, expected)
    reasons = cast("tuple[object, ...]", value)
    if not reasons:
        raise InvalidValueError("reasons", reasons, expected)
    for reason in reasons:
        if not isinstance(reason, str) or not reason:
            raise InvalidValueError("reasons", reason, expected)


@final
@frozen
class Unschedulable:
    """The pod cannot go on now.

    >>> Unschedulable(["Insufficient cpu", "Insufficient memory"]).reason
    'Insufficient cpu, Insufficient memory'
    >>> Unschedulable("needs an A100, not an H100").reasons
    ('needs an A100, not an H100',)

    Attributes:
        reasons: Why, in words that a user understands: one string, or several. A diagnosis counts
            the nodes by each reason, so a reason of a filter must not name the node.
        resolvable: Whether evicting pods could help. Insufficient cpu is resolvable; a missing
            node label, or an incomplete group, is not.
    """

    reasons: tuple[str, ...] = field(converter=_as_reasons, validator=_check_reasons)
    resolvable: bool = field(default=True, validator=check_flag)

    @property
    def reason(self) -> str:
        """The reasons as one text, separated by commas."""
        return ", ".join(self.reasons)


Outcome: TypeAlias = Success | Wait | Unschedulable | Skip
"""What an extension point decides about one pod."""


@final
@frozen
class RejectGroup:
    """Reject the attempt of a group: every waiting member gives its node back at once.

    Attributes:
        group: The key of the group.
        reason: Why; reported for every member.
    """

    group: GroupKey = field(validator=check_text)
    reason: str = field(validator=check_text)


@final
@frozen
class HoldGroup:
    """Keep waiting members on their nodes until another entity's cycle begins, or their timeout.

    The group cannot be completed at present, but capacity may become free before another pod or
    group needs the nodes that its members hold.

    Attributes:
        group: The key of the group.
        reason: Why it cannot be completed; reported for every member if the attempt is rejected.
    """

    group: GroupKey = field(validator=check_text)
    reason: str = field(validator=check_text)


@final
@frozen
class EvictGroup:
    """Reject the attempt of a group and evict its members that are bound or being bound.

    Attributes:
        group: The key of the group.
        reason: Why; reported for every member.
    """

    group: GroupKey = field(validator=check_text)
    reason: str = field(validator=check_text)


Verdict: TypeAlias = RejectGroup | HoldGroup | EvictGroup
"""What an extension point decides about a whole group."""

SUCCESS: Final = Success()
SKIP: Final = Skip()
