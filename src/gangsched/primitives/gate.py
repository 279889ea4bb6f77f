"""The gang barrier: members that have a place wait until their gang has its quorum.

For programs that place tasks themselves and need only the gang part. ``Gate`` is the pure state
machine, ``PermitGate`` of the drivers adds time and blocking.

Theory of operation. ``arrive`` adds a member to its group and to the waiting map. The first
member of a group begins an attempt, and the deadline of the attempt applies to all members that
arrive later. If the group then has its quorum, all its waiting members are released in one
``Release``. If a wait ends before that, the whole attempt is rejected: each waiting member gets a
``PodRejected`` and leaves the gate. A released member stays at the gate, and counts for the quorum
as the match policy says, until ``leave``.

There is no timer: each call first rejects the attempts whose deadline has passed.

Rules:
  R1  no member is released unless at least the group's minimum of members hold a place at the
      same instant. Quorum check and release are one step;
  R2  if a wait ends without a release, by timeout or withdrawal, the whole attempt is rejected in
      that step;
  R3  an attempt has one deadline, set when its first member arrives. A later member waits for the
      remaining time, or for less if it asks for less;
  R4  a gang whose members have all left is forgotten, see ``leave``.

Invariants (checked by ``_check``):
  I1  each member at the gate is a member of exactly one group, and waits or was released;
  I2  no group with a quorum waits.
"""

from __future__ import annotations

from typing import Any, final

from attrs import Attribute, field, frozen

from gangsched.errors import InternalError, InvalidValueError
from gangsched.events import Effect, GroupRejected, GroupScheduled, PodRejected, PodWaiting, Release
from gangsched.membership import SPELLINGS, Membership, membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID
from gangsched.primitives import quorum
from gangsched.primitives.counters import MemberState
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.quorum import MatchPolicy
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.primitives.waiting import WaitingMap, WaitingPod
from gangsched.quantity import is_seconds
from gangsched.values.fields import check_now, check_string, check_text
from gangsched.values.seconds import format_duration, format_instant

__all__ = ["GangMember", "Gate"]


