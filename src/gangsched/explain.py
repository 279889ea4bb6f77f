"""Why a pod or a group is not running: the answers of ``Scheduler.why``.

Rules:
  R1  the set is closed: match on it and end with ``assert_never``;
  R2  an answer is a value, with the figures that its sentence is made from; ``str`` is the
      sentence;
  R3  who is to blame is named: the member, and how many nodes refused it for which reason, or
      what in it contradicts its group.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from attrs import frozen

from gangsched._seconds import format_instant
from gangsched.model import GroupKey, NodeName, PodPhase, PodUID

__all__ = [
    "BackingOff",
    "Binding",
    "Diagnosis",
    "Finished",
    "NoNodeFits",
    "NotAdmitted",
    "NotEnoughMembers",
    "OnPermit",
    "Queued",
    "Refused",
    "Running",
    "SearchBudgetExhausted",
    "Shortage",
    "Terminating",
    "UnschedulableMember",
    "Why",
]

_NAMED: Final = 2  # how many of those that are refused a sentence names


@final
@frozen
class Diagnosis:
    """Why no node can take a pod, in kube-scheduler's words.

    Attributes:
        nodes: How many nodes there are.
        reasons: How many nodes say what. A node may have several reasons.
    """

    nodes: int
    reasons: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """``0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint.``"""
        if not self.nodes:
            return "no nodes available to schedule pods"
        counts = ", ".join(f"{count} {reason}" for reason, count in self.reasons)
        return f"0/{self.nodes} nodes are available: {counts}."


@final
@frozen
class Shortage:
    """A proof that not enough members of a gang fit at once, wherever they are put.

    Attributes:
        needed: How many had to fit.
        fits: How many do at most.
        exact: Whether so many do fit; else it is only known that not more do.
        role: The role whose minimum cannot be met; empty for the gang as a whole.
        resource: The resource for want of which: if it alone were boundless, they would fit. None
            where there is no such resource, or none was found within the budget.
        in_pieces: Whether there is enough of it in all, in pieces too small.
        within: Of a gang that belongs within one value of a label, the label and the value within
            which the most fit: ``rack=r1``; empty for a gang that may go anywhere.
        group: Of a bundle, the group whose minimum cannot be met; None for a group alone.
    """

    needed: int
    fits: int
    exact: bool
    role: str = ""
    resource: str | None = None
    in_pieces: bool = False
    within: str = ""
    group: GroupKey | None = None

    def __str__(self) -> str:
        """``at most 5 of 8 members fit: nvidia.com/gpu is short``"""
        whose = f" of role {self.role}" if self.role else ""
        whose += f" of pod group {self.group}" if self.group else ""
        where = f" within {self.within}" if self.within else ""
        what = f"at most {self.fits} of {self.needed} members{whose} fit{where}"
        if self.resource is None:
            return f"{what} at once"
        return (
            f"{what}: {self.resource} is {'free in pieces too small' * self.in_pieces or 'short'}"
        )


@final
@frozen
class SearchBudgetExhausted:
    """The search for a placement ended with its budget: there may be one.

    Attributes:
        needed: How many members have to fit.
        placed: The most that were placed.
        steps: How many steps the search took.
    """

    needed: int
    placed: int
    steps: int

    def __str__(self) -> str:
        return (
            f"not decided within {self.steps} steps: {self.placed} of {self.needed} members fit,"
            " and more may"
        )


@final
@frozen
class UnschedulableMember:
    """A member that was tried and found no node.

    Attributes:
        uid: The member.
        pod: Its ``namespace/name``, for people.
        reason: Why, in words.
        diagnosis: Which nodes refused it for what; None when it was not for the nodes.
        proof: Of a gang that was tried as a whole, what is known of its members together.
    """

    uid: PodUID
    pod: str
    reason: str
    diagnosis: Diagnosis | None
    proof: Shortage | SearchBudgetExhausted | None = None

    def __str__(self) -> str:
        return f"pod {self.pod} does not fit: {self.reason}"


@final
@frozen
class NotEnoughMembers:
    """The group is incomplete: none of its members is tried.

    Attributes:
        group: The group.
        present: How many members count.
        min_available: How many it needs; None while nobody has said it.
        apart: Further members that do not count, by what they are: ``gated``, ``terminating`` …
        roles: Of which roles it has too few: the role, how many it needs, how many count.
        refused: Members that contradict it or themselves, each with why, in the order in which
            they came.
    """

    group: GroupKey
    present: int
    min_available: int | None
    apart: tuple[tuple[str, int], ...] = ()
    roles: tuple[tuple[str, int, int], ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def missing(self) -> int | None:
        """How many more members it needs; None while nobody has said it."""
        if self.min_available is None:
            return None
        in_roles = sum(least - some for _role, least, some in self.roles)
        missing = self.min_available - self.present
        return max(missing, in_roles) if self.roles else missing

    def __str__(self) -> str:
        apart = "".join(f", {count} more {word}" for word, count in self.apart)
        if self.min_available is None:
            return f"waiting for pod group {self.group}: nobody gives its minimum{self._blame}"
        members = "member" if self.min_available - self.present == 1 else "members"
        parts = [(members, self.min_available, self.present), *self.roles]
        short = [
            f"{least - some} more {who}: {some} of {least} exist"
            for who, least, some in parts
            if some < least or not self.roles
        ]
        return f"waiting for {'; '.join(short)}{apart}{self._blame}"

    @property
    def _blame(self) -> str:
        """Who is refused and why, of the first ones: each reason names its pod."""
        more = len(self.refused) - _NAMED
        reasons = [one.reason for one in self.refused[:_NAMED]]
        reasons += [f"and {more} more"] * (more > 0)
        return f"; refused: {'; '.join(reasons)}" if reasons else ""


@final
@frozen
class NotAdmitted:
    """It may not queue: it has scheduling gates, or a plugin says so."""

    reason: str

    def __str__(self) -> str:
        return f"held: {self.reason}"


@final
@frozen
class Refused:
    """It contradicts its group or itself: its user has to change it."""

    uid: PodUID
    reason: str

    def __str__(self) -> str:
        return f"refused: {self.reason}"


@final
@frozen
class Queued:
    """Its turn is to come.

    Attributes:
        ahead: How many pods and groups have their turn before.
        behind: Somebody who asks for the same and is tried first; None when nobody is.
        unschedulable_member: Who did not fit when it was last tried; None when it was not, or
            nobody is.
    """

    ahead: int
    behind: str | None = None
    unschedulable_member: UnschedulableMember | None = None

    def __str__(self) -> str:
        after = "" if self.behind is None else f", behind {self.behind}, which asks for the same"
        last = (
            "" if self.unschedulable_member is None else f"; last time {self.unschedulable_member}"
        )
        return f"queued, {self.ahead} ahead{after}{last}"


@final
@frozen
class OnPermit:
    """Members hold nodes and wait for the others.

    Attributes:
        members: Who waits, in the order in which they began to.
        since: When the first of them did.
        needed: How many more members must hold a node.
        deadline: When the first of them gives its node back at the latest.
        unschedulable_member: Who was tried meanwhile and did not fit; None when nobody was.
    """

    members: tuple[PodUID, ...]
    since: float
    needed: int
    deadline: float
    unschedulable_member: UnschedulableMember | None = None

    def __str__(self) -> str:
        blame = "" if self.unschedulable_member is None else f"; {self.unschedulable_member}"
        return (
            f"waiting on permit since {format_instant(self.since)}, needs {self.needed} more,"
            f" until {format_instant(self.deadline)}{blame}"
        )


@final
@frozen
class BackingOff:
    """It was tried and failed, and rests before it is tried again.

    Attributes:
        until: When its rest ends.
        attempts: How many tries in a row failed.
        reason: Why the last one did.
        unschedulable_member: Who did not fit then; None when it was not for that.
    """

    until: float
    attempts: int
    reason: str
    unschedulable_member: UnschedulableMember | None = None

    def __str__(self) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        why = self.unschedulable_member or self.reason
        return f"backing off until {format_instant(self.until)} after {times}: {why}"


@final
@frozen
class NoNodeFits:
    """It was tried and failed, and waits for a fact that may help it.

    Attributes:
        attempts: How many tries in a row failed.
        reason: Why the last one did.
        unschedulable_member: Who did not fit then; None when it was not for that.
    """

    attempts: int
    reason: str
    unschedulable_member: UnschedulableMember | None = None

    def __str__(self) -> str:
        return f"{self.unschedulable_member or self.reason}"


@final
@frozen
class Binding:
    """It was let go; its bind is under way."""

    node: NodeName

    def __str__(self) -> str:
        return f"being bound to {self.node}"


@final
@frozen
class Running:
    """It is not pending: the pod is bound, or nobody of the group is to be placed.

    Attributes:
        node: The pod's node; None for a group.
        members: How many members hold a node; 1 for a pod.
    """

    node: NodeName | None
    members: int = 1

    def __str__(self) -> str:
        return f"{self.members} members hold nodes" if self.node is None else f"on {self.node}"


@final
@frozen
class Terminating:
    """Its end was asked for."""

    reason: str

    def __str__(self) -> str:
        return f"terminating{': ' if self.reason else ''}{self.reason}"


@final
@frozen
class Finished:
    """It has finished."""

    phase: PodPhase

    def __str__(self) -> str:
        return f"finished: {self.phase.value}"


Why: TypeAlias = (
    NotEnoughMembers
    | NotAdmitted
    | Refused
    | Queued
    | OnPermit
    | BackingOff
    | NoNodeFits
    | Binding
    | Running
    | Terminating
    | Finished
)
"""Why a pod or a group is not running, or that it is."""
