"""Whether pods of lower priority are evicted, and how long victims may take to terminate."""

from __future__ import annotations

import enum
from typing import NoReturn, final

from attrs import field, frozen
from attrs.converters import optional as to_optional

from gangsched.values.fields import check_count, check_flag, check_seconds, refuse_choice

__all__ = ["Preemption", "Reclaim"]


class Reclaim(enum.Enum):
    """From which queues a queue takes back what they have borrowed."""

    NOMINAL = "Nominal"
    """From those over their nominal, for a queue that stays within its own."""
    FAIR = "Fair"
    """Also from those whose share is at least that of the queue afterwards."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "reclaim", value)


@final
@frozen(kw_only=True)
class Preemption:
    """Let a pod or gang evict pods of lower priority if the whole pod or gang fits then.

    Attributes:
        grace: The number of seconds that victims may take to terminate, from the instant of their
            ``Evict``, which is put off while their bind is under way. Until then the capacity
            is reserved for the preemptor. Then the preemptor is tried again. Victims that are still
            there are overdue, and no later plan counts on their capacity, unless their
            ``deleted_at`` is still to come.
        search_budget: The number of steps that one search for a placement may take while victims
            are planned; all of them share the budget of the call, see ``Scheduler``. If a search
            exhausts it, more pods may be evicted than necessary, or none. Then
            ``VictimSearchExhausted`` says so.
        elastic_members: Whether members beyond the minimum of a gang evict pods, too. If not, they
            wait for free capacity: whole gangs of lower priority may run where one member would go.
        reclaim: How queues take back what others have borrowed; see ``Quota``. Then priority
            decides within one queue, and between queues only this does. None for not at all:
            priority decides everywhere.
        min_runtime: For how many seconds a gang or a pod is not evicted for others after it has
            started. It counts from when the scheduler has seen its first pod on a node.
        delay: For how many seconds a gang or a pod that does not fit waits before others are
            evicted for it, so that an autoscaler may add nodes instead.
    """

    grace: float = field(default=60.0, validator=check_seconds)
    search_budget: int = field(default=500, validator=check_count)
    elastic_members: bool = field(default=False, validator=check_flag)
    reclaim: Reclaim | None = field(default=None, converter=to_optional(Reclaim))
    min_runtime: float = field(default=0.0, validator=check_seconds)
    delay: float = field(default=0.0, validator=check_seconds)
