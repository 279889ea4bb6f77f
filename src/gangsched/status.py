"""The status of a pod group: a phase and counts, computed from its members.

Rules:
  R1  a status is computed from the current members and the previous status, without counters
      that accumulate. Computing it again for the same members gives the same status;
  R2  the conditions of the phases are checked in one order that covers all cases, see
      ``pod_group_status``;
  R3  a pod counts for the group that it claims, in its own namespace. A pod with a malformed
      claim counts for no group.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, TypeAlias, final

from attrs import Attribute, field, frozen

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.membership import Membership, membership
from gangsched.model import Pod, PodGroup, PodPhase
from gangsched.primitives.gang_tree import tree_of
from gangsched.primitives.standing import is_quorum
from gangsched.values.fields import refuse_choice

__all__ = ["PodGroupPhase", "PodGroupStatus", "pod_group_status"]


class PodGroupPhase(enum.Enum):
    """The phase of a pod group."""

    PENDING = "Pending"
    """The group has fewer members than its minimum."""
    SCHEDULING = "Scheduling"
    """The group has enough members, but too few of them run."""
    RUNNING = "Running"
    """The running and the succeeded members are a quorum."""
    FINISHED = "Finished"
    """A quorum of members has succeeded. This phase is final."""
    FAILED = "Failed"
    """Members failed, and the others are no quorum. Replacing failed members can end this phase."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "phase", value)


_NOT_HEALED: Final = (PodGroupPhase.PENDING, PodGroupPhase.SCHEDULING)


def _count(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidValueError(attribute.name, value, "an int >= 0")


def _string(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise InvalidValueError(attribute.name, value, "a string")


@final
@frozen(kw_only=True)
class PodGroupStatus:
    """The status of a pod group.

    Attributes:
        phase: The phase.
        occupied_by: The owners of the first member, as ``namespace/name``, sorted and separated
            by commas; empty if it has none.
        running: The number of running members.
        succeeded: The number of succeeded members.
        failed: The number of failed members.
    """

    phase: PodGroupPhase = field(default=PodGroupPhase.PENDING, converter=PodGroupPhase)
    occupied_by: str = field(default="", validator=_string)
    running: int = field(default=0, validator=_count)
    succeeded: int = field(default=0, validator=_count)
    failed: int = field(default=0, validator=_count)


def pod_group_status(
    group: PodGroup,
    pods: Iterable[Pod],
    *,
    before: PodGroupStatus | None = None,
    membership: Callable[[Pod], Membership | None] = membership,
) -> PodGroupStatus:
    """Return the status of a group whose members are among *pods*.

    A quorum has at least the group's minimum of members, and at least the minimum of each role.
    The first condition that holds decides the phase:

    - a finished group stays finished and keeps its counts, because its pods may be deleted;
    - without a quorum of members, the group is pending. If it was failed, it stays failed;
    - if running and succeeded members are no quorum, but would be one together with the failed
      members, the group is failed;
    - if the succeeded members are a quorum, the group is finished;
    - if running and succeeded members are a quorum, the group is running;
    - otherwise the group is scheduling. If it was failed, it stays failed.

    Pure. Runtime complexity: O(pods).

    Args:
        group: The group.
        pods: Pods of this and other groups, such as all pods of a cluster; iterated once.
        before: The previous status; None if there is none.
        membership: Returns the claim of a pod.

    Raises:
        InvalidValueError: An argument has a wrong type.
    """
    if not isinstance(group, PodGroup):
        raise InvalidValueError("group", group, "a PodGroup")
    if not isinstance(pods, Iterable):
        raise InvalidValueError("pods", pods, "an iterable of Pods")
    if before is None:
        before = PodGroupStatus()
    if not isinstance(before, PodGroupStatus):
        raise InvalidValueError("before", before, "a PodGroupStatus or None")
    if not callable(membership):
        raise InvalidValueError("membership", membership, "a callable that takes a pod")
    if before.phase is PodGroupPhase.FINISHED:
        return before
    found: list[tuple[Pod, Membership | None]] = []
    for index, pod in enumerate(pods):
        if not isinstance(pod, Pod):
            raise InvalidValueError(f"pods[{index}]", pod, "a Pod")
        found.append((pod, _claim(pod, group, membership)))
    members = [
        (pod, group.path_of(claim.role, pod.labels, pod.name))
        for pod, claim in found
        if claim is not None
    ]
    group = group.with_copies_of(role for _pod, role in members)
    running, succeeded, failed = (
        [role for pod, role in members if pod.phase is phase]
        for phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
    )
    phase = _phase(group, [role for _pod, role in members], running, succeeded, failed)
    if before.phase is PodGroupPhase.FAILED and phase in _NOT_HEALED:
        phase = PodGroupPhase.FAILED
    return PodGroupStatus(
        phase=phase,
        occupied_by=_owners(members[0][0]) if members else before.occupied_by,
        running=len(running),
        succeeded=len(succeeded),
        failed=len(failed),
    )


_Roles: TypeAlias = list[str | None]


def _phase(
    group: PodGroup, members: _Roles, running: _Roles, succeeded: _Roles, failed: _Roles
) -> PodGroupPhase:
    healthy = running + succeeded
    if not _is_quorum(group, members):
        return PodGroupPhase.PENDING
    if not _is_quorum(group, healthy) and _is_quorum(group, healthy + failed):
        return PodGroupPhase.FAILED
    if _is_quorum(group, succeeded):
        return PodGroupPhase.FINISHED
    return PodGroupPhase.RUNNING if _is_quorum(group, healthy) else PodGroupPhase.SCHEDULING


def _is_quorum(group: PodGroup, roles: _Roles) -> bool:
    """Return whether members with these roles are a quorum."""
    return is_quorum(tree_of(group.min_available, group.roles), roles)


def _claim(
    pod: Pod, group: PodGroup, membership: Callable[[Pod], Membership | None]
) -> Membership | None:
    """Return the claim of a pod to be in *group*; None if it makes no such claim."""
    try:
        claim = membership(pod)
    except InvalidPodGroupError:
        return None
    return claim if claim is not None and claim.group == group.key else None


def _owners(pod: Pod) -> str:
    return ",".join(sorted(f"{pod.namespace}/{owner}" for owner in pod.owners))
