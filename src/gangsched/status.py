"""The status of a pod group: a phase and counts, from what its members do.

Rules:
  R1  a status is computed from the members as they are and from the status before, never by
      counting on; the same members give the same status, however often it is asked for;
  R2  the phases are decided in one order, and every case is in it: see ``pod_group_status``;
  R3  a pod counts for the very group that it claims, namespace included; one whose claim is
      malformed counts for none.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, TypeAlias, final

from attrs import Attribute, field, frozen

from gangsched._fields import refuse_choice
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.membership import Membership, membership
from gangsched.model import Pod, PodGroup, PodPhase

__all__ = ["PodGroupPhase", "PodGroupStatus", "pod_group_status"]


class PodGroupPhase(enum.Enum):
    """Where a pod group is in its life."""

    PENDING = "Pending"
    """It has fewer members than its minimum."""
    SCHEDULING = "Scheduling"
    """It has enough members, and they do not run yet."""
    RUNNING = "Running"
    """Those that run and those that have succeeded are a quorum."""
    FINISHED = "Finished"
    """A quorum has succeeded. It stays so."""
    FAILED = "Failed"
    """Members failed, and what is left is no quorum. A member that is replaced can heal it."""

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
    """What became of a pod group so far.

    Attributes:
        phase: Its phase.
        occupied_by: Who owns its first member, as ``namespace/name``, sorted, with commas
            between; empty when nobody does.
        running: How many members run.
        succeeded: How many members have succeeded.
        failed: How many members have failed.
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

    A quorum has as many members as the group's minimum, and of each role as many as its own. The
    first that holds decides the phase:

    - a group that was finished stays so, with the counts that it had: its pods may be removed;
    - with fewer members than the minimum it is pending, or stays failed;
    - it is failed when those that run or succeeded are no quorum, and with those that failed
      they would be;
    - it is finished when a quorum has succeeded;
    - it runs when those that run or succeeded are a quorum;
    - else it is scheduling, or stays failed.

    Pure. Runtime complexity: O(pods).

    Args:
        group: The group.
        pods: Pods of any groups or none, such as all pods of a cluster; read once.
        before: The status that it had; None when it had none.
        membership: Says which group a pod belongs to.
    """
    if before is None:
        before = PodGroupStatus()
    if before.phase is PodGroupPhase.FINISHED:
        return before
    found = [(pod, _claim(pod, group, membership)) for pod in pods]
    members = [(pod, claim.role) for pod, claim in found if claim is not None]
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
    well = running + succeeded
    if not _is_quorum(group, members):
        return PodGroupPhase.PENDING
    if not _is_quorum(group, well) and _is_quorum(group, well + failed):
        return PodGroupPhase.FAILED
    if _is_quorum(group, succeeded):
        return PodGroupPhase.FINISHED
    return PodGroupPhase.RUNNING if _is_quorum(group, well) else PodGroupPhase.SCHEDULING


def _is_quorum(group: PodGroup, roles: _Roles) -> bool:
    """Say whether members with these roles are enough, in all and of each role."""
    return len(roles) >= group.min_available and all(
        roles.count(role) >= least for role, least in group.roles.items()
    )


def _claim(
    pod: Pod, group: PodGroup, membership: Callable[[Pod], Membership | None]
) -> Membership | None:
    """Return a pod's claim to be in *group*; None when it makes no such claim."""
    try:
        claim = membership(pod)
    except InvalidPodGroupError:
        return None
    return claim if claim is not None and claim.group == group.key else None


def _owners(pod: Pod) -> str:
    return ",".join(sorted(f"{pod.namespace}/{owner}" for owner in pod.owners))
