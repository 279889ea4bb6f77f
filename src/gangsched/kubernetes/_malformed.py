"""Pods whose claim to be in a group is malformed, by the group that their labels name.

The scheduler refuses such a pod, and it is a member of no group. A user looks for it under the name
of the group, which is readable even if the minimum beside it is not.

Rules:
  R1  the group is that of the first spelling that has a name which an object can have;
  R2  a pod that names no group at all is in no row. The scheduler holds it, and says so of the pod.

Invariants (checked by ``_check``):
  I1  a pod is in one group at most;
  I2  no group is kept without a pod.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import final

from gangsched.errors import InternalError, InvalidPodGroupError
from gangsched.membership import ADMISSION_SPELLINGS, SPELLINGS, Source, Spelling
from gangsched.model import GroupKey, Pod, PodUID, group_key
from gangsched.values.text import LONGEST_NAME

__all__ = ["MalformedClaims", "group_named"]


@final
class MalformedClaims:
    """The pods of ours with a malformed claim, by group."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, dict[PodUID, InvalidPodGroupError]] = {}
        self._of: dict[PodUID, GroupKey] = {}

    def put(self, pod: Pod, error: InvalidPodGroupError) -> None:
        """Note that the claim of a pod is malformed. O(spellings)."""
        self.discard(pod.uid)
        key = group_named(pod)
        if key is not None:
            self._of[pod.uid] = key
            self._groups.setdefault(key, {})[pod.uid] = error

    def discard(self, uid: PodUID) -> None:
        """Forget a pod, if it is known. O(1)."""
        key = self._of.pop(uid, None)
        if key is not None:
            pods = self._groups[key]
            del pods[uid]
            if not pods:
                del self._groups[key]

    def groups(self) -> Collection[GroupKey]:
        """Return the groups that such pods name."""
        return self._groups.keys()

    def of(self, key: GroupKey) -> dict[PodUID, InvalidPodGroupError]:
        """Return what is malformed of each pod that names a group, in the order of arrival."""
        return dict(self._groups.get(key, ()))

    def _check(self) -> None:
        if {uid: key for key, pods in self._groups.items() for uid in pods} != self._of:
            raise InternalError("a pod with a malformed claim is not under the group that it names")
        if not all(self._groups.values()):
            raise InternalError("a group is kept without a pod whose claim is malformed")


def group_named(pod: Pod) -> GroupKey | None:
    """Return the group that the first spelling of a pod names, whatever is beside the name."""
    for spelling in (*SPELLINGS, *ADMISSION_SPELLINGS):
        name = _written(pod, spelling)
        if name and len(name) <= LONGEST_NAME:
            return group_key(pod.namespace, name)
    return None


def _written(pod: Pod, spelling: Spelling) -> str | None:
    if spelling.source is Source.FIELD:
        return pod.pod_group
    held = pod.labels if spelling.source is Source.LABEL else pod.annotations
    return held.get(spelling.name)
