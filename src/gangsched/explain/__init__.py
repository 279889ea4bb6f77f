"""Why a pod or a group is not running: the answers of ``Scheduler.why``.

Rules:
  R1  the set is closed: match on it and end with ``assert_never``;
  R2  an answer is a value with every figure of its sentence; ``str`` returns the sentence;
  R3  an answer names the cause: the unschedulable member, with the number of nodes for each reason,
      or the member that contradicts its group.
"""

from __future__ import annotations

from gangsched.explain._answers import (
    BackingOff,
    Binding,
    Finished,
    NoNodeFits,
    NotAdmitted,
    NotEnoughMembers,
    OnPermit,
    PartlyRunning,
    Queued,
    Refused,
    Running,
    Terminating,
    Why,
    in_utc,
)
from gangsched.explain._queue_turn import OtherQueue, QueueTurn, ReachedLimit
from gangsched.explain._unschedulable import (
    Diagnosis,
    SearchBudgetExhausted,
    Shortage,
    UnschedulableMember,
)

__all__ = [
    "BackingOff",
    "Binding",
    "Diagnosis",
    "Finished",
    "NoNodeFits",
    "NotAdmitted",
    "NotEnoughMembers",
    "OnPermit",
    "OtherQueue",
    "PartlyRunning",
    "QueueTurn",
    "Queued",
    "ReachedLimit",
    "Refused",
    "Running",
    "SearchBudgetExhausted",
    "Shortage",
    "Terminating",
    "UnschedulableMember",
    "Why",
    "in_utc",
]
