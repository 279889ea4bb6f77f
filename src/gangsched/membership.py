"""Which group a pod belongs to: every spelling, one table.

Rules:
  R1  the table below is the whole truth; its order is the order of precedence;
  R2  spellings that name different groups, or different minima, are an error, not a choice;
  R3  a minimum that is not a positive integer, a minimum without a name and an empty name are
      errors that the pod's user sees, never "then it is a regular pod".
"""

from __future__ import annotations

import enum
from typing import Final, final

from attrs import frozen

from gangsched.errors import InvalidPodGroupError
from gangsched.model import GroupKey, Pod, group_key

__all__ = ["SPELLINGS", "Membership", "Source", "Spelling", "membership", "ungrouped"]


class Source(enum.Enum):
    """Where on a pod a spelling is written."""

    LABEL = "label"
    ANNOTATION = "annotation"
    FIELD = "field"


@final
@frozen
class Spelling:
    """One way to say which group a pod is in.

    Attributes:
        source: Where it is written.
        name: The key whose value is the group's name.
        minimum: The key whose value is the group's minimum; None where it is only in the
            group's own specification.
    """

    source: Source
    name: str
    minimum: str | None = None


SPELLINGS: Final = (
    Spelling(Source.FIELD, "spec.schedulingGroup.podGroupName"),
    Spelling(
        Source.LABEL,
        "pod-group.scheduling.sigs.k8s.io/name",
        "pod-group.scheduling.sigs.k8s.io/min-available",
    ),
    Spelling(Source.LABEL, "pod-group/name", "pod-group/min-available"),
    Spelling(Source.LABEL, "scheduling.x-k8s.io/pod-group"),
    Spelling(Source.LABEL, "pod-group.scheduling.sigs.k8s.io"),
    Spelling(Source.ANNOTATION, "scheduling.k8s.io/group-name"),
    Spelling(Source.ANNOTATION, "scheduling.volcano.sh/group-name"),
)


@final
@frozen
class Membership:
    """A pod's claim to be in a group.

    Attributes:
        group: The group's key; always in the pod's own namespace.
        min_available: The minimum that the pod gives; None where it gives none.
        spelling: Which spelling said so.
    """

    group: GroupKey
    min_available: int | None
    spelling: Spelling


def membership(pod: Pod) -> Membership | None:
    """Return the group that *pod* claims to be in; None for a regular pod.

    Runtime complexity: O(1), one look-up per row of the table.

    Raises:
        InvalidPodGroupError: The claim is malformed or contradicts itself.
    """
    if pod.pod_group is None and not pod.labels and not pod.annotations:
        return None
    claim: Membership | None = None
    for spelling in SPELLINGS:
        found = _read(pod, spelling)
        if found is None:
            continue
        if claim is None:
            claim = found
        elif claim.group != found.group:
            raise InvalidPodGroupError(
                f"pod {pod.key}",
                found.spelling.name,
                found.group,
                f"{claim.group}, as {claim.spelling.name} says",
            )
        elif claim.min_available is None:
            claim = found if found.min_available is not None else claim
        elif found.min_available not in (None, claim.min_available):
            raise InvalidPodGroupError(
                f"pod {pod.key}",
                str(found.spelling.minimum),
                found.min_available,
                f"{claim.min_available}, as {claim.spelling.minimum} says",
            )
    return claim


def ungrouped(_pod: Pod) -> None:
    """Say of every pod that it is in no group: scheduling without gangs."""


def _read(pod: Pod, spelling: Spelling) -> Membership | None:
    match spelling.source:
        case Source.FIELD:
            name = pod.pod_group
        case Source.LABEL:
            name = pod.labels.get(spelling.name)
        case Source.ANNOTATION:
            name = pod.annotations.get(spelling.name)
    minimum = None if spelling.minimum is None else pod.labels.get(spelling.minimum)
    subject = f"pod {pod.key}"
    if name is None:
        if minimum is not None:
            raise InvalidPodGroupError(
                subject, spelling.name, None, f"a group's name beside {spelling.minimum}"
            )
        return None
    if not name:
        raise InvalidPodGroupError(subject, spelling.name, name, "a group's name, not empty")
    count: int | None = None
    if minimum is not None:
        if not (minimum.isascii() and minimum.isdigit()) or len(minimum) > 9 or int(minimum) < 1:
            raise InvalidPodGroupError(
                subject, str(spelling.minimum), minimum, "a whole number of at least 1"
            )
        count = int(minimum)
    return Membership(group_key(pod.namespace, name), count, spelling)
