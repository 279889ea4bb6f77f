"""The identities of pods, groups and nodes, and the policy that pods and groups share."""

from __future__ import annotations

import enum
from typing import NewType, NoReturn

from gangsched.values.fields import refuse_choice

__all__ = ["GroupKey", "NodeName", "PodUID", "PreemptionPolicy", "group_key"]

PodUID = NewType("PodUID", str)
GroupKey = NewType("GroupKey", str)
NodeName = NewType("NodeName", str)


def group_key(namespace: str, name: str) -> GroupKey:
    """Return the key of a pod group: ``namespace/name``."""
    return GroupKey(f"{namespace}/{name}")


class PreemptionPolicy(enum.Enum):
    """Whether a pod or a gang may preempt pods of lower priority, if preemption is enabled."""

    PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
    NEVER = "Never"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "preemption_policy", value)
