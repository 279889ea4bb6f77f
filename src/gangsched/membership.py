"""Read the group and the role of a pod from its labels, annotations and fields.

Several projects have a spelling of their own for "this pod is a member of that group". Three tables
list all spellings that are supported.

Rules:
  R1  only the spellings in the tables are read; the first row has the highest precedence;
  R2  two spellings on one pod must agree on group, minimum and role; otherwise it is an error;
  R3  a minimum that is not a positive integer, or has no group name, is an error. So is a name that
      is empty, or has more than 253 characters. An error is reported for the pod, which is never
      taken for a regular pod;
  R4  the role of a pod without a group is ignored. A role is read as it is written: only the
      specification says whether ``decode.0.worker`` is the path of a role of a copy; see
      ``PodGroup.path_of``. Beside the path ``decode/0/worker`` it says the same;
  R5  Kueue's spelling says which pods are admitted together, which is not always what starts
      together. It is read only if no other spelling names a group, and the total is the minimum.
      A group that Kueue admits from its first pod on, or that serves, starts pod by pod: its later
      pods may not exist before the first ones are ready. It is read as nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, assert_never, final

from attrs import evolve, frozen

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.model import FrozenMap, GroupKey, Pod, group_key
from gangsched.values.text import LONGEST_NAME

__all__ = [
    "ADMISSION_SPELLINGS",
    "ROLE_SPELLINGS",
    "SPELLINGS",
    "Membership",
    "Source",
    "Spelling",
    "membership",
    "ungrouped",
]


_SHORT: Final = f"a name of at most {LONGEST_NAME} characters"


class Source(enum.Enum):
    """The part of a pod that a spelling is read from."""

    LABEL = "label"
    ANNOTATION = "annotation"
    FIELD = "field"


@final
@frozen
class Spelling:
    """One spelling of the group of a pod, or of its role.

    Attributes:
        source: The part of the pod.
        name: The key whose value is the name of the group or the role.
        minimum: The label, annotation or field whose value is the minimum of the group; None if
            the spelling has none.
        minimum_source: The part of the pod that *minimum* is read from; None for *source*.
    """

    source: Source
    name: str
    minimum: str | None = None
    minimum_source: Source | None = None


_GROUP_FIELD: Final = Spelling(
    Source.FIELD, "spec.schedulingGroup.podGroupName", "Pod.min_available"
)
_ROLE_FIELD: Final = Spelling(Source.FIELD, "Pod.role")

SPELLINGS: Final = (
    _GROUP_FIELD,
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
    Spelling(
        Source.ANNOTATION,
        "gang.scheduling.koordinator.sh/name",
        "gang.scheduling.koordinator.sh/min-available",
    ),
    Spelling(Source.ANNOTATION, "pod-group-name"),
)

_KUEUE: Final = Spelling(
    Source.LABEL,
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/pod-group-total-count",
    Source.ANNOTATION,
)
ADMISSION_SPELLINGS: Final = (_KUEUE,)
_POD_BY_POD: Final = frozenset(
    {"kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/pod-group-serving"}
)
"""Annotations of groups that Kueue does not admit as a whole; see R5."""

ROLE_SPELLINGS: Final = (
    _ROLE_FIELD,
    Spelling(Source.LABEL, "pod-group.scheduling.sigs.k8s.io/role"),
    Spelling(Source.LABEL, "pod-group/role"),
    Spelling(Source.LABEL, "training.kubeflow.org/replica-type"),
    Spelling(Source.ANNOTATION, "volcano.sh/task-spec"),
    Spelling(Source.LABEL, "jobset.sigs.k8s.io/replicatedjob-name"),
)


def _rows(source: Source) -> Mapping[str, int]:
    """Return the row of each key that states a group or a minimum in some part of a pod."""
    return {
        key: row
        for row, spelling in enumerate(SPELLINGS)
        if spelling.source is source
        for key in (spelling.name, spelling.minimum)
        if key is not None
    }


# Most pods have one spelling or none. Intersections with these keys are made in C; a look-up for
# each row of the table takes ten times as long.
_FIELD_ROW: Final = 0
_LABEL_ROWS: Final = _rows(Source.LABEL)
_ANNOTATION_ROWS: Final = _rows(Source.ANNOTATION)
_LABELS: Final = frozenset(_LABEL_ROWS)
_ANNOTATIONS: Final = frozenset(_ANNOTATION_ROWS)
_CLAIMING_LABELS: Final = _LABELS | {_KUEUE.name}
_CLAIMING_ANNOTATIONS: Final = _ANNOTATIONS | {str(_KUEUE.minimum)}
_ROLE_LABELS: Final = frozenset(s.name for s in ROLE_SPELLINGS if s.source is Source.LABEL)
_ROLE_ANNOTATIONS: Final = frozenset(
    s.name for s in ROLE_SPELLINGS if s.source is Source.ANNOTATION
)


@final
@frozen
class Membership:
    """The claim of a pod to be a member of a group.

    Attributes:
        group: The key of the group, which is in the namespace of the pod.
        min_available: The minimum that the pod claims; None if it claims none.
        spelling: The spelling that the claim was read from.
        role: The role in the group, such as ``worker``, as it is written; None if the pod names
            none.
    """

    group: GroupKey
    min_available: int | None
    spelling: Spelling
    role: str | None = None


def membership(pod: Pod) -> Membership | None:
    """Return the claim of a pod to be in a group; None for a regular pod.

    Runtime complexity: O(labels + annotations).

    Raises:
        InvalidPodGroupError: A spelling is malformed, or two spellings differ.
        InvalidValueError: *pod* is not a ``Pod``.
    """
    if not isinstance(pod, Pod):
        raise InvalidValueError("pod", pod, "a Pod")
    if (
        pod.pod_group is None
        and pod.min_available is None
        and _CLAIMING_LABELS.isdisjoint(pod.labels.keys())
        and _CLAIMING_ANNOTATIONS.isdisjoint(pod.annotations.keys())
    ):
        return None
    try:
        return _claim(_said(pod))
    except InvalidValueError as error:
        found = (error.field, error.value, error.expected)
        raise InvalidPodGroupError(f"pod {pod.key}", *found) from None


def ungrouped(_pod: Pod) -> None:
    """Return None for every pod: scheduling without gangs."""


class _Said(NamedTuple):
    """All that a claim is read from: attributes of a pod, in the order of ``_said``."""

    namespace: str
    pod_group: str | None
    min_available: int | None
    role: str | None
    labels: FrozenMap[str]
    annotations: FrozenMap[str]


_said: Final[Any] = attrgetter(*_Said._fields)


# The members of a gang say the same, and most come one after the other. The cache is small, so that
# the claims of groups that are gone take no memory.
@lru_cache(maxsize=64)
def _claim(parts: tuple[Any, ...]) -> Membership | None:
    """Return the claim of pods that say this; an error does not name the pod."""
    said = _Said._make(parts)
    claim: Membership | None = None
    rows = {_LABEL_ROWS[key] for key in _LABELS.intersection(said.labels.keys())}
    rows.update(_ANNOTATION_ROWS[key] for key in _ANNOTATIONS.intersection(said.annotations.keys()))
    if said.pod_group is not None or said.min_available is not None:
        rows.add(_FIELD_ROW)
    for row in sorted(rows):
        found = _read(said, SPELLINGS[row])
        if found is None:
            continue
        if claim is None:
            claim = found
        elif claim.group != found.group:
            expected = f"{claim.group!r}, the value of {claim.spelling.name}"
            raise InvalidValueError(found.spelling.name, found.group, expected)
        elif claim.min_available is None:
            claim = found if found.min_available is not None else claim
        elif found.min_available not in (None, claim.min_available):
            expected = f"{claim.min_available}, the value of {claim.spelling.minimum}"
            raise InvalidValueError(str(found.spelling.minimum), found.min_available, expected)
    if not rows and not any(said.annotations.get(key) == "true" for key in _POD_BY_POD):
        claim = _read(said, _KUEUE)
    role = None if claim is None else _read_role(said)
    return claim if claim is None or role is None else evolve(claim, role=role)


def _written(said: _Said, spelling: Spelling) -> str | None:
    match spelling.source:
        case Source.FIELD:
            return said.role if spelling is _ROLE_FIELD else said.pod_group
        case Source.LABEL:
            return said.labels.get(spelling.name)
        case Source.ANNOTATION:
            return said.annotations.get(spelling.name)
        case _:
            assert_never(spelling.source)


def _written_minimum(said: _Said, spelling: Spelling) -> str | int | None:
    if spelling.minimum is None:
        return None
    source = spelling.minimum_source or spelling.source
    match source:
        case Source.FIELD:
            return said.min_available
        case Source.LABEL:
            return said.labels.get(spelling.minimum)
        case Source.ANNOTATION:
            return said.annotations.get(spelling.minimum)
        case _:
            assert_never(source)


def _read_role(said: _Said) -> str | None:
    first: Spelling | None = None
    role: str | None = None
    if _ROLE_LABELS.isdisjoint(said.labels.keys()) and _ROLE_ANNOTATIONS.isdisjoint(
        said.annotations.keys()
    ):
        spellings: Iterable[Spelling] = (_ROLE_FIELD,)
    else:
        spellings = ROLE_SPELLINGS
    for spelling in spellings:
        found = _written(said, spelling)
        if found is None or found == role or _is_path(role, found):
            continue
        if not found:
            expected = "a non-empty role name"
            raise InvalidValueError(spelling.name, found, expected)
        if len(found) > LONGEST_NAME:
            raise InvalidValueError(spelling.name, found, _SHORT)
        if first is not None:
            expected = f"{role!r}, the value of {first.name}"
            raise InvalidValueError(spelling.name, found, expected)
        first, role = spelling, found
    return role


def _is_path(role: str | None, spelled: str) -> bool:
    """Return whether a label spells the path that a pod states as its role."""
    return role is not None and "/" in role and role == spelled.replace(".", "/")


def _read(said: _Said, spelling: Spelling) -> Membership | None:
    name = _written(said, spelling)
    minimum = _written_minimum(said, spelling)
    if name is None:
        if minimum is not None:
            raise InvalidValueError(spelling.name, None, f"present beside {spelling.minimum}")
        return None
    if not name:
        raise InvalidValueError(spelling.name, name, "a non-empty group name")
    if len(name) > LONGEST_NAME:
        raise InvalidValueError(spelling.name, name, _SHORT)
    if minimum is None or isinstance(minimum, int):
        count = minimum  # a field was validated by the pod
    else:
        if not (minimum.isascii() and minimum.isdigit()) or len(minimum) > 9 or int(minimum) < 1:
            raise InvalidValueError(str(spelling.minimum), minimum, "an int >= 1")
        count = int(minimum)
    return Membership(group_key(said.namespace, name), count, spelling)
