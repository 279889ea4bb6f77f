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
from typing import Any, Final, NoReturn, final

from attrs import Attribute, field, frozen

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
        raise InvalidValueError("phase", value, "one of " + ", ".join(p.value for p in cls))


_NOT_HEALED: Final = (PodGroupPhase.PENDING, PodGroupPhase.SCHEDULING)


def _count(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidValueError(attribute.name, value, "a whole number of at least 0")


def _string(_owner: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise InvalidValueError(attribute.name, value, "a text")


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

    The first that holds decides the phase:

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
    members = [pod for pod in pods if _is_member(pod, group, membership)]
    running, succeeded, failed = (
        sum(pod.phase is phase for pod in members)
        for phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
    )
    phase = _phase(
        group.min_available, len(members), running=running, succeeded=succeeded, failed=failed
    )
    if before.phase is PodGroupPhase.FAILED and phase in _NOT_HEALED:
        phase = PodGroupPhase.FAILED
    return PodGroupStatus(
        phase=phase,
        occupied_by=_owners(members[0]) if members else before.occupied_by,
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _phase(
    minimum: int, members: int, *, running: int, succeeded: int, failed: int
) -> PodGroupPhase:
    well = running + succeeded
    if members < minimum:
        return PodGroupPhase.PENDING
    if well < minimum <= well + failed:
        return PodGroupPhase.FAILED
    if succeeded >= minimum:
        return PodGroupPhase.FINISHED
    return PodGroupPhase.RUNNING if well >= minimum else PodGroupPhase.SCHEDULING


def _is_member(pod: Pod, group: PodGroup, membership: Callable[[Pod], Membership | None]) -> bool:
    try:
        claim = membership(pod)
    except InvalidPodGroupError:
        return False
    return claim is not None and claim.group == group.key


def _owners(pod: Pod) -> str:
    return ",".join(sorted(f"{pod.namespace}/{owner}" for owner in pod.owners))
