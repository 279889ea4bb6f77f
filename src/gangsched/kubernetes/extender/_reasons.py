"""Why members are not decided, as the scheduler has said it last.

Rules:
  R1  a reason that is about one pod alone, such as a malformed claim, comes before that of its
      group;
  R2  the reason why a pod found no node counts if its group has none: then the group has started;
  R3  a reason changes only when the scheduler says another one. kube-scheduler writes it to the
      pod, and that write wakes the pod;
  R4  what is kept is bounded: the oldest reasons are forgotten.
"""

from __future__ import annotations

from typing import Final, final

from gangsched.events import (
    Effect,
    GroupIncomplete,
    GroupRejected,
    PodNotAdmitted,
    PodRefused,
    PodUnschedulable,
)
from gangsched.model import GroupKey, PodUID

__all__ = ["Reasons"]

_MOST: Final = 8192
_OTHERWISE: Final = "otherwise "
"""Before the UID of a member: the reason for lack of one of its group."""


@final
class Reasons:
    """The last reason of each pod and group."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        """Return how many reasons are kept."""
        return len(self._known)

    def observe(self, effect: Effect) -> None:
        """Take in an effect of the scheduler."""
        match effect:
            case GroupRejected(key, _attempt, reason):
                self._note(key, f"pod group {key}: {reason}")
            case GroupIncomplete(key):
                self._note(key, f"pod group {key} is incomplete")
            case PodRefused(uid, reason) | PodNotAdmitted(uid, reason):
                self._note(uid, reason)
            case PodUnschedulable(uid, reason):
                self._note(_OTHERWISE + uid, reason)
            case _:
                pass

    def of(self, uid: PodUID, group: GroupKey) -> str | None:
        """Return the reason of a member; None if the scheduler has not said any."""
        found = (self._known.get(each) for each in (uid, group, _OTHERWISE + uid))
        return next((reason for reason in found if reason is not None), None)

    def forget(self, subject: str) -> None:
        """Forget the reasons of a pod or a group, which was decided or is gone."""
        self._known.pop(subject, None)
        self._known.pop(_OTHERWISE + subject, None)

    def _note(self, subject: str, reason: str) -> None:
        self._known.pop(subject, None)
        self._known[subject] = reason
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
