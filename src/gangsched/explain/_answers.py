"""Where a pod or a group is, and why it does not run: the answers of ``Scheduler.why``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, final

from attrs import field, frozen

from gangsched.explain._queue_turn import QueueTurn
from gangsched.explain._unschedulable import UnschedulableMember
from gangsched.model import GroupKey, NodeName, PodPhase, PodUID
from gangsched.values.seconds import format_instant, format_utc

__all__ = [
    "BackingOff",
    "Binding",
    "Finished",
    "NoNodeFits",
    "NotAdmitted",
    "NotEnoughMembers",
    "OnPermit",
    "PartlyRunning",
    "Queued",
    "Refused",
    "Running",
    "Terminating",
    "Why",
    "in_utc",
]

_Instant: TypeAlias = Callable[[float], str]
"""Writes an instant."""

_NAMED: Final = 2  # the number of refused members that a sentence names


@final
@frozen
class NotEnoughMembers:
    """The group is incomplete: no member is tried.

    Attributes:
        group: The group.
        present: The number of members that count.
        min_available: The quorum; None while it is unknown.
        apart: The number of members that do not count, by state: ``gated``, ``terminating`` …
        roles: The roles with too few members: the role, its minimum, the number that count.
        refused: The members that contradict the group or themselves, in the order of arrival.
        held: What holds members without a scheduling gate: constraints that are not modelled, of
            the group or of its first member that has some.
        without_role: If a role has too few members, the number of members that name no role.
        forgotten_at: If the group has neither pods nor a specification, when it is forgotten; see
            ``group_grace`` of the scheduler. None for other groups.
        gates: The scheduling gates of members, each once, if the group would be complete without
            them; otherwise empty. Then no node helps: the controllers that set the gates decide.
        in_copies: For copies of roles that exist in part, the roles with too few members: the path,
            its minimum, the number that count.
    """

    group: GroupKey
    present: int
    min_available: int | None
    apart: tuple[tuple[str, int], ...] = ()
    roles: tuple[tuple[str, int, int], ...] = ()
    refused: tuple[Refused, ...] = ()
    held: tuple[str, ...] = ()
    without_role: int = 0
    forgotten_at: float | None = None
    gates: tuple[str, ...] = ()
    in_copies: tuple[tuple[str, int, int], ...] = ()

    @property
    def missing(self) -> int | None:
        """The number of members that are missing; None while the quorum is unknown."""
        if self.min_available is None:
            return None
        in_roles = sum(least - some for _role, least, some in self.roles)
        missing = self.min_available - self.present
        return max(missing, in_roles) if self.roles else missing

    def __str__(self) -> str:
        return self._said(format_instant)

    def _said(self, instant: _Instant) -> str:
        if self.forgotten_at is not None:
            at = instant(self.forgotten_at)
            return f"pod group {self.group} has no pods; it is forgotten at {at}"
        if self.gates:
            gated = dict(self.apart).get("gated", 0)
            known = self.present + gated
            names = ", ".join(self.gates)
            verb = "is" if gated == 1 else "are"
            return f"{gated} of {known} members {verb} gated: {names}{self._blame}"
        apart = "".join(f", {count} more {word}" for word, count in self.apart)
        if self.without_role:
            members = (
                "1 member has" if self.without_role == 1 else f"{self.without_role} members have"
            )
            apart += f", {members} no role"
        if self.held:
            apart += f"; not modelled: {', '.join(self.held)}"
        if self.min_available is None:
            return f"waiting for pod group {self.group}: its minimum is unknown{self._blame}"
        members = "member" if self.min_available - self.present == 1 else "members"
        whole = {path.partition("/")[0] for path, _least, _some in self.in_copies}
        parts = [(members, self.min_available, self.present), *self.roles]
        short = [
            f"{least - some} more {role}: {some} of {least} exist{' whole' * (role in whole)}"
            for role, least, some in dict.fromkeys([*parts, *self.in_copies[:_NAMED]])
            if some < least or not self.roles
        ]
        return f"waiting for {'; '.join(short)}{apart}{self._blame}"

    @property
    def _blame(self) -> str:
        """The reasons of the first refused members; each reason names its pod."""
        more = len(self.refused) - _NAMED
        reasons = [one.reason for one in self.refused[:_NAMED]]
        reasons += [f"and {more} more"] * (more > 0)
        return f"; refused: {'; '.join(reasons)}" if reasons else ""


@final
@frozen
class NotAdmitted:
    """It is not in the queue: it has gates, it is over its quota, or a plugin does not admit it.

    Attributes:
        reason: Why.
        turn: If it waits for its quota, how its queue stands beside others; None if that says
            nothing more. Answers that differ in this alone are equal.
    """

    reason: str
    turn: QueueTurn | None = field(default=None, eq=False)

    def __str__(self) -> str:
        turn = "" if self.turn is None else f"; {self.turn}"
        return f"not admitted: {self.reason}{turn}"


@final
@frozen
class Refused:
    """It contradicts its group or itself, and is ignored until its user changes it."""

    uid: PodUID
    reason: str

    def __str__(self) -> str:
        return f"refused: {self.reason}"


@final
@frozen
class Queued:
    """It is queued, and its scheduling cycle is yet to come.

    Attributes:
        ahead: The number of pods and groups before it in the queue.
        behind: The entity of the same equivalence class that is tried first; None if it is itself.
        unschedulable_member: The member that did not fit in the last attempt; None if there was
            no attempt, or it failed for another reason.
        turn: If the gangs of another queue are tried first, how its own queue stands beside that
            one. Answers that differ in this alone are equal.
    """

    ahead: int
    behind: str | None = None
    unschedulable_member: UnschedulableMember | None = None
    turn: QueueTurn | None = field(default=None, eq=False)

    def __str__(self) -> str:
        after = "" if self.behind is None else f", behind {self.behind}, which requests the same"
        last = (
            ""
            if self.unschedulable_member is None
            else f"; last attempt: {self.unschedulable_member}"
        )
        turn = "" if self.turn is None else f"; {self.turn.usage}; {self.turn}"
        return f"queued, {self.ahead} ahead{after}{turn}{last}"


@final
@frozen
class OnPermit:
    """Members have a node and wait on permit for their siblings.

    Attributes:
        members: The waiting members, in the order in which they began to wait.
        since: When the first of them began to wait.
        needed: The number of further members that must have a node.
        deadline: When the first wait expires.
        unschedulable_member: The sibling that did not fit meanwhile; None if there is none.
        plugins: The permit plugins that have not allowed one of the members yet, without the one
            that counts the quorum; in the order of their names.
    """

    members: tuple[PodUID, ...]
    since: float
    needed: int
    deadline: float
    unschedulable_member: UnschedulableMember | None = None
    plugins: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self._said(format_instant)

    def _said(self, instant: _Instant) -> str:
        member = self.unschedulable_member
        blame = "" if member is None else f"; last attempt: {member}"
        pending = f", not allowed yet by {', '.join(self.plugins)}" if self.plugins else ""
        return (
            f"waiting on permit since {instant(self.since)}, needs {self.needed} more,"
            f" until {instant(self.deadline)}{pending}{blame}"
        )


@final
@frozen
class BackingOff:
    """Its attempt failed, and it is in backoff.

    Attributes:
        until: When the backoff ends.
        attempts: The number of consecutive failed attempts.
        reason: Why the last one failed.
        unschedulable_member: The member that did not fit; None if it failed for another reason.
        tried_at: As of when the reason is; None if there was no attempt. Answers that differ in
            this alone are equal.
        is_of_last_attempt: Whether the reason is that of the last attempt, and something may have
            changed since. Then the sentence says as of when it is.
    """

    until: float
    attempts: int
    reason: str
    unschedulable_member: UnschedulableMember | None = None
    tried_at: float | None = field(default=None, eq=False)
    is_of_last_attempt: bool = field(default=False, eq=False)

    def __str__(self) -> str:
        return self._said(format_instant)

    def _said(self, instant: _Instant) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        why = self.unschedulable_member or self.reason
        of = _as_of(self, instant)
        return f"backing off until {instant(self.until)} after {times}: {of}{why}"


@final
@frozen
class NoNodeFits:
    """Its attempt failed, and it is parked until an event that may help it.

    Attributes:
        attempts: The number of consecutive failed attempts.
        reason: Why the last one failed.
        unschedulable_member: The member that did not fit; None if it failed for another reason.
        tried_at: As of when the reason is; None if there was no attempt. Answers that differ in
            this alone are equal.
        is_of_last_attempt: Whether the reason is that of the last attempt, and something may have
            changed since, though nothing that helps. Then the sentence says as of when it is.
    """

    attempts: int
    reason: str
    unschedulable_member: UnschedulableMember | None = None
    tried_at: float | None = field(default=None, eq=False)
    is_of_last_attempt: bool = field(default=False, eq=False)

    def __str__(self) -> str:
        return self._said(format_instant)

    def _said(self, instant: _Instant) -> str:
        return f"{_as_of(self, instant)}{self.unschedulable_member or self.reason}"


@final
@frozen
class Binding:
    """It was released; its bind is in progress.

    Attributes:
        node: The node.
        attempt: The attempt that the bind belongs to, as ``Bound`` and ``BindFailed`` report it.
    """

    node: NodeName
    attempt: int

    def __str__(self) -> str:
        return f"being bound to {self.node}"


@final
@frozen
class Running:
    """It is not pending: the pod is bound, or the group has no pending member.

    Attributes:
        node: The node of the pod; None for a group.
        members: The number of members with a node; 1 for a pod.
        binding: The number of these members whose bind is in progress; 0 for a pod.
        in_copies: For copies of roles that run in part, the roles with too few members: the path,
            its minimum, the number that hold a node. The minimum of the group is met without them.
    """

    node: NodeName | None
    members: int = 1
    binding: int = 0
    in_copies: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        if self.node is not None:
            return f"on {self.node}"
        verb = "is" if self.binding == 1 else "are"
        bound = f", {self.binding} {verb} being bound" if self.binding else ""
        held = (
            "1 member holds a node" if self.members == 1 else f"{self.members} members hold nodes"
        )
        return f"{held}{bound}{_some_of(self.in_copies)}"


@final
@frozen
class PartlyRunning:
    """Members of the group hold nodes, but not all of them do.

    Either fewer members than its minimum hold a node: the bind of a member failed, or a member that
    ran is gone. Or a scheduler was killed between two binds, and this one found the group so. Or
    its minimum is met, and further members are pending.

    Attributes:
        group: The group.
        members: The number of members that hold a node.
        min_available: The minimum of the group.
        rest: Why the pending members do not run; None if no member is pending, so that the group
            waits for members to be created.
        roles: The roles with too few members: the role, its minimum, the number that hold a node.
        pending: The number of pending members, which *rest* is about.
        is_below_minimum: Whether too few members hold a node; False if the minimum is met.
        in_copies: For copies of roles that run in part, the roles with too few members: the path,
            its minimum, the number that hold a node.
    """

    group: GroupKey
    members: int
    min_available: int
    rest: Why | None
    roles: tuple[tuple[str, int, int], ...] = ()
    pending: int = 0
    is_below_minimum: bool = True
    in_copies: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        return self._said(format_instant)

    def _said(self, instant: _Instant) -> str:
        if not self.is_below_minimum:
            known = f"{self.members} of {self.members + self.pending} members hold nodes"
            known += _some_of(self.in_copies)
            waits = "1 waits" if self.pending == 1 else f"{self.pending} wait"
            why = "" if self.rest is None else f": {_said(self.rest, instant)}"
            return f"runs: {known}, and its minimum of {self.min_available} is met; {waits}{why}"
        rest = "no other member exists"
        if self.rest is not None:
            rest = f"the rest: {_said(self.rest, instant)}"
        roles = "".join(f", {some} of {least} {role}" for role, least, some in self.roles)
        roles += _some_of(self.in_copies)
        members = f"{self.members} of {self.min_available} members hold nodes{roles}"
        if self.members > self.min_available and roles:  # enough, and too few of some part
            members = f"{self.members} members hold nodes, but only{roles[1:]}"
        return f"runs in part: {members}; {rest}"


@final
@frozen
class Terminating:
    """It is terminating, or its eviction was requested."""

    reason: str

    def __str__(self) -> str:
        return f"terminating{': ' if self.reason else ''}{self.reason}"


@final
@frozen
class Finished:
    """A pod has finished; or members of a group have, and no other is queued or holds a node.

    Gated members of the group may be left.

    Attributes:
        phase: The phase in which the pod ended. For a group, ``FAILED`` if any member failed,
            otherwise ``SUCCEEDED``.
        members: The number of members that have finished; 1 for a pod.
    """

    phase: PodPhase
    members: int = 1

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
    | PartlyRunning
    | Terminating
    | Finished
)
"""Why a pod or a group is not running, or that it is."""


def in_utc(why: Why) -> str:
    """Return the sentence of an answer with its instants as dates in UTC.

    It is for a host whose clock counts seconds from 1970, as the clock of the drivers does::

        print(in_utc(driver.ask(lambda scheduler: scheduler.why("default/train"))))
    """
    return _said(why, format_utc)


def _said(why: Why, instant: _Instant) -> str:
    if isinstance(why, NotEnoughMembers | OnPermit | BackingOff | NoNodeFits | PartlyRunning):
        return why._said(instant)
    return str(why)


def _some_of(roles: tuple[tuple[str, int, int], ...]) -> str:
    """Return ``, 2 of 3 decode/0/worker`` for the first of some roles."""
    named = "".join([f", {some} of {least} {role}" for role, least, some in roles[:_NAMED]])
    return f"{named}, and {len(roles) - _NAMED} more" if len(roles) > _NAMED else named


def _as_of(why: BackingOff | NoNodeFits, instant: _Instant) -> str:
    """Return ``as of 10: `` if the reason is that of an earlier attempt."""
    is_old = why.is_of_last_attempt and why.tried_at is not None
    return f"as of {instant(why.tried_at or 0.0)}: " if is_old else ""
