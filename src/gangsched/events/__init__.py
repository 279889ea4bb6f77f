"""Events that the caller reports, effects and notices that the scheduler returns.

Rules:
  R1  events have names in the past tense, effects in the imperative, notices as past participles;
  R2  the caller updates the cluster state first and reports the event then. Events may arrive
      twice, late or out of order: a repeated event changes nothing;
  R3  effects are in the order in which the caller must perform them. Notices report decisions and
      need no action;
  R4  all three are frozen values.
"""

from __future__ import annotations

from typing import TypeAlias

from gangsched.events._changes import (
    BindFailed,
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.events._effects import (
    Bind,
    Evict,
    Release,
    VolumeChoice,
)
from gangsched.events._notices import (
    CopyBound,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    Nominated,
    NominationLapsed,
    Notice,
    PodNotAdmitted,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUnschedulable,
    PodWaiting,
    PriorityOverruled,
    RestartLimitReached,
    VictimSearchExhausted,
)

__all__ = [
    "Bind",
    "BindFailed",
    "Bound",
    "CopyBound",
    "Effect",
    "Event",
    "Evict",
    "GroupBelowMinimum",
    "GroupBound",
    "GroupIncomplete",
    "GroupPartlyBound",
    "GroupRejected",
    "GroupRemoved",
    "GroupRestarted",
    "GroupScheduled",
    "NodeAdded",
    "NodeDeleted",
    "NodeUpdated",
    "Nominated",
    "NominationLapsed",
    "Notice",
    "ObjectChanged",
    "ObjectDeleted",
    "PermitAllowed",
    "PermitRejected",
    "PodAdded",
    "PodDeleted",
    "PodGroupAdded",
    "PodGroupDeleted",
    "PodGroupUpdated",
    "PodNotAdmitted",
    "PodRefused",
    "PodRejected",
    "PodScheduled",
    "PodUnschedulable",
    "PodUpdated",
    "PodWaiting",
    "PriorityOverruled",
    "Release",
    "RestartLimitReached",
    "VictimSearchExhausted",
    "VolumeChoice",
]

Effect: TypeAlias = Release | Bind | Evict | Notice
"""What a call returns: effects and notices in one sequence."""
