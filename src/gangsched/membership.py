"""Which group a pod belongs to, and in which role: every spelling, in two tables.

Rules:
  R1  the tables below are the whole truth; their order is the order of precedence;
  R2  spellings that name different groups, minima or roles are an error, not a choice;
  R3  a minimum that is not a positive integer, a minimum without a name and an empty name are
      errors that the pod's user sees, never "then it is a regular pod";
  R4  a role is read of who claims a group; by itself it says nothing.
"""

from __future__ import annotations

import enum
from typing import Final, assert_never, final

from attrs import evolve, frozen

from gangsched.errors import InvalidPodGroupError
from gangsched.model import GroupKey, Pod, group_key

__all__ = [
    "ROLE_SPELLINGS",
    "SPELLINGS",
    "Membership",
    "Source",
    "Spelling",
    "membership",
    "ungrouped",
]


class Source(enum.Enum):
    """Where on a pod a spelling is written."""

    LABEL = "label"
    ANNOTATION = "annotation"
    FIELD = "field"


@final
@frozen
class Spelling:
    """One way to say which group a pod is in, or which role it has there.

    Attributes:
        source: Where it is written.
        name: The key whose value is the group's name, or the role's.
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

ROLE_SPELLINGS: Final = (
    Spelling(Source.LABEL, "pod-group.scheduling.sigs.k8s.io/role"),
    Spelling(Source.LABEL, "pod-group/role"),
    Spelling(Source.LABEL, "training.kubeflow.org/replica-type"),
    Spelling(Source.ANNOTATION, "volcano.sh/task-spec"),
    Spelling(Source.LABEL, "jobset.sigs.k8s.io/replicatedjob-name"),
)


@final
@frozen
class Membership:
    """A pod's claim to be in a group.

    Attributes:
        group: The group's key; always in the pod's own namespace.
        min_available: The minimum that the pod gives; None where it gives none.
        spelling: Which spelling said so.
        role: What it is in its group, such as ``worker``; None where it does not say.
    """

    group: GroupKey
    min_available: int | None
    spelling: Spelling
    role: str | None = None


def membership(pod: Pod) -> Membership | None:
    """Return the group that *pod* claims to be in; None for a regular pod.

    Runtime complexity: O(1), one look-up per row of the tables.

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
                f"{claim.group!r}, the value of {claim.spelling.name}",
            )
        elif claim.min_available is None:
            claim = found if found.min_available is not None else claim
        elif found.min_available not in (None, claim.min_available):
            raise InvalidPodGroupError(
                f"pod {pod.key}",
                str(found.spelling.minimum),
                found.min_available,
                f"{claim.min_available}, the value of {claim.spelling.minimum}",
            )
    role = None if claim is None else _read_role(pod)
    return claim if claim is None or role is None else evolve(claim, role=role)


def ungrouped(_pod: Pod) -> None:
    """Say of every pod that it is in no group: scheduling without gangs."""


def _written(pod: Pod, spelling: Spelling) -> str | None:
    match spelling.source:
        case Source.FIELD:
            return pod.pod_group
        case Source.LABEL:
            return pod.labels.get(spelling.name)
        case Source.ANNOTATION:
            return pod.annotations.get(spelling.name)
        case _:
            assert_never(spelling.source)


def _read_role(pod: Pod) -> str | None:
    said: Spelling | None = None
    role: str | None = None
    for spelling in ROLE_SPELLINGS:
        found = _written(pod, spelling)
        if found is None or found == role:
            continue
        if not found:
            expected = "a role's name, not empty"
            raise InvalidPodGroupError(f"pod {pod.key}", spelling.name, found, expected)
        if said is not None:
            expected = f"{role!r}, the value of {said.name}"
            raise InvalidPodGroupError(f"pod {pod.key}", spelling.name, found, expected)
        said, role = spelling, found
    return role


def _read(pod: Pod, spelling: Spelling) -> Membership | None:
    name = _written(pod, spelling)
    minimum = None if spelling.minimum is None else pod.labels.get(spelling.minimum)
    subject = f"pod {pod.key}"
    if name is None:
        if minimum is not None:
            raise InvalidPodGroupError(
                subject, spelling.name, None, f"present beside {spelling.minimum}"
            )
        return None
    if not name:
        raise InvalidPodGroupError(subject, spelling.name, name, "a non-empty group name")
    count: int | None = None
    if minimum is not None:
        if not (minimum.isascii() and minimum.isdigit()) or len(minimum) > 9 or int(minimum) < 1:
            raise InvalidPodGroupError(subject, str(spelling.minimum), minimum, "an int >= 1")
        count = int(minimum)
    return Membership(group_key(pod.namespace, name), count, spelling)