def _check_maybe_text(owner: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None:
        check_text(owner, attribute, value)


def _check_minimum(_owner: object, _attribute: object, value: int | None) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidValueError("min_available", value, "an int >= 1 or None")


@final
@frozen(kw_only=True)
class GangMember:
    """A task of a gang, for programs without pods.

    Attributes:
        uid: The identifier of the task, unique at one gate.
        group: The name of the gang.
        min_available: The number of members that must hold a place before the gang is released;
            None if a specification or another member gives it.
        role: The role of the task, if the specification of the gang has minima per role.
        place: Where the task is, for messages.
    """

    uid: str = field(validator=check_text)
    group: str = field(validator=check_text)
    min_available: int | None = field(default=None, validator=_check_minimum)
    role: str | None = field(default=None, validator=_check_maybe_text)
    place: str = field(default="", validator=check_string)


@final
class Gate:
    """The members of any number of gangs, each waiting for the quorum of its gang.

    Not thread-safe. Each call first rejects the attempts whose deadline has passed. A call that
    raises adds no member; the next call returns the effects of the rejections.

    Args:
        timeout: The number of seconds for which an attempt waits for its quorum, unless its
            specification has a timeout; finite, >= 0.
        match_policy: Which members count for the quorum after a first release.

    Raises:
        InvalidValueError: An argument is invalid.
    """

    __slots__ = ("_at_gate", "_effects", "_groups", "_match", "_now", "_timeout", "_waiting")

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
    ) -> None:
        if not is_seconds(timeout) or timeout < 0:
            raise InvalidValueError("timeout", timeout, "a finite number of seconds >= 0")
        self._timeout = timeout
        self._match = MatchPolicy(match_policy)
        self._groups = PodGroupRegistry()
        self._waiting = WaitingMap()
        self._at_gate: dict[PodUID, GroupKey] = {}
        self._effects: list[Effect] = []
        self._now = float("-inf")

    def set_spec(self, group: PodGroup, *, now: float) -> tuple[Effect, ...]:
        """Store the specification of a group; release the group if it has its quorum now.

        Members of the group need not give a minimum then. It is kept until ``delete_spec``.

        Args:
            group: The specification. Members name it by its key, ``namespace/name``.
            now: The current instant.
        """
        self._begin(now)
        info = self._groups.set_spec(group)
        if info.waiting and self._has_quorum(info):
            self._release(info, now=now)
        return self._end()

    def delete_spec(self, key: str, *, now: float) -> tuple[Effect, ...]:
        """Delete a specification: the minimum of the first member applies, if one gives it."""
        self._begin(now)
        self._groups.delete_spec(GroupKey(key), now=now)
        info = self._groups.get(GroupKey(key))
        if info is not None and info.waiting and self._has_quorum(info):
            self._release(info, now=now)
        return self._end()

    def arrive(
        self, member: Pod | GangMember, *, now: float, timeout: float | None = None
    ) -> tuple[Effect, ...]:
        """Add a member that has its place.

        Runtime complexity: O(log waiting) for each member that is added or released.

        Args:
            member: The member. A pod without a group does not wait and is not stored.
            now: The current instant.
            timeout: The longest wait of this member in seconds; None for that of its attempt.

        Returns:
            ``Release`` if the gang has its quorum now, else ``PodWaiting``; before it, the
            rejections that were due.

        Raises:
            InvalidPodGroupError: The member contradicts its group, or its labels each other.
            InvalidValueError: The member is at the gate already, or an argument is invalid.
        """
        if timeout is not None and (not is_seconds(timeout) or timeout < 0):
            raise InvalidValueError("timeout", timeout, "a finite number of seconds >= 0 or None")
        self._begin(now, begun_before=now)
        pod, claim = self._read(member)
        if claim is None:
            return self._end()
        if pod.uid in self._at_gate:
            raise InvalidValueError("uid", pod.uid, "the UID of a member that is not at the gate")
        left = self._time_left(self._groups.get(claim.group), now)
        left = left if timeout is None else min(left, timeout)
        if not is_seconds(now + left):
            raise InvalidValueError(
                "timeout", left, f"a number of seconds whose sum with now={now!r} is finite"
            )
        info = self._groups.join(pod, claim, MemberState.UNSCHEDULED)
        info.members.set(pod.uid, MemberState.WAITING)
        self._at_gate[pod.uid] = info.key
        if info.attempt_started_at is None:
            info.attempts += 1
            info.attempt_started_at = now
        place = NodeName(member.place if isinstance(member, GangMember) else pod.node_name or "")
        wait = self._waiting.wait(
            pod.uid, node=place, timeout=left, now=now, group=info.key, attempt=info.attempts
        )
        if self._has_quorum(info):
            self._release(info, now=now)
        else:
            needed = quorum.members_needed(info, self._match) or 0
            self._effects.append(PodWaiting(pod.uid, place, wait.deadline, needed))
        return self._end()

    def withdraw(self, uid: str, *, now: float, reason: str = "") -> tuple[Effect, ...]:
        """End the wait of a member and reject the attempt of its gang.

        A member that does not wait is ignored.

        Args:
            uid: The member.
            now: The current instant.
            reason: Why the member withdraws.
        """
        self._begin(now)
        wait = self._waiting.get(PodUID(uid))
        if wait is not None:
            why = f"member {uid} withdrew" + (f": {reason}" if reason else "")
            self._reject(self._info(wait), [wait], why, now=now)
        return self._end()

    def leave(self, uid: str, *, now: float) -> tuple[Effect, ...]:
        """Remove a released member that has finished; withdraw it if it still waits.

        A released member counts as running until then, and its group is kept.
        """
        if uid in self._waiting:
            return self.withdraw(uid, now=now, reason="it left")
        self._begin(now)
        key = self._at_gate.pop(PodUID(uid), None)
        if key is not None:
            self._groups.leave(key, PodUID(uid), now=now)
        return self._end()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """Reject the attempts whose deadline has passed."""
        self._begin(now)
        return self._end()

    def close(self, reason: str, *, now: float) -> tuple[Effect, ...]:
        """Reject every attempt that waits."""
        self._begin(now)
        for key in list(self._waiting.groups()):
            info = self._groups.get(key)
            assert info is not None
            self._reject(info, [], reason, now=now)
        return self._end()

    def next_deadline(self) -> float | None:
        """Return the earliest deadline; None if no member waits. O(1)."""
        return self._waiting.next_deadline()

    @property
    def waiting(self) -> WaitingMap:
        """The members that wait; read-only."""
        return self._waiting

    @property
    def groups(self) -> PodGroupRegistry:
        """The groups with a member at the gate or a specification; read-only."""
        return self._groups

    def __len__(self) -> int:
        """Return the number of members at the gate: waiting, or released and not left."""
        return len(self._at_gate)

    # Inside ---------------------------------------------------------------------------------

    def _begin(self, now: float, *, begun_before: float = float("inf")) -> None:
        check_now(now)
        if now < self._now:
            raise InvalidValueError(
                "now", now, f"an instant not before {format_instant(self._now)}"
            )
        self._now = now
        expired: dict[GroupKey, list[WaitingPod]] = {}
        for wait in self._waiting.expire(now=now, begun_before=begun_before):
            expired.setdefault(self._at_gate[wait.uid], []).append(wait)
        for waits in expired.values():
            info = self._info(waits[0])
            minimum = "an unknown number of" if info.min_available is None else info.min_available
            held = quorum.in_all(info, self._match).held
            waited = now - min(wait.since for wait in waits)
            why = (
                f"timed out after {format_duration(waited)}s:"
                f" {held} of {minimum} members held a place"
            )
            self._reject(info, waits, why, now=now)

    def _end(self) -> tuple[Effect, ...]:
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    def _read(self, member: Pod | GangMember) -> tuple[Pod, Membership | None]:
        if isinstance(member, Pod):
            return member, membership(member)
        if not isinstance(member, GangMember):
            raise InvalidValueError("member", member, "a Pod or a GangMember")
        key = GroupKey(member.group)
        info = self._groups.get(key)
        pod = Pod(
            name=member.uid, uid=PodUID(member.uid), priority=0 if info is None else info.priority
        )
        return pod, Membership(key, member.min_available, SPELLINGS[0], member.role)

    def _info(self, wait: WaitingPod) -> PodGroupInfo:
        assert wait.group is not None
        info = self._groups.get(wait.group)
        assert info is not None
        return info

    def _time_left(self, info: PodGroupInfo | None, now: float) -> float:
        if info is None:
            return self._timeout
        own, began = info.schedule_timeout, info.attempt_started_at
        whole = self._timeout if own is None else own
        return whole if began is None else max(0.0, began + whole - now)

    def _has_quorum(self, info: PodGroupInfo) -> bool:
        """Return whether the waiting members may be released; False without a minimum. O(roles)."""
        if info.min_available is None:
            return False
        needed = quorum.members_needed(info, self._match)
        return needed is None or needed <= 0

    def _release(self, info: PodGroupInfo, *, now: float) -> None:
        first = not info.was_scheduled
        gone = tuple(wait.uid for wait in self._waiting.allow(info.key))
        for uid in gone:
            info.members.set(uid, MemberState.ASSIGNED)
        began = info.attempt_started_at
        assert began is not None  # an attempt lasts while a member waits
        info.attempt_started_at, info.was_scheduled = None, True
        self._effects.append(Release(info.key, gone))
        if first or self._match is not MatchPolicy.ONCE_SATISFIED:
            self._effects.append(
                GroupScheduled(info.key, info.attempts, info.scheduled, now - began)
            )

    def _reject(
        self, info: PodGroupInfo, first: list[WaitingPod], reason: str, *, now: float
    ) -> None:
        """Reject an attempt: remove its members from the gate, and report them.

        *first* are reported first; they may have left the waiting map already.
        """
        waits = {wait.uid: wait for wait in (*first, *self._waiting.reject(info.key))}
        info.attempt_started_at = None
        for wait in waits.values():
            self._effects.append(PodRejected(wait.uid, wait.node, reason))
        self._effects.append(GroupRejected(info.key, info.attempts, reason, now))
        for uid in waits:
            del self._at_gate[uid]
            self._groups.leave(info.key, uid, now=now)

    def _check(self) -> None:
        self._waiting._check()
        self._groups._check()
        members = {uid: info.key for info in self._groups for uid in info.members}
        if members != self._at_gate:
            raise InternalError("the members at the gate differ from those of the registry")
        for info in self._groups:
            for uid in info.members:
                waits = info.members.state(uid) is MemberState.WAITING
                if waits != (uid in self._waiting):
                    raise InternalError(f"{uid}: its state and the waiting map differ")
            if info.waiting and self._has_quorum(info):
                raise InternalError(f"{info.key} waits although it has its quorum")
