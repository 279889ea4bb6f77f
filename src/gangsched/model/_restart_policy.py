"""``RestartPolicy``: how often what runs together is restarted, and how long it backs off."""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.quantity import is_seconds
from gangsched.values.seconds import format_duration

__all__ = ["RestartPolicy"]


@final
@frozen(kw_only=True)
class RestartPolicy:
    """How often a pod group is restarted as a whole, and how long it backs off.

    A running group that is below its minimum for a second is restarted: its other members are
    evicted, their controller creates them again, and the group starts as a whole. It is not
    restarted if all its members are deleted and none has failed. The n-th restart backs off
    ``min(backoff * 2 ** (n - 1), longest_backoff)`` seconds. The defaults are those of a Kubernetes
    Job: ``backoffLimit: 6``, and 10 s, doubled up to 6 minutes.

    Attributes:
        max_restarts: The number of restarts, an int >= 1. A group that falls below its minimum
            after the last one keeps the members that it has.
        backoff: The backoff of the first restart in seconds; finite and > 0.
        longest_backoff: The longest backoff in seconds; finite and >= *backoff*. For as long, from
            its deletion on, an old pod that stays terminating is waited for.
        repair: Whether lost members are replaced while the others stay. If they find no node
            where the others are, the fewest others move with them: first single parts with a
            required topology, such as slices, at last the group. Each move counts as a restart.
            Nobody moves unless all that was lost finds nodes then.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.

    Source: KEP-34, "restart the whole PodGroup, according to the configuration".
    """

    max_restarts: int = 6
    backoff: float = 10.0
    longest_backoff: float = 360.0
    repair: bool = False

    def __attrs_post_init__(self) -> None:
        if type(self.max_restarts) is not int or self.max_restarts < 1:
            raise InvalidValueError("max_restarts", self.max_restarts, "an int >= 1")
        if not is_seconds(self.backoff) or self.backoff <= 0:
            raise InvalidValueError("backoff", self.backoff, "a finite number of seconds > 0")
        if not is_seconds(self.longest_backoff) or self.longest_backoff < self.backoff:
            expected = f"a finite number of seconds >= {format_duration(self.backoff)}"
            raise InvalidValueError("longest_backoff", self.longest_backoff, expected)
        if type(self.repair) is not bool:
            raise InvalidValueError("repair", self.repair, "a bool")
